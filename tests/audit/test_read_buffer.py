"""Reads on their way to the operations log."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from django.db import connection

from audit import log, read_buffer
from audit.models import OperationRecord
from audit.read_buffer import Facts, reads
from core.background_writer import BackgroundWriter
from tests.audit.calls import CALL

pytestmark = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]


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
