"""SQL that is built once per process: for the few statements that every request makes.

Building it costs Django ten times what the database needs to carry it out. What is read or written is never kept.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
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


def execute_each(sql: str, rows: Iterable[Sequence[Any]]) -> int:
    """Execute a statement with each row of parameters; how many records it changed in all."""
    with connection.cursor() as cursor:
        cursor.executemany(sql, [[_adapted(value) for value in row] for row in rows])
        changed: int = cursor.rowcount
    return changed


def execute_alone(sql: str, parameters: Sequence[Any]) -> int:
    """Execute one statement as a transaction of its own, past Django's log of queries; how many rows it changed.

    Django's BEGIN, its cursor and its COMMIT take longer than the statement, and are two more ways to PostgreSQL.
    Refused inside a caller's transaction, whose rollback would take it with it.
    """
    database = connections[DEFAULT_DB_ALIAS]
    adapted = [_adapted(value) for value in parameters]
    if database.in_atomic_block:
        with transaction.atomic(durable=True), database.cursor() as cursor:
            cursor.execute(sql, adapted)
            return int(cursor.rowcount)
    if database.connection is None:
        database.ensure_connection()
    with database.wrap_database_errors:
        if database.vendor == "sqlite":
            sql = sql.replace("%s", "?")
        return int(database.connection.execute(sql, adapted).rowcount)


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
    def _compiled(self) -> tuple[str, list[tuple[str, Any, Callable[[Any], Any] | None]]]:
        """The SQL, and the name, default and adaptation of each column; None for one that goes in as it is."""
        fields = self._model._meta.concrete_fields
        quote = connection.ops.quote_name
        columns = ", ".join(quote(field.column or field.attname) for field in fields)
        places = ", ".join(["%s"] * len(fields))
        into = quote(self._model._meta.db_table)
        sql = f"INSERT INTO {into} ({columns}) VALUES ({places})"  # noqa: S608 - our own names
        return sql, [(field.attname, _default_of(field), _adaptation_of(field)) for field in fields]

    def execute(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert rows; what one leaves out has the field's default. Raises as the database does."""
        adapted = [self._parameters(row) for row in rows]
        with connection.cursor() as cursor:
            cursor.executemany(self._compiled[0], adapted)

    def execute_alone(self, row: Mapping[str, Any]) -> None:
        """Insert one row as a transaction of its own (`execute_alone`)."""
        execute_alone(self._compiled[0], self._parameters(row))

    def _parameters(self, row: Mapping[str, Any]) -> list[Any]:
        return [
            default if name not in row else row[name] if adapt is None else adapt(row[name])
            for name, default, adapt in self._compiled[1]
        ]


def _default_of(field: Any) -> Any:
    """The default as the database takes it. Identifiers, which are new for each row, are always given."""
    return None if field.primary_key else field.get_db_prep_save(field.get_default(), connection)


def _adaptation_of(field: Any) -> Callable[[Any], Any] | None:
    if isinstance(field, (models.CharField, models.TextField, models.IntegerField)):
        return None
    if isinstance(field, models.UUIDField):
        return None if connection.features.has_native_uuid_field else _hexadecimal
    if isinstance(field, models.DateTimeField):
        return connection.ops.adapt_datetimefield_value
    return lambda value: field.get_db_prep_save(value, connection)


def _hexadecimal(value: UUID | None) -> str | None:
    return None if value is None else value.hex
