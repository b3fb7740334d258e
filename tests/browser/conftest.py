"""People at their browsers: each with a session of their own, and an eye on what the pages do behind the scenes."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from keys.models import Person
from tests.support.cast import PASSWORD
from tests.support.gateway import LiveGateway

SignIn = Callable[[Person], Page]


@pytest.fixture
def sign_in(browser: Browser, live_gateway: LiveGateway, transactional_db: None) -> Iterator[SignIn]:
    """Sign in to the admin as a local account.

    At the end no page may have complained on its console (where Chromium reports what the Content-Security-Policy
    refuses), waited in vain for a file, or asked another host for anything.
    """
    complaints: list[str] = []
    contexts = []

    def on_failure(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a page left before its icons had come
            complaints.append(f"failed: {request.url} {request.failure}")

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"console: {message.text} ({message.location['url']})")

    def on_request(request: Request) -> None:
        if not request.url.startswith((f"{live_gateway.base_url}/", "data:")):
            complaints.append(f"another origin: {request.url}")

    def start(person: Person) -> Page:
        context = browser.new_context(base_url=live_gateway.base_url)
        context.set_default_timeout(10_000)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.on("console", on_console)
        context.on("weberror", lambda error: complaints.append(f"script: {error.error}"))
        context.on("request", on_request)
        context.on("requestfailed", on_failure)
        contexts.append(context)
        page = context.new_page()
        page.goto("/admin/")
        page.get_by_label("User name").fill(person.username)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("button", name="Log out")).to_be_visible()
        return page

    yield start
    for context in contexts:
        context.close()
    assert complaints == []
