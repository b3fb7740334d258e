"""An approver's day: a queue of two hundred changes of one batch, of which two differ, and a few others besides."""

from uuid import UUID

import pytest
from playwright.sync_api import expect

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from lab.directory import Directory
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, press
from tests.support.cast import Integration, make_connection, make_integration, make_person

COUNT = 200


@pytest.fixture
def careful(transactional_db: None, domain: Domain) -> Integration:
    return make_integration(make_connection(domain), level=SupervisionLevel.ASK_EVERY_CHANGE)


@pytest.fixture
def units(directory: Directory, organizational_unit: str) -> list[UUID]:
    return [directory.guid(directory.add_unit(f"Team {n:03}", parent=organizational_unit)) for n in range(COUNT)]


def hold_batch(careful: Integration, units: list[UUID]) -> None:
    """A location for each of them; one gets another one, and of one who manages it is changed, too."""
    items = [{"id": str(unit), "replace": {"l": "London"}} for unit in units]
    items[31]["replace"] = {"l": "Lisbon"}
    items[77]["replace"] = {"l": "London", "gPOptions": "1"}
    answer = careful.post(
        "/api/ad/organization-units/batch/update", {"items": items}, **{"X-Change-Reason": "The offices have moved"}
    )
    assert answer.body["queued"] == len(units), answer


def test_two_hundred_of_one_batch(
    sign_in: SignIn, careful: Integration, units: list[UUID], directory: Directory
) -> None:
    hold_batch(careful, units)
    user = directory.add_user("Ada Lovelace", parent=directory.dn(units[0]))
    assert careful.post(f"/api/ad/users/{user}/disable").status == 202
    page = sign_in(make_person("grace", superuser=True), "/console/changes/")
    main = page.locator("main")

    lines = main.locator("tbody tr")
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("Change city and inheritance of group policies of 200 organizational units")
    expect(lines.first).to_contain_text("The offices have moved")
    expect(lines.first).to_contain_text("199 ordinary")
    expect(lines.first).to_contain_text("1 security")
    expect_good_looks(page, "inbox")

    press(page, "j", "Enter")
    exceptions = main.get_by_role("region", name="2 not like the others")
    expect(exceptions.get_by_role("row", name="Team 031")).to_contain_text("City: Lisbon instead of London")
    expect(exceptions.get_by_role("row", name="Team 077")).to_contain_text("Security instead of ordinary")
    expect(exceptions.get_by_role("row", name="Team 077")).to_contain_text("Also changes Inheritance of group policies")
    expect(main.get_by_role("region", name="Everything they would change")).to_contain_text("London (199), Lisbon (1)")
    expect(main).to_contain_text("they would be applied")
    expect(main).to_contain_text("198 of 200 ticked")
    expect_good_looks(page, "together")

    page.get_by_label("Comment").fill("Agreed with the offices")
    press(page, "Tab", "a", "Enter")
    expect(main).to_contain_text("198 of 198 approved.")
    expect(main.get_by_role("row", name="Team 031")).to_be_visible()
    expect(main.get_by_role("row", name="Team 077")).to_be_visible()
    expect(main.locator("#progress")).to_contain_text("Applied 198")
    expect_good_looks(page, "together-left")
    assert directory.text(units[5], "l") == "London"
    assert directory.text(units[31], "l") is None
    assert set(ChangeRequest.objects.filter(status="applied").values_list("comment", "decided_by")) == {
        ("Agreed with the offices", "grace")
    }

    page.get_by_role("checkbox", name="Team 031").check()
    page.get_by_label("Comment").fill("Lisbon is closed")
    page.get_by_role("button", name="Reject the ticked ones").click()
    expect(main).to_contain_text("1 of 1 rejected.")
    press(page, "n")
    expect(page.get_by_role("heading", level=1)).to_have_text("Disable Ada Lovelace")


def test_from_one_to_the_next(
    sign_in: SignIn, careful: Integration, directory: Directory, organizational_unit: str
) -> None:
    """A stale one is asked for anew, a question is asked and answered, a run is looked at, and what follows is told."""
    unit = directory.guid(organizational_unit)
    ada, bea = (directory.add_user(name, parent=organizational_unit) for name in ("Ada Lovelace", "Bea Example"))
    group = directory.add_group("Analysts", parent=organizational_unit, members=[bea])
    accounts = f"/api/ad/organization-units/{unit}/accounts/disable"
    for answer in (
        careful.post(f"/api/ad/groups/{group}/members", {"add": [str(ada)]}),
        careful.post(accounts, {"kinds": ["user"]}),
        careful.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}),
    ):
        assert answer.status == 202, answer
    title = ChangeRequest.objects.get(operation="users.update")
    directory.modify(ada, title="Baroness")
    page = sign_in(make_person("grace", superuser=True), "/console/")
    main = page.locator("main")
    heading = page.get_by_role("heading", level=1)
    expect(page.get_by_role("navigation", name="Console")).to_contain_text("3 wait for your decision")

    page.get_by_role("link", name="Add Ada Lovelace to Analysts (1 member, then 2)").click()
    expect(main.locator(".said-details")).to_contain_text("1 other stays")
    page.get_by_label("Ask back").fill("For which project?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(main.get_by_role("region", name="Questions and answers")).to_contain_text("For which project?")
    page.get_by_label("For", exact=True).fill("grace")
    page.get_by_role("button", name="Assign").click()
    expect(main).to_contain_text("It is for grace now.")
    expect_good_looks(page, "approval-asked-back")
    owner = sign_in(careful.key.owner, page.url)
    owner.get_by_role("textbox", name="Answer").fill("The engine")
    owner.get_by_role("button", name="Answer", exact=True).click()
    page.reload()
    expect(main.get_by_role("region", name="Questions and answers")).to_contain_text("The engine")
    press(page, "a", "Enter")

    expect(heading).to_have_text(f"Disable 2 accounts in {organizational_unit.partition(',')[0].removeprefix('OU=')}")
    expect(page.locator("#decided")).to_contain_text("Add Ada Lovelace to Analysts")
    expect(page.locator("#decided .badge")).to_have_text("Applied")
    expect(main.locator(".tally")).to_contain_text("2 will be disabled")
    expect(main.get_by_role("row", name="Bea Example")).to_contain_text("Will be disabled")
    expect_good_looks(page, "approval-run")
    press(page, "n")

    expect(heading).to_have_text("Change job title of Ada Lovelace")
    expect(main).to_contain_text("It is stale.")
    expect_good_looks(page, "approval-stale")
    page.get_by_role("button", name="Ask for it anew").click()
    expect(main).to_contain_text("This new request has the present values")
    expect(main.locator(".said-details")).to_contain_text("Baroness → Countess")
    expect(main).to_contain_text("it would be applied")
    title.refresh_from_db()
    assert (title.status, title.comment) == ("rejected", "The values have changed since; it was asked for anew.")
    page.get_by_role("button", name="Approve").click()
    expect(heading).to_contain_text("Disable 2 accounts")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("link", name="each account and its result")).to_be_visible()
    expect(main.locator(".heading .badge").first).to_have_text("Applied")
    assert (directory.text(ada, "title"), directory.is_enabled(bea)) == ("Countess", False)
    assert directory.dn(ada) in directory.members(group)
