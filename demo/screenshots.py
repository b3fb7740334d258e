"""`make screenshots`: takes the README's pictures of the demonstration in Chromium.

They show what a person sees: a change is requested with the demonstration's key, and a run is executed. The
demonstration has to be running.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page

from demo.run import read_credentials
from lab.browser import running_browser
from lab.commands import PROJECT
from lab.http import Http, is_healthy

PICTURES = PROJECT / "docs" / "pictures"


def _signed_in(browser: Browser, credentials: Mapping[str, Any], who: str) -> Page:
    context = browser.new_context(base_url=credentials["baseUrl"], viewport={"width": 1280, "height": 860})
    page = context.new_page()
    answer = context.request.post("/rest/session", data=credentials[who])
    if not answer.ok:
        raise SystemExit(f"Signing in as {who} was refused: {answer.status}")
    return page


def _take(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    page.screenshot(path=PICTURES / f"{name}.png")
    print(f"docs/pictures/{name}.png")


def _approval(http: Http, page: Page) -> None:
    """A change of a group's members that waits, as its approver sees it."""
    group = http.call("GET", f"/api/ad/groups?filter={quote('(cn=Department Engineering)')}")["items"][0]
    user = http.call("GET", "/api/ad/users?q=lovelace&pageSize=1")["items"][0]
    held = http.call("POST", f"/api/ad/groups/{group['id']}/members", {"add": [user["id"]]})
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


def _run(http: Http, page: Page) -> None:
    """The accounts of a unit disabled, one of them protected; then enabled again for the next time."""
    unit = http.call("GET", f"/api/ad/organization-units?q={quote('Temporary Staff')}&pageSize=1")["items"][0]
    for action in ("disable", "enable"):
        page.goto(f"/console/runs/new?unit={unit['id']}&action={action}&kinds=user&scope=one-level")
        page.get_by_label("Reason").fill("Ticket 4712: the season is over")
        page.get_by_role("button", name="accounts").click()
        page.get_by_role("status").filter(has_text="The run is completed").wait_for(state="attached")
        if action == "disable":
            _take(page, "run")


def main() -> None:
    """Take all pictures."""
    credentials = read_credentials()
    if "baseUrl" not in credentials or not is_healthy(credentials["baseUrl"]):
        raise SystemExit("The demonstration is not running: make run")
    with running_browser() as browser:
        reason = "Ticket 4711: covers for Grace in December"
        headers = {"X-API-Key": credentials["apiKey"]["value"], "X-Change-Reason": reason}
        http = Http(credentials["baseUrl"], headers)
        _approval(http, _signed_in(browser, credentials, "approver"))
        administrator = _signed_in(browser, credentials, "administrator")
        _key_wizard(administrator)
        _run(http, administrator)


if __name__ == "__main__":
    main()
