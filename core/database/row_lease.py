"""Leases on rows: they decide which of several workers does a job, and let another one do it if that one is lost.

A column says until when a worker holds the row; then any worker may take it. Workers take it by compare-and-swap on the
value that they read, so exactly one of them succeeds, on every database.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import F, Model, Q, QuerySet

from core.database import shared_clock

_logger = structlog.get_logger(__name__)


def is_free(field: str) -> Q:
    """The condition of rows that no worker holds now; `field` says until when one does."""
    return Q(**{f"{field}__isnull": True}) | Q(**{f"{field}__lte": shared_clock.now()})


def try_take(
    rows: QuerySet[Model], field: str, *, lasts: timedelta, counting: str, seen: datetime | None, **also: Any
) -> bool:
    """Take the row if `field` still has the value `seen`; True if this worker has it now.

    `counting` names the column that counts attempts, `also` sets more columns.
    """
    return bool(_take(rows.filter(**{field: seen}), field, lasts=lasts, counting=counting, **also))


def take_free(rows: QuerySet[Model], field: str, *, lasts: timedelta, counting: str, **also: Any) -> int:
    """Take those of the rows that are free; return how many this worker has taken. Otherwise as `try_take`."""
    return _take(rows.filter(is_free(field)), field, lasts=lasts, counting=counting, **also)


def _take(rows: QuerySet[Model], field: str, *, lasts: timedelta, counting: str, **also: Any) -> int:
    return rows.update(**{field: shared_clock.now() + lasts, counting: F(counting) + 1}, **also)


@contextmanager
def renewed(own: QuerySet[Any], *, lasts: timedelta) -> Iterator[None]:
    """Renew the column `lease_until` of the rows that this worker holds, in a thread while the block runs.

    `own` finds them no more once somebody else has taken them, as happens to a process that is suspended for longer
    than the lease.
    """
    done = threading.Event()
    threading.Thread(target=_renew_until, args=(own, lasts, done), name="lease", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _renew_until(own: QuerySet[Any], lasts: timedelta, done: threading.Event) -> None:
    while not done.wait(lasts.total_seconds() / 3):
        try:
            own.update(lease_until=shared_clock.now() + lasts)
        except (DatabaseError, InterfaceError) as error:  # the next renewal may succeed
            _logger.warning("a lease cannot be renewed for now", error=str(error))
        connection.close()
