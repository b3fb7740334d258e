"""Reads rows that may be malformed, and reports each one that is without failing at the others.

Whoever owns the database can store what Django cannot read: SQLite accepts any value in any column, PostgreSQL an
infinite time, and both let columns be altered. One such row must not keep the log from being verified.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import Error, connection, models
from django.db.models import QuerySet
from django.db.models.functions import Cast

AT_ONCE: Final = 500
"""Rows that are read by one query."""
LONGEST_SHOWN: Final = 80
"""Characters of a malformed key."""

_Row = TypeVar("_Row", bound=models.Model)

UNREADABLE: Final = (ValueError, TypeError, AttributeError, OverflowError, Error)
"""What the database's driver or Django raises for a malformed row."""

_HOLDS: Final[tuple[tuple[type[models.Field], tuple[type, ...], str], ...]] = (
    (models.UUIDField, (UUID,), "is no UUID"),
    (models.DateTimeField, (datetime,), "is no time"),
    (models.IntegerField, (int,), "is no integer"),
    (models.BinaryField, (bytes, memoryview), "holds no octets"),
    (models.JSONField, (list, dict), "is no JSON"),  # Django returns text that it cannot parse as it is
    (models.CharField, (str,), "is no text"),
    (models.TextField, (str,), "is no text"),
)
"""The Python types of each kind of column's values, and the complaint about others."""


@dataclass(frozen=True, slots=True)
class MalformedRow:
    """A row that cannot be read, with its key as the database has it; `complaint` names the columns to blame."""

    key: str
    complaint: str


def read_keys(rows: QuerySet[Any]) -> Iterator[Any | MalformedRow]:
    """The keys of a query's rows in their order, in constant memory."""
    field = rows.model._meta.pk
    texts = rows.order_by("pk").annotate(as_text=Cast("pk", models.TextField())).values_list("as_text", flat=True)
    for text in texts.iterator(chunk_size=AT_ONCE):
        try:
            key = field.to_python(text)
            is_canonical = str(field.get_db_prep_value(key, connection)) == text  # no query would find another spelling
        except (*UNREADABLE, ValidationError):
            is_canonical = False
        yield key if is_canonical else MalformedRow(_shown(text), f"{field.column} {_complaint(field)}")


def read_rows(rows: QuerySet[_Row], *, at_once: int = AT_ONCE) -> Iterator[_Row | MalformedRow]:
    """The rows of a query in the order of their keys, in constant memory."""
    remaining = read_keys(rows)
    while keys := list(islice(remaining, at_once)):
        rows_by_key = read_by_key(rows.model, [key for key in keys if not isinstance(key, MalformedRow)])
        for key in keys:
            if isinstance(key, MalformedRow):
                yield key
            elif key in rows_by_key:  # else it was removed meanwhile
                yield rows_by_key[key]


def read_by_key(model: type[_Row], keys: Sequence[Any]) -> dict[Any, _Row | MalformedRow]:
    """The existing rows with these keys, by key."""
    found: dict[Any, _Row | MalformedRow]
    try:
        found = {**model._default_manager.in_bulk(keys)}
    except UNREADABLE:
        found = {key: row for key in keys if (row := _read_one(model, key)) is not None}
    return {key: _unless_malformed(row) for key, row in found.items()}


def _read_one(model: type[_Row], key: Any) -> _Row | MalformedRow | None:
    rows = model._default_manager.filter(pk=key)
    try:
        return rows.first()
    except UNREADABLE as error:
        wrong = [field for field in model._meta.concrete_fields if not _is_readable(rows, field)]
        named = ", ".join(f"{field.column} {_complaint(field)}" for field in wrong)
        return MalformedRow(str(key), named or f"it cannot be read ({type(error).__name__})")


def _is_readable(rows: QuerySet[Any], field: models.Field) -> bool:
    try:
        list(rows.values_list(field.attname, flat=True))
    except UNREADABLE:
        return False
    return True


def _unless_malformed(row: _Row | MalformedRow) -> _Row | MalformedRow:
    if isinstance(row, MalformedRow):
        return row
    values = row.__dict__
    if all(isinstance(values.get(name), holds) for name, holds in _expected(type(row))):
        return row
    fields = row._meta.concrete_fields
    complaints = [text for field in fields if (text := _value_complaint(field, getattr(row, field.attname)))]
    return MalformedRow(str(row.pk), ", ".join(complaints)) if complaints else row


@cache
def _expected(model: type[models.Model]) -> list[tuple[str, tuple[type, ...]]]:
    """The names of a model's columns with the types that their values may have."""
    return [
        (field.attname, (*_kind_of(field)[1], *((type(None),) if field.null else ())))
        for field in model._meta.concrete_fields
    ]


def _value_complaint(field: models.Field, value: Any) -> str | None:
    if value is None:
        # On SQLite Django reads text that is no time as None.
        complaint = "is no time" if isinstance(field, models.DateTimeField) else "has no value"
        return None if field.null else f"{field.column} {complaint}"
    _, holds, complaint = _kind_of(field)
    return None if isinstance(value, holds) else f"{field.column} {complaint}"


def _complaint(field: models.Field) -> str:
    return _kind_of(field)[2]


def _shown(key: str | None) -> str:
    """A key in printable form."""
    return key if key and key.isprintable() and len(key) <= LONGEST_SHOWN else ascii(key)[:LONGEST_SHOWN]


def _kind_of(field: models.Field) -> tuple[type[models.Field], tuple[type, ...], str]:
    return next(kind for kind in _HOLDS if isinstance(field, kind[0]))
