"""Counts by day are what the rows say, whoever seals and whoever is killed."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import StringIO
from threading import Barrier, Event
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from audit import daily_counts, log
from audit.chain import counting, retention, sealing
from audit.migrations._append_only import release_records
from audit.models import CountedSeals, DailyCount, LogSeal, OperationRecord, UnsealedRecord
from audit.read_buffer import reads
from core.call import Call
from core.errors import Forbidden
from tests.audit.calls import CALL, make_call
from tests.audit.chain.sealed_log import execute
from tests.audit.conftest import In

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.sqlite]

KEYS = ("crm", "hr")


def by_key(name: str | None) -> Call:
    kind = CALL.credential.__class__
    return make_call(credential=kind(kind=CALL.credential.kind, id=f"id of {name or uuid4()}", name=name))


def write(number: int = 1) -> None:
    """Records of every sort: reads, changes, refused ones, and those that stay open, by keys and by people."""
    for name in (*KEYS, None):
        for _ in range(number):
            log.record_read(by_key(name), operation="users.search")
            log.record_read(by_key(name), operation="users.read", outcome="failed", code="AD.Object.NotFound")
            log.record_refusal(by_key(name), operation="users.delete", code=Forbidden.code)
            changed = log.record_intent(by_key(name), log.Intent(operation="users.update"))
            log.complete(changed.id, outcome="succeeded")
            log.record_queued(by_key(name), change_request_id=uuid4(), operation="users.delete")
            log.record_intent(by_key(name), log.Intent(operation="users.move"))
    assert reads.flush()


def as_shown(days: int = 2) -> list[Any]:
    used = [daily_counts.use_by_day(f"id of {name}", days) for name in KEYS]
    return [daily_counts.changes_by_day(days), daily_counts.use_by_key(days), *used]


def as_rows_say(days: int = 2) -> list[Any]:
    rows = OperationRecord.objects.all()
    used = [daily_counts.count_by_day(rows.filter(credential_id=f"id of {name}"), days) for name in KEYS]
    return [daily_counts.count_changes(rows, days), daily_counts.count_usage(rows, days), *used]


@pytest.fixture
def _rows_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown comes from the counts alone."""
    monkeypatch.setattr(daily_counts, "_MOST_UNCOUNTED", 10_000)


def require_counts() -> None:
    """All that is sealed is counted, and counts and rows say the same."""
    assert CountedSeals.objects.get().number == LogSeal.objects.order_by("-number")[0].number
    assert as_shown() == as_rows_say()


@pytest.mark.usefixtures("_rows_are_not_counted")
def test_it_works() -> None:
    assert as_shown() == as_rows_say(), "without any"
    write()
    assert as_shown() == as_rows_say(), "not sealed"
    waiting = log.record_intent(by_key("crm"), log.Intent(operation="users.update"))
    sealing.seal_records()
    require_counts()
    before = sum(DailyCount.objects.values_list("records", flat=True))
    assert before == OperationRecord.objects.exclude(outcome="pending").count()
    log.complete(waiting.id, outcome="failed", code=Forbidden.code)
    assert as_shown() == as_rows_say(), "complete, and sealed open"
    write()
    sealing.seal_records()
    require_counts()
    assert daily_counts.use_by_key(1)[0]["operations"] == 13
    assert len(DailyCount.objects.filter(key_name="")) == 5, "people are counted together"
    assert as_shown(90) == as_rows_say(90)


@pytest.mark.usefixtures("_rows_are_not_counted")
def test_a_record_that_is_no_longer_counted_shows() -> None:
    write()
    sealing.seal_records()
    DailyCount.objects.filter(key_name="crm", is_read=False, outcome="succeeded").update(records=9)
    assert as_shown() != as_rows_say()
    out = StringIO()
    call_command("recount_operations_log", stdout=out)
    require_counts()
    assert "15 complete records" in out.getvalue()


def test_what_others_sealed_is_counted_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    sealing.seal_records()
    with monkeypatch.context() as release_before:
        release_before.setattr(counting, "count_sealed", lambda *_: None)
        release_before.setattr(counting, "catch_up", lambda: False)
        for _ in range(3):
            write()
            sealing.seal_records()
            assert as_shown() == as_rows_say(), "a few seals are read"
        monkeypatch.setattr(daily_counts, "_MOST_UNCOUNTED", 2)
        rows, count = OperationRecord.objects, daily_counts.count_by_day
        asked: list[int] = []
        monkeypatch.setattr(daily_counts, "count_by_day", lambda *given: (asked.append(1), count(*given))[1])
        assert as_shown() == as_rows_say(), "of more, the rows are counted"
        assert asked
    assert CountedSeals.objects.get().number == LogSeal.objects.count() - 3
    monkeypatch.setattr(counting, "SEALS_AT_ONCE", 2)
    assert counting.catch_up(seconds=-1), "it was interrupted"
    write()
    sealing.seal_records()
    require_counts()
    assert rows.count() == 5 * 18


def test_a_log_without_counts_is_counted_from_the_longest_window_on(now_is: In) -> None:
    now_is(datetime.now(UTC) - timedelta(days=200))
    write()
    with pytest.MonkeyPatch.context() as long_ago:
        long_ago.setattr(timezone, "now", lambda: datetime.now(UTC) - timedelta(days=200))
        long_ago.setattr(counting, "catch_up", lambda: False)
        for _ in range(5):
            sealing.seal_records()
            now_is(datetime.now(UTC) - timedelta(days=199))
            write()
    now_is(datetime.now(UTC) - timedelta(seconds=20))
    write()
    sealing.seal_records()
    first = DailyCount.objects.order_by("day")[0].day
    assert first >= (datetime.now(UTC) - timedelta(days=199, seconds=30)).date(), "sealed today, and so counted"
    assert as_shown(90) == as_rows_say(90)


@pytest.mark.parametrize("is_behind", [False, True])
def test_several_sealers_and_readers_at_once(is_behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "RECORDS_OF_A_SEAL", 3)
    if is_behind:
        monkeypatch.setattr(counting, "count_sealed", lambda *_: None)
    write()
    sealing.seal_records()
    done = Event()
    begin = Barrier(4)

    def seal() -> int:
        begin.wait()
        try:
            return sum(sealing.seal_records() for _ in range(25))
        finally:
            connection.close()

    def look() -> list[int]:
        """The operations by crm, again and again: they only become more."""
        begin.wait()
        seen = []
        try:
            while not done.is_set():
                days = daily_counts.use_by_day("id of crm", 2)
                seen.append(sum(count for day in days for count in day.values() if isinstance(count, int)))
        finally:
            connection.close()
        return seen

    with ThreadPoolExecutor(4) as threads:
        sealed = [threads.submit(seal) for _ in range(2)]
        looking = threads.submit(look)
        begin.wait()
        for _ in range(10):
            write()
        assert sum(each.result() for each in sealed) > 3
        done.set()
        seen = looking.result()
    assert seen == sorted(seen)
    sealing.seal_records()
    require_counts()
    assert seen[-1] == 11 * 6


@pytest.mark.parametrize("at", ["_advance", "_add"])
def test_a_sealer_killed_while_it_counts_leaves_nothing(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    sealing.seal_records()
    write()
    seals = LogSeal.objects.count()
    connection.close()
    if not (child := os.fork()):
        do = getattr(counting, at)
        monkeypatch.setattr(counting, at, lambda *given: (do(*given), os.kill(os.getpid(), signal.SIGKILL)))
        try:
            sealing.seal_records()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert LogSeal.objects.count() == seals
    assert as_shown() == as_rows_say()
    sealing.seal_records()
    require_counts()


@pytest.mark.usefixtures("_rows_are_not_counted")
def test_removed_records_are_counted_no_longer(now_is: In, monkeypatch: pytest.MonkeyPatch) -> None:
    today = datetime.now(UTC)
    month = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    now_is(month - timedelta(days=2))
    write()
    late = log.record_intent(by_key("crm"), log.Intent(operation="users.update"))
    sealing.seal_records()
    now_is(month)
    write()
    sealing.seal_records()
    retention.remove_records(before=month)
    for _ in range(2):
        assert as_shown(90) == as_rows_say(90)
        sealing.seal_records()
    assert DailyCount.objects.order_by("day")[0].day == month.date()
    log.complete(late.id, outcome="succeeded")
    assert as_shown(90) == as_rows_say(90), "it was open, and so it was kept"
    sealing.seal_records()
    assert as_shown(90) == as_rows_say(90)
    before = list(DailyCount.objects.order_by("pk").values_list())
    counting.recount()
    assert list(DailyCount.objects.order_by("pk").values_list()) == before


@pytest.mark.usefixtures("_rows_are_not_counted")
def test_records_that_are_refused_a_seal_are_counted_from_the_list() -> None:
    write()
    made = log.record_refusal(by_key("crm"), operation="users.delete", code="x")
    facts = {field.attname: getattr(made, field.attname) for field in made._meta.concrete_fields}
    OperationRecord(**facts | {"id": uuid4(), "mac": "0" * 64}).save(force_insert=True)
    sealing.seal_records()
    assert UnsealedRecord.objects.get().sealed_as == "refused"
    require_counts()


@pytest.mark.usefixtures("_rows_are_not_counted")
def test_a_malformed_seal_or_row_keeps_nobody_from_counting(guards_come_back: None) -> None:
    write()
    with pytest.MonkeyPatch.context() as others:
        others.setattr(counting, "count_sealed", lambda *_: None)
        others.setattr(counting, "catch_up", lambda: False)
        for _ in range(2):
            sealing.seal_records()
            write()
    release_records(apps, connection.schema_editor())
    execute("UPDATE audit_logseal SET entries = %s WHERE number = 1", b"abc")
    counting.recount()
    assert CountedSeals.objects.get().number == LogSeal.objects.order_by("-number")[0].number


def test_nothing_reads_the_log_for_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small or large the databases think their tables."""
    write()
    sealing.seal_records()
    write()
    since = daily_counts.first_day(90)
    explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
    asked: list[str] = []
    for by, key in (("day", None), ("key_name", None), ("day", "id of crm")):
        statement, parameters = daily_counts._statement(since, by=by, only_changes=by == "day", credential_id=key)
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":  # which would read so few rows as a whole
                cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"{explain} {statement}", parameters)
            asked.append("\n".join(str(row) for row in cursor.fetchall()))
    for plan in asked:
        assert re.search(r"audit_operationrecord\w*_pkey|sqlite_autoindex_audit_operationrecord_1", plan), plan
        assert "audit_to_settle" in plan or "audit_by_outcome" in plan, plan
        assert "Seq Scan on audit_operationrecord" not in plan
        assert "SCAN audit_operationrecord" not in plan
