"""The database's own guard of the operations log, tried with SQL that goes around Django."""
# ruff: noqa: S608 - constants are put together here

from collections.abc import Iterator
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction

from audit import log
from audit.chain import marks
from audit.chain.sealing import seal_records
from audit.chain.seals import SEALS, TABLE
from audit.migrations import _unsealed
from audit.migrations._unsealed import list_unsealed
from audit.models import OperationRecord, UnsealedRecord
from tests.audit.calls import make_call

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

TARGET = log.TargetRef(id=uuid4(), kind="user", distinguished_name="CN=Ada,DC=corp")
CHANGES = [{"attribute": "mail", "before": ["a@example.test"], "after": ["b@example.test"]}]
COMPLETION = {"outcome", "completed_at", "code", "settle_at", "settle_attempts"}
FILLED_IN = {"server", "target_id", "target_dn"}
CLAIMS = {"audit_claim_change", "audit_free_change"}


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


def listed() -> dict[str, str]:
    return {str(each.record_id): each.sealed_as for each in UnsealedRecord.objects.all()}


def test_what_is_to_be_sealed_is_listed(pending: OperationRecord) -> None:
    key = str(pending.id)
    assert listed() == {key: "open"}
    log.keep_open([pending.id])
    assert listed() == {key: "open"}
    seal_records()
    assert listed() == {}
    log.complete(pending.id, outcome="unknown")
    assert listed() == {}
    log.complete(pending.id, outcome="failed")
    assert listed() == {key: "final"}
    seal_records()
    assert listed() == {}


def test_the_release_before_takes_what_it_seals_off_the_list(pending: OperationRecord) -> None:
    sql, key = f"UPDATE {TABLE} SET seal = 1, sealed_as = %s WHERE id = %s", str(pending.id)
    execute(sql, "open", key_of(pending))
    assert listed() == {}
    log.complete(pending.id, outcome="succeeded")
    assert listed() == {key: "final"}
    execute(sql, "final", key_of(pending))
    assert listed() == {}
    late = log.record_intent(make_call(), log.Intent(operation="users.update"))
    log.complete(late.id, outcome="succeeded")
    execute(sql, "open", key_of(late))  # by a worker that read it before it was completed
    assert listed() == {str(late.id): "final"}
    forged = log.record_refusal(make_call(), operation="users.update", code="x")
    execute(sql, "refused", key_of(forged))
    assert listed() == {str(late.id): "final", str(forged.id): "refused"}


@pytest.fixture
def indexes_of_release_before(transactional_db: None) -> Iterator[None]:
    execute(f"CREATE INDEX audit_to_seal ON {TABLE} (id)")
    execute(f"CREATE INDEX of_seal ON {TABLE} (seal)")
    yield
    marks.give_up()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("indexes_of_release_before")
@pytest.mark.parametrize("may_come_back", [True, False])
def test_records_are_marked_for_the_release_before(may_come_back: bool) -> None:
    if not may_come_back:
        for said in ("no longer written again", "slim already"):
            out = StringIO()
            call_command("slim_operations_log", stdout=out)
            assert said in out.getvalue()
    pending = log.record_intent(make_call(), log.Intent(operation="users.update"))
    refusal = log.record_refusal(make_call(), operation="users.update", code="x")
    seal_records()
    log.complete(pending.id, outcome="succeeded")
    copied, marked = OperationRecord.objects.filter(id=refusal.id).values().get(), uuid4()
    copies = ((uuid4(), None), (marked, "final"))
    for record_id, sealed_as in copies:
        OperationRecord(**copied | {"id": record_id, "seal": None, "sealed_as": sealed_as}).save(force_insert=True)
    seal_records()
    found = {id: state for id, *state in OperationRecord.objects.values_list("id", "seal", "sealed_as")}
    assert found.pop(marked) == [None, "final"]
    marked_as = {pending.id: [2, "final"], refusal.id: [1, "final"], copies[0][0]: [None, "refused"]}
    assert found == (marked_as if may_come_back else {key: [None, None] for key in marked_as})
    assert listed() == {str(record_id): "refused" for record_id, _ in copies}


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("indexes_of_release_before")
def test_an_upgrade_lists_what_the_release_before_had_still_to_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_unsealed, "_POSTGRESQL_VACUUM", ())  # a table that has months by now takes no such settings
    intents = [log.record_intent(make_call(), log.Intent(operation="users.update")) for _ in range(3)]
    forged = OperationRecord.objects.filter(id=intents[0].id).values().get() | {"id": uuid4()}
    OperationRecord(**forged).save(force_insert=True)
    log.complete(intents[0].id, outcome="succeeded")
    seal_records()
    log.complete(intents[1].id, outcome="failed")
    late = (
        log.record_refusal(make_call(), operation="users.update", code="x"),
        log.record_intent(make_call(), log.Intent(operation="users.update")),
    )
    states = {forged["id"]: "refused", intents[1].id: "final", late[0].id: "final", late[1].id: "open"}
    due = {str(key): state for key, state in states.items()}
    assert listed() == due
    UnsealedRecord.objects.all().delete()
    with connection.schema_editor(atomic=False) as editor:
        for _ in range(2):  # again, where it was interrupted
            list_unsealed(apps, editor)
    assert listed() == due


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

    def test_a_seal_by_row_number(self, closed: OperationRecord) -> None:
        assert seal_records() == 1
        columns = "sealed_at, records, entries, key, mac"
        with pytest.raises(DatabaseError, match="append-only"):
            execute(f"REPLACE INTO {SEALS} (rowid, number, {columns}) SELECT rowid, 9, {columns} FROM {SEALS}")

    def test_no_other_index_is_unique(self) -> None:
        """The guard knows each way in which a row can be in another's way."""
        with connection.cursor() as cursor:
            for table in (TABLE, SEALS):
                cursor.execute(f"SELECT name, origin FROM pragma_index_list('{table}') WHERE \"unique\"")
                assert [name for name, origin in cursor.fetchall() if origin != "pk"] == []

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
        guards = {"audit_no_delete", "audit_no_truncate", "audit_only_complete"}
        assert found == guards | {"audit_list_unsealed"} | CLAIMS
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s", [TABLE])
        triggers = dict(cursor.fetchall())
    lists = {f"audit_list_{kind}" for kind in ("new", "completed", "sealed", "refused")}
    assert set(triggers) == {"audit_no_delete", "audit_no_replace", "audit_only_complete"} | lists | CLAIMS
    for column in set(COLUMNS) - COMPLETION:
        assert f"NEW.{column} IS OLD.{column}" in triggers["audit_only_complete"]
