"""Searches the log, newest first, for two seconds at most: then the page ends, and its cursor leads on.

A search is tried as a whole first, which an index usually answers at once. One that takes too long continues in
periods: identifiers contain the time, so that the database reads no more than a period's records, whatever its plan.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar, cast
from uuid import UUID

from django.db.models import QuerySet

from audit.identifiers import identifier_bounds, moment_of
from audit.models import OperationRecord
from core.call import Call
from core.database.time_limit import QueryTookTooLong, time_limit
from core.paging import Found, PageQuery, SearchedPage, page_of
from core.shapes import render_timestamp

ItemT = TypeVar("ItemT")

SECONDS: Final = 1.5
"""After these no period is begun, so that the search takes no more than two seconds."""
_SECONDS_AS_A_WHOLE: Final = 0.3
_SECONDS_OF_A_PERIOD: Final = 0.5
_SECONDS_OF_THE_SHORTEST_PERIOD: Final = 2.0
_FIRST_PERIOD: Final = timedelta(minutes=10)
_SHORTEST_PERIOD: Final = timedelta(milliseconds=1)
_LOWEST: Final = UUID(int=0)
_HIGHEST: Final = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lowest and the highest identifier that are searched.

    They are no conditions of a query before it is made: of two lower ones SQLite would take the one that it sees first.
    """

    lowest: UUID = _LOWEST
    highest: UUID = _HIGHEST

    @classmethod
    def of_time(cls, since: datetime | None, until: datetime | None = None) -> Self:
        return cls(
            identifier_bounds(since)[0] if since else _LOWEST, identifier_bounds(until)[1] if until else _HIGHEST
        )

    def narrowed(self, lowest: UUID, highest: UUID) -> Self:
        return replace(self, lowest=max(self.lowest, lowest), highest=min(self.highest, highest))

    def apply(self, records: QuerySet[Any]) -> QuerySet[Any]:
        """The records between them, newest first."""
        # Without statistics PostgreSQL takes any two bounds for narrow ones.
        if self.lowest > _LOWEST:
            records = records.filter(id__gte=self.lowest)
        if self.highest < _HIGHEST:
            records = records.filter(id__lte=self.highest)
        return records.order_by("-id")


def page_of_records(
    call: Call,
    records: QuerySet[OperationRecord],
    *,
    query: PageQuery,
    render: Callable[[OperationRecord], ItemT],
    bound_to: str = "",
    bounds: Bounds = Bounds(),
    indexed: Mapping[str, Any] = MappingProxyType({}),
) -> SearchedPage[ItemT]:
    """One page of the log, newest first, or all of it as a RecordStream if the call asks for one.

    `indexed` are those conditions of `records` that have an index each.
    """
    search = _Search(bounds, indexed)
    found = page_of(
        call,
        records,
        query=query,
        order=("-id",),
        render=render,
        counted=False,
        bound_to=bound_to,
        search=search,
    )
    if call.stream_as is not None:
        return cast(SearchedPage[ItemT], found)
    return {**found, "searchedBackTo": render_timestamp(search.stopped_at)}


def newest_records(records: QuerySet[Any], count: int, *, since: datetime) -> list[Any]:
    """The newest of these records since a moment, as far back as two seconds lead."""
    return list(_Search(Bounds.of_time(since), {})(records, count, None).rows)


class _Search:
    """Finds the newest records of a query; `stopped_at` is the moment back to which it has come, None if it ended."""

    def __init__(self, bounds: Bounds, indexed: Mapping[str, Any]) -> None:
        self._bounds = bounds
        self._indexed = indexed
        self.stopped_at: datetime | None = None

    def __call__(self, records: QuerySet[Any], count: int, after: list[str] | None) -> Found:
        ends_at = time.monotonic() + SECONDS
        bounds = self._bounds
        if after is not None:
            bounds = bounds.narrowed(bounds.lowest, UUID(int=UUID(after[0]).int - 1))
        self.stopped_at = None
        try:
            with time_limit(_SECONDS_AS_A_WHOLE):
                if len(self._indexed) > 1:
                    bounds = self._narrow(bounds)
                return Found(list(bounds.apply(records)[:count]))
        except QueryTookTooLong:
            return self._search_periods(records, count, bounds, ends_at)

    def _narrow(self, bounds: Bounds) -> Bounds:
        """To the time in which every condition has records: one that has none, or few, decides it at once."""
        for name, value in self._indexed.items():
            bounds = bounds.narrowed(*_ends(OperationRecord.objects.filter(**{name: value})))
        return bounds

    def _search_periods(self, records: QuerySet[Any], count: int, bounds: Bounds, ends_at: float) -> Found:
        bounds = bounds.narrowed(*_ends(OperationRecord.objects.all()))
        period, rows, has_begun = _FIRST_PERIOD, list[Any](), False
        while len(rows) < count and bounds.highest >= bounds.lowest:
            started = time.monotonic()
            if has_begun and started > ends_at:
                self.stopped_at = moment_of(bounds.highest)
                return Found(rows, [str(UUID(int=bounds.highest.int + 1))])
            since = identifier_bounds(moment_of(bounds.highest) - period)[0]
            seconds = _SECONDS_OF_A_PERIOD if period > _SHORTEST_PERIOD else _SECONDS_OF_THE_SHORTEST_PERIOD
            try:
                with time_limit(seconds):
                    rows += bounds.narrowed(since, bounds.highest).apply(records)[: count - len(rows)]
            except QueryTookTooLong:
                if period == _SHORTEST_PERIOD:
                    raise
                period = max(period / 60, _SHORTEST_PERIOD)
                continue
            bounds, has_begun = bounds.narrowed(bounds.lowest, UUID(int=since.int - 1)), True
            if time.monotonic() - started < _SECONDS_OF_A_PERIOD / 5:
                period *= 2
        return Found(rows)


def _ends(records: QuerySet[OperationRecord]) -> tuple[UUID, UUID]:
    """The lowest and the highest identifier of the records; of none the other way round."""
    ids = records.values_list("id", flat=True)
    return ids.order_by("id").first() or _HIGHEST, ids.order_by("-id").first() or _LOWEST
