"""Counts what is in the log by day and by key, as of one moment.

Complete, sealed records are counted as they are sealed (`audit.chain.counting`). The others are few and are added by
one statement, which sees all tables as they are at one moment: those in the list of what is to be sealed, and open
ones. Seals that are not counted yet are read, if they are few.

The records of a part of the directory are no days' counts: `count_…` read the rows of the period, over its index, and
`count_newest_first` as many of them as there is time for.
"""

import time as clock
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, cast

from django.db import connection
from django.db.models import Count, DateField, Func, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from audit.chain.counting import FACTS, read_sealed
from audit.log_queries import names_of_reads, only_changes
from audit.models import (
    OPEN_OUTCOMES,
    CountedSeals,
    DailyCount,
    LogSeal,
    OperationRecord,
    Outcome,
    UnsealedRecord,
)
from audit.shapes import DayJson, UsageJson
from core.database.time_limit import QueryTookTooLong, time_limit
from core.errors import Forbidden

_SECONDS: Final = 2.0
"""How long rows are counted newest first."""
_FIRST_PERIOD: Final = timedelta(hours=1)
_MOST_UNCOUNTED: Final = 40
"""Seals that are read where nobody has counted them yet; of more, the rows of the period are counted."""


def first_day(days: int) -> datetime:
    """The start (UTC) of the first of the last `days` days, today included."""
    return datetime.combine(timezone.now().astimezone(UTC), time(), UTC) - timedelta(days=days - 1)


def changes_by_day(days: int) -> list[DayJson]:
    """The changes of each of the last days, oldest first, including days without any."""
    since = first_day(days)
    found = _find(since, by="day", only_changes=True)
    if found is None:
        return count_changes(OperationRecord.objects.all(), days)
    return _each_day(since, days, ((day, outcome, count) for (day, outcome), (count, _) in found.items()))


def use_by_day(credential_id: str, days: int) -> list[DayJson]:
    """All operations of an API key on each of the last days, reads included, oldest day first."""
    since = first_day(days)
    found = _find(since, by="day", credential_id=credential_id)
    if found is None:
        return count_by_day(OperationRecord.objects.filter(credential_id=credential_id), days)
    return _each_day(since, days, ((day, outcome, count) for (day, outcome), (count, _) in found.items()))


def use_by_key(days: int) -> list[UsageJson]:
    """All operations of the last days, reads included, by key name ("" for people), the busiest key first."""
    found = _find(first_day(days), by="key_name")
    if found is None:
        return count_usage(OperationRecord.objects.all(), days)
    by_key: dict[str, UsageJson] = {}
    for (key, outcome), (count, forbidden) in found.items():
        usage = by_key.setdefault(key, UsageJson(keyName=key, operations=0, failed=0, forbidden=0))
        usage["operations"] += count
        usage["failed"] += count if outcome == Outcome.FAILED else 0
        usage["forbidden"] += forbidden
    return sorted(by_key.values(), key=lambda usage: (-usage["operations"], usage["keyName"] or ""))


_Found = Mapping[tuple[str, str], tuple[int, int]]
"""How many records there are by day or key and outcome, and how many of these were forbidden."""


def _find(since: datetime, *, by: str, only_changes: bool = False, credential_id: str | None = None) -> _Found | None:
    """Add up what is counted and what is not yet; None if that is too much."""
    statement, parameters = _statement(since, by=by, only_changes=only_changes, credential_id=credential_id)
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        rows = cursor.fetchall()
    ((_, _, _, counted, newest),) = [row for row in rows if row[0] == "chain"]
    found: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    found |= {(name, outcome): (count, forbidden) for kind, name, outcome, count, forbidden in rows if kind == "count"}
    if (newest or 0) - (counted or 0) > _MOST_UNCOUNTED:
        return None
    if (counted or 0) < (newest or 0):
        sealed = read_sealed(counted or 0, newest, limit=_MOST_UNCOUNTED)
        if sealed.kept_from is not None:  # it takes away what was added up already
            return None
        for alike, count in sealed.counts.items():
            if alike.day < since.date() or (only_changes and alike.is_read):
                continue
            if credential_id in (None, alike.credential_id):
                key = (str(getattr(alike, by)), alike.outcome)
                found[key] = (found[key][0] + count, found[key][1] + (count if alike.is_forbidden else 0))
    return found


def _statement(since: datetime, *, by: str, only_changes: bool, credential_id: str | None) -> tuple[str, list[Any]]:
    """One statement for all that is to be added up."""
    log, listed = OperationRecord._meta.db_table, UnsealedRecord._meta.db_table
    open_outcomes = ", ".join(f"'{outcome}'" for outcome in OPEN_OUTCOMES)
    columns = ", ".join(FACTS)
    reads = names_of_reads()
    is_read = f"operation IN ({', '.join(['%s'] * len(reads))})"
    whose, whom = ("", []) if credential_id is None else (" AND credential_id = %s", [credential_id])
    statement = f"""
WITH
is_open AS MATERIALIZED (SELECT {columns} FROM {log} WHERE outcome IN ({open_outcomes})),
is_listed AS MATERIALIZED (
    SELECT {columns} FROM {listed} AS listed {_each("id", "listed.record_id")}
    WHERE coalesce(outcome, '') NOT IN ({open_outcomes})
),
found AS (
    SELECT day, key_name, outcome, is_read, is_forbidden, records FROM {DailyCount._meta.db_table}
    WHERE day >= %s{whose}
    UNION ALL
    SELECT {_day_of("at")}, coalesce(key_name, ''), outcome, {is_read}, outcome = '{Outcome.FAILED}' AND code = %s, 1
    FROM (SELECT * FROM is_open UNION ALL SELECT * FROM is_listed) AS uncounted
    WHERE at >= %s{whose}
)
SELECT 'count', CAST({by} AS text), outcome, CAST(sum(records) AS bigint),
    CAST(sum(CASE WHEN is_forbidden THEN records ELSE 0 END) AS bigint)
FROM found{" WHERE NOT is_read" if only_changes else ""} GROUP BY {by}, outcome
UNION ALL
SELECT 'chain', NULL, NULL, (SELECT number FROM {CountedSeals._meta.db_table}),
    (SELECT max(number) FROM {LogSeal._meta.db_table})
"""  # noqa: S608 - constants are put together
    first = connection.ops.adapt_datefield_value(since.date())
    return statement, [
        *(first, *whom),
        *(*reads, Forbidden.code, connection.ops.adapt_datetimefield_value(since), *whom),
    ]


def _day_of(column: str) -> str:
    """The UTC day of a time. SQLite stores a time as text in UTC, the day first."""
    return f"({column} AT TIME ZONE 'UTC')::date" if connection.vendor == "postgresql" else f"substr({column}, 1, 10)"


def _each(column: str, value: str) -> str:
    """Join each record of a value, one after the other: PostgreSQL may think the log small enough to read it all."""
    log = OperationRecord._meta.db_table
    if connection.vendor == "postgresql":
        return f"CROSS JOIN LATERAL (SELECT * FROM {log} WHERE {column} = {value} OFFSET 0) AS record"  # noqa: S608
    return f"CROSS JOIN {log} AS record ON record.{column} = {value}"


# The rows of the period, of which some conditions may hold.


class _UtcDay(Func):
    """The UTC day of a time. On SQLite Django's own function would call Python for every row."""

    output_field = DateField()

    def as_sql(self, compiler: Any, connection: Any, **context: Any) -> Any:  # type: ignore[override]
        return super().as_sql(compiler, connection, template=_day_of("%(expressions)s"), **context)


def _grouped(column: str) -> Coalesce:
    """A column to group by, with "" for NULL.

    For the bare column SQLite would read the whole log in the order of that column's index.
    """
    return Coalesce(column, Value(""))


def count_changes(records: QuerySet[OperationRecord], days: int) -> list[DayJson]:
    """Count the changes of each of the last days, oldest first, including days without any."""
    return count_by_day(only_changes(records), days)


def count_by_day(records: QuerySet[OperationRecord], days: int) -> list[DayJson]:
    """Count all operations of each of the last days, reads included, oldest day first."""
    since = first_day(days)
    return _each_day(since, days, _rows_by_day(records.filter(at__gte=since)))


def _rows_by_day(records: QuerySet[OperationRecord]) -> QuerySet[Any, tuple[Any, str, int]]:
    rows = records.order_by().annotate(day=_UtcDay("at"), ended=_grouped("outcome"))
    return rows.values_list("day", "ended").annotate(count=Count("id"))


def count_newest_first(
    records: QuerySet[OperationRecord], changes: QuerySet[OperationRecord], days: int
) -> tuple[datetime, list[DayJson], list[UsageJson]]:
    """Count changes by day and all records by key, the newest first, for two seconds.

    Return the moment from which on all are counted, too: the start of the first day if time sufficed. Raises
    QueryTookTooLong if it does not suffice for the last hour.
    """
    since, until, period = first_day(days), timezone.now(), _FIRST_PERIOD
    ends_at, bound = clock.monotonic() + _SECONDS, dict[str, datetime]()
    by_day, by_key = Counter[tuple[str, str]](), dict[str, UsageJson]()
    while until > since:
        start = max(until - period, since)
        bound["at__gte"] = start
        try:
            with time_limit((ends_at - clock.monotonic()) / 2):
                rows = list(_rows_by_day(only_changes(changes).filter(**bound)))
                used = list(_usage(records.filter(**bound)))
        except QueryTookTooLong:
            if "at__lt" not in bound:
                raise
            break
        by_day.update({(str(day), outcome): count for day, outcome, count in rows})
        for each in used:
            key = each["keyName"] or ""
            by_key[key] = {**sum_usage([each, by_key[key]]), "keyName": key} if key in by_key else each
        bound["at__lt"] = until = start
        period *= 2
    left = days - (until.date() - since.date()).days
    counted = ((day, outcome, count) for (day, outcome), count in by_day.items())
    usage = sorted(by_key.values(), key=lambda usage: (-usage["operations"], usage["keyName"] or ""))
    return until, _each_day(until, left, counted), usage


def count_waiting(change_requests: QuerySet[Any], days: int) -> dict[str, int]:
    """Count the records of changes that wait for a decision, by day; from a query of the requests' keys."""
    asked, parameters = change_requests.query.sql_with_params()
    # The conditions on the records are outside, so that neither database takes another index than that of requests.
    statement = f"""
WITH waiting (id) AS MATERIALIZED ({asked})
SELECT CAST({_day_of("at")} AS text), count(*)
FROM waiting {_each("change_request_id", "waiting.id")}
WHERE coalesce(outcome, '') = '{Outcome.QUEUED}' AND coalesce(at, at) >= %s GROUP BY 1
"""  # noqa: S608 - constants are put together
    with connection.cursor() as cursor:
        cursor.execute(statement, [*parameters, connection.ops.adapt_datetimefield_value(first_day(days))])
        return dict(cursor.fetchall())


def _each_day(since: datetime, days: int, rows: Iterable[tuple[Any, str, int]]) -> list[DayJson]:
    by_day = {str(since.date() + timedelta(days=number)): dict.fromkeys(Outcome.values, 0) for number in range(days)}
    for day, outcome, count in rows:
        # Midnight may just have passed.
        by_day.setdefault(str(day), dict.fromkeys(Outcome.values, 0))[outcome] = count
    return [cast(DayJson, {"day": day, **by_outcome}) for day, by_outcome in by_day.items()]


def count_usage(records: QuerySet[OperationRecord], days: int) -> list[UsageJson]:
    """Count all operations of the last days, reads included, by key name ("" for people), the busiest key first."""
    return list(_usage(records.filter(at__gte=first_day(days))).order_by("-operations", "keyName"))


def _usage(records: QuerySet[OperationRecord]) -> Any:
    failed = Q(outcome=Outcome.FAILED)
    return (
        records.order_by()
        .annotate(keyName=_grouped("key_name"))
        .values("keyName")
        .annotate(
            operations=Count("id"),
            failed=Count("id", filter=failed),
            forbidden=Count("id", filter=failed & Q(code=Forbidden.code)),
        )
    )


def sum_usage(usage: Iterable[UsageJson]) -> UsageJson:
    """Add up what several keys did."""
    total = UsageJson(keyName=None, operations=0, failed=0, forbidden=0)
    for each in usage:
        total["operations"] += each["operations"]
        total["failed"] += each["failed"]
        total["forbidden"] += each["forbidden"]
    return total
