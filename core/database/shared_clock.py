"""The time by which hosts decide things together: the database's, for their own clocks may differ by minutes.

A lease that ends by the clock of whoever looks at it would end early where that is ahead, while its holder is at work.
How far this host's clock is off is found out whenever a connection to the database is opened, twice a minute at most.
"""

from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final

import structlog
from django.db import DatabaseError
from django.db.backends.signals import connection_created
from django.utils import timezone

_logger = structlog.get_logger(__name__)

_EVERY: Final = 30.0
_NO_MATTER: Final = timedelta(seconds=1)
"""Leases and deadlines allow for so much; finding out takes a part of it on a busy machine."""


class _Offset:
    """By how much the database's clock is ahead of this host's, as it was measured last."""

    def __init__(self) -> None:
        self.value = timedelta()
        self._measured_at = float("-inf")

    def measure(self, connection: Any) -> None:
        if connection.vendor != "postgresql" or monotonic() - self._measured_at < _EVERY:
            return
        before = timezone.now()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT clock_timestamp()")
                found: datetime = cursor.fetchone()[0]
        except DatabaseError:  # whoever opened the connection hears of it
            return
        after, self._measured_at = timezone.now(), monotonic()
        is_same = before - _NO_MATTER <= found <= after + _NO_MATTER
        value = timedelta() if is_same else found - before - (after - before) / 2
        if abs(value - self.value) > _NO_MATTER:
            _logger.warning("this host's clock and the database's differ", seconds=round(value.total_seconds(), 1))
        self.value = value


_offset = _Offset()


def now() -> datetime:
    """The time by the database's clock, to a second, as far as this process has heard of it."""
    return timezone.now() + _offset.value


def ahead() -> timedelta:
    """How far the shared clock is ahead of this host's."""
    return _offset.value


def watch() -> None:
    """Measure whenever a connection is opened; once for each process, as it starts."""
    connection_created.connect(_measure, dispatch_uid="shared-clock")


def _measure(connection: Any, **_: Any) -> None:
    _offset.measure(connection)
