"""People at their browsers: each with a session of their own, and an eye on what the pages do behind the scenes."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from keys.models import Person
from lab.browser import running_browser
from lab.gateway import LiveGateway
from tests.support.cast import PASSWORD

REFUSED = re.compile(r"the server responded with a status of (400|403|409|412|422) ")
"""A form that was refused is a page like any other; Chromium reports its status all the same."""

expect.set_options(timeout=120_000)  # milliseconds; what is there already is not waited for

READY = "addEventListener('DOMContentLoaded', () => setTimeout(() => document.documentElement.dataset.ready = 'yes'))"
NOT_READY = "html:not([data-ready])"
"""A page whose scripts have not run yet: on a busy machine its buttons are there long before what they do."""

SignIn = Callable[..., Page]
"""Takes a person, or None for somebody unknown, and the page to begin with if it is not the console's first."""


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium, without a window. It ends with these tests: its event loop, in this thread, would hinder agents'."""
    with running_browser() as browser:
        yield browser


@pytest.fixture
def outlasting_objects(request: pytest.FixtureRequest) -> None:
    """What the test looks at is removed after its pages are closed: they ask for parts of an object by themselves."""
    if "organizational_unit" in request.fixturenames:
        request.getfixturevalue("organizational_unit")


@pytest.fixture
def sign_in(
    browser: Browser, live_gateway: LiveGateway, transactional_db: None, outlasting_objects: None
) -> Iterator[SignIn]:
    """A local account's browser, signed in.

    At the end no page may have complained on its console (where Chromium reports what the Content-Security-Policy
    refuses), waited in vain for a file, or asked another host for anything.
    """
    complaints: list[str] = []
    contexts = []

    def on_failure(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a page left before its icons had come
            complaints.append(f"failed: {request.url} {request.failure}")

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not REFUSED.search(message.text):
            complaints.append(f"console: {message.text} ({message.location['url']})")

    def on_request(request: Request) -> None:
        if not request.url.startswith((f"{live_gateway.base_url}/", "data:")):
            complaints.append(f"another origin: {request.url}")

    def start(person: Person | None, place: str = "/console/") -> Page:
        context = browser.new_context(base_url=live_gateway.base_url)
        context.set_default_timeout(120_000)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.on("console", on_console)
        context.on("weberror", lambda error: complaints.append(f"script: {error.error}"))
        context.on("request", on_request)
        context.on("requestfailed", on_failure)
        contexts.append(context)
        context.add_init_script(READY)
        page = context.new_page()
        # Who looks at a page, or clicks, waits for its scripts, as a person would without noticing.
        page.add_locator_handler(page.locator(NOT_READY), lambda: page.wait_for_load_state("domcontentloaded"))
        if person is not None:
            given = {"username": person.username, "password": PASSWORD}
            assert context.request.post("/rest/session", data=given).ok
        page.goto(place)
        return page

    yield start
    for context in contexts:
        context.close()
    assert complaints == []
