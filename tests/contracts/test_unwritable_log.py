"""No record, no change: every change there is, on every way in, while the operations log cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from core.operation import Effect, Operation, operations
from directory.models.runs import Run
from gateway import pipeline, tasks
from lab.directory import Directory
from tests.audit.every_change import BATCHABLE, CHANGES, OF_ANY_SIZE, OWN, RUNS, World, attempt, named
from tests.contracts.test_registry import highest_usn
from tests.directory.supervised import approve_only
from tests.support.cast import Integration, make_integration

_FUNCTION = """
CREATE FUNCTION refuse_records() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$;
CREATE TRIGGER refuse_records BEFORE INSERT ON audit_operationrecord EXECUTE FUNCTION refuse_records()
"""
_TRIGGER = """
CREATE TRIGGER refuse_records BEFORE INSERT ON audit_operationrecord
BEGIN SELECT RAISE(ABORT, 'the disk is full'); END
"""


@contextmanager
def unwritable_log() -> Iterator[None]:
    """Every insert into the log's table fails, as it does on a full disk."""
    with connection.cursor() as cursor:
        cursor.execute(_FUNCTION if connection.vendor == "postgresql" else _TRIGGER)
        yield
        if connection.vendor == "postgresql":
            cursor.execute("DROP FUNCTION refuse_records CASCADE")
        else:
            cursor.execute("DROP TRIGGER refuse_records")


@contextmanager
def nothing_changes(directory: Directory) -> Iterator[None]:
    before = highest_usn(directory)
    yield
    assert highest_usn(directory) == before


@pytest.fixture
def world(integration: Integration, directory: Directory, organizational_unit: str) -> World:
    assert integration.get("/api/ad/users?pageSize=1").status == 200  # a first sign-in writes lastLogonTimestamp
    return World(integration, directory, organizational_unit)


@pytest.fixture
def asking(world: World) -> Integration:
    """A key of the same directory whose every change is held."""
    return make_integration(world.integration.key.links.get().connection, level=SupervisionLevel.ASK_EVERY_CHANGE)


def test_every_change_is_here() -> None:
    expected = {*map(named, CHANGES), *RUNS, *OF_ANY_SIZE, *OWN}
    assert {item.name for item in operations() if item.effect is Effect.CHANGE} == expected


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_a_change(operation: Operation, world: World) -> None:
    change = attempt(operation, world)
    with unwritable_log(), nothing_changes(world.directory):
        answer = change.ask(world.integration)
    assert (answer.status, answer.code) == (503, "Service.Unavailable")
    assert not change.is_done()


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_a_change_that_is_held(operation: Operation, world: World, asking: Integration) -> None:
    change = attempt(operation, world)
    with unwritable_log(), nothing_changes(world.directory):
        answer = change.ask(asking)
    assert (answer.status, answer.code) == (503, "Service.Unavailable")
    assert not ChangeRequest.objects.exists()


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_an_approved_change(operation: Operation, world: World, asking: Integration) -> None:
    change = attempt(operation, world)
    request = approve_only(change.ask(asking))
    with unwritable_log(), nothing_changes(world.directory):
        pipeline.apply_change_request(request.id)
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    assert request.status == "applied"
    assert change.is_done()


@pytest.mark.sqlite
@pytest.mark.parametrize("operation", BATCHABLE, ids=named)
def test_a_batch(operation: Operation, world: World) -> None:
    changes = [attempt(operation, world) for _ in range(3)]
    path = f"/api/ad/{operation.resource}/batch/{operation.action}"
    with unwritable_log(), nothing_changes(world.directory):
        answer = world.integration.post(path, {"items": [change.item for change in changes]})
    assert answer.status == 207
    assert [result["problem"]["code"] for result in answer.body["results"]] == ["Service.Unavailable"] * 3


@pytest.mark.sqlite
@pytest.mark.parametrize("name", RUNS)
def test_a_run(name: str, world: World) -> None:
    action = "enable" if "enable" in name else "disable"
    users = [world.add("users", enabled=action == "disable") for _ in range(3)]
    unit = world.directory.guid(world.unit)
    with unwritable_log(), nothing_changes(world.directory):
        path = f"/api/ad/organization-units/{unit}/accounts/{action}"
        started = world.integration.post(path, {"kinds": ["user"]}, Prefer="respond-async")
        assert started.status == 202, started
        tasks.execute_run(started.body["runId"])
    assert Run.objects.get().state == "running"
    tasks.execute_run(started.body["runId"])
    assert Run.objects.get().state == "completed"
    assert {world.directory.is_enabled(user) for user in users} == {action == "enable"}
