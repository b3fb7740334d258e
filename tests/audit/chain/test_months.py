"""Months of the log as partitions: made ahead, guarded one by one, and dropped when their time is over."""
# ruff: noqa: S608 - constants are put together here

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.apps import apps
from django.db import DatabaseError, connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from audit import log
from audit.chain import months, retention, sealing
from audit.chain.months import EARLIER, LATER, TABLE, find_months, make_months
from audit.chain.retention import NotRemoved, remove_records
from audit.chain.verification import find_tampering
from audit.identifiers import identifier_bounds
from audit.migrations import _months
from audit.migrations._concurrently import AddIndexConcurrently
from audit.migrations._months import begin_months
from audit.models import LogSeal, OperationRecord
from gateway.tasks import sweep
from lab.directory import random_name
from tests.audit.calls import CALL
from tests.audit.chain.months_of_log import months_from, one_table
from tests.audit.conftest import In
from tests.support.database import live_database_url

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has one table"),
]

MAY, JUNE, JULY, AUGUST = (datetime(2021, month, 1, tzinfo=UTC) for month in (5, 6, 7, 8))


@pytest.fixture
def with_months() -> Iterator[None]:
    """May and June 2021 are partitions."""
    with months_from(MAY, count=2):
        yield


@pytest.fixture
def written(with_months: None, now_is: In) -> dict[datetime, list[UUID]]:
    """Sealed records of three months, of April and May to June."""
    found: dict[datetime, list[UUID]] = {}
    for month in (MAY - timedelta(days=20), MAY, JUNE):
        now_is(month + timedelta(days=3))
        for number in range(4):
            record = write_change()
            if number % 2:
                sealing.seal_records()
            log.complete(record.id, outcome="succeeded")
            found.setdefault(month, []).append(record.id)
        sealing.seal_records()
    now_is(timezone.now())
    return found


def write_change() -> OperationRecord:
    return log.record_intent(CALL, log.Intent(operation="users.update", evidence={"n": 1}))


def ids() -> set[UUID]:
    return set(OperationRecord.objects.values_list("id", flat=True))


def tables() -> list[str]:
    return [month.table.removeprefix(f"{TABLE}_") for month in find_months()]


def findings() -> list[str]:
    return list(dict.fromkeys(str(finding) for finding in find_tampering()))


def execute(sql: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)


def rows_in(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        return int(cursor.fetchone()[0])


class TestMaking:
    def test_the_present_month_and_the_next_two_are_there(self) -> None:
        now = timezone.now().astimezone(UTC)
        expected = [
            f"{(now.year * 12 + now.month - 1 + ahead) // 12}_{(now.month - 1 + ahead) % 12 + 1:02}"
            for ahead in range(3)
        ]
        assert tables() == ["earlier", *expected, "later"]
        write_change()
        assert rows_in(f"{TABLE}_{expected[0]}") == 1
        assert make_months() == 0

    def test_their_bounds_are_those_of_identifiers(self) -> None:
        first = find_months()[1]
        start = timezone.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        assert first.lowest == identifier_bounds(start)[0]
        assert [month.end for month in find_months()[:-1]] == [month.lowest for month in find_months()[1:]]

    def test_missing_ones_are_made_beside_records_of_the_future(self, now_is: In) -> None:
        now = timezone.now().astimezone(UTC)
        this_month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        before = tables()
        with months_from(this_month, count=0):
            now_is(now + timedelta(days=1000))
            far = write_change()
            assert make_months() == 3
            assert tables() == before
            assert rows_in(LATER) == 1
            assert far.id in ids()
            log.complete(far.id, outcome="succeeded")
            for _ in range(2):
                with pytest.raises(DatabaseError, match="append-only"):
                    execute(f"DELETE FROM {LATER}")

    def test_a_month_that_was_not_made_in_time_takes_the_records_of_the_last_partition(self, now_is: In) -> None:
        now = timezone.now().astimezone(UTC)
        this_month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        before = tables()
        with months_from((this_month - timedelta(days=40)).replace(day=1), count=0):
            now_is(this_month - timedelta(days=35))
            old = write_change()
            now_is(now)
            new = write_change()
            assert rows_in(LATER) == 2
            assert make_months() == 3
            late = f"{(this_month - timedelta(days=40)):%Y_%m}"
            assert tables() == ["earlier", late, *before[2:]]
            assert rows_in(f"{TABLE}_{late}") == 2
            assert rows_in(LATER) == 0
            for record in (old, new):
                assert log.complete(record.id, outcome="succeeded")
            sealing.seal_records()
            assert findings() == []

    def test_nobody_waits_long_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = timezone.now().astimezone(UTC)
        this_month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        before = [month.table for month in find_months()]
        with months_from(this_month, count=0):
            with psycopg.connect(live_database_url()) as backup:
                backup.execute(f"LOCK TABLE {TABLE} IN ACCESS SHARE MODE")
                started = timezone.now()
                assert make_months() == 0
                assert timezone.now() - started < timedelta(seconds=2)
            assert make_months() == 0
            monkeypatch.setattr(months, "_not_before", 0.0)
            sweep()
            assert [month.table for month in find_months()] == before


class TestUpgrade:
    """A log that is one table becomes the first partition, with all that is in it and beside it."""

    @staticmethod
    def upgrade() -> None:
        with connection.schema_editor(atomic=False) as editor:
            begin_months(apps, editor)

    @staticmethod
    def names() -> set[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT 'index', relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
                " WHERE indrelid = %s::regclass UNION ALL SELECT 'trigger', tgname FROM pg_trigger"
                " WHERE tgrelid = %s::regclass UNION ALL SELECT 'check', conname FROM pg_constraint"
                " WHERE conrelid = %s::regclass AND contype = 'c'",
                [TABLE, TABLE, TABLE],
            )
            return set(cursor.fetchall())

    def test_it_works(self, now_is: In) -> None:
        expected = self.names()
        with one_table():
            assert find_months() == []
            assert self.names() == expected
            now_is(MAY)
            old = write_change()
            sealing.seal_records()
            now_is(timezone.now())
            log.complete(old.id, outcome="succeeded")
            role = random_name("reader")
            execute(f'CREATE ROLE "{role}"; GRANT INSERT, UPDATE (code) ON {TABLE} TO "{role}"')
            try:
                for _ in range(2):  # again changes nothing
                    self.upgrade()
                    assert tables()[0] == "earlier"
                    assert tables()[-1] == "later"
                    assert len(tables()) in (3, 4)  # a month that is nearly over begins no partition
                    assert self.names() == expected
                with connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT table_name, column_name, privilege_type FROM information_schema.column_privileges"
                        " WHERE grantee = %s AND privilege_type <> 'INSERT'",
                        [role],
                    )
                    assert cursor.fetchall() == [(TABLE, "code", "UPDATE")]
            finally:
                execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')
            new = write_change()
            sealing.seal_records()
            assert rows_in(EARLIER) == 2
            assert ids() == {old.id, new.id}
            assert findings() == []
            for sql in (f"DELETE FROM {EARLIER}", f"TRUNCATE {EARLIER}", f"UPDATE {EARLIER} SET owner = 'x'"):
                with pytest.raises(DatabaseError, match="append-only"):
                    execute(sql)

    def test_no_index_is_built_anew(self) -> None:
        with one_table(), connection.cursor() as cursor:
            files = (
                "SELECT relfilenode FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid"
                " WHERE indrelid = %s::regclass"
            )
            cursor.execute(files, [TABLE])
            before = set(cursor.fetchall())
            self.upgrade()
            cursor.execute(files, [EARLIER])
            assert set(cursor.fetchall()) == before
            assert len(before) > 10

    def test_a_log_with_records_of_the_future_stays_one_table(
        self, now_is: In, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with one_table():
            now_is(timezone.now() + timedelta(days=400))
            far = write_change()
            self.upgrade()
            assert "stays one table" in capsys.readouterr().out
            assert find_months() == []
            assert make_months() == 0
            assert log.complete(far.id, outcome="succeeded")
            now_is(timezone.now())
            sealing.seal_records()
            assert findings() == []
            assert remove_records(before=MAY) == 0

    def test_one_that_fails_leaves_no_bound_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = self.names()
        with one_table():
            write_change()

            def fail(*_: Any) -> Any:
                raise RuntimeError("killed")

            monkeypatch.setattr(_months, "_exchange", fail)
            with pytest.raises(RuntimeError, match="killed"):
                self.upgrade()
            assert self.names() == expected
            monkeypatch.undo()
            self.upgrade()
            assert rows_in(EARLIER) == 1


def test_a_later_migration_adds_an_index_to_each_month() -> None:
    index = models.Index(fields=["server", "id"], name="audit_by_server", condition=models.Q(server__isnull=False))
    state = MigrationLoader(connection).project_state()
    adding = AddIndexConcurrently("operationrecord", index)
    after = state.clone()
    adding.state_forwards("audit", after)
    partial = (
        "SELECT count(*) FROM pg_index"
        " WHERE indrelid = %s::regclass AND indisvalid AND pg_get_indexdef(indexrelid) ~ 'server'"
    )
    try:
        for _ in range(2):  # again, where it was interrupted
            with connection.schema_editor(atomic=False) as editor:
                adding.database_forwards("audit", editor, state, after)
            with connection.cursor() as cursor:
                for table in (TABLE, *(month.table for month in find_months())):
                    cursor.execute(partial, [table])
                    assert cursor.fetchone()[0] == 1, table
    finally:
        execute("DROP INDEX IF EXISTS audit_by_server")


class TestGuards:
    """They hold on each partition, also for who names it."""

    @pytest.mark.parametrize("is_month", [True, False])
    def test_what_is_refused(self, is_month: bool) -> None:
        record = write_change()
        log.complete(record.id, outcome="succeeded")
        table = find_months()[1].table if is_month else TABLE
        assert rows_in(table) == 1
        for sql in (
            f"DELETE FROM {table}",
            f"UPDATE {table} SET owner = 'x'",
            f"UPDATE {table} SET outcome = 'failed'",
            f"TRUNCATE {table}",
            f"UPDATE {table} SET id = '{identifier_bounds(MAY)[0]}'",
        ):
            with pytest.raises(DatabaseError, match="append-only"):
                execute(sql)
        assert rows_in(table) == 1

    def test_each_partition_has_them_all(self) -> None:
        with connection.cursor() as cursor:
            names = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = %s::regclass"
            cursor.execute(names, [TABLE])
            expected = set(cursor.fetchall())
            assert len(expected) == 6
            for month in find_months():
                # Those of the table are internal to no partition, and cannot be dropped from one.
                cursor.execute(names, [month.table])
                assert set(cursor.fetchall()) == expected
        with pytest.raises(DatabaseError, match="requires it"):
            execute(f"DROP TRIGGER audit_no_delete ON {LATER}")

    def test_what_somebody_inserts_into_a_partition_is_listed(self, with_months: None) -> None:
        record = write_change()
        copied = ", ".join(field.column for field in OperationRecord._meta.concrete_fields if not field.primary_key)
        forged = identifier_bounds(MAY)[1]
        execute(f"INSERT INTO {TABLE}_2021_05 (id, {copied}) SELECT '{forged}', {copied} FROM {TABLE}")
        sealing.seal_records()
        assert findings() == [f"record {forged} was inserted or changed"]
        assert record.id in ids()


class TestRetention:
    def test_it_works(self, written: dict[datetime, list[UUID]]) -> None:
        april, may, june = written.values()
        assert remove_records(before=MAY) == 4
        assert tables() == ["earlier", "2021_05", "2021_06", "later"]
        assert remove_records(before=JUNE) == 4
        assert tables() == ["earlier", "2021_06", "later"]
        assert ids() == set(june)
        assert findings() == []
        assert find_months()[0].end == identifier_bounds(JUNE)[0]
        assert rows_in(EARLIER) == 0
        assert remove_records(before=JUNE) == 0
        assert not {*april, *may} & ids()

    def test_several_months_and_what_there_was_before_leave_at_once(self, written: dict[datetime, list[UUID]]) -> None:
        assert remove_records(before=JULY) == 12
        assert tables() == ["earlier", "later"]
        assert LogSeal.objects.count() == 3 + 1, "the removals and a digest"
        assert findings() == []
        record = write_change()
        log.complete(record.id, outcome="succeeded")
        with pytest.raises(DatabaseError, match="append-only"):
            execute(f"TRUNCATE {EARLIER}")
        assert ids() == {record.id}

    def test_a_month_with_an_open_record_stays(self, written: dict[datetime, list[UUID]], now_is: In) -> None:
        now_is(MAY + timedelta(days=9))
        record = write_change()
        sealing.seal_records()
        assert remove_records(before=JULY) == 12
        assert tables() == ["earlier", "2021_05", "later"]
        assert ids() == {record.id}
        assert findings() == []
        log.complete(record.id, outcome="failed", code="AD.Directory.NotApplied")
        sealing.seal_records()
        assert remove_records(before=JULY) == 1
        assert tables() == ["earlier", "later"]
        assert find_months()[0].end == identifier_bounds(JULY)[0]
        assert findings() == []

    def test_a_month_with_a_record_that_was_refused_a_seal_stays(self, written: dict[datetime, list[UUID]]) -> None:
        facts = OperationRecord.objects.filter(id=written[MAY][0]).values().get()
        forged = identifier_bounds(MAY + timedelta(days=1))[0]
        OperationRecord(**facts | {"id": forged}).save(force_insert=True)
        sealing.seal_records()
        with pytest.raises(NotRemoved, match="tampered"):
            remove_records(before=JUNE)
        assert "2021_05" in tables()

    def test_a_removal_that_fails_changes_nothing(
        self, written: dict[datetime, list[UUID]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        remove_records(before=MAY)
        before, seals = ids(), LogSeal.objects.count()

        def die(*_: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(months, "drop", die)
        with pytest.raises(KeyboardInterrupt):
            remove_records(before=JUNE)
        assert (ids(), LogSeal.objects.count()) == (before, seals)
        assert findings() == []

    def test_while_somebody_else_reads_all_the_time(
        self, written: dict[datetime, list[UUID]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(months, "_ATTEMPTS", 2)
        remove_records(before=MAY)
        with psycopg.connect(live_database_url()) as backup:
            backup.execute(f"LOCK TABLE {TABLE} IN ACCESS SHARE MODE")
            with pytest.raises(NotRemoved, match="in use"):
                remove_records(before=JUNE)
            assert log.complete(write_change().id, outcome="succeeded")
        assert remove_records(before=JUNE) == 4

    def test_while_others_write_seal_and_verify(
        self, written: dict[datetime, list[UUID]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retention, "_ATTEMPTS", 1000)
        over: list[bool] = []

        def repeat(step: Callable[[], object]) -> int:
            done = 0
            try:
                while not over:
                    step()
                    done += 1
            finally:
                connection.close()
            return done

        false_alarms: list[str] = []
        steps = (write_change, sealing.seal_records, lambda: false_alarms.extend(findings()))
        with ThreadPoolExecutor() as pool:
            others = [pool.submit(repeat, step) for step in steps]
            try:
                assert remove_records(before=JULY) == 12
            finally:
                over.append(True)
            new, *_ = (other.result() for other in others)
        assert len(ids()) == new
        assert not false_alarms + findings()

    def test_a_thief_cannot_hide_behind_a_month(self, written: dict[datetime, list[UUID]]) -> None:
        execute(f"DROP TABLE {TABLE}_2021_05")
        assert sorted(findings()) == sorted(f"record {record_id} was deleted" for record_id in written[MAY])
