"""Leases on rows: which of several workers does what there is to do, and who does it when that one is lost.

A row says until when it is somebody's, and afterwards it is anybody's. Whoever takes it does so by a compare-and-swap
on what it said when it was seen, so of any number of workers one gets it, on every database.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Model, Q, QuerySet

from core.database import shared_clock


def free(field: str) -> Q:
    """The condition on rows that are nobody's now; `field` says until when they are."""
    return Q(**{f"{field}__isnull": True}) | Q(**{f"{field}__lte": shared_clock.now()})


def take(
    rows: QuerySet[Model], field: str, *, lasts: timedelta, counting: str, seen: datetime | None, **also: Any
) -> bool:
    """Take the row, if `field` still says what was `seen`, and count the attempt; whether it is this worker's now."""
    return bool(_take(rows.filter(**{field: seen}), field, lasts=lasts, counting=counting, **also))


def take_all(rows: QuerySet[Model], field: str, *, lasts: timedelta, counting: str, **also: Any) -> int:
    """Take those of the rows that are free, and count the attempt; how many are this worker's now."""
    return _take(rows.filter(free(field)), field, lasts=lasts, counting=counting, **also)


def _take(rows: QuerySet[Model], field: str, *, lasts: timedelta, counting: str, **also: Any) -> int:
    return rows.update(**{field: shared_clock.now() + lasts, counting: F(counting) + 1}, **also)
