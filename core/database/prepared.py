"""Queries that go to the database's driver itself: for what every request asks.

Django's cursor costs more than such a query, and looks for placeholders anew each time.
"""

from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper


def fetch(
    sql: str, parameters: Sequence[Any] = (), *, database: BaseDatabaseWrapper | None = None
) -> list[tuple[Any, ...]]:
    """All rows of a query as the driver gives them. It goes past Django's log of queries.

    Who has this thread's `database` at hand gives it: Django looks for an event loop each time it looks for one.
    """
    database = database or connections[DEFAULT_DB_ALIAS]
    if database.connection is None:
        database.ensure_connection()
    with database.wrap_database_errors:  # the driver's own cursor: Django's wrappers cost more than the query
        # Without parameters psycopg takes a % as it stands.
        cursor = database.connection.execute(sql, parameters) if parameters else database.connection.execute(sql)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
