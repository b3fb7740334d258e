"""The operations log of the console in a real browser, with records made by real calls of a real key."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from audit.read_buffer import reads
from core.call import SupervisionLevel
from lab.directory import Directory
from lab.domain import Domain
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.support.cast import Integration, make_connection, make_integration, make_person


@pytest.fixture
def integration(transactional_db: None, domain: Domain) -> Integration:
    return make_integration(make_connection(domain), level=SupervisionLevel.ACT)


@pytest.fixture
def auditor(sign_in: SignIn, integration: Integration) -> Page:
    """Somebody who may do everything, in the integration's directory."""
    return sign_in(make_person("grace", superuser=True), "/console/log/")


def set_title(integration: Integration, user: object, title: str) -> None:
    answer = integration.patch(
        f"/api/ad/users/{user}", {"replace": {"title": title}}, **{"X-Change-Reason": "Ticket 4711"}
    )
    assert answer.status == 200, answer


def test_from_the_list_to_a_record_and_on(
    auditor: Page, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, title="Clerk")
    set_title(integration, user, "Countess")
    assert integration.get("/api/ad/users?q=ada", **{"X-Request-Id": "nightly-report"}).status == 200
    assert integration.patch("/api/ad/users/" + str(user), {"replace": {"nonsense": "x"}}).status == 400
    assert integration.delete(f"/api/ad/users/{directory.guid(organizational_unit)}").status == 404
    reads.flush()
    auditor.reload()
    expect(auditor.get_by_role("link", name="Search users")).to_be_visible()
    expect(auditor.get_by_role("row", name="Delete a user")).to_contain_text("AD.Object.NotFound")
    expect_good_looks(auditor, "log")

    auditor.get_by_label("Records").select_option("Changes only")
    auditor.wait_for_url("**onlyChanges=true**")
    expect(auditor.get_by_role("link", name="Search users")).to_have_count(0)
    auditor.get_by_label("Outcome").select_option("Succeeded")
    auditor.wait_for_url("**outcome=succeeded**")
    row = auditor.get_by_role("row", name="Ada Lovelace")
    expect(row).to_contain_text(integration.key.name)
    row.get_by_role("link", name="Change job title of Ada Lovelace").click()

    page = auditor.locator("main")
    expect(page.locator("del")).to_have_text("Clerk")
    expect(page.locator("ins")).to_have_text("Countess")
    expect(page).to_contain_text("Ticket 4711")
    expect_good_looks(auditor, "log-record")
    auditor.get_by_role("link", name="all records of it").click()
    auditor.wait_for_url(f"**target={user}")
    expect(auditor.get_by_label("Object (objectGUID)")).to_have_value(str(user))
    expect(auditor.get_by_role("link", name="Ada Lovelace")).to_have_count(1)
    auditor.get_by_role("link", name="Clear", exact=True).click()

    auditor.get_by_role("link", name="Search users").click()
    auditor.get_by_role("link", name="nightly-report").click()
    expect(auditor.get_by_role("link", name="Search users")).to_have_count(1)
    expect(auditor.locator("tbody tr")).to_have_count(1)


def test_a_filter_that_makes_no_sense(auditor: Page) -> None:
    auditor.get_by_text("More filters").click()
    auditor.get_by_label("Run", exact=True).fill("the one of yesterday")
    auditor.get_by_role("button", name="Filter").click()
    expect(auditor.locator("#runId-error")).to_contain_text("This is not an id.")
    expect_good_looks(auditor, "log-refused")


def test_times_and_pages(auditor: Page, integration: Integration) -> None:
    for _ in range(60):
        integration.post("/api/ad/users", {})
    auditor.get_by_role("link", name="The last hour").click()
    expect(auditor.get_by_label("From (UTC)")).not_to_have_value("")
    expect(auditor.locator("tbody tr")).to_have_count(50)
    auditor.get_by_role("link", name="Next page").click()
    expect(auditor.get_by_role("link", name="Back to the newest")).to_be_visible()
    expect(auditor.locator("tbody tr")).to_have_count(10)
    auditor.get_by_text("More filters").click()
    auditor.get_by_label("To (UTC)").fill("2001-01-01T00:00")
    auditor.get_by_role("button", name="Filter").click()
    expect(auditor.locator("main")).to_contain_text("Nothing in the log matches these filters.")


def test_what_was_found_can_be_taken_away(auditor: Page, integration: Integration, tmp_path: Path) -> None:
    integration.post("/api/ad/users", {})
    integration.post("/api/ad/groups", {})
    auditor.goto("/console/log/?operation=users.create")
    for name in ("CSV", "NDJSON"):
        with auditor.expect_download() as download:
            auditor.get_by_role("link", name=name, exact=True).click()
        download.value.save_as(tmp_path / name)
    (line,) = (tmp_path / "NDJSON").read_text().splitlines()
    assert json.loads(line)["operation"] == "users.create"
    assert json.loads(line)["id"] in (tmp_path / "CSV").read_text().splitlines()[1]


def test_a_change_is_reverted_once(
    auditor: Page, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, title="Clerk")
    set_title(integration, user, "Countess")
    auditor.goto("/console/log/?operation=users.update")
    auditor.get_by_role("link", name="Change job title of Ada Lovelace").click()
    auditor.get_by_role("link", name="Undo…").click()
    page = auditor.locator("main")
    expect(page.locator("del")).to_have_text("Countess")
    expect(page.locator("ins")).to_have_text("Clerk")
    expect_good_looks(auditor, "log-revert")
    assert directory.text(user, "title") == "Countess"
    auditor.get_by_label("Reason").fill("Ticket 4712")
    auditor.get_by_role("button", name="Undo it").click()

    expect(page).to_contain_text("Undone.")
    assert directory.text(user, "title") == "Clerk"
    expect(page).to_contain_text("This change was undone since.")
    expect(auditor.get_by_role("link", name="Undo…")).to_have_count(0)
    auditor.goto(f"{auditor.url}/revert")
    expect(page).to_contain_text("This change cannot be reverted")
    expect(page.get_by_role("row", name="title")).to_contain_text("Clerk")
    expect_good_looks(auditor, "log-not-revertible")
    auditor.get_by_role("link", name="Back to the record").click()
    auditor.get_by_role("link", name="all records of it").click()
    auditor.locator("tbody tr").first.get_by_role("link", name="Undo: Change job title of Ada Lovelace").click()
    expect(page).to_contain_text("This undid an earlier change.")
    expect(page).to_contain_text("Ticket 4712")
    expect(page).to_contain_text("Reverts ")


def test_who_may_only_read_is_offered_no_revert(
    sign_in: SignIn, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit, title="Clerk")
    set_title(integration, user, "Countess")
    reader = sign_in(make_person(may=["audit.read_log"]), "/console/log/?operation=users.update")
    reader.locator("tbody tr").get_by_role("link", name="Change job title").click()
    expect(reader.locator("ins")).to_have_text("Countess")
    expect(reader.get_by_role("link", name="Undo…")).to_have_count(0)
    assert reader.request.get(f"{reader.url}/revert").status == 403
