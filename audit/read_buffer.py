"""Records of reads on their way to the database: half a second in memory, then written by one thread."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final

import structlog
from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, connection, models, transaction

from audit.chain.seals import mac_of
from audit.models import OperationRecord
from core.background_writer import BackgroundWriter

_logger = structlog.stdlib.get_logger(__name__)

Facts = Mapping[str, Any]
"""A record as its field names and values, without its code: thousands of reads a second are no model instances."""


def _write(records: list[Facts]) -> bool:
    """Insert records of reads; False if the database is away."""
    if not connection.in_atomic_block:  # the thread's connection lives long, so its age and health are checked here
        connection.close_if_unusable_or_obsolete()
    coded = [{**record, "mac": mac_of(record)} for record in records]
    try:
        try:
            _insert(coded)
        except (DataError, IntegrityError):  # one record the database does not take must not hold up the others
            for record in coded:
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


def _insert(records: Iterable[Facts]) -> None:
    """Insert records, without instances of the model: these take a tenth of a read (docs/performance.md)."""
    sql, columns = _statement()
    rows = [
        [default if name not in record else adapt(record[name]) for name, default, adapt in columns]
        for record in records
    ]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(sql, rows)


@cache
def _statement() -> tuple[str, list[tuple[str, Any, Callable[[Any], Any]]]]:
    """The INSERT, and of each column its name, its default as the database takes it, and how it takes values."""
    fields = OperationRecord._meta.concrete_fields
    quote = connection.ops.quote_name
    names = ", ".join(quote(field.column or field.attname) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    sql = f"INSERT INTO {quote(OperationRecord._meta.db_table)} ({names}) VALUES ({places})"  # noqa: S608 - our own names
    columns: list[tuple[str, Any, Callable[[Any], Any]]] = []
    for field in fields:
        adapt = partial(field.get_db_prep_save, connection=connection)
        default = None if field.primary_key else adapt(field.get_default())
        columns.append((field.attname, default, _as_it_is if isinstance(field, _AS_THEY_ARE) else adapt))
    return sql, columns


_AS_THEY_ARE: Final = (models.CharField, models.TextField, models.IntegerField)


def _as_it_is(value: Any) -> Any:
    return value


reads: Final = BackgroundWriter("reads-to-log", _write, delay=0.5)
"""Those of this process. Beyond its capacity reads are counted, and the count is logged when the database is back."""
