"""An approved change is claimed by the record that applies it: once, whatever workers and releases do."""
# ruff: noqa: S608 - constants are put together here

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.db import IntegrityError, connection

from audit import log
from audit.chain.seals import TABLE
from audit.migrations._claims import INDEX, claim_changes
from audit.models import ChangeClaim, OperationRecord
from core.call import Call, Surface
from tests.audit.calls import make_call

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

UPDATE = log.Intent(operation="users.update")
WORKERS = 16


def approved_call() -> Call:
    return make_call(surface=Surface.WORKER, change_request_id=uuid4())


def claims() -> dict[UUID, UUID]:
    return dict(ChangeClaim.objects.values_list("change_request_id", "record_id"))


def attempt(call: Call, barrier: Barrier) -> OperationRecord | None:
    try:
        barrier.wait()
        return log.record_intent(call, UPDATE)
    except log.NotRecorded:
        return None
    finally:
        connection.close()


def attempts_at_once(call: Call) -> list[OperationRecord]:
    barrier = Barrier(WORKERS)
    with ThreadPoolExecutor(WORKERS) as pool:
        return [record for record in pool.map(lambda _: attempt(call, barrier), range(WORKERS)) if record]


def test_one_of_many_workers_claims_a_change() -> None:
    call = approved_call()
    (first,) = attempts_at_once(call)
    assert claims() == {call.change_request_id: first.id}
    log.complete(first.id, outcome="failed")
    assert claims() == {}
    (second,) = attempts_at_once(call)
    log.complete(second.id, outcome="succeeded")
    assert attempts_at_once(call) == []
    assert claims() == {call.change_request_id: second.id}
    assert OperationRecord.objects.count() == 2


@pytest.mark.parametrize("outcome", ["pending", "unknown", "succeeded"])
def test_a_change_is_claimed_until_its_record_fails(outcome: str) -> None:
    call = approved_call()
    record = log.record_intent(call, UPDATE)
    if outcome != "pending":
        log.complete(record.id, outcome=outcome)
    log.keep_open([record.id])
    with pytest.raises(log.NotRecorded) as refused:
        log.record_intent(call, UPDATE)
    assert isinstance(refused.value.__cause__, IntegrityError)
    log.complete(record.id, outcome="failed")
    assert claims() == ({call.change_request_id: record.id} if outcome == "succeeded" else {})


def test_what_does_not_apply_a_change_claims_none() -> None:
    call = approved_call()
    log.record_queued(make_call(), change_request_id=call.change_request_id, operation="users.update")
    log.record_intent(make_call(change_request_id=call.change_request_id), UPDATE)
    log.record_refusal(call, operation="users.update", code="x")
    log.record_intent(make_call(surface=Surface.WORKER), UPDATE)
    log.record_intents(call, [log.Intent(operation="users.disable", run_id=uuid4(), batch_index=i) for i in range(2)])
    assert claims() == {}


def test_another_record_that_fails_frees_nothing() -> None:
    call = approved_call()
    record = log.record_intent(call, UPDATE)
    of_a_run = log.record_intent(call, log.Intent(operation="users.disable", run_id=uuid4()))
    log.complete(of_a_run.id, outcome="failed")
    assert claims() == {call.change_request_id: record.id}


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="only SQLite replaces rows")
def test_a_claim_is_not_replaced() -> None:
    call = approved_call()
    record = log.record_intent(call, UPDATE)
    columns = ", ".join(field.column for field in OperationRecord._meta.concrete_fields if not field.primary_key)
    sql = f"INSERT OR REPLACE INTO {TABLE} (id, {columns}) SELECT %s, {columns} FROM {TABLE} WHERE id = %s"
    with pytest.raises(IntegrityError, match="applied once"), connection.cursor() as cursor:
        cursor.execute(sql, [uuid4().hex, record.id.hex])
    assert claims() == {call.change_request_id: record.id}


@pytest.fixture
def tables_of_release_before() -> Iterator[None]:
    with connection.cursor() as cursor:
        of_log = "" if connection.vendor == "sqlite" else f" ON {TABLE}"
        for trigger in ("audit_claim_change", "audit_free_change"):
            cursor.execute(f"DROP TRIGGER {trigger}{of_log}")
        if connection.vendor == "sqlite":  # PostgreSQL has none over the months
            cursor.execute(
                f"CREATE UNIQUE INDEX {INDEX} ON {TABLE} (change_request_id) WHERE surface = 'worker'"
                " AND run_id IS NULL AND outcome IN ('succeeded', 'pending', 'unknown')"
            )
    yield
    upgrade()


def upgrade() -> None:
    with connection.schema_editor(atomic=False) as editor:
        claim_changes(apps, editor)


@pytest.mark.usefixtures("tables_of_release_before")
def test_an_upgrade_claims_what_was_applied_before() -> None:
    calls = {outcome: approved_call() for outcome in ("pending", "unknown", "succeeded", "failed")}
    records = {outcome: log.record_intent(call, UPDATE) for outcome, call in calls.items()}
    for outcome, record in records.items():
        if outcome != "pending":
            log.complete(record.id, outcome=outcome)
    assert claims() == {}
    for _ in range(2):  # again, where it was interrupted
        upgrade()
        claimed = ("pending", "unknown", "succeeded")
        assert claims() == {calls[outcome].change_request_id: records[outcome].id for outcome in claimed}
    for outcome in claimed:
        with pytest.raises(log.NotRecorded):
            log.record_intent(calls[outcome], UPDATE)
    log.record_intent(calls["failed"], UPDATE)
    with connection.cursor() as cursor:
        assert INDEX not in connection.introspection.get_constraints(cursor, TABLE)
