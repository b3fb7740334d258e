"""Runs in the console in a real browser: planned, started, followed while a real worker does them, and tried again."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from directory.models.runs import AccountResult, AccountStatus, Run, RunLease, RunState
from lab.directory import Directory
from lab.domain import Domain
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.directory.runs.unit import Unit
from tests.support.cast import make_connection, make_person


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def administrator(sign_in: SignIn, connection: DirectoryConnection) -> Page:
    return sign_in(make_person("grace", superuser=True), "/console/runs/")


@pytest.fixture
def unit(directory: Directory, organizational_unit: str) -> Unit:
    return Unit(directory, organizational_unit)


@pytest.fixture
def run(connection: DirectoryConnection) -> Iterator[Run]:
    """A run of 20 accounts that some worker is at: its lease keeps the real one away."""
    lease = RunLease.objects.create(
        connection=connection, holder=uuid4(), expires_at=timezone.now() + timedelta(minutes=5)
    )
    yield Run.objects.create(
        connection=connection,
        operation="organization-units.disable-accounts",
        action="disable",
        unit=uuid4(),
        unit_dn="OU=Contractors,OU=Staff,DC=corp,DC=example,DC=test",
        accounts=[str(uuid4()) for _ in range(20)],
        state=RunState.RUNNING,
        started_at=timezone.now(),
        attempts=1,
        person_id=0,
        requester="grace",
        credential_kind="apiKey",
        credential_id="x",
        credential_name="leavers",
        request_id="r",
    )
    lease.delete()


def add_result(run: Run, position: int, status: AccountStatus = AccountStatus.SUCCEEDED, **fields: object) -> None:
    AccountResult.objects.create(
        run=run,
        position=position,
        account=UUID(run.accounts[position]),
        distinguished_name=f"CN=Account {position},{run.unit_dn}",
        status=status,
        **fields,
    )


def add_protected(unit: Unit, directory: Directory, name: str) -> UUID:
    account = directory.add_user(name, parent=unit.dn)
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(account))
    return account


def show_plan(page: Page, unit: Unit, **choices: str) -> None:
    page.get_by_role("link", name="Plan a run").first.click()
    page.get_by_label("Organizational unit").fill(unit.dn)
    for label, choice in choices.items():
        page.get_by_label(label).select_option(choice)
    page.get_by_role("button", name="Show the plan").click()


def test_it_works(administrator: Page, unit: Unit, directory: Directory, live_gateway: LiveGateway) -> None:
    ada, bea = (directory.add_user(name, parent=unit.dn) for name in ("Ada Lovelace", "Bea Example"))
    directory.add_user("Cy Disabled", parent=unit.dn, enabled=False)
    eve = add_protected(unit, directory, "Eve Admin")
    page = administrator.locator("main")
    expect(page).to_contain_text("There have been no runs yet.")

    page.get_by_role("link", name="Incident").click()
    page.get_by_label("Organizational unit").fill(unit.dn)
    page.get_by_role("button", name="Show the accounts").click()
    expect(page.get_by_role("button", name="Disable 2 accounts")).to_be_visible()
    expect_good_looks(administrator, "incident")
    administrator.goto("/console/runs/")
    show_plan(administrator, unit)
    expect(page.locator(".tally")).to_contain_text("2 will be disabled")
    expect(page.locator(".tally")).to_contain_text("1 is disabled already")
    expect(page.locator(".tally")).to_contain_text("1 is protected and fails")
    for name, effect in (
        ("Ada Lovelace", "Will be disabled"),
        ("Cy Disabled", "Is disabled already"),
        ("Eve Admin", "Fails: protected"),
    ):
        expect(page.get_by_role("row", name=name)).to_contain_text(effect)
    expect_good_looks(administrator, "run-plan")
    assert directory.is_enabled(ada)

    page.get_by_label("Reason").fill("Left the company")
    page.get_by_role("button", name="Disable 2 accounts").click()
    administrator.wait_for_url("**/console/runs/*-*")
    expect(page.locator("#run .badge").first).to_have_text("Completed")  # without a reload
    expect(page.get_by_role("row", name="Ada Lovelace")).to_contain_text("Disabled")
    expect(page.get_by_role("row", name="Cy Disabled")).to_contain_text("Nothing had to change.")
    expect(page.get_by_role("row", name="Eve Admin")).to_contain_text("never changed by a run")
    expect(page.get_by_role("status")).to_have_text("The run is completed: 2 disabled, 1 unchanged, 1 failed.")
    expect(page).to_contain_text("Left the company")
    assert [directory.is_enabled(account) for account in (ada, bea, eve)] == [False, False, True]
    assert set(OperationRecord.objects.filter(target_id=ada).values_list("reason", "outcome")) == {
        ("Left the company", "succeeded")
    }
    page.get_by_role("link", name="Failed (1)").click()
    expect(page.get_by_role("row", name="Eve Admin")).to_be_visible()
    expect(page.get_by_role("row", name="Ada Lovelace")).to_have_count(0)
    expect_good_looks(administrator, "run-failed")
    run_id = administrator.url.partition("?")[0].rpartition("/")[2]
    expect(page.get_by_role("link", name="operations log")).to_have_attribute("href", f"/console/log/?runId={run_id}")

    administrator.goto("/console/runs/")
    row = page.get_by_role("row", name=f"Disable accounts: {unit.dn.partition(',')[0].removeprefix('OU=')}")
    expect(row).to_contain_text("2 disabled, 1 unchanged, 1 failed")
    expect_good_looks(administrator, "runs")


def test_the_unit_is_chosen_from_the_tree(
    administrator: Page, unit: Unit, directory: Directory, live_gateway: LiveGateway
) -> None:
    directory.add_computer(parent=unit.dn)
    administrator.get_by_role("link", name="Plan a run").first.click()
    page = administrator.locator("main")
    page.get_by_text("Choose from the tree").click()
    page.get_by_role("button", name=unit.dn.partition(",")[0].removeprefix("OU=")).click()
    expect(page.locator("#unit")).to_have_value(unit.dn)
    expect_good_looks(administrator, "run-new")
    page.get_by_label("Which accounts").select_option("Users and computers")
    page.get_by_label("What to do").select_option("Enable")
    page.get_by_role("button", name="Show the plan").click()
    expect(page).to_contain_text("no account here would change")
    expect(page.get_by_role("button", name="Enable")).to_have_count(0)


def test_a_plan_that_no_longer_holds_is_made_anew(
    administrator: Page, unit: Unit, directory: Directory, live_gateway: LiveGateway
) -> None:
    unit.add_users(1)
    show_plan(administrator, unit)
    page = administrator.locator("main")
    page.get_by_label("Reason").fill("Ticket 4711")
    late = directory.add_user("Late Comer", parent=unit.dn)
    page.get_by_role("button", name="Disable 1 account").click()
    expect(administrator.get_by_role("alert")).to_contain_text("The plan no longer holds")
    expect(page.get_by_role("row", name="Late Comer")).to_contain_text("Will be disabled")
    expect(page.get_by_label("Reason")).to_have_value("Ticket 4711")
    expect(page.locator("#unit")).to_have_value(unit.dn)
    expect_good_looks(administrator, "run-stale")
    assert directory.is_enabled(late)
    page.get_by_role("button", name="Disable 2 accounts").click()
    expect(page.locator("#run .badge").first).to_have_text("Completed")
    assert not directory.is_enabled(late)


def test_the_failed_ones_are_tried_again(
    administrator: Page, unit: Unit, directory: Directory, live_gateway: LiveGateway
) -> None:
    (ada,) = unit.add_users(1)
    eve, mallory = (add_protected(unit, directory, name) for name in ("Eve Admin", "Mallory Admin"))
    show_plan(administrator, unit)
    page = administrator.locator("main")
    page.get_by_role("button", name="Disable 1 account").click()
    expect(page.locator("#run .badge").first).to_have_text("Completed")
    directory.remove_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(eve))
    directory.modify(eve, adminCount=None)
    directory.modify(ada, userAccountControl="544")

    page.get_by_role("link", name="Try the failed ones again").click()
    expect(page.get_by_role("row", name="Eve Admin")).to_contain_text("Will be disabled")
    expect(page.get_by_role("row", name="Mallory Admin")).to_contain_text("Fails: protected")
    expect_good_looks(administrator, "run-retry")
    page.get_by_role("button", name="Disable 1 account").click()
    expect(page.locator("#run .badge").first).to_have_text("Completed")
    expect(page.locator("#run")).to_contain_text("2 of 2 done")
    assert [directory.is_enabled(account) for account in (ada, eve, mallory)] == [True, False, True]


def test_progress_is_followed(administrator: Page, run: Run) -> None:
    add_result(run, 0)
    administrator.goto(f"/console/runs/{run.id}")
    page = administrator.locator("main")
    meter = page.get_by_role("progressbar", name="Progress")
    expect(meter).to_have_attribute("value", "1")
    expect(page.get_by_role("status")).to_have_text("0 percent of the accounts are done.")
    for position in range(1, 10):
        add_result(run, position)
    problem = {"code": "AD.Directory.Rejected", "detail": "The directory refused it", "directoryMessage": "00002035"}
    add_result(run, 10, AccountStatus.FAILED, problem=problem)
    expect(meter).to_have_attribute("value", "11")
    expect(page.get_by_role("row", name="Account 10")).to_contain_text("The directory says: 00002035")
    expect(page.get_by_role("status")).to_have_text("50 percent of the accounts are done.")
    expect_good_looks(administrator, "run-progress")

    expect(page.get_by_role("link", name="Try the failed")).to_have_count(0)
    Run.objects.filter(id=run.id).update(state=RunState.COMPLETED, completed_at=timezone.now())
    expect(page.get_by_role("link", name="Try the failed one again")).to_be_visible()
    requests: list[str] = []
    administrator.on("request", lambda request: requests.append(request.url))
    administrator.wait_for_timeout(2_500)
    assert requests == [], "a completed run is not asked about any more"

    administrator.goto("/console/runs/")
    expect(page.get_by_role("row", name="Contractors")).to_contain_text("10 disabled, 1 failed")


def test_what_a_run_waits_for_is_told(administrator: Page, run: Run) -> None:
    waiting = Run.objects.create(
        **{
            field.attname: getattr(run, field.attname)
            for field in Run._meta.concrete_fields
            if field.attname not in ("id", "created_at", "state", "started_at")
        }
    )
    administrator.goto(f"/console/runs/{waiting.id}")
    page = administrator.locator("main")
    expect(page).to_contain_text("It waits for 1 other run")
    expect_good_looks(administrator, "run-waiting")


def test_without_a_worker_the_page_says_so_until_one_is_there(
    administrator: Page, unit: Unit, live_gateway: LiveGateway
) -> None:
    (user,) = unit.add_users(1)
    live_gateway.worker.stop()
    try:
        show_plan(administrator, unit)
        page = administrator.locator("main")
        page.get_by_role("button", name="Disable 1 account").click()
        administrator.wait_for_url("**/console/runs/*-*")
        Run.objects.update(created_at=timezone.now() + timedelta(hours=1))  # it says so for ten seconds
        expect(page.locator("#run")).to_contain_text("It has been waiting for a worker since")
        Run.objects.update(created_at=timezone.now() - timedelta(seconds=30))
        expect(page.locator("#run")).to_contain_text("No worker has taken it up since")
        expect_good_looks(administrator, "run-without-worker")
    finally:
        live_gateway.worker.start_and_wait()
    expect(page.locator("#run")).to_contain_text("Every account is disabled.")
    assert not unit.directory.is_enabled(user)


def test_who_may_not_sees_neither_link_nor_page(sign_in: SignIn, run: Run, unit: Unit) -> None:
    page = sign_in(make_person(may=["directory.read_object"]))
    expect(page.get_by_role("navigation", name="Console").get_by_role("link", name="Runs")).to_have_count(0)
    for path, status in (("runs/new", 403), ("runs/plan?unit=x&action=disable", 403), (f"runs/{run.id}", 404)):
        answer = page.request.get(f"/console/{path}")
        assert answer.status == status
        assert "Contractors" not in answer.text()
    page.goto("/console/runs/")
    expect(page.locator("main")).to_contain_text("There have been no runs yet.")
    expect(page.get_by_role("link", name="Plan a run")).to_have_count(0)

    planner = sign_in(make_person(may=["directory.read_object", "directory.run_accounts"]), "/console/runs/")
    unit.add_users(1)
    show_plan(planner, unit)
    expect(planner.locator("main")).to_contain_text("You may plan this run but not start it")
    expect(planner.get_by_role("button", name="Disable")).to_have_count(0)
