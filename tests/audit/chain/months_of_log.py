"""Gives an empty log on PostgreSQL the months that a test needs, or none, and afterwards those of now again."""
# ruff: noqa: S608 - constants are put together here

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.apps import apps
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from audit.chain.months import EARLIER, LATER, TABLE, find_months, make_months
from audit.migrations import _claims, _months, _unsealed


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
        _divide_as_now()


@contextmanager
def one_table() -> Iterator[None]:
    """The log is one table, as before an upgrade. The block makes it months again."""
    with transaction.atomic(), connection.cursor() as cursor:
        indexes = _indexes(cursor)
        cursor.execute(f"ALTER TABLE {TABLE} RENAME TO audit_with_months")
        cursor.execute(f"CREATE TABLE {TABLE} (LIKE audit_with_months INCLUDING ALL)")
        cursor.execute("DROP TABLE audit_with_months")
        for shape, name in _indexes(cursor).items():
            cursor.execute(f'ALTER INDEX "{name}" RENAME TO "{indexes[shape]}"')
        cursor.execute(_months._GUARDS)
        _unsealed.make_triggers(cursor, "postgresql")
        _claims.make_triggers(cursor, connection)
    try:
        yield
    finally:
        _divide_as_now()


def _indexes(cursor: CursorWrapper) -> dict[str, str]:
    """The names of the log's indexes by what they are over."""
    cursor.execute(
        "SELECT relname, pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " WHERE indrelid = %s::regclass",
        [TABLE],
    )
    return {definition.partition(" USING ")[2]: name for name, definition in cursor.fetchall()}


def _divide_as_now() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'")
        _divide([cursor.fetchone()[0]])
    make_months()


def _divide(moments: list[datetime]) -> None:
    with connection.cursor() as cursor:
        if not find_months():  # a log that stayed one table
            cursor.execute("SET session_replication_role = replica")
            cursor.execute(f"DELETE FROM {TABLE}")
            cursor.execute("SET session_replication_role = DEFAULT")
            with connection.schema_editor(atomic=False) as editor:
                _months.begin_months(apps, editor)
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
