"""Closed months: the seals of removed records leave with them, and whatever else is missing shows all the same."""
# ruff: noqa: S608 - constants are put together here

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError
from django.db import DatabaseError, connection, transaction
from django.test import override_settings
from django.utils import timezone

from audit import log
from audit.chain import checkpoint, marks, retention, sealing
from audit.chain.removals import find_closed
from audit.chain.retention import NotRemoved, remove_records
from audit.chain.seals import CLOSED, REMOVED, SEALS, TABLE
from audit.chain.verification import course_after_last, find_seals_by_key, find_tampering
from audit.chain.walk import Walk
from audit.models import LogSeal, OperationRecord, VerifiedRange
from tests.audit.chain.sealed_log import execute, key_of, unlist, verify
from tests.audit.chain.test_retention import MONTHS, expire, fill, findings, ids, lift_guards, write_change
from tests.audit.conftest import In

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("guards_come_back"),
    pytest.mark.sqlite,
]


def numbers() -> list[int]:
    return list(LogSeal.objects.order_by("number").values_list("number", flat=True))


def go_on() -> list[str]:
    return [str(finding) for finding in find_tampering(None, None, course_after_last())]


def test_it_works(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was removed costs a verification nothing, month after month."""
    written = fill(now_is)
    head, seals = checkpoint.head(), len(numbers())
    assert expire("2021-06") == "8 records from before 2021-06 were removed.\n"
    closed = find_closed()
    assert (closed.seal, closed.removed) == (numbers()[-1], 0)
    assert numbers() == list(range(closed.last + 1, closed.seal + 1))
    assert len(numbers()) == seals * 2 // 3 + 2, "those of two months, the removal and the digest"
    assert f"seals, 0 not sealed yet. The seals up to {closed.last} left with the records that they named." in verify()
    assert not findings()
    assert expire("2021-06").startswith("0 records")
    assert find_closed() == closed
    read: list[int] = []
    original = Walk._check_seal
    monkeypatch.setattr(Walk, "_check_seal", lambda walk, seal: read.append(seal.number) or original(walk, seal))
    assert expire("2021-08").startswith("16 records")
    assert not read, "all was verified"
    assert not ids()
    assert all(bytes(seal.entries)[:1] in (REMOVED, CLOSED) for seal in LogSeal.objects.all())
    assert not findings()
    now_is(timezone.now())
    write_change()
    sealing.seal_records()
    assert not go_on() + findings()
    assert head
    assert checkpoint.is_in_log(head), "a head from before"
    assert written
    with override_settings(LOG_KEYS=["another"]):
        assert "is missing" in findings()[0]
        assert list(find_seals_by_key().values()) == [(numbers()[0], numbers()[-1])]
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        execute(f"DELETE FROM {SEALS}")


def test_in_parts_that_are_killed(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are open, and seals of nothing but removals, are no obstacle."""
    now_is(MONTHS[0])
    still_open = [write_change(), write_change()]
    sealing.seal_records()
    fill(now_is, changes=5)
    monkeypatch.setattr(retention, "RECORDS_AT_ONCE", 3)
    monkeypatch.setattr(retention, "SEALS_AT_ONCE", 2)
    original, calls = retention._close, iter(range(2))

    def close(*args: Any, **options: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return original(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(retention, "_close", close)
        with pytest.raises(KeyboardInterrupt):
            remove_records(before=MONTHS[2])
    assert find_closed().last == 4
    assert not findings() + go_on()
    assert remove_records(before=MONTHS[2]) == 0
    assert not findings() + go_on()
    for record in still_open:
        log.complete(record.id, outcome="succeeded")
        assert not findings()
        sealing.seal_records()
        assert not findings() + go_on()
    assert remove_records(before=MONTHS[3]) == 12
    assert not ids()
    assert not findings() + go_on()
    assert all(bytes(seal.entries)[:1] in (REMOVED, CLOSED) for seal in LogSeal.objects.all())


def test_while_others_write_seal_and_verify(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(now_is, changes=20)
    now_is(timezone.now())
    monkeypatch.setattr(retention, "RECORDS_AT_ONCE", 30)
    monkeypatch.setattr(retention, "SEALS_AT_ONCE", 3)
    monkeypatch.setattr(retention, "_ATTEMPTS", 1000)
    is_over = Event()

    def repeat(step: Callable[[], object]) -> None:
        try:
            while not is_over.wait(0.01):
                step()
        finally:
            connection.close()

    with ThreadPoolExecutor() as pool:
        false_alarms: list[str] = []
        steps = (write_change, sealing.seal_records, lambda: false_alarms.extend(findings() + go_on()))
        others = [pool.submit(repeat, step) for step in steps]
        try:
            assert remove_records(before=MONTHS[3]) == 120
        finally:
            is_over.set()
        assert [other.result() for other in others] == [None] * 3
    assert find_closed().removed == 0
    assert not false_alarms + findings() + go_on()


def test_what_is_not_closed(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(now_is)
    with monkeypatch.context() as patch:
        patch.setattr(marks, "are_wanted", lambda: True)  # the release before could not verify it
        expire("2021-06")
        assert not find_closed().seal
    VerifiedRange.objects.all().delete()
    now_is(MONTHS[0])
    late = write_change()
    with monkeypatch.context() as patch:
        patch.setattr(sealing, "seal_records", lambda: 0)  # whoever else seals
        expire("2021-06")
        assert not find_closed().seal
    sealing.seal_records()
    expire("2021-06")
    assert find_closed().seal
    assert ids() >= {late.id}
    assert not findings()


class TestThieves:
    """Who may do everything in the database, but does not have the key."""

    def test_a_month_without_a_digest(self, now_is: In) -> None:
        written = fill(now_is)
        expire("2021-06")
        verify()
        lift_guards()
        upto = LogSeal.objects.filter(number__lt=find_closed().seal - 1).order_by("number")[3].number
        for victim in written[MONTHS[1]]:
            execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(victim))
        execute(f"DELETE FROM {SEALS} WHERE number <= %s", upto)
        assert f"seal {find_closed().last + 1} is missing" in findings()

    def test_a_digest_that_is_replaced_or_taken_away(self, now_is: In) -> None:
        fill(now_is)
        expire("2021-06")
        old, first = LogSeal.objects.latest("number"), find_closed().last + 1
        expire("2021-07")
        new = LogSeal.objects.latest("number")
        lift_guards()
        execute(f"UPDATE {SEALS} SET entries = %s WHERE number = %s", bytes(old.entries), new.number)
        found = findings()
        assert f"seal {first} is missing" in found
        assert f"seal {new.number} was changed" in found
        execute(f"DELETE FROM {SEALS} WHERE number = %s", new.number)
        assert f"seal {first} is missing" in findings()

    def test_a_digest_of_the_thiefs_own(self, now_is: In) -> None:
        """Closing a month twice: the same digest again, or one that says more."""
        written = fill(now_is)
        expire("2021-06")
        again, before = LogSeal.objects.latest("number"), find_closed()
        further = bytearray(again.entries)
        further[16] += 1  # one seal more is closed
        further[49 + 16] += 1
        lift_guards()
        for entries in (bytes(again.entries), bytes(further)):
            again.number, again.entries = again.number + 1, entries
            again.save(force_insert=True)
        assert find_closed() == before
        assert findings() == [f"seal {number} was changed" for number in (again.number - 1, again.number)]
        execute(f"DELETE FROM {SEALS} WHERE number > %s", before.seal)
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(written[MONTHS[1]][0]))
        assert findings() == [f"record {written[MONTHS[1]][0]} was deleted"]

    def test_an_old_archive_that_is_put_back(self, now_is: In) -> None:
        """With its seals or without them, in the list or sealed by a worker, at once or only in the night."""
        written = fill(now_is)
        seal = LogSeal.objects.get(number=1)
        kept = OperationRecord.objects.get(id=written[MONTHS[0]][0])
        expire("2021-06")
        verify()
        kept.save(force_insert=True)
        assert findings() == go_on() == [f"record {kept.id} was put back after it had been removed"]
        sealing.seal_records()
        assert findings() == go_on() == [f"record {kept.id} was put back after it had been removed"]
        with pytest.raises(CommandError, match="put back"):
            expire("2021-07")
        lift_guards()
        execute(f"DELETE FROM {SEALS} WHERE number > %s", find_closed().seal)
        unlist(kept.id)
        assert findings()[-1] == f"record {kept.id} is in no seal"
        seal.save(force_insert=True)
        assert findings()[0] == "seal 1 was put back after it had been removed"

    def test_between_look_and_removal(self, now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
        written = fill(now_is)

        def close() -> None:
            lift_guards()
            LogSeal.objects.filter(number=1).update(records=7)
            original()

        original: Any = vars(retention)["_close_seals"]
        monkeypatch.setattr(retention, "_close_seals", close)
        with pytest.raises(NotRemoved, match="seal 1 was changed"):
            remove_records(before=MONTHS[1])
        assert find_closed().seal == 0
        assert UUID(int=written[MONTHS[1]][0].int) in ids()
