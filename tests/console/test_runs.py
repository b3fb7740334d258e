"""Runs in the console: what the plan shows, what it refuses, and how a run is asked for without scripts."""

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from core.configuration_sections import Budget
from directory.models import DirectoryConnection
from directory.models.runs import AccountResult, AccountStatus, Run, RunState
from directory.runs import assessment, execution
from gateway import tasks
from keys.models import ApiKey, Person
from lab.directory import Directory
from lab.domain import Domain
from operations.directory import organization_units
from tests.console.plain_browser import PlainBrowser
from tests.directory.runs.unit import Unit
from tests.support.agents import make_agent
from tests.support.cast import Answer, Console, make_connection, make_integration, make_person
from tests.support.configuration import Configure

MAY = ["directory.read_object", "directory.run_accounts", "directory.disable_account"]


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    """Committed, as no worker of the test's is there and none may take the runs up."""
    return make_connection(domain)


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=MAY))


@pytest.fixture
def unit(directory: Directory, organizational_unit: str) -> Unit:
    return Unit(directory, organizational_unit)


def text_of(answer: Answer) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.body.decode())).split())


def plan(console: Console, **choices: Any) -> Answer:
    """The page with the plan, as it is asked for without scripts."""
    return console.get(f"/console/runs/new?{urlencode({'action': 'disable', 'now': 'true', **choices})}")


def hidden_fields(answer: Answer) -> dict[str, str]:
    form = answer.body.decode().partition('<form class="start"')[2].partition("</form>")[0]
    return dict(re.findall(r'<input type="hidden" name="(planId|unit|action|kinds|scope)" value="([^"]*)"', form))


def test_it_works_without_scripts(console: Console, unit: Unit) -> None:
    unit.add_users(2)
    shown = plan(console, unit=unit.dn)
    assert shown.status == 200
    assert "2 will be disabled" in text_of(shown)
    started = console.submit("/console/runs/new", reason="Left the company", **hidden_fields(shown))
    assert started.status == 302, started
    run = Run.objects.get()
    assert started.headers["Location"] == f"/console/runs/{run.id}"
    assert (run.action, len(run.accounts), run.reason) == ("disable", 2, "Left the company")
    assert run.requester == console.person.username
    page = console.get(started.headers["Location"])
    assert "It has been waiting for a worker since" in text_of(page)
    assert '<noscript><meta http-equiv="refresh"' in page.body.decode()


def test_a_plan_comes_after_its_page(console: Console, unit: Unit) -> None:
    unit.add_users(1)
    query = urlencode({"unit": str(unit.id), "action": "disable", "kinds": "user", "scope": "subtree"})
    page = console.get(f"/console/runs/new?{query}").body.decode()
    assert "will be disabled" not in page
    (address,) = re.findall(r'hx-get="(/console/runs/plan[^"]*)"', page)
    assert unescape(address) == f"/console/runs/plan?{query}"
    assert f'value="{unit.dn}"' in page  # the field names the unit, whatever the link did
    assert "1 will be disabled" in text_of(console.get(unescape(address)))


def test_more_than_a_run_may_take(console: Console, unit: Unit) -> None:
    unit.add_users(101)
    shown = plan(console, unit=unit.dn, scope="subtree", kinds="user,computer")
    assert "101 accounts are selected; a run takes at most 100." in text_of(shown)
    assert hidden_fields(shown) == {}
    links = [unescape(link) for link in re.findall(r'href="/console/runs/new\?([^"]*)"', shown.body.decode())]
    base = f"unit={unit.id}&action=disable"
    assert links == [
        f"{base}&scope=one-level&kinds=user,computer",
        f"{base}&scope=subtree&kinds=user",
        f"{base}&scope=subtree&kinds=computer",
    ]


def test_nothing_to_plan_and_nothing_to_do(console: Console, unit: Unit) -> None:
    empty = plan(console, unit=unit.dn)
    assert "There are no such accounts here." in text_of(empty)
    unit.add_users(1, enabled=False)
    done = plan(console, unit=unit.dn)
    assert "There is nothing to do" in text_of(done)
    assert hidden_fields(empty) == hidden_fields(done) == {}


@pytest.mark.parametrize(
    ("choices", "status", "told"),
    [
        ({"unit": "no name"}, 400, "Write a distinguished name or an id."),
        ({"unit": "OU=none,DC=corp,DC=example,DC=test"}, 404, "AD.Object.NotFound"),
        ({"unit": str(uuid4())}, 404, "AD.Object.NotFound"),
        ({"scope": "base"}, 400, "one-level"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(
    console: Console, organizational_unit: str, choices: dict[str, str], status: int, told: str
) -> None:
    answer = plan(console, **{"unit": organizational_unit, **choices})
    assert answer.status == status
    assert told in text_of(answer)
    assert "The plan:" not in text_of(answer)


def test_what_was_started_meanwhile_needs_no_worker(console: Console, unit: Unit) -> None:
    (user,) = unit.add_users(1)
    shown = plan(console, unit=unit.dn)
    unit.directory.modify(user, userAccountControl="546")
    stale = console.submit("/console/runs/new", reason="Ticket 4711", **hidden_fields(shown))
    assert stale.status == 409
    assert "Nothing was changed." in text_of(stale)
    assert "There is nothing to do" in text_of(stale)
    assert not Run.objects.exists()
    assert console.submit("/console/runs/new", **{**hidden_fields(shown), "action": "delete"}).status == 404


def test_a_retry_is_for_exactly_the_failed_ones(console: Console, unit: Unit, connection: DirectoryConnection) -> None:
    done, failed, gone = *unit.add_users(2), uuid4()
    run = Run.objects.create(
        connection=connection,
        operation="organization-units.disable-accounts",
        action="disable",
        unit=unit.id,
        unit_dn=unit.dn,
        accounts=[str(account) for account in (done, failed, gone)],
        state=RunState.COMPLETED,
        person_id=0,
        requester="grace",
        credential_kind="apiKey",
        credential_id="x",
        request_id="r",
        change_request_id=uuid4(),
    )
    problem = {"code": "AD.Directory.Rejected", "detail": "The directory refused it."}
    for position, (account, status) in enumerate(
        ((done, AccountStatus.SUCCEEDED), (failed, AccountStatus.FAILED), (gone, AccountStatus.FAILED))
    ):
        AccountResult.objects.create(
            run=run,
            position=position,
            account=account,
            distinguished_name=None if account == gone else unit.directory.dn(account),
            status=status,
            problem=problem if status == AccountStatus.FAILED else None,
        )
    page = console.get(f"/console/runs/{run.id}").body.decode()
    assert f'href="/console/runs/{run.id}/retry"' in page
    assert f'href="/console/changes/{run.change_request_id}"' in page
    assert "/console/log/" not in page  # not to be seen by this person

    retry = text_of(console.get(f"/console/runs/{run.id}/retry"))
    assert "Try 2 failed accounts again" in retry
    assert "The directory refused it." in retry
    assert "Fails: not in the unit" in retry
    assert "Disable 1 account" in retry
    console.submit(f"/console/runs/{run.id}/retry", reason="Once more")
    again = Run.objects.exclude(id=run.id).get()
    assert (again.accounts, again.reason) == ([str(failed), str(gone)], "Once more")

    Run.objects.filter(id=run.id).update(state=RunState.RUNNING)
    assert console.get(f"/console/runs/{run.id}/retry").status == 404
    planner = Console(make_person(may=["directory.run_accounts"]))
    Run.objects.filter(id=run.id).update(state=RunState.COMPLETED)
    assert f"{run.id}/retry" not in planner.get(f"/console/runs/{run.id}").body.decode()
    assert planner.submit(f"/console/runs/{run.id}/retry").status == 403
    assert Run.objects.count() == 2


def test_the_undo_is_for_exactly_what_the_run_changed(unit: Unit, connection: DirectoryConnection) -> None:
    changed, before, failed = (*unit.add_users(2, enabled=False), *unit.add_users(1))
    run = Run.objects.create(
        connection=connection,
        operation="organization-units.disable-accounts",
        action="disable",
        unit=unit.id,
        unit_dn=unit.dn,
        accounts=[str(account) for account in (changed, before, failed)],
        state=RunState.COMPLETED,
        person_id=0,
        requester="grace",
        credential_kind="apiKey",
        credential_id="x",
        request_id="r",
        reason="Incident 12",
    )
    AccountResult.objects.bulk_create(
        AccountResult(run=run, position=position, account=account, status=status)
        for position, (account, status) in enumerate(
            ((changed, AccountStatus.SUCCEEDED), (before, AccountStatus.UNCHANGED), (failed, AccountStatus.FAILED))
        )
    )
    browser = PlainBrowser(Console(make_person(may=[*MAY, "directory.enable_account"])))
    browser.open(f"/console/runs/{run.id}").press("Undo exactly this one")
    undone = Run.objects.exclude(id=run.id).get()
    assert browser.address.endswith(f"/console/runs/{undone.id}")
    assert (undone.action, undone.accounts, undone.reason) == ("enable", [str(changed)], "Incident 12")

    browser.open(f"/console/runs/{run.id}")
    run.results.filter(account=changed).delete()
    assert browser.press("Undo exactly this one").status == 404  # nothing is left that it changed
    assert "Undo exactly" not in browser.open(f"/console/runs/{run.id}").text
    planner = Console(make_person(may=MAY))
    assert planner.submit(f"/console/runs/{run.id}/undo").status == 404
    assert Run.objects.count() == 2


def test_everybody_of_a_unit_in_an_incident(
    unit: Unit, connection: DirectoryConnection, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit has more accounts than a run of the API may have: three clicks, and one takes exactly them back."""
    for module in (assessment, execution, organization_units):
        monkeypatch.setattr(module, "MAX_ACCOUNTS", 2)
    ada, *others = unit.add_users(5)
    (before,) = unit.add_users(1, enabled=False)
    person = make_person()
    Person.objects.filter(pk=person.pk).update(connection=connection, object_guid=ada)
    key = make_integration(connection, owner=person).key
    grant = make_agent(connection, person=person).grant
    browser = PlainBrowser(Console(make_person(superuser=True)))
    browser.open(f"/console/directory/objects/{unit.id}")
    assert "Incident: disable everybody" in browser.text
    browser.open(f"/console/runs/incident?unit={unit.id}")
    assert "5 will be disabled" in browser.text
    assert "1 API key, 1 agent" in browser.text
    browser.press("Disable 5 accounts", end="yes", reason="Incident 12")
    run = Run.objects.get()
    assert (len(run.accounts), run.operation) == (6, "organization-units.disable-accounts")
    assert ApiKey.objects.get(pk=key.pk).revoked_at is not None
    assert type(grant).objects.get(pk=grant.pk).ended_at is not None
    tasks.execute_run(str(run.id))
    assert unit.count_enabled([ada, *others]) == 0
    records = OperationRecord.objects.filter(run_id=run.id)
    assert {(each.operation, each.outcome, each.reason) for each in records} == {
        ("organization-units.disable-accounts", "succeeded", "Incident 12")
    }
    browser.open(f"/console/runs/{run.id}").press("Undo exactly these 5")
    undone = Run.objects.exclude(id=run.id).get()
    assert str(before) not in undone.accounts
    tasks.execute_run(str(undone.id))
    assert unit.count_enabled([ada, *others, before]) == 5

    # A budget that does not allow so many makes it one request, with the same accounts.
    configure("Budgets", Directory=Budget(DestructiveChangesPerHour=4))
    browser.open(f"/console/runs/incident?unit={unit.id}")
    assert "one request for all of these waits" in browser.text
    browser.press("Disable 5 accounts", reason="Incident 13")
    [held] = ChangeRequest.objects.all()
    assert "Disable 5 accounts in" in browser.text
    approver = Console(make_person(superuser=True))
    assert "5 will be disabled" in text_of(approver.get(f"/console/changes/{held.id}/run-plan"))
    assert PlainBrowser(approver).open(f"/console/changes/{held.id}").press("Approve").status == 200
    tasks.apply_change_request(str(held.id))
    assert Run.objects.get(change_request_id=held.id).accounts == run.accounts

    confined = Console(make_person(may=MAY))
    assert "API key" not in text_of(confined.get(f"/console/runs/incident?unit={unit.id}"))
    assert confined.post(f"/api/ad/organization-units/{unit.id}/accounts/disable-all", {}).status in (401, 404)


def test_the_list_can_be_narrowed_down(console: Console, unit: Unit) -> None:
    unit.add_users(1, enabled=False)
    console.post(f"/rest/ad/organization-units/{unit.id}/accounts/disable", {"kinds": ["user"]})
    run = Run.objects.get()
    for query, is_found in (
        ("", True),
        (f"organizationalUnit={unit.id}", True),
        (f"organizationalUnit={uuid4()}", False),
        ("state=completed&action=disable", True),
        ("action=enable", False),
    ):
        page = console.get(f"/console/runs/?{query}").body.decode()
        assert (f'href="/console/runs/{run.id}"' in page) is is_found
        assert "hx-trigger" not in page.partition("<main")[2]  # nothing is to come
    assert console.get("/console/runs/?state=done").status == 400


def test_a_run_tells_who_approved_it(console: Console, unit: Unit, connection: DirectoryConnection) -> None:
    unit.add_users(1)
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    plan = careful.post(f"/api/ad/organization-units/{unit.id}/accounts/disable", {"kinds": ["user"]})
    held = plan.body["changeRequest"]["id"]
    approver = Console(make_person("grace", may=[*MAY, "approvals.decide_change"]))
    digest = {"digest": ChangeRequest.objects.get(id=held).digest}
    assert approver.post(f"/rest/change-requests/{held}/approve", digest).status == 200
    tasks.apply_change_request(held)
    run = Run.objects.get()
    assert "Approved by grace" in text_of(console.get(f"/console/runs/{run.id}"))
    request = text_of(approver.get(f"/console/changes/{held}"))
    assert "Approved grace" in request
