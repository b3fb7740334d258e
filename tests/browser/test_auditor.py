"""An auditor's question in a real browser: what was done to Ada, by whom, and can the log be trusted?"""

import pytest
from django.core.management import call_command
from playwright.sync_api import expect

from audit.chain import checkpoint
from audit.models import OperationRecord
from core.call import SupervisionLevel
from keys.permission_catalogue import find_preset
from lab.directory import Directory
from lab.domain import Domain
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, expect_on_reload
from tests.support.cast import PASSWORD, Integration, make_connection, make_integration, make_person


@pytest.fixture
def integration(transactional_db: None, domain: Domain) -> Integration:
    return make_integration(make_connection(domain, name="corp"), level=SupervisionLevel.ACT)


@pytest.fixture
def log_begun_anew(live_gateway: LiveGateway, transactional_db: None) -> None:
    """Nothing of the log before: the worker may have been sealing it when the database was emptied."""
    live_gateway.worker.stop()
    call_command("flush", interactive=False)
    checkpoint.advance_checkpoint(to_any=True)
    live_gateway.worker.start_and_wait()


@pytest.mark.usefixtures("log_begun_anew")
def test_an_auditors_question(
    sign_in: SignIn, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    ada = directory.add_user("Ada Lovelace", parent=organizational_unit, title="Clerk")
    update = {"replace": {"title": "Countess"}}
    headers = {"X-Change-Reason": "Ticket 4711"}
    assert integration.patch(f"/api/ad/users/{ada}", update, **headers).status == 200
    items = [{"name": f"New {number}", "parent": organizational_unit} for number in range(3)]
    assert integration.post("/api/ad/users/batch/create", {"items": items}).status in (200, 207)
    changed = OperationRecord.objects.get(operation="users.update")
    assert integration.post(f"/api/operations/{changed.id}/revert").status == 200

    auditor = find_preset("auditor")
    assert auditor is not None
    page = sign_in(make_person("ida", may=auditor.permissions), "/console/log/")
    main = page.locator("main")
    expect(page.get_by_role("link", name="Create 3 users")).to_be_visible()
    expect_good_looks(page, "audit-log")
    page.get_by_label("Search").fill("lovelace today")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("link", name="Undo: Change job title of Ada Lovelace")).to_be_visible()
    expect(page.get_by_label("From")).not_to_have_value("")
    page.get_by_role("link", name="Change job title of Ada Lovelace", exact=True).click()
    expect(main).to_contain_text("This change was undone since.")
    page.get_by_role("link", name="evidence", exact=True).click()
    expect(main).to_contain_text("Ticket 4711")
    expect(page.locator("section.entry")).to_have_count(2)
    expect_good_looks(page, "audit-evidence")
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation")).to_be_hidden()
    page.emulate_media(media="screen")

    page.goto("/console/log/#chain")
    page.get_by_role("button", name="Verify now").click()
    expect_on_reload(page, page.get_by_text("records as written"))

    page.goto("/console/log/?attribute=title&value=countess")
    # A busy machine may end the search early; the page then offers to search on.
    expect_on_reload(page, page.locator("tbody tr").nth(1))
    expect(page.locator("tbody tr")).to_have_count(2)
    page.goto(f"/console/log/?operation=users.create&runId={ada}")
    expect(main).to_contain_text("Nothing in the log matches these filters.")


def test_moments_are_told_in_the_readers_time_and_language(sign_in: SignIn, integration: Integration) -> None:
    integration.post("/api/ad/users", {})
    person = make_person("ida", may=["audit.read_log"])
    browser = sign_in(None).context.browser
    assert browser is not None
    context = browser.new_context(
        base_url=sign_in(None).url.split("/console")[0], timezone_id="Asia/Tokyo", locale="de"
    )
    context.set_default_timeout(120_000)
    page = context.new_page()
    assert context.request.post("/rest/session", data={"username": person.username, "password": PASSWORD}).ok
    page.goto("/console/log/?from=2026-01-31T20:30")
    expect(page.get_by_label("Von (Ortszeit)")).to_have_value("2026-02-01T05:30")
    moment = page.locator("time[data-exact]").first
    expect(moment).not_to_contain_text("UTC")
    expect(moment).to_have_attribute("title", OperationRecord.objects.get().at.strftime("%d.%m.%Y, %H:%M:%S UTC"))
    page.get_by_text("Mehr Filter").click()
    page.get_by_label("Von (Ortszeit)").fill("2026-02-01T09:00")
    page.get_by_role("button", name="Filtern").click()
    page.wait_for_url("**from=2026-02-01T00%3A00**")
    context.close()
