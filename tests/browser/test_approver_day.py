"""An approver's day: a queue of two hundred changes of one batch, of which two differ, and a few others besides."""

from uuid import UUID

import pytest
from playwright.sync_api import expect

from approvals.models import ChangeRequest
from gateway.core.call import SupervisionLevel
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.support.cast import Integration, make_connection, make_integration, make_person
from tests.support.directory import Directory
from tests.support.domain import Domain

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

    page.keyboard.press("j")
    page.keyboard.press("Enter")
    exceptions = main.get_by_role("region", name="2 not like the others")
    expect(exceptions.get_by_role("row", name="Team 031")).to_contain_text("City: Lisbon instead of London")
    expect(exceptions.get_by_role("row", name="Team 077")).to_contain_text("Security instead of ordinary")
    expect(exceptions.get_by_role("row", name="Team 077")).to_contain_text("Also changes Inheritance of group policies")
    expect(main.get_by_role("region", name="Everything they would change")).to_contain_text("London (199), Lisbon (1)")
    expect(main).to_contain_text("they would be applied")
    expect(main).to_contain_text("198 of 200 ticked")
    expect_good_looks(page, "together")

    page.get_by_label("Comment").fill("Agreed with the offices")
    page.keyboard.press("Tab")
    page.keyboard.press("a")
    page.keyboard.press("Enter")
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
    page.keyboard.press("n")
    expect(page.get_by_role("heading", level=1)).to_have_text("Disable Ada Lovelace")
