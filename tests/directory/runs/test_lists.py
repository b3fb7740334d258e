"""Lists of runs, and what the page of one run shows: whose it is, its times, how far it is, and what it waits for."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection as database
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from directory.models import DirectoryConnection
from directory.models.runs import AccountResult, AccountStatus, Run, RunLease, RunState
from lab.directory import Directory
from lab.domain import Domain
from lab.gateway import LiveGateway
from tests.directory.runs.unit import Unit
from tests.support.cast import Console, Integration, make_connection, make_integration, make_person

STAFF = "OU=Staff,DC=corp,DC=example,DC=test"


def make_run(connection: DirectoryConnection, **fields: object) -> Run:
    """A run of four accounts that somebody else's key has asked for."""
    values = {
        "connection": connection,
        "operation": "organization-units.disable-accounts",
        "action": "disable",
        "unit": uuid4(),
        "unit_dn": STAFF,
        "accounts": [str(uuid4()) for _ in range(4)],
        "person_id": 0,
        "requester": "grace",
        "credential_kind": "apiKey",
        "credential_id": "somebody else's",
        "credential_name": "leavers",
        "request_id": "r",
    }
    return Run.objects.create(**{**values, **fields})


def add_results(run: Run, *statuses: AccountStatus) -> None:
    AccountResult.objects.bulk_create(
        AccountResult(run=run, position=position, account=UUID(account), status=status)
        for position, (account, status) in enumerate(zip(run.accounts, statuses, strict=False))
    )


def found(integration: Integration, query: str = "") -> list[str]:
    """The identifiers of the runs that are listed."""
    answer = integration.get(f"/api/ad/runs?{query}")
    assert answer.status == 200, answer
    return [item["runId"] for item in answer.body["items"]]


def ids(runs: Iterable[Run]) -> list[str]:
    return [str(run.id) for run in runs]


def test_it_works(unit: Unit, directory: Directory, worker: LiveGateway, integration: Integration) -> None:
    unit.add_users(2)
    unit.add_users(1, enabled=False)
    (administrator,) = unit.add_users(1)
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(administrator))
    before = timezone.now()
    done = unit.run(integration, {"kinds": ["user"]}, **{"X-Change-Reason": "Left the company"})
    assert done.status == 207, done

    answer = integration.get("/api/ad/runs")

    assert {name: value for name, value in answer.body.items() if name != "items"} == {
        "nextCursor": None,
        "total": 1,
        "truncated": False,
    }
    (item,) = answer.body["items"]
    created, started, completed = (
        datetime.fromisoformat(item.pop(name)) for name in ("createdAt", "startedAt", "completedAt")
    )
    assert before < created < started < completed < timezone.now()
    assert item == {
        "runId": done.body["runId"],
        "action": "disable",
        "state": "completed",
        "organizationalUnit": {"id": str(unit.id), "distinguishedName": unit.dn},
        "total": 4,
        "succeeded": 2,
        "unchanged": 1,
        "failed": 1,
        "requestedBy": {"owner": integration.key.owner.username, "keyName": integration.key.name},
        "agent": False,
        "reason": "Left the company",
        "changeRequestId": None,
        "approvedBy": None,
    }


def test_what_needed_no_worker_was_over_at_once(unit: Unit, integration: Integration) -> None:
    unit.add_users(1, enabled=False)
    assert unit.run(integration, {"kinds": ["user"]}).body["unchanged"] == 1
    (item,) = integration.get("/api/ad/runs").body["items"]
    assert item["unchanged"] == 1
    assert item["createdAt"] >= item["completedAt"] == item["startedAt"]


def test_filters(connection: DirectoryConnection, integration: Integration) -> None:
    change_request = uuid4()
    first = make_run(connection, action="enable", change_request_id=change_request)
    second = make_run(connection, state=RunState.COMPLETED, unit=first.unit)
    third = make_run(connection, state=RunState.RUNNING)
    assert found(integration) == ids([third, second, first])
    assert found(integration, "state=running") == ids([third])
    assert found(integration, "action=disable") == ids([third, second])
    assert found(integration, f"organizationalUnit={first.unit}") == ids([second, first])
    assert found(integration, f"organizationalUnit={first.unit}&state=completed") == ids([second])
    assert found(integration, f"changeRequestId={change_request}") == ids([first])


@pytest.mark.parametrize("query", ["state=done", "action=delete", "organizationalUnit=staff", "owner=grace"])
def test_bad_filters_are_refused(integration: Integration, query: str) -> None:
    answer = integration.get(f"/api/ad/runs?{query}")
    assert answer.status == 400
    assert answer.body["errors"][0]["parameter"] == query.partition("=")[0]


def test_pages(connection: DirectoryConnection, integration: Integration) -> None:
    runs = [make_run(connection) for _ in range(5)]
    moment = timezone.now()
    Run.objects.filter(id__in=[run.id for run in runs[1:3]]).update(created_at=moment)  # two of one moment
    seen, query = [], "pageSize=2"
    while True:
        page = integration.get(f"/api/ad/runs?{query}").body
        assert page["total"] == 5
        seen += [item["runId"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        query = f"pageSize=2&cursor={page['nextCursor']}"
    assert sorted(seen) == sorted(ids(runs))
    assert seen[2:] == ids([runs[4], runs[3], runs[0]])


def test_counts_take_no_query_of_their_own(connection: DirectoryConnection, integration: Integration) -> None:
    def count() -> int:
        with CaptureQueriesContext(database) as queries:
            assert found(integration)
        return len(queries)

    add_results(make_run(connection), AccountStatus.SUCCEEDED, AccountStatus.FAILED)
    alone = count()
    for _ in range(3):
        add_results(make_run(connection), AccountStatus.UNCHANGED)
    assert count() <= alone  # what is kept for a moment may be read for the first alone
    items = integration.get("/api/ad/runs").body["items"]
    assert [(item["succeeded"], item["unchanged"], item["failed"]) for item in items] == [(0, 1, 0)] * 3 + [(1, 0, 1)]


def test_whose_runs_are_seen(
    connection: DirectoryConnection, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    unit = directory.guid(organizational_unit)
    of_unit = make_run(connection, unit=unit, unit_dn=organizational_unit)
    below = make_run(connection, unit_dn=f"ou=below,{organizational_unit.upper()}")
    beside = make_run(connection, unit_dn=f"OU=x\\,{organizational_unit}")
    make_run(make_connection(domain))

    manager = make_integration(connection, may=["directory.run_accounts"])
    assert found(manager) == ids([beside, below, of_unit])
    confined = make_integration(connection, may=["directory.run_accounts"], scopes=[unit])
    assert found(confined) == ids([below, of_unit])
    assert found(make_integration(connection, scopes=[uuid4()])) == []  # whatever it was confined to is gone

    other = make_integration(connection, may=["directory.read_object"])
    assert found(other) == []
    Run.objects.filter(id=beside.id).update(credential_id=str(other.key.id))
    assert found(other) == ids([beside])
    for run, status in ((beside, 200), (below, 404)):
        assert other.get(f"/api/ad/runs/{run.id}").status == status


def test_details(connection: DirectoryConnection, integration: Integration) -> None:
    earlier = make_run(connection, state=RunState.RUNNING, attempts=2, started_at=timezone.now())
    add_results(earlier, AccountStatus.SUCCEEDED)
    later = make_run(connection)
    console = Console(make_person(may=["directory.run_accounts"]))
    lease = RunLease.objects.create(connection=connection, expires_at=timezone.now() + timedelta(minutes=10))

    def details(run: Run) -> dict:
        answer = console.get(f"/rest/ad/runs/{run.id}/details")
        assert answer.status == 200, answer
        return answer.body

    told = details(earlier)
    results = told.pop("results")
    assert results == integration.get(f"/api/ad/runs/{earlier.id}").body["results"]
    extra = {name: told.pop(name) for name in ("workerPresent", "runsAhead", "attempts")}
    assert extra == {"workerPresent": False, "runsAhead": 0, "attempts": 2}
    assert told == console.get("/rest/ad/runs?state=running").body["items"][0]

    RunLease.objects.filter(pk=lease.pk).update(holder=uuid4())
    told = details(later)
    assert (told["workerPresent"], told["runsAhead"], told["startedAt"]) == (True, 1, None)
    RunLease.objects.filter(pk=lease.pk).update(expires_at=timezone.now())
    assert not details(later)["workerPresent"]
    Run.objects.filter(id=earlier.id).update(state=RunState.COMPLETED)
    assert details(later)["runsAhead"] == 0

    stranger = Console(make_person(may=["directory.read_object"]))
    assert stranger.get(f"/rest/ad/runs/{later.id}/details").status == 404
    assert integration.get(f"/api/ad/runs/{later.id}/details").status == 404
