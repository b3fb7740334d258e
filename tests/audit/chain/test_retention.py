"""Removing old records: what goes, what stays, and that only what else is missing shows afterwards."""
# ruff: noqa: S608 - constants are put together here

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import count
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from audit import log
from audit.chain import retention, sealing
from audit.chain.retention import NotRemoved, remove_records
from audit.chain.seals import SEALS, TABLE, deletions_allowed
from audit.chain.verification import find_tampering, keep_verification
from audit.chain.walk import Finding, Progress, Walk
from audit.migrations._append_only import release_records
from audit.models import LogSeal, OperationRecord
from tests.audit.calls import CALL
from tests.audit.conftest import In

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("seals_stay"), pytest.mark.sqlite]

MONTHS = [datetime(2021, month, 1, tzinfo=UTC) for month in (5, 6, 7, 8)]
"""May to July have records; August is the first month that has none."""


def write_change() -> OperationRecord:
    return log.record_intent(CALL, log.Intent(operation="users.update", evidence={"n": 1}))


def fill(now_is: In, changes: int = 4) -> dict[datetime, list[UUID]]:
    """Changes and refusals of three months, some of them sealed first while they were open."""
    written: dict[datetime, list[UUID]] = {}
    for month in MONTHS[:3]:
        now_is(month + timedelta(days=3))
        for number in range(changes):
            record = write_change()
            if number % 2:
                sealing.seal_records()
            log.complete(record.id, outcome="succeeded")
            refusal = log.record_refusal(CALL, operation="users.delete", code="Auth.Forbidden")
            written.setdefault(month, []).extend([record.id, refusal.id])
        sealing.seal_records()
    return written


def ids() -> set[UUID]:
    return set(OperationRecord.objects.values_list("id", flat=True))


def expire(before: str) -> str:
    out = StringIO()
    call_command("expire_operations_log", f"--before={before}", stdout=out)
    return out.getvalue()


def execute(sql: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


def key_of(record_id: UUID) -> str:
    return record_id.hex if connection.vendor == "sqlite" else str(record_id)


def lift_guards() -> None:
    with connection.schema_editor() as editor:
        release_records(apps, editor)


def findings() -> list[str]:
    """What is wrong; one that was sealed while it was open, too, is named by both seals."""
    return list(dict.fromkeys(str(finding) for finding in find_tampering()))


def verify() -> str:
    out = StringIO()
    call_command("verify_operations_log", stdout=out)
    return out.getvalue()


def test_it_works(now_is: In) -> None:
    written = fill(now_is)
    assert expire("2021-06") == "8 records from before 2021-06 were removed.\n"
    assert ids() == {*written[MONTHS[1]], *written[MONTHS[2]]}
    assert ", 8 removed after their time." in verify()
    assert expire("2021-06") == "0 records from before 2021-06 were removed.\n"
    assert expire("2021-08") == "16 records from before 2021-08 were removed.\n"
    assert not ids()
    assert ": 0 records in " in verify()
    now_is(timezone.now())
    write_change()
    sealing.seal_records()
    assert not findings()


def test_what_was_verified_is_not_read_again(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    """But what is new is, and a finding of the last verification stands."""
    written = fill(now_is)
    verify()
    read: list[int] = []
    original = Walk._check_seal

    def check(self: Walk, seal: LogSeal) -> Any:
        read.append(seal.number)
        return original(self, seal)

    monkeypatch.setattr(Walk, "_check_seal", check)
    assert remove_records(before=MONTHS[1]) == 8
    assert not read
    assert remove_records(before=MONTHS[2]) == 8
    assert len(read) == 1, "the first removal's seal"
    assert ", 16 removed after their time." in verify()
    assert not findings()
    keep_verification(Progress(), Finding(written[MONTHS[2]][0], "was changed"))
    read.clear()
    assert remove_records(before=MONTHS[3]) == 8
    assert len(read) == LogSeal.objects.count() - 1


def test_the_guards_are_back(now_is: In) -> None:
    fill(now_is)
    expire("2021-06")
    for sql in (f"DELETE FROM {TABLE}", f"UPDATE {TABLE} SET owner = 'x'", f"DELETE FROM {SEALS}"):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            execute(sql)


def test_a_removal_that_fails_changes_nothing(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(now_is)
    before, seals = ids(), LogSeal.objects.count()

    def die(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(retention, "Removal", die)  # the last thing that is made in the transaction
    with pytest.raises(KeyboardInterrupt):
        remove_records(before=MONTHS[1])
    assert (ids(), LogSeal.objects.count()) == (before, seals)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        execute(f"DELETE FROM {TABLE}")
    assert not findings()


def test_in_parts(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    written = fill(now_is, changes=5)
    seals = LogSeal.objects.count()
    monkeypatch.setattr(retention, "RECORDS_AT_ONCE", 3)
    original, calls = retention._remove_some, count()

    def broken_off(*args: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(retention, "_remove_some", broken_off)
    with pytest.raises(KeyboardInterrupt):
        remove_records(before=MONTHS[2])
    assert len(ids()) == 30 - 6
    assert not findings()
    assert remove_records(before=MONTHS[2]) == 14
    assert ids() == set(written[MONTHS[2]])
    assert LogSeal.objects.count() == seals + 2 + 5
    assert not findings()


def test_what_is_open_stays_until_it_is_closed(now_is: In) -> None:
    now_is(MONTHS[0])
    record = write_change()
    sealing.seal_records()
    fill(now_is)
    expire("2021-07")
    assert record.id in ids()
    assert not findings()
    log.complete(record.id, outcome="failed", code="AD.Directory.NotApplied")
    assert not findings()
    assert expire("2021-07") == "1 records from before 2021-07 were removed.\n"
    assert record.id not in ids()
    assert not findings()


def test_many_that_were_left_over(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moments of removals grow, whatever the parts are."""
    now_is(MONTHS[0])
    records = [write_change() for _ in range(7)]
    fill(now_is)
    expire("2021-07")
    for record in records:
        log.complete(record.id, outcome="succeeded")
    monkeypatch.setattr(retention, "RECORDS_AT_ONCE", 3)
    assert remove_records(before=MONTHS[3]) == 7 + 8
    assert not ids()
    assert not findings()


def test_while_others_write_seal_and_verify(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(now_is, changes=20)
    now_is(timezone.now())
    monkeypatch.setattr(retention, "RECORDS_AT_ONCE", 5)
    monkeypatch.setattr(retention, "_ATTEMPTS", 1000)  # the log is sealed a hundred times as often as it ever is
    is_over = Event()

    def repeat(step: Callable[[], object]) -> int:
        done = 0
        try:
            while not is_over.wait(0.01):
                step()
                done += 1
        finally:
            connection.close()
        return done

    with ThreadPoolExecutor() as pool:
        false_alarms: list[str] = []
        steps = (write_change, sealing.seal_records, lambda: false_alarms.extend(findings()))
        others = [pool.submit(repeat, step) for step in steps]
        try:
            assert remove_records(before=MONTHS[3]) == 120
        finally:
            is_over.set()
        written, *_ = (other.result() for other in others)
    assert len(ids()) == written
    assert not false_alarms + findings()


@pytest.mark.parametrize("month", ["2021-6-01", "June", "2021-13", ""])
def test_what_is_no_month(month: str) -> None:
    with pytest.raises(CommandError, match="is no month"):
        call_command("expire_operations_log", f"--before={month}")


@pytest.mark.usefixtures("within_a_day")
def test_the_present_month_is_kept(now_is: In) -> None:
    now = timezone.now()
    now_is(now)
    record = write_change()
    log.complete(record.id, outcome="succeeded")
    assert expire(f"{now:%Y-%m}").startswith("0 records")
    following = (now.replace(day=1) + timedelta(days=32)).strftime("%Y-%m")
    with pytest.raises(CommandError, match="whole months that are over"):
        expire(following)
    with pytest.raises(NotRemoved):
        remove_records(before=datetime(2021, 6, 2, tzinfo=UTC))
    assert record.id in ids()


def test_months_that_were_removed_already(now_is: In) -> None:
    fill(now_is)
    expire("2021-07")
    with pytest.raises(CommandError, match="removed already"):
        expire("2021-06")


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has one writer at a time")
def test_nobody_waits_for_a_removal_and_it_for_nobody(now_is: In) -> None:
    """A lock that a vacuum or a writer does not share would make everybody queue behind it."""
    fill(now_is)
    held = "SELECT DISTINCT mode FROM pg_locks WHERE relation = %s::regclass AND pid = pg_backend_pid()"
    with transaction.atomic(), connection.cursor() as cursor:
        with deletions_allowed():
            cursor.execute(f"DELETE FROM {TABLE}")
            assert cursor.rowcount == 24
            cursor.execute(held, [TABLE])
            assert {mode for (mode,) in cursor.fetchall()} <= {"AccessShareLock", "RowShareLock", "RowExclusiveLock"}
        transaction.set_rollback(True)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        execute(f"DELETE FROM {TABLE}")


class TestThieves:
    """Who may do everything in the database, but does not have the key."""

    pytestmark = pytest.mark.usefixtures("guards_come_back")

    def test_before_the_removal(self, now_is: In) -> None:
        written = fill(now_is)
        lift_guards()
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(written[MONTHS[0]][0]))
        with pytest.raises(CommandError, match=f"tampered with: record {written[MONTHS[0]][0]} was deleted"):
            expire("2021-06")
        assert len(ids()) == 23

    def test_between_look_and_removal(self, now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
        written = fill(now_is)
        original: Any = vars(retention)["find_removals"]

        def look(**options: Any) -> Any:
            monkeypatch.setattr(retention, "find_removals", original)
            with transaction.atomic(), deletions_allowed():
                execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(written[MONTHS[0]][0]))
            return original(**options)

        monkeypatch.setattr(retention, "find_removals", look)
        assert remove_records(before=MONTHS[1]) == 7
        (finding,) = findings()
        assert "7 records removed, but 8 are missing" in finding

    def test_after_the_removal(self, now_is: In) -> None:
        written = fill(now_is)
        expire("2021-06")
        lift_guards()
        victim = written[MONTHS[1]][2]
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(victim))
        assert findings() == [f"record {victim} was deleted"]

    def test_an_old_one_that_was_open(self, now_is: In) -> None:
        now_is(MONTHS[0])
        record = write_change()
        fill(now_is)
        expire("2021-07")
        lift_guards()
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(record.id))
        assert findings() == [f"record {record.id} was deleted"]

    def test_one_that_was_closed_later(self, now_is: In) -> None:
        now_is(MONTHS[0])
        record = write_change()
        fill(now_is)
        expire("2021-07")
        log.complete(record.id, outcome="succeeded")
        sealing.seal_records()
        lift_guards()
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(record.id))
        assert f"record {record.id} was deleted" in findings()

    def test_one_that_is_put_back(self, now_is: In) -> None:
        written = fill(now_is)
        kept = OperationRecord.objects.get(id=written[MONTHS[0]][0])
        expire("2021-06")
        kept.save(force_insert=True)
        assert findings()[0] == f"record {kept.id} was put back after it had been removed"

    def test_a_removal_of_the_thiefs_own(self, now_is: In) -> None:
        written = fill(now_is)
        expire("2021-06")
        proof = LogSeal.objects.latest("number")
        proof.number += 1
        lift_guards()
        proof.save(force_insert=True)
        victims = written[MONTHS[1]]
        for victim in victims:
            execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(victim))
        found = findings()
        assert {f"record {victim} was deleted" for victim in victims} == set(found[: len(victims)])
        assert f"seal {proof.number} was changed" in found

    def test_a_removal_made_greater(self, now_is: In) -> None:
        written = fill(now_is)
        expire("2021-06")
        proof = LogSeal.objects.latest("number")
        entries = bytes(proof.entries)
        lift_guards()
        execute(f"DELETE FROM {TABLE}")
        later = written[MONTHS[2]][-1].bytes
        forged = entries[:1] + later + entries[17:]
        LogSeal.objects.filter(number=proof.number).update(entries=forged)
        assert len(findings()) >= 24

    def test_a_removal_that_is_taken_away(self, now_is: In) -> None:
        fill(now_is)
        expire("2021-06")
        lift_guards()
        execute(f"DELETE FROM {SEALS} WHERE number = %s", LogSeal.objects.latest("number").number)
        assert len(findings()) >= 8


def test_the_guard_is_lifted_in_a_transaction_only() -> None:
    with pytest.raises(transaction.TransactionManagementError), deletions_allowed():
        pass
