"""The database's own guard of the operations log, tried with SQL that goes around Django."""
# ruff: noqa: S608 - constants are put together here

from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction

from audit import log
from audit.chain.append_only import SEALS, TABLE
from audit.chain.sealing import seal_records
from audit.models import OperationRecord
from core.call import Surface
from tests.audit.calls import make_call

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

TARGET = log.TargetRef(id=uuid4(), kind="user", distinguished_name="CN=Ada,DC=corp")
CHANGES = [{"attribute": "mail", "before": ["a@example.test"], "after": ["b@example.test"]}]
COMPLETION = {"outcome", "completed_at", "code", "settle_at", "settle_attempts"}
FILLED_IN = {"server", "target_id", "target_dn"}


def execute(sql: str, *parameters: Any) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.rowcount


def refused(sql: str, *parameters: Any) -> bool:
    before = list(OperationRecord.objects.order_by("id").values())
    with pytest.raises(DatabaseError, match="append-only"):
        execute(sql, *parameters)
    return list(OperationRecord.objects.order_by("id").values()) == before


def key_of(record: OperationRecord) -> str:
    return record.id.hex if connection.vendor == "sqlite" else str(record.id)


@pytest.fixture
def pending() -> OperationRecord:
    return log.record_intent(
        make_call(), log.Intent(operation="users.update", target=TARGET, changes=CHANGES, evidence={"mail": 3})
    )


@pytest.fixture
def closed(pending: OperationRecord) -> OperationRecord:
    assert log.complete(pending.id, outcome="succeeded", server="dc1")
    return pending


def test_a_pending_record_can_be_completed(pending: OperationRecord) -> None:
    sql = f"UPDATE {TABLE} SET outcome = 'succeeded', server = 'dc1', code = 'x', completed_at = at WHERE id = %s"
    assert execute(sql, key_of(pending)) == 1


@pytest.mark.parametrize("state", ["pending", "closed"])
def test_deleting_is_refused(state: str, request: pytest.FixtureRequest) -> None:
    record = request.getfixturevalue(state)
    assert refused(f"DELETE FROM {TABLE} WHERE id = %s", key_of(record))
    assert refused(f"DELETE FROM {TABLE}")


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no TRUNCATE")
def test_truncating_is_refused(closed: OperationRecord) -> None:
    assert refused(f"TRUNCATE {TABLE}")
    assert refused(f"TRUNCATE {TABLE} CASCADE")


def other_value(record: OperationRecord, name: str) -> Any:
    """A value of the column's type that is not the present one."""
    kind = OperationRecord._meta.get_field(name).get_internal_type()
    if kind == "UUIDField":
        return uuid4().hex if connection.vendor == "sqlite" else str(uuid4())
    if kind == "JSONField":
        return "[1]"
    if kind == "DateTimeField":
        return "2001-01-01 00:00:00+00:00"
    return 99 if "Integer" in kind else f"o{uuid4().hex[:6]}"


COLUMNS = [field.column for field in apps.get_model("audit", "OperationRecord")._meta.local_concrete_fields]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_closed_record_keeps_every_column(closed: OperationRecord, column: str) -> None:
    assert refused(f"UPDATE {TABLE} SET {column} = %s WHERE id = %s", other_value(closed, column), key_of(closed))


@pytest.mark.parametrize("column", [name for name in COLUMNS if name not in COMPLETION | FILLED_IN])
def test_a_completion_touches_nothing_that_was_known(pending: OperationRecord, column: str) -> None:
    sql = f"UPDATE {TABLE} SET outcome = 'succeeded', {column} = %s WHERE id = %s"
    assert refused(sql, other_value(pending, column), key_of(pending))


@pytest.mark.parametrize("column", sorted(FILLED_IN))
def test_a_completion_fills_in_what_was_not_known(pending: OperationRecord, column: str) -> None:
    sql = f"UPDATE {TABLE} SET {column} = %s WHERE id = %s"
    empty = log.record_intent(make_call(), log.Intent(operation="users.create"))
    assert execute(sql, other_value(empty, column), key_of(empty)) == 1
    assert refused(sql, other_value(empty, column), key_of(empty))
    if column != "server":
        assert refused(sql, other_value(pending, column), key_of(pending))


@pytest.mark.parametrize("outcome", ["queued", "nonsense", "pending"])
def test_an_unknown_record_goes_to_an_end_only(pending: OperationRecord, outcome: str) -> None:
    log.complete(pending.id, outcome="unknown")
    assert refused(f"UPDATE {TABLE} SET outcome = %s WHERE id = %s", outcome, key_of(pending))
    assert execute(f"UPDATE {TABLE} SET outcome = 'failed' WHERE id = %s", key_of(pending)) == 1


def test_a_queued_record_is_closed() -> None:
    record = log.record_queued(
        make_call(), operation="users.delete", target=TARGET, changes=CHANGES, change_request_id=uuid4()
    )
    assert refused(f"UPDATE {TABLE} SET outcome = 'succeeded' WHERE id = %s", key_of(record))


def test_sealing_is_noted_once(pending: OperationRecord) -> None:
    sql = f"UPDATE {TABLE} SET seal = %s, sealed_as = %s WHERE id = %s"
    assert refused(sql, 1, "other", key_of(pending))
    assert refused(f"UPDATE {TABLE} SET seal = 1, sealed_as = 'open', reason = 'x' WHERE id = %s", key_of(pending))
    assert execute(sql, 1, "open", key_of(pending)) == 1
    assert refused(sql, 2, "open", key_of(pending))
    assert execute(sql, 2, "final", key_of(pending)) == 1
    assert refused(sql, None, None, key_of(pending))


def test_seals_stay(closed: OperationRecord) -> None:
    assert seal_records() == 1
    for sql in (f"DELETE FROM {SEALS}", f"UPDATE {SEALS} SET records = 0", f"UPDATE {SEALS} SET mac = 'x'"):
        with pytest.raises(DatabaseError, match="append-only"):
            execute(sql)
    columns = "number, sealed_at, records, entries, mac"
    again = f"{SEALS} ({columns}) SELECT {columns.replace('records', '0')} FROM {SEALS}"
    with pytest.raises(DatabaseError, match=r"append-only|duplicate key"):
        execute(f"INSERT OR REPLACE INTO {again}" if connection.vendor == "sqlite" else f"INSERT INTO {again}")
    if connection.vendor == "postgresql":
        with pytest.raises(DatabaseError, match="append-only"):
            execute(f"TRUNCATE {SEALS}")


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="only SQLite replaces rows")
class TestReplaceOnSqlite:
    """`OR REPLACE` deletes the row in its way without asking a DELETE trigger."""

    columns = ", ".join(name for name in COLUMNS if name != "id")

    def test_by_key(self, closed: OperationRecord) -> None:
        sql = f"INSERT OR REPLACE INTO {TABLE} SELECT * FROM {TABLE} WHERE id = %s"
        assert refused(sql, key_of(closed))

    def test_by_row_number(self, closed: OperationRecord) -> None:
        sql = f"REPLACE INTO {TABLE} (rowid, id, {self.columns}) SELECT rowid, %s, {self.columns} FROM {TABLE}"
        assert refused(sql, uuid4().hex)

    def test_by_the_unique_index(self) -> None:
        call = make_call(surface=Surface.WORKER, change_request_id=uuid4())
        log.record_intent(call, log.Intent(operation="users.update"))
        sql = f"INSERT OR REPLACE INTO {TABLE} (id, {self.columns}) SELECT %s, {self.columns} FROM {TABLE}"
        assert refused(sql, uuid4().hex)

    def test_by_moving_a_row(self, pending: OperationRecord) -> None:
        log.record_intent(make_call(), log.Intent(operation="users.update"))
        assert refused(f"UPDATE OR REPLACE {TABLE} SET rowid = rowid + 1 WHERE id = %s", key_of(pending))


def test_the_triggers_know_every_column() -> None:
    """A migration that adds a column puts the triggers on anew; the row comparison of PostgreSQL needs no list."""
    if connection.vendor == "postgresql":
        names = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = %s::regclass"
        with connection.cursor() as cursor:
            cursor.execute(names, [TABLE])
            found = {name for (name,) in cursor.fetchall()}
        assert found == {"audit_no_delete", "audit_no_truncate", "audit_only_complete"}
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [TABLE])
        triggers = dict(cursor.fetchall())
    assert set(triggers) == {"audit_no_delete", "audit_no_replace", "audit_only_complete"}
    for column in set(COLUMNS) - COMPLETION:
        assert f"NEW.{column} IS OLD.{column}" in triggers["audit_only_complete"]
