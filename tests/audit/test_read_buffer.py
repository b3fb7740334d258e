"""Reads on their way to the operations log."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from audit import log, read_buffer
from audit.chain import checkpoint, marks, sealing
from audit.chain.seals import codes_of_read, entry_of, find_entries, is_authentic, seal_after
from audit.chain.verification import find_tampering
from audit.identifiers import new_identifier
from audit.migrations._append_only import release_records
from audit.models import CountedSeals, DailyCount, LogSeal, OperationRecord, UnsealedRecord
from audit.read_buffer import SEALED_FROM, Facts, reads
from core.background_writer import BackgroundWriter
from core.errors import Forbidden
from tests.audit.calls import CALL

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("guards_come_back"),
]


@pytest.fixture
def buffer(monkeypatch: pytest.MonkeyPatch) -> Iterator[BackgroundWriter[Facts]]:
    """A buffer of the test's own, whose thread is idle and disconnected when the test's database is emptied."""

    def write_and_disconnect(batch: list[Facts]) -> bool:
        is_written = read_buffer._write(batch)
        if threading.current_thread() is own._thread:
            connection.close()
        return is_written

    own = BackgroundWriter("reads-of-test", write_and_disconnect, delay=0.5)
    for module in (log, read_buffer):
        monkeypatch.setattr(module, "reads", own)
    yield own
    own.flush()


def wait_until_recorded(count: int) -> None:
    deadline = time.monotonic() + 120
    while OperationRecord.objects.count() < count:
        assert time.monotonic() < deadline, f"{OperationRecord.objects.count()} of {count} recorded"
        time.sleep(0.02)


def test_a_read_is_recorded_within_a_second(buffer: BackgroundWriter[Facts]) -> None:
    begun = time.monotonic()
    log.record_read(CALL, operation="users.read")
    assert reads.delay < 1
    wait_until_recorded(1)
    assert time.monotonic() - begun > 0.1, "it was not written at once"
    record = OperationRecord.objects.get()
    assert (record.operation, record.outcome, record.changes) == ("users.read", "succeeded", [])
    assert record.completed_at == record.at
    log.record_read(CALL, operation="users.search", outcome="failed", code="AD.Filter.Malformed")
    wait_until_recorded(2)


def test_a_full_batch_does_not_wait(buffer: BackgroundWriter[Facts]) -> None:
    buffer.delay = 600
    for _ in range(buffer.batch):
        log.record_read(CALL, operation="users.read")
    wait_until_recorded(buffer.batch)


def test_reads_wait_for_a_database_that_is_away(buffer: BackgroundWriter[Facts]) -> None:
    buffer.capacity, buffer.delay = 3, 600
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE audit_operationrecord RENAME TO audit_away", None)
    begun = time.monotonic()
    for _ in range(5):
        log.record_read(CALL, operation="users.read")
    assert time.monotonic() - begun < 60, "no read waits for the log"
    assert not buffer.flush()
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE audit_away RENAME TO audit_operationrecord", None)
    assert buffer.refused == 2
    assert buffer.flush()
    assert buffer.refused == 0, "it is told once"
    assert OperationRecord.objects.count() == 3
    log.record_read(CALL, operation="users.read")
    assert buffer.flush()
    assert OperationRecord.objects.count() == 4


def test_one_bad_record_does_not_hold_up_the_others(buffer: BackgroundWriter[Facts]) -> None:
    buffer.delay = 600
    log.record_read(CALL, operation="users.read")
    log.record_read(CALL, operation=None)
    log.record_read(CALL, operation="users.read")
    assert buffer.flush()
    assert OperationRecord.objects.count() == 2


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"directory": None},
        {"request_id": '%s "quoted" 100 %(at)s', "client_address": None},
        {"reason": "100 % sure: \u202e \x1f \\ %(id)s"},
        {"person": replace(CALL.person, username="%d ⟨ß⟩")},
    ],
)
@pytest.mark.parametrize("dn", ["", 'CN=50 %\\, "x" %(mac)s,DC=corp', "CN=Ж\x00,DC=corp"])
def test_codes_of_reads_are_those_of_all_records(changed: dict[str, Any], dn: str) -> None:
    target = log.TargetRef(id=uuid4() if dn else None, kind="user", distinguished_name=dn)
    for outcome, reads_ in (("succeeded", None), ("failed", None), ("succeeded", 7)):
        facts = log._facts(
            replace(CALL, **changed), operation="users.read", target=target, outcome=outcome, code=None, reads=reads_
        )
        mac, entry = codes_of_read(facts)
        record = OperationRecord(**facts, mac=mac)
        assert is_authentic(record)
        assert entry == entry_of(record)


def test_reads_of_a_key_that_are_alike_are_one_record(buffer: BackgroundWriter[Facts]) -> None:
    """With their number, sealed and verified as others; whatever differs or fails is a record of its own."""
    key = replace(CALL, credential=replace(CALL.credential, aggregates_reads=True))
    ada, grace = (log.TargetRef(id=uuid4(), kind="user", distinguished_name=f"CN={each}") for each in ("Ada", "Grace"))
    for call in (key, key, replace(key, request_id="another"), replace(key, client_address="192.0.2.99"), CALL):
        log.record_read(call, operation="users.read", target=ada)
    log.record_read(key, operation="users.read", target=grace)
    log.record_read(key, operation="users.search")
    for _ in range(2):
        log.record_read(key, operation="users.read", target=ada, outcome="failed", code="Auth.Forbidden")
    assert buffer.flush()
    assert OperationRecord.objects.count() == 3, "those that are no such reads"
    assert read_buffer.reads_together.delay == 60
    assert read_buffer.reads_together.flush()
    assert buffer.flush()
    assert OperationRecord.objects.count() == 3 + 4
    (together,) = OperationRecord.objects.filter(reads__isnull=False)
    assert (together.reads, together.target_id, together.request_id) == (3, ada.id, CALL.request_id)
    assert together.at < together.completed_at
    sealing.seal_records()
    assert not list(find_tampering())
    release_records(apps, connection.schema_editor())
    OperationRecord.objects.filter(id=together.id).update(reads=2)
    assert [str(finding) for finding in find_tampering()] == [f"record {together.id} was changed"]


def write_many(buffer: BackgroundWriter[Facts], count: int) -> None:
    for number in range(count):
        outcome = {"outcome": "failed", "code": Forbidden.code} if number % 3 == 0 else {}
        target = log.TargetRef(id=uuid4(), kind="user", distinguished_name=f"CN=Ädä\\, 🜂 {number},DC=x")
        log.record_read(CALL, operation="users.read", target=target, **outcome)
    assert buffer.flush()


def counted() -> list[tuple[str, bool, int]]:
    rows = DailyCount.objects.order_by("outcome").values_list("outcome", "is_read", "records")
    assert CountedSeals.objects.get().number == LogSeal.objects.count()
    return list(rows)


def test_many_reads_are_sealed_as_they_are_written(buffer: BackgroundWriter[Facts]) -> None:
    buffer.delay = 600
    write_many(buffer, 3)
    assert UnsealedRecord.objects.count() == 3, "a few are sealed with others"
    assert sealing.seal_records() == 3
    write_many(buffer, SEALED_FROM)
    assert not UnsealedRecord.objects.exists()
    assert [seal.records for seal in LogSeal.objects.order_by("number")] == [3, 3 + SEALED_FROM]
    assert not list(find_tampering())
    assert counted() == [("failed", True, 8), ("succeeded", True, 15)]
    last = OperationRecord.objects.order_by("-id")[0]
    assert [number for number, _ in find_entries(last.id)] == [2]
    assert (found := checkpoint.find_checkpoint()) is not None
    assert found["seal"] == 1
    assert sealing.seal_records() == 0
    assert (found := checkpoint.find_checkpoint()) is not None
    assert found["seal"] == 2, "the worker notes what others sealed, too"
    LogSeal.objects.create(number=3, sealed_at=timezone.now(), records=23, entries=b"", mac="x", key="")
    assert list(find_tampering())


def test_a_read_that_is_changed_after_it_was_sealed_shows(buffer: BackgroundWriter[Facts]) -> None:
    buffer.delay = 600
    write_many(buffer, SEALED_FROM)
    with connection.schema_editor() as editor:
        release_records(apps, editor)
    OperationRecord.objects.filter(id=OperationRecord.objects.all()[4].id).update(outcome="unknown")
    assert len(list(find_tampering())) == 1


@pytest.mark.parametrize("why", ["another process seals", "the release before may come back"])
def test_reads_are_left_to_the_worker(
    why: str, buffer: BackgroundWriter[Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer.delay = 600
    write_many(buffer, SEALED_FROM)
    with monkeypatch.context() as patch:
        if why == "another process seals":  # it read the same last seal, and was faster
            patch.setattr(sealing, "seal_after", lambda _, entries, at: seal_after(None, entries, at=at))
        else:
            patch.setattr(marks, "are_wanted", lambda: True)
        write_many(buffer, SEALED_FROM)
    assert UnsealedRecord.objects.count() == SEALED_FROM
    assert OperationRecord.objects.count() == 2 * SEALED_FROM
    assert sealing.seal_records() == SEALED_FROM
    assert not list(find_tampering())
    assert counted() == [("failed", True, 14), ("succeeded", True, 26)]


def test_several_that_seal_as_they_write(buffer: BackgroundWriter[Facts]) -> None:
    def write(_: int) -> None:
        try:
            for _ in range(5):
                made = BackgroundWriter("reads-of-one", read_buffer._write, delay=600)
                log.record_read(CALL, operation="users.search")
                for _ in range(SEALED_FROM):
                    made.add(dict(read_buffer.reads._waiting[0], id=new_identifier()[0]))
                assert made.flush()
                sealing.seal_records()
        finally:
            connection.close()

    buffer.delay = 600
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    sealing.seal_records()
    assert OperationRecord.objects.count() == 15 * SEALED_FROM
    assert not UnsealedRecord.objects.exists()
    assert not list(find_tampering())
    assert counted() == [("succeeded", True, 15 * SEALED_FROM)]
    with buffer._lock:
        buffer._waiting.clear()


PROGRAM = """
import os, sys, django
django.setup()
from django.db import connection
connection.settings_dict["NAME"] = sys.argv[1]
from audit import log
from tests.audit.calls import CALL
log.record_read(CALL, operation="parent.read")
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        log.record_read(CALL, operation="child.read")
        log.reads.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("how", ["exit", "fork"])
def test_what_is_waiting_is_written_once_at_the_end(how: str) -> None:
    """Also after a fork: the child has a buffer of its own and leaves the parent's alone."""
    command = [sys.executable, "-c", PROGRAM, str(connection.settings_dict["NAME"]), how]
    subprocess.run(command, check=True, env={**os.environ, "DJANGO_SETTINGS_MODULE": "gateway.settings"}, timeout=300)
    expected = ["parent.read"] if how == "exit" else ["child.read", "parent.read"]
    assert sorted(OperationRecord.objects.values_list("operation", flat=True)) == expected
