"""Buffers records of reads for half a second; one thread then writes them to the database.

Those of keys that ask for it wait for a minute, and those that are alike become one.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

import structlog
from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    connection,
    connections,
    models,
    transaction,
)

from audit.chain.sealing import seal_new
from audit.chain.seals import Entry, codes_of_read
from audit.models import OperationRecord
from core.background_writer import BackgroundWriter

_logger = structlog.stdlib.get_logger(__name__)

SEALED_FROM: Final = 20
"""So many records written at once are sealed by whoever writes them: seals of fewer would be many."""
Facts = Mapping[str, Any]
"""The values of a record by field, without its MAC. Model instances are too slow for thousands of reads a second."""


def _write(records: list[Facts]) -> bool:
    """Insert records of reads; False if the database is away."""
    if not connection.in_atomic_block:  # Django checks age and health per request, and this thread serves none
        connection.close_if_unusable_or_obsolete()
    codes = [codes_of_read(record) for record in records]
    authenticated = [{**record, "mac": mac} for record, (mac, _) in zip(records, codes, strict=True)]
    try:
        try:
            _insert_sealed(authenticated, [entry for _, entry in codes])
        except (DataError, IntegrityError):  # one record that the database refuses must not hold up the others
            for record in authenticated:
                try:
                    _insert([record])
                except (DataError, IntegrityError):
                    _logger.exception(
                        "a read cannot be recorded", operation=record["operation"], request_id=record["request_id"]
                    )
    except (DatabaseError, InterfaceError) as error:
        _logger.warning("reads cannot be recorded for now", error=str(error))
        connection.close()
        return False
    if lost := reads.refused:
        reads.refused = 0
        _logger.error("reads were not recorded, the database was away for too long", reads=lost)
    return True


def _insert_sealed(records: Sequence[Facts], entries: Sequence[Entry]) -> None:
    """Insert records and, if they are many, seal them in the same commit; a worker seals a few with others."""
    with transaction.atomic():
        _insert(records)
        if len(records) >= SEALED_FROM:
            seal_new(sorted(entries, key=lambda entry: entry.record_id), records)


def _insert(records: Iterable[Facts]) -> None:
    """Insert records without model instances, which would take a tenth of a read's time (docs/performance.md)."""
    sql, columns = _statement()
    rows = [
        [
            default if name not in record else None if (value := record[name]) is None else adapt(value)
            for name, default, adapt in columns
        ]
        for record in records
    ]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(sql, rows)


@cache
def _statement() -> tuple[str, list[tuple[str, Any, Callable[[Any], Any]]]]:
    """The INSERT, and for each column its name, its default as the database takes it, and a function for values."""
    fields = OperationRecord._meta.concrete_fields
    quote = connection.ops.quote_name
    names = ", ".join(quote(field.column or field.attname) for field in fields)
    placeholders = ", ".join(["%s"] * len(fields))
    table = quote(OperationRecord._meta.db_table)
    sql = f"INSERT INTO {table} ({names}) VALUES ({placeholders})"  # noqa: S608 - our own names
    columns: list[tuple[str, Any, Callable[[Any], Any]]] = []
    database = connections[DEFAULT_DB_ALIAS]  # `connection` looks it up at each use
    for field in fields:
        adapt = partial(field.get_db_prep_save, connection=database)
        default = None if field.primary_key else adapt(field.get_default())
        columns.append((field.attname, default, _unchanged if isinstance(field, _NEED_NO_ADAPTING) else adapt))
    return sql, columns


_NEED_NO_ADAPTING: Final = (models.CharField, models.TextField, models.IntegerField)


def _unchanged(value: Any) -> Any:
    return value


reads: Final = BackgroundWriter("reads-to-log", _write, delay=0.5)
"""This process's buffer. What does not fit is only counted, and the count logged once the database is back."""

_OF_ONE_READ: Final = {"id", "at", "completed_at", "request_id", "batch_index"}


def _put_together(records: list[Facts]) -> bool:
    """Pass on one record for those that differ in nothing but time and request; it names the first request."""
    alike: dict[tuple[Any, ...], list[Facts]] = defaultdict(list)
    for record in records:
        alike[tuple(value for name, value in sorted(record.items()) if name not in _OF_ONE_READ)].append(record)
    for first, *others in alike.values():
        together = {"completed_at": others[-1]["at"], "reads": 1 + len(others)} if others else {}
        reads.add({**first, **together})
    return True


reads_together: Final = BackgroundWriter("alike-reads", _put_together, delay=60.0, batch=10_000, ends_before=1)
"""Where reads wait for others that are alike."""
