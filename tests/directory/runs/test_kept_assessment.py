"""A run that begins in the domain as it was requested relies on what its request read; any change is seen."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from audit import log
from audit.models import OperationRecord
from core.call import Call, Surface
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.models.runs import Run
from directory.outcomes.evidence import evidence_of
from directory.runs import execution, kept_assessment
from directory.runs.assessment import assess_named
from gateway import tasks
from keys.models import Person
from keys.permissions.effective import call_for_key
from lab.directory import Directory
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.directory.runs.test_execution import nobody
from tests.directory.runs.unit import Unit
from tests.support.cast import Integration, make_connection, make_integration, permissions


@pytest.fixture
def assessed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many accounts the worker read, each time it did."""
    read: list[int] = []

    def note(*given: Any, **named: Any) -> Any:
        read.append(len(given[2]))
        return assess_named(*given, **named)

    monkeypatch.setattr(execution, "assess_named", note)
    return read


def request_run(unit: Unit, integration: Integration, body: Any) -> Run:
    """A run that no worker takes up by itself."""
    return Run.objects.get(id=unit.run(integration, body, Prefer="respond-async").body["runId"])


def work(run: Run) -> dict[UUID, tuple[str, str | None]]:
    """Let this process be the worker; the status of each account and the code of its problem."""
    tasks.execute_run(str(run.id))
    return {item.account: (item.status, item.problem and item.problem["code"]) for item in run.results.all()}


def named(*accounts: UUID) -> dict[str, Any]:
    return {"accounts": [str(account) for account in accounts]}


def test_it_works(unit: Unit, directory: Directory, integration: Integration, assessed: list[int]) -> None:
    """Every account is as an assessment by the worker would have it, and so are its records."""
    user, disabled = unit.add_users(1)[0], unit.add_users(1, enabled=False)[0]
    computer = directory.add_computer(parent=unit.dn)
    (administrator,) = unit.add_users(1)
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(administrator))
    outsider = directory.guid(directory.base_dn)
    everybody = (user, disabled, computer, administrator, outsider)
    run = request_run(unit, integration, named(*everybody))
    client = get_client(run.connection_id)
    anew = assess_named(client, unit.id, everybody, "disable", more_privileged_people=nobody)
    evidence = {
        each.id: evidence_of(each.write, entry=each.entry, schema=client.schema)
        for each in anew
        if each.effect == "change" and each.entry is not None
    }

    assert work(run) == {
        user: ("succeeded", None),
        disabled: ("unchanged", None),
        computer: ("succeeded", None),
        administrator: ("failed", "Auth.Forbidden"),
        outsider: ("failed", "AD.Object.NotFound"),
    }
    assert assessed == []
    assert [directory.is_enabled(account) for account in (user, disabled, computer, administrator)] == [
        *(False, False, False, True)
    ]
    records = OperationRecord.objects.filter(run_id=run.id)
    assert {each.target_id: (each.target_kind, each.target_dn) for each in records if each.target_id in evidence} == {
        account: (kind, directory.dn(account)) for account, kind in ((user, "user"), (computer, "computer"))
    }
    assert {each.target_id: each.evidence for each in records if each.evidence} == evidence
    assert Run.objects.get(id=run.id).assessment is None


@pytest.mark.parametrize("selected", ["named", "by kind"])
def test_a_second_run_over_the_same_accounts(
    unit: Unit, integration: Integration, assessed: list[int], selected: str
) -> None:
    """The changes of the first one are in the log, made at the domain controller that showed them."""
    users = unit.add_users(3)
    body = named(*users) if selected == "named" else {"kinds": ["user"]}
    first = request_run(unit, integration, body)
    assert work(first) == dict.fromkeys(users, ("succeeded", None))
    for user in users:
        unit.directory.modify(user, userAccountControl="544")
    second = request_run(unit, integration, body)
    assert work(second) == dict.fromkeys(users, ("succeeded", None))
    assert assessed == []
    assert unit.count_enabled(users) == 0


def _protect(unit: Unit, user: UUID) -> None:
    unit.directory.add_values(f"CN=Domain Admins,CN=Users,{unit.directory.base_dn}", member=unit.directory.dn(user))


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (_protect, ("failed", "Auth.Forbidden")),
        (lambda unit, user: unit.directory.modify(user, adminCount="1"), ("failed", "Auth.Forbidden")),
        (lambda unit, user: unit.directory.modify(user, userAccountControl="546"), ("unchanged", None)),
        (lambda unit, user: unit.directory.modify(user, userAccountControl="66080"), ("succeeded", None)),
        (lambda unit, user: unit.directory.delete(user), ("failed", "AD.Object.NotFound")),
        (lambda unit, user: unit.directory.move(user, parent=unit.directory.base_dn), ("failed", "AD.Object.NotFound")),
        (lambda unit, user: unit.directory.rename(user, "Renamed"), ("succeeded", None)),
        (lambda unit, user: unit.directory.lock_out(user), ("succeeded", None)),
        (lambda unit, _: unit.directory.add_group(parent=unit.dn), ("succeeded", None)),
    ],
    ids=["administrator", "marked", "disabled", "option", "deleted", "moved", "renamed", "locked out", "elsewhere"],
)
def test_whatever_has_changed_is_seen(
    unit: Unit,
    integration: Integration,
    assessed: list[int],
    change: Callable[[Unit, UUID], object],
    outcome: tuple[str, str | None],
) -> None:
    user, other = unit.add_users(2, password="Initial-Passw0rd-1")
    run = request_run(unit, integration, named(user, other))
    change(unit, user)
    assert work(run) == {user: outcome, other: ("succeeded", None)}
    assert assessed == [2]


def test_a_person_who_may_do_more_by_now_is_protected(
    unit: Unit, integration: Integration, connection: DirectoryConnection, assessed: list[int]
) -> None:
    user, other = unit.add_users(2)
    run = request_run(unit, integration, named(user, other))
    person = Person.objects.create(username="boss", connection=connection, object_guid=user, password="!")
    person.user_permissions.set(permissions(["keys.change_person"]))
    assert work(run) == {user: ("failed", "Auth.Forbidden"), other: ("succeeded", None)}
    assert assessed == []


def test_another_change_under_way_is_waited_for(
    unit: Unit, directory: Directory, integration: Integration, connection: DirectoryConnection, assessed: list[int]
) -> None:
    (user,) = unit.add_users(1)
    run = request_run(unit, integration, named(user))
    call: Call = call_for_key(
        integration.key.id, connection_id=connection.id, surface=Surface.REST, request_id="another"
    )
    client = get_client(connection.id)
    (account,) = assess_named(client, unit.id, [user], "disable", more_privileged_people=nobody)
    assert account.entry is not None
    record = log.record_intent(
        call,
        log.Intent(
            operation="users.disable",
            target=log.TargetRef(user, "user", directory.dn(user)),
            evidence=evidence_of(account.write, entry=account.entry, schema=client.schema),
        ),
    )
    assert work(run) == {}
    assert assessed == [1]
    log.complete(record.id, outcome="failed", code="AD.Directory.Rejected")
    assert work(run) == {user: ("succeeded", None)}


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_change_at_another_domain_controller_is_looked_for(
    unit: Unit, domain: Domain, directory_proxy: FaultyProxy, assessed: list[int], elsewhere: bool
) -> None:
    twice = make_connection(domain, urls=[domain.url, directory_proxy.url])
    integration = make_integration(twice)
    (user,) = unit.add_users(1)
    run = request_run(unit, integration, named(user))
    assert run.assessment["server"] == domain.url
    call = call_for_key(integration.key.id, connection_id=twice.id, surface=Surface.REST, request_id="another")
    server = directory_proxy.url if elsewhere else domain.url
    evidence = {"write": "modify", "id": str(user), "versions": {}, "steps": {}, "added": {}, "removed": {}}
    record = log.record_intent(
        call,
        log.Intent(
            operation="users.update",
            target=log.TargetRef(user, "user", unit.directory.dn(user)),
            evidence={**evidence, "unguarded": False, "ids": {}, "server": server},
        ),
    )
    log.complete(record.id, outcome="succeeded", server=server)
    assert work(run) == {user: ("succeeded", None)}
    assert assessed == ([1] if elsewhere else [])


def test_an_old_one_is_not_relied_on(unit: Unit, integration: Integration, assessed: list[int]) -> None:
    (user,) = unit.add_users(1)
    run = request_run(unit, integration, named(user))
    long_ago = run.created_at - kept_assessment.MAX_AGE - timedelta(seconds=1)
    Run.objects.filter(id=run.id).update(created_at=long_ago)
    assert work(run) == {user: ("succeeded", None)}
    assert assessed == [1]
