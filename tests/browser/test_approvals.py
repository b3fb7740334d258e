"""The approvals of the console in a real browser, with changes held by real calls of a real key."""

import time
from uuid import UUID

import pytest
from playwright.sync_api import Page, Route, expect

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from lab.directory import Directory
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, expect_on_reload, press
from tests.support.cast import Integration, make_connection, make_integration, make_person


@pytest.fixture
def integration(transactional_db: None, domain: Domain) -> Integration:
    return make_integration(make_connection(domain), level=SupervisionLevel.ASK_EVERY_CHANGE)


@pytest.fixture
def approver(sign_in: SignIn, transactional_db: None) -> Page:
    page = sign_in(make_person("grace", superuser=True))
    page.goto("/console/changes/")
    return page


def hold_title(integration: Integration, user: UUID, title: str) -> ChangeRequest:
    """A change of a title that waits for a decision."""
    answer = integration.patch(
        f"/api/ad/users/{user}", {"replace": {"title": title}}, **{"X-Change-Reason": "Ticket 4711"}
    )
    assert answer.status == 202, answer
    return ChangeRequest.objects.get(id=answer.body["changeRequest"]["id"])


def nothing_new(route: Route) -> None:
    """The answer to a page that asks for itself."""
    if route.request.header_value("hx-request"):
        route.fulfill(status=204)
    else:
        route.fallback()


def test_it_works(approver: Page, integration: Integration, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, title="Clerk")
    hold_title(integration, user, "Countess")
    approver.reload()
    expect_good_looks(approver, "approvals")
    row = approver.get_by_role("row", name="Ada Lovelace")
    for text in ("Ordinary", integration.key.name, integration.key.owner.username):
        expect(row).to_contain_text(text)

    row.get_by_role("link", name="Ada Lovelace").click()
    page = approver.locator("main")
    for text in ("Ticket 4711", integration.key.name, "The key asks before every change."):
        expect(page).to_contain_text(text)
    expect(page.locator("del")).to_have_text("Clerk")
    expect(page.locator("ins")).to_have_text("Countess")
    expect(page).to_contain_text("it would be applied")
    expect_good_looks(approver, "approval")
    approver.get_by_label("Comment").fill("Agreed")
    # What is said once goes when the page has asked for itself, which it does every two seconds.
    approver.route("**/console/changes/*", nothing_new)
    approver.get_by_role("button", name="Approve").click()
    expect(page).to_contain_text("A worker makes the change now.")
    approver.unroute("**/console/changes/*")
    expect_on_reload(approver, page.locator(".badge", has_text="Applied"))
    expect(page).to_contain_text("Agreed")
    assert directory.text(user, "title") == "Countess"


def test_a_rejection_needs_a_comment(
    approver: Page, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    held = hold_title(integration, user, "Countess")
    approver.goto(f"/console/changes/{held.id}")
    approver.get_by_role("button", name="Reject").click()
    expect(approver.locator("form .error")).to_be_visible()
    expect_good_looks(approver, "approval-refused")
    approver.get_by_label("Comment").fill("Not before Monday")
    approver.get_by_role("button", name="Reject").click()
    expect(approver.locator("main")).to_contain_text("Rejected.")
    expect(approver.locator("main")).to_contain_text("Not before Monday")
    assert directory.text(user, "title") is None


def test_what_has_changed_meanwhile_is_told(
    approver: Page, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit, title="Clerk")
    held = hold_title(integration, user, "Countess")
    directory.modify(user, title="Baroness")
    approver.goto(f"/console/changes/{held.id}")
    expect(approver.locator("main")).to_contain_text("It is stale.")
    expect(approver.locator("del", has_text="Baroness")).to_be_visible()
    approver.get_by_role("button", name="Approve").click()
    expect_on_reload(approver, approver.locator(".badge", has_text="Stale"))
    assert directory.text(user, "title") == "Baroness"


def test_a_change_that_would_fail_says_why(
    approver: Page, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    held = hold_title(integration, user, "Countess")
    directory.delete(user)
    approver.goto(f"/console/changes/{held.id}")
    expect(approver.locator("main")).to_contain_text("It would fail.")
    expect(approver.locator("main")).to_contain_text("AD.Object.NotFound")


def test_the_keyboard_leads_from_one_to_the_next(
    approver: Page, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    first = hold_title(integration, user, "Countess")
    assert integration.post(f"/api/ad/users/{user}/disable").status == 202
    second = ChangeRequest.objects.get(operation="users.disable")
    approver.goto(f"/console/changes/{second.id}")
    press(approver, "n")
    approver.wait_for_url(f"**/{first.id}")
    press(approver, "n")
    approver.wait_for_url(f"**/{second.id}")
    approver.get_by_label("Comment").fill("no")  # typing is no command
    assert approver.url.endswith(str(second.id))
    approver.get_by_role("heading", level=1).click()
    press(approver, "b")
    approver.wait_for_url("**/console/changes/")


def test_the_requester_may_withdraw_and_nobody_else_sees_it(
    sign_in: SignIn, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    held = hold_title(integration, user, "Countess")
    owner = sign_in(integration.key.owner)
    owner.goto("/console/changes/")
    owner.get_by_role("link", name="Change job title").click()
    expect(owner.get_by_role("button", name="Approve")).to_have_count(0)
    owner.get_by_role("button", name="Withdraw").click()
    expect(owner.locator("main")).to_contain_text("Withdrawn.")
    held.refresh_from_db()
    assert held.status == "cancelled"

    stranger = sign_in(make_person())
    assert stranger.request.get(f"/console/changes/{held.id}").status == 404


def test_a_generated_password_is_shown_once(
    approver: Page, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit, password="Correct-Horse-9")
    answer = integration.post(f"/api/ad/users/{user}/reset-password", {"generate": True})
    approver.goto(f"/console/changes/{answer.body['changeRequest']['id']}")
    expect(approver.locator("main")).to_contain_text("Security")
    approver.get_by_role("button", name="Approve").click()
    expect_on_reload(approver, approver.get_by_role("button", name="Show it once"))
    approver.get_by_role("button", name="Show it once").click()
    field = approver.get_by_label("Password", exact=True)
    password = field.input_value()
    approver.get_by_role("button", name="Copy").click()
    assert approver.evaluate("navigator.clipboard.readText()") == password
    deadline = time.monotonic() + 120
    while not directory.can_sign_in(user, password) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert directory.can_sign_in(user, password)
    approver.reload()
    expect(approver.locator("main")).to_contain_text("It was shown once")
    expect(approver.get_by_label("Password", exact=True)).to_have_count(0)
    expect(approver.get_by_role("button", name="Show it once")).to_have_count(0)
