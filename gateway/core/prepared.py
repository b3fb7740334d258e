"""SQL that is built once per process: for the few statements that every request makes.

Building it costs Django ten times what the database needs to carry it out. What is read or written is never kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.models import QuerySet


class PreparedQuery:
    """A `values_list` queryset whose parameters are given with each execution, in the order they stand in the SQL.

    It goes to the driver itself, past Django's log of queries.
    """

    def __init__(self, build: Callable[[], QuerySet[Any, tuple[Any, ...]]]) -> None:
        self._build = build

    @cached_property
    def _compiled(self) -> tuple[str, int, list[tuple[int, list[Any], Any]]]:
        compiler = self._build().query.get_compiler(connection=connection)
        sql, placeholders = compiler.as_sql()
        if connection.vendor == "sqlite":  # Django would look for the placeholders anew with each execution
            sql = sql.replace("%s", "?")
        columns = [expression for expression, _, _ in compiler.select or ()]
        converters = compiler.get_converters(columns)
        return sql, len(placeholders), [(at, found, column) for at, (found, column) in converters.items()]

    def rows(self, *parameters: Any) -> list[list[Any]]:
        """The rows as Python values, as the queryset itself would give them."""
        sql, count, converters = self._compiled
        if len(parameters) != count:
            raise ValueError(f"the query takes {count} parameters")
        rows = [list(row) for row in fetch(sql, [_adapted(value) for value in parameters])]
        for row in rows:
            for at, found, column in converters:
                for convert in found:
                    row[at] = convert(row[at], column, connections[DEFAULT_DB_ALIAS])
        return rows


def fetch(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query as the driver gives them. It goes past Django's log of queries."""
    database = connections[DEFAULT_DB_ALIAS]  # `connection` would look for it with each word said to it
    database.ensure_connection()
    with database.wrap_database_errors:  # the driver's own cursor: Django's wrappers cost more than the query
        # Without parameters psycopg takes a % as it stands.
        cursor = database.connection.execute(sql, parameters) if parameters else database.connection.execute(sql)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def execute_each(sql: str, rows: Iterable[Sequence[Any]]) -> int:
    """Execute a statement with each row of parameters; how many records it changed in all."""
    with connection.cursor() as cursor:
        cursor.executemany(sql, [[_adapted(value) for value in row] for row in rows])
        changed: int = cursor.rowcount
    return changed


def _adapted(value: Any) -> Any:
    if isinstance(value, UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


class PreparedInsert:
    """The INSERT of rows of a model that are given as mappings of field names to values, without making instances."""

    def __init__(self, model: type[models.Model]) -> None:
        self._model = model

    @cached_property
    def _compiled(self) -> tuple[str, list[tuple[str, Any, Callable[[Any], Any]]]]:
        """The SQL, and the name, default and adaptation of each column."""
        fields = self._model._meta.concrete_fields
        quote = connection.ops.quote_name
        columns = ", ".join(quote(field.column or field.attname) for field in fields)
        places = ", ".join(["%s"] * len(fields))
        into = quote(self._model._meta.db_table)
        sql = f"INSERT INTO {into} ({columns}) VALUES ({places})"  # noqa: S608 - our own names
        return sql, [(field.attname, _default_of(field), _adaptation_of(field)) for field in fields]

    def execute(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert rows; what one leaves out has the field's default. Raises as the database does."""
        sql, columns = self._compiled
        adapted = [[adapt(row[name]) if name in row else default for name, default, adapt in columns] for row in rows]
        with connection.cursor() as cursor:
            cursor.executemany(sql, adapted)


def _default_of(field: Any) -> Any:
    """The default as the database takes it. Identifiers, which are new for each row, are always given."""
    return None if field.primary_key else field.get_db_prep_save(field.get_default(), connection)


def _adaptation_of(field: Any) -> Callable[[Any], Any]:
    if isinstance(field, (models.CharField, models.TextField, models.IntegerField)):
        return _unchanged
    if isinstance(field, models.UUIDField):
        return _adapted
    if isinstance(field, models.DateTimeField):
        return connection.ops.adapt_datetimefield_value
    return lambda value: field.get_db_prep_save(value, connection)


def _unchanged(value: Any) -> Any:
    return value
