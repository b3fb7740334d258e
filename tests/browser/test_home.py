"""The first page of the console in a real browser, with changes, runs and outages that are real."""

import time
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from audit.models import OperationRecord, UnsealedRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from directory.models.runs import AccountStatus, Run, RunLease
from lab.directory import Directory
from lab.domain import Domain
from tests.audit.calls import CALL, make_call
from tests.audit.test_statistics import logged
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.directory.runs.test_lists import add_results, make_run
from tests.support.cast import Integration, make_connection, make_integration, make_person


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="corp")


@pytest.fixture
def integration(connection: DirectoryConnection) -> Integration:
    return make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)


def enliven(integration: Integration, user: UUID) -> None:
    """Two weeks of changes by some keys, some of them refused; and requests that wait."""
    for number, name in enumerate(("HR import", "CRM", "Nightly clean-up")):
        call = make_call(credential=CALL.credential.__class__(kind=CALL.credential.kind, id=name, name=name))
        for ago in range(13, -1, -1):
            at = timezone.now() - timedelta(days=ago)
            for _ in range(ago * (7 + number) % 6):
                logged(call, at=at)
            if ago % 4 == number:
                logged(call, at=at, operation="users.delete", outcome="failed", code="Auth.Forbidden")
    assert integration.patch(f"/api/ad/users/{user}", {"replace": {"title": "Countess"}}).status == 200
    assert integration.post(f"/api/ad/users/{user}/disable").status == 202
    assert integration.post(f"/api/ad/users/{user}/reset-password", {"generate": True}).status == 202
    integration.key.expires_at = timezone.now() + timedelta(days=12, hours=1)
    integration.key.save()


def wait_until_sealed() -> None:
    """A worker seals every two seconds. Until then, records of days ago look as if there were no worker."""
    deadline = time.monotonic() + 120
    long_ago = OperationRecord.objects.filter(
        at__lt=timezone.now() - timedelta(days=1), id__in=UnsealedRecord.objects.values("record_id")
    )
    while long_ago.exists():
        assert time.monotonic() < deadline, "no worker seals the log"
        time.sleep(0.1)


def reload_until_all_answers(page: Page, health: Locator, count: int) -> None:
    """The page waits three seconds for what it asks, and says for good what it was told then."""
    deadline = time.monotonic() + 120
    expect(health.get_by_role("listitem").first).to_be_visible()
    while health.get_by_text("Answers", exact=True).count() != count:
        assert time.monotonic() < deadline, health.inner_text()
        page.reload()
        expect(health.get_by_role("listitem").first).to_be_visible()


def make_run_of_a_worker(connection: DirectoryConnection) -> Run:
    """A run that a worker does, so that no other takes it up."""
    RunLease.objects.create(connection=connection, holder=uuid4(), expires_at=timezone.now() + timedelta(minutes=10))
    return make_run(connection, state="running")


def test_the_whole_page(
    sign_in: SignIn,
    connection: DirectoryConnection,
    integration: Integration,
    directory: Directory,
    organizational_unit: str,
) -> None:
    user = directory.add_user("Ada Lovelace", parent=organizational_unit, password="Correct-Horse-9", enabled=True)
    enliven(integration, user)
    add_results(make_run_of_a_worker(connection), AccountStatus.SUCCEEDED)
    wait_until_sealed()
    page = sign_in(make_person("grace", superuser=True))
    main = page.locator("main")

    waiting = page.get_by_role("region", name="Waits for you")
    expect(waiting.get_by_role("listitem")).to_have_count(2)
    expect(waiting).to_contain_text("1 security")
    expect(page.get_by_role("region", name="Recent changes")).to_contain_text("Change job title of Ada Lovelace")
    health = page.get_by_role("region", name="Health")
    reload_until_all_answers(page, health, 5)
    for name in ("Database", "Migrations", "Broker", "Directory corp", "Workers"):
        expect(health.get_by_role("listitem").filter(has_text=name)).to_contain_text("Answers")
    expect(health).to_contain_text("All records are sealed, but those of the last seconds.")
    activity = page.get_by_role("region", name="Activity")
    expect(activity.get_by_role("row", name="HR import")).to_contain_text("35")
    expect(page.get_by_role("region", name="Runs in progress")).to_contain_text("1 of 4 accounts")
    expect(main).to_contain_text("Expire within 30 days: 1")
    expect_good_looks(page, "home")
    page.emulate_media(color_scheme="dark")
    expect_good_looks(page, "home-dark")
    page.emulate_media(color_scheme="light")

    activity.get_by_text("As a table").click()
    expect(activity.get_by_role("table", name="").first.get_by_role("row")).to_have_count(15)
    expect_good_looks(page, "home-table")
    activity.get_by_role("link", name="30 days").click()
    expect(activity.locator("svg.chart title")).to_have_count(30)
    expect(activity).to_contain_text("in 30 days (UTC)")
    activity.get_by_role("link", name="HR import").click()
    page.wait_for_url("**/console/log/?keyName=HR+import&from=**")
    expect(page.locator("tbody tr")).to_have_count(35)

    page.goto("/console/")
    waiting.get_by_role("link", name="Disable").click()
    expect(page.get_by_role("button", name="Approve")).to_be_visible()


def test_a_run_is_followed_while_it_goes_on(sign_in: SignIn, connection: DirectoryConnection) -> None:
    run = make_run_of_a_worker(connection)
    page = sign_in(make_person(may=["directory.run_accounts"]))
    runs = page.get_by_role("region", name="Runs in progress")
    expect(runs).to_contain_text("0 of 4 accounts")
    add_results(run, AccountStatus.SUCCEEDED, AccountStatus.UNCHANGED, AccountStatus.FAILED)
    expect(runs).to_contain_text("3 of 4 accounts, 1 failed")
    assert runs.get_by_role("progressbar").evaluate("meter => [meter.value, meter.max]") == [3, 4]
    Run.objects.filter(id=run.id).update(state="completed")
    expect(runs).to_contain_text("No run is in progress.")


def test_a_directory_that_is_away_does_not_hold_up_the_page(sign_in: SignIn, connection: DirectoryConnection) -> None:
    connection.urls = ["ldaps://127.0.34.2"]
    connection.bind_password_given = True
    connection.save()
    page = sign_in(make_person(may=["directory.view_directoryconnection"]))
    away = page.get_by_role("listitem").filter(has_text="Directory corp")
    expect(away).to_contain_text("Away")
    expect_good_looks(page, "home-away")


def test_somebody_new(sign_in: SignIn) -> None:
    page: Page = sign_in(make_person("newcomer"))
    expect(page.get_by_role("heading", name="Welcome, newcomer")).to_be_visible()
    expect_good_looks(page, "home-welcome")
