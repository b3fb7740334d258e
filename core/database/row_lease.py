"""Leases on rows: they decide which of several workers does a job, and let another one do it if that one is lost.

A column says until when a worker holds the row; then any worker may take it. Workers take it by compare-and-swap on the
value that they read, so exactly one of them succeeds, on every database.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Model, Q, QuerySet

from core.database import shared_clock


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
