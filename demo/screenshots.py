"""`make screenshots`: takes the README's pictures of the demonstration in Chromium.

They show what a person sees: a change is requested with the demonstration's key, and a run is executed. A running
demonstration is used; otherwise one is started and stopped.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page, ViewportSize

from demo.run import CREDENTIALS
from lab.browser import running_browser
from lab.commands import PROJECT
from lab.http import Http, is_healthy

PICTURES = PROJECT / "docs" / "pictures"
SIZE: ViewportSize = {"width": 1280, "height": 860}
START = 300
"""Seconds, since the first start provisions a domain."""


class Api:
    """Calls `/api` as an integration does."""

    def __init__(self, credentials: Mapping[str, Any]) -> None:
        reason = "Ticket 4711: covers for Grace in December"
        self._http = Http(
            credentials["baseUrl"], {"X-API-Key": credentials["apiKey"]["value"], "X-Change-Reason": reason}
        )

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.send(method, f"/api/{path}", body)
        if answer.status >= 300:
            raise SystemExit(f"{path} was answered with {answer.status}: {answer.body}")
        return answer.body


def _credentials() -> dict[str, Any] | None:
    """The credentials of a running demonstration."""
    try:
        found: dict[str, Any] = json.loads(CREDENTIALS.read_text())
    except FileNotFoundError:
        return None
    return found if "baseUrl" in found and is_healthy(found["baseUrl"]) else None


@contextmanager
def _demonstration() -> Iterator[dict[str, Any]]:
    running = _credentials()
    if running is not None:
        yield running
        return
    process = subprocess.Popen([sys.executable, "-m", "demo.run"], cwd=PROJECT)
    try:
        deadline = time.monotonic() + START
        while (started := _credentials()) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("The demonstration did not start; its messages are above")
            time.sleep(1)
        yield started
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _signed_in(browser: Browser, credentials: Mapping[str, Any], who: str) -> Page:
    context = browser.new_context(base_url=credentials["baseUrl"], viewport=SIZE)
    page = context.new_page()
    answer = context.request.post("/rest/session", data=credentials[who])
    if not answer.ok:
        raise SystemExit(f"Signing in as {who} was refused: {answer.status}")
    return page


def _take(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    page.screenshot(path=PICTURES / f"{name}.png")
    print(f"docs/pictures/{name}.png")


def _approval(api: Api, page: Page) -> None:
    """A change of a group's members that waits, as its approver sees it."""
    group = api.call("GET", f"ad/groups?filter={quote('(cn=Department Engineering)')}")["items"][0]
    user = api.call("GET", "ad/users?q=lovelace&pageSize=1")["items"][0]
    held = api.call("POST", f"ad/groups/{group['id']}/members", {"add": [user["id"]]})
    page.goto(f"/console/changes/{held['changeRequest']['id']}")
    _take(page, "approval")


def _key_wizard(page: Page) -> None:
    """The step that chooses which changes wait for approval. The wizard creates nothing before its last step."""
    page.goto("/console/keys/new")
    page.get_by_label("Role", exact=True).select_option(index=1)
    page.get_by_role("button", name="Next").click()
    page.get_by_label("Name", exact=True).fill("HR synchronisation")
    for heading in ("Which directory", "Where does it run?", "Which of its changes wait"):
        page.get_by_role("button", name="Next").click()
        page.get_by_role("heading", level=2, name=heading).wait_for()
    _take(page, "key-wizard")


def _run(api: Api, page: Page) -> None:
    """The accounts of a unit disabled, one of them protected; then enabled again for the next time."""
    unit = api.call("GET", f"ad/organization-units?q={quote('Temporary Staff')}&pageSize=1")["items"][0]
    for action in ("disable", "enable"):
        page.goto(f"/console/runs/new?unit={unit['id']}&action={action}&kinds=user&scope=one-level")
        page.get_by_label("Reason").fill("Ticket 4712: the season is over")
        page.get_by_role("button", name="accounts").click()
        page.get_by_role("status").filter(has_text="The run is completed").wait_for(state="attached")
        if action == "disable":
            _take(page, "run")


def main() -> int:
    """Take all pictures; return 0 on success."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with _demonstration() as credentials, running_browser() as browser:
        api = Api(credentials)
        _approval(api, _signed_in(browser, credentials, "approver"))
        administrator = _signed_in(browser, credentials, "administrator")
        _key_wizard(administrator)
        _run(api, administrator)
    return 0


if __name__ == "__main__":
    sys.exit(main())
