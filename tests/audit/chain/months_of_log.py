"""Gives an empty log on PostgreSQL the months that a test needs, and afterwards those of now again."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import connection

from audit.chain.months import EARLIER, LATER, TABLE, find_months, make_months


@contextmanager
def months_from(first: datetime, *, count: int) -> Iterator[None]:
    """The log has these months in the block, whatever is in it is gone afterwards."""
    moments = [first]
    for _ in range(count):
        year, month = divmod(moments[-1].year * 12 + moments[-1].month, 12)
        moments.append(moments[-1].replace(year=year, month=month + 1))
    _divide(moments)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'")
            _divide([cursor.fetchone()[0]])
        make_months()


def _divide(moments: list[datetime]) -> None:
    with connection.cursor() as cursor:
        for month in find_months():
            cursor.execute(f'DROP TABLE "{month.table}"')
        cursor.execute("SELECT audit_lowest_of(moment) FROM unnest(%s::timestamptz[]) AS moment", [moments])
        bounds = [str(bound) for (bound,) in cursor.fetchall()]
        ranges = {EARLIER: f"(MINVALUE) TO ('{bounds[0]}')", LATER: f"('{bounds[-1]}') TO (MAXVALUE)"}
        for moment, lowest, end in zip(moments, bounds, bounds[1:], strict=False):
            ranges[f"{TABLE}_{moment:%Y_%m}"] = f"('{lowest}') TO ('{end}')"
        for table, bounded in ranges.items():
            cursor.execute(f'CREATE TABLE "{table}" PARTITION OF {TABLE} FOR VALUES FROM {bounded}')
            cursor.execute("SELECT audit_guard_partition(%s)", [table])
