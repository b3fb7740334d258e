"""Querysets that are turned into SQL once per process: for the two queries that every request of a key makes.

Building the SQL costs Django ten times what the database needs to answer it. The rows are read anew each time.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet


class PreparedQuery:
    """A `values_list` queryset whose parameters are given with each execution, in the order they stand in the SQL."""

    def __init__(self, build: Callable[[], QuerySet[Any, tuple[Any, ...]]]) -> None:
        self._build = build

    @cached_property
    def _compiled(self) -> tuple[str, int, list[tuple[int, list[Any], Any]]]:
        compiler = self._build().query.get_compiler(connection=connection)
        sql, placeholders = compiler.as_sql()
        columns = [expression for expression, _, _ in compiler.select or ()]
        converters = compiler.get_converters(columns)
        return sql, len(placeholders), [(at, found, column) for at, (found, column) in converters.items()]

    def rows(self, *parameters: Any) -> list[list[Any]]:
        """The rows as Python values, as the queryset itself would give them."""
        sql, count, converters = self._compiled
        if len(parameters) != count:
            raise ValueError(f"the query takes {count} parameters")
        with connection.cursor() as cursor:
            cursor.execute(sql, [_adapted(value) for value in parameters])
            rows = [list(row) for row in cursor.fetchall()]
        for row in rows:
            for at, found, column in converters:
                for convert in found:
                    row[at] = convert(row[at], column, connection)
        return rows


def _adapted(value: Any) -> Any:
    if isinstance(value, UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    return value
