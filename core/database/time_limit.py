"""Ends queries that take too long, by `statement_timeout` on PostgreSQL and a progress handler on SQLite."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from django.db import OperationalError, connection, transaction

from core.deadlines import OutOfTime
from core.text.messages import message

_STEPS = 10_000
"""How many steps SQLite takes between two looks at the clock: well below a millisecond."""
_CANCELLED = "57014"
"""PostgreSQL's SQLSTATE `query_canceled`."""


WEB_SECONDS = 3.0
"""No query of a read from the web may take longer: it would hold one of the threads that serve everybody."""


class QueryTookTooLong(Exception):
    """A query inside `time_limit` was ended. Nothing is lost: it only read."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit each query inside the block. Raises QueryTookTooLong; limits may be nested, the inner one the smaller.

    The database is told only if there is a query. Inside a transaction the block is a savepoint, which the end of a
    query rolls back.
    """
    limit = _SqliteLimit(seconds) if connection.vendor == "sqlite" else _PostgresLimit(seconds)
    try:
        # The savepoint is outside the limit, which could end its rollback, too.
        savepoint = transaction.atomic() if connection.in_atomic_block else nullcontext()
        with savepoint, connection.execute_wrapper(limit):
            yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == _CANCELLED or str(error) == "interrupted":
            raise QueryTookTooLong from error
        raise
    finally:
        limit.lift()


@contextmanager
def short_queries() -> Iterator[None]:
    """Limit each query of a read from the web. Raises OutOfTime."""
    try:
        with time_limit(WEB_SECONDS):
            yield
    except QueryTookTooLong:
        detail = message("The database took longer than {seconds} s: ask for less.", seconds=f"{WEB_SECONDS:g}")
        raise OutOfTime(detail) from None


class _PostgresLimit:
    def __init__(self, seconds: float) -> None:
        self._limit = f"{max(seconds * 1000, 1):.0f}ms"  # 0 would be none
        self._before: str | None = None

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self._before is None:
            self._before = self._set(self._limit)
        return execute(sql, params, many, context)

    def lift(self) -> None:
        if self._before is not None:
            try:
                self._set(self._before)
            except Exception:  # noqa: BLE001 - the driver's own: the connection is lost, and its setting with it
                connection.close()

    def _set(self, value: str) -> str:
        """Set the session's limit; return what it was. Asked of the driver, since our own wrappers limit Django's."""
        with connection.connection.cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('statement_timeout'), set_config('statement_timeout', %s, false)", [value]
            )
            before: str = cursor.fetchone()[0]
        return before


class _SqliteLimit:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_at = float("inf")

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self._ends_at = time.monotonic() + self._seconds
        connection.connection.set_progress_handler(_is_any_over, _STEPS)
        return execute(sql, params, many, context)

    def is_over(self) -> bool:
        return time.monotonic() > self._ends_at

    def lift(self) -> None:
        if connection.connection is not None and not any(
            isinstance(limit, _SqliteLimit) for limit in connection.execute_wrappers
        ):
            connection.connection.set_progress_handler(None, _STEPS)


def _is_any_over() -> bool:
    """Whether a query has to end: SQLite has one handler for all limits of a connection."""
    return any(isinstance(limit, _SqliteLimit) and limit.is_over() for limit in connection.execute_wrappers)
