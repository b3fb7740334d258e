"""Hosts whose clocks differ by minutes: what they decide together goes by the database's."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.db import connection
from django.utils import timezone

from audit.identifiers import new_identifier
from audit.models import OperationRecord
from core.database import shared_clock
from gateway import tasks
from tests.support.cast import Integration
from tests.support.environment import DATABASE
from tests.support.mishaps import killed_at_the_write

pytestmark = pytest.mark.skipif(DATABASE == "sqlite", reason="SQLite has no clock of its own, and one host")
OFF = 3600
"""Seconds: more than any test takes."""


@contextmanager
def clock_that_is_off(seconds: int) -> Iterator[None]:
    """On a host whose clock is so far ahead, or behind, and that has just connected to the database."""
    now, time_ns = timezone.now, time.time_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timezone, "now", lambda: now() + timedelta(seconds=seconds))
        patch.setattr("audit.identifiers.time", SimpleNamespace(time_ns=lambda: time_ns() + seconds * 10**9))
        patch.setattr("audit.identifiers._last_tick", 0)
        patch.setattr(shared_clock, "_offset", shared_clock._Offset())
        new_identifier()  # before it knows better
        shared_clock._measure(connection)
        yield


@pytest.mark.parametrize("off", [OFF, -OFF])
def test_a_settler_waits_for_a_writer_of_another_host(integration: Integration, ada: UUID, off: int) -> None:
    """By its own clock it would close the record at once, and the writer would send all the same; or an hour late."""
    with clock_that_is_off(off), killed_at_the_write(after_write=True):
        integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}})
    tasks.sweep()
    record = OperationRecord.objects.get(operation="users.update")
    assert record.outcome == "pending"
    assert abs(record.at - timezone.now()) < timedelta(seconds=OFF / 2)
    OperationRecord.objects.update(settle_at=timezone.now())
    with clock_that_is_off(off):
        tasks.sweep()
    record.refresh_from_db()
    assert record.outcome == "succeeded"
