"""The months of the log as partitions of its table, which PostgreSQL has: one that is dropped gives its room back.

Their identifiers ascend from one to the next. The first holds all that is older than the others, at first the log as it
was before it had months; the last one what is newer than any month that was made. SQLite has one table, and so has a
log on PostgreSQL that had records of the future when it was upgraded.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

import structlog
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

from audit.models import OperationRecord

_logger = structlog.stdlib.get_logger(__name__)

TABLE: Final = OperationRecord._meta.db_table
EARLIER: Final = f"{TABLE}_earlier"
LATER: Final = f"{TABLE}_later"

LOCK_SECONDS: Final = 0.3
"""How long those who read and write the log may wait behind us for it."""
_PAUSE_SECONDS: Final = 1.0
_ATTEMPTS: Final = 120
_LOCK_NOT_AVAILABLE: Final = "55P03"
"""PostgreSQL's SQLSTATE `lock_not_available`."""

_BOUNDS: Final = re.compile(r"FROM \((?:MINVALUE|'([^']+)')\) TO \((?:MAXVALUE|'([^']+)')\)")
_Result = TypeVar("_Result")


class NotLocked(Exception):
    """Others use the log all the time."""


@dataclass(frozen=True, slots=True)
class Month:
    """A partition: the records with identifiers from `lowest` on and below `end`; None if it is open there."""

    table: str
    lowest: UUID | None
    end: UUID | None


def find_months() -> list[Month]:
    """The partitions of the log in their order; none if it is one table."""
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_get_expr(relpartbound, pg_class.oid) FROM pg_inherits"
            " JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = to_regclass(%s)",
            [TABLE],
        )
        found = cursor.fetchall()
    months = [Month(table, *map(_identifier, _parsed(bounds))) for table, bounds in found]
    return sorted(months, key=lambda month: month.lowest or UUID(int=0))


def _parsed(bounds: str) -> tuple[str | None, str | None]:
    match = _BOUNDS.search(bounds)
    if match is None:
        raise ValueError(f"a partition of the operations log has other bounds: {bounds}")
    return match[1], match[2]


def _identifier(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)


def make_months() -> int:
    """Make the months that are due, the present one and the next two; return how many were made.

    The database does so as the owner of the log, whoever asks. If others use the log just then (a backup, for example),
    this process tries again after a while: there is time for it, and until a month is there, the last partition takes
    its records.
    """
    global _not_before  # noqa: PLW0603 - one pause per process
    made = 0
    if connection.vendor == "postgresql" and time.monotonic() >= _not_before and find_months():
        try:
            with connection.cursor() as cursor:
                while True:
                    cursor.execute("SELECT audit_make_month()")
                    if not cursor.fetchone()[0]:
                        break
                    made += 1
        except OperationalError as error:
            _not_before = time.monotonic() + _SECONDS_UNTIL_NEXT
            _logger.info("a month of the operations log is made later", reason=str(error).strip())
    return made


_SECONDS_UNTIL_NEXT: Final = 600.0
_not_before = 0.0


def locked_briefly(action: Callable[[CursorWrapper], _Result]) -> _Result:
    """Call `action` with a cursor while nobody else uses the log, in a transaction or a savepoint of its own.

    Others wait for `LOCK_SECONDS` and as long as it takes. Raises NotLocked if they use the log all the time.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                cursor.execute(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
                result = action(cursor)
                cursor.execute("SET LOCAL lock_timeout = DEFAULT")
                return result
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") != _LOCK_NOT_AVAILABLE:
                raise
    raise NotLocked


def drop(cursor: CursorWrapper, month: Month) -> None:
    """Drop a month, while the log is locked. If the first partition is empty, it reaches to the next one then."""
    cursor.execute(f"DROP TABLE {connection.ops.quote_name(month.table)}")
    remaining = find_months()
    if remaining[0].table == EARLIER:
        if remaining[0].end == remaining[1].lowest:
            return
        cursor.execute(f"SELECT EXISTS (SELECT FROM {EARLIER})")  # noqa: S608 - our own name
        if cursor.fetchone()[0]:  # to attach it anew, PostgreSQL would read it under the lock
            return
        cursor.execute(f"DROP TABLE {EARLIER}")
    following = next(each for each in remaining if each.table != EARLIER)
    cursor.execute(f"CREATE TABLE {EARLIER} PARTITION OF {TABLE} FOR VALUES FROM (MINVALUE) TO ('{following.lowest}')")
    cursor.execute("SELECT audit_guard_partition(%s)", [EARLIER])
