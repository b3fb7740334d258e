"""The clock that hosts share for leases and deadlines: the database's, since their own may differ by minutes.

By the clock of a host that is ahead, a lease would expire early, while its holder is still at work. Each process
measures its host's offset when it opens a database connection, at most twice a minute.
"""

from datetime import datetime, timedelta
from time import monotonic
from typing import Any

import structlog
from django.db import DatabaseError
from django.db.backends.signals import connection_created
from django.utils import timezone

_logger = structlog.get_logger(__name__)

_MEASURE_EVERY_SECONDS = 30.0
_TOLERANCE = timedelta(seconds=1)
"""Leases and deadlines allow for this much; on a busy machine the measurement itself is off by a part of it."""


class _Offset:
    """How far the database's clock was ahead of this host's when last measured."""

    def __init__(self) -> None:
        self.value = timedelta()
        self._measured_at = float("-inf")

    def measure(self, connection: Any) -> None:
        if connection.vendor != "postgresql" or monotonic() - self._measured_at < _MEASURE_EVERY_SECONDS:
            return
        before = timezone.now()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT clock_timestamp()")
                database_time: datetime = cursor.fetchone()[0]
        except DatabaseError:  # the connection is broken: its next user gets the error
            return
        after, self._measured_at = timezone.now(), monotonic()
        is_same = before - _TOLERANCE <= database_time <= after + _TOLERANCE
        value = timedelta() if is_same else database_time - before - (after - before) / 2
        if abs(value - self.value) > _TOLERANCE:
            _logger.warning("this host's clock and the database's differ", seconds=round(value.total_seconds(), 1))
        self.value = value


_offset = _Offset()


def now() -> datetime:
    """The database's time, accurate to a second, according to this process's last measurement."""
    return timezone.now() + _offset.value


def ahead() -> timedelta:
    """How far the shared clock is ahead of this host's."""
    return _offset.value


def watch() -> None:
    """Measure whenever a connection is opened. Call it once per process, at its start."""
    connection_created.connect(_measure, dispatch_uid="shared-clock")


def _measure(connection: Any, **_: Any) -> None:
    _offset.measure(connection)
