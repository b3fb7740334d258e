"""Malformed rows: they hold values that the gateway's own columns cannot hold. Each is told of by itself.

Whoever may do everything in the database can leave there what Django cannot read: SQLite takes any value in any column,
PostgreSQL a time that is infinite, and both have columns altered. Such a row must not stop whoever reads the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import Error, connection, models
from django.db.models import QuerySet
from django.db.models.functions import Cast

AT_ONCE: Final = 500
LONGEST_SHOWN: Final = 80

_Row = TypeVar("_Row", bound=models.Model)

UNREADABLE: Final = (ValueError, TypeError, AttributeError, OverflowError, Error)
"""What reading a malformed row raises, from the database's driver or from Django, which expect no such value."""

_HOLDS: Final[tuple[tuple[type[models.Field], tuple[type, ...], str], ...]] = (
    (models.UUIDField, (UUID,), "is no UUID"),
    (models.DateTimeField, (datetime,), "is no time"),
    (models.IntegerField, (int,), "is no integer"),
    (models.BinaryField, (bytes, memoryview), "holds no octets"),
    (models.JSONField, (list, dict), "is no JSON"),  # Django gives the text of what is none
    (models.CharField, (str,), "is no text"),
    (models.TextField, (str,), "is no text"),
)
"""What the values of each kind of column are, and what is said of others."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A row that cannot be read, by its key as the database has it; `what` says which of its columns are to blame."""

    key: str
    what: str


def read_keys(rows: QuerySet[Any]) -> Iterator[Any | Malformed]:
    """The keys of a query's rows in their order, in constant memory."""
    field = rows.model._meta.pk
    texts = rows.order_by("pk").annotate(as_text=Cast("pk", models.TextField())).values_list("as_text", flat=True)
    for text in texts.iterator(chunk_size=AT_ONCE):
        try:
            key = field.to_python(text)
            is_own = str(field.get_db_prep_value(key, connection)) == text  # of several spellings one is ever found
        except (*UNREADABLE, ValidationError):
            is_own = False
        yield key if is_own else Malformed(_shown(text), f"{field.column} {_complaint(field)}")


def read_rows(rows: QuerySet[_Row], *, at_once: int = AT_ONCE) -> Iterator[_Row | Malformed]:
    """The rows of a query in the order of their keys, in constant memory."""
    remaining = read_keys(rows)
    while keys := list(islice(remaining, at_once)):
        found = read_by_key(rows.model, [key for key in keys if not isinstance(key, Malformed)])
        for key in keys:
            if isinstance(key, Malformed):
                yield key
            elif key in found:  # else it was removed meanwhile
                yield found[key]


def read_by_key(model: type[_Row], keys: Sequence[Any]) -> dict[Any, _Row | Malformed]:
    """The rows that there are with these keys."""
    found: dict[Any, _Row | Malformed]
    try:
        found = {**model._default_manager.in_bulk(keys)}
    except UNREADABLE:
        found = {key: row for key in keys if (row := _read_one(model, key)) is not None}
    return {key: _unless_malformed(row) for key, row in found.items()}


def _read_one(model: type[_Row], key: Any) -> _Row | Malformed | None:
    rows = model._default_manager.filter(pk=key)
    try:
        return rows.first()
    except UNREADABLE as error:
        wrong = [field for field in model._meta.concrete_fields if not _is_readable(rows, field)]
        named = ", ".join(f"{field.column} {_complaint(field)}" for field in wrong)
        return Malformed(str(key), named or f"it cannot be read ({type(error).__name__})")


def _is_readable(rows: QuerySet[Any], field: models.Field) -> bool:
    try:
        list(rows.values_list(field.attname, flat=True))
    except UNREADABLE:
        return False
    return True


def _unless_malformed(row: _Row | Malformed) -> _Row | Malformed:
    if isinstance(row, Malformed):
        return row
    wrong = [told for field in row._meta.concrete_fields if (told := _why_wrong(field, getattr(row, field.attname)))]
    return Malformed(str(row.pk), ", ".join(wrong)) if wrong else row


def _why_wrong(field: models.Field, value: Any) -> str | None:
    if value is None:
        # SQLite's text that is no time Django gives as none.
        complaint = "is no time" if isinstance(field, models.DateTimeField) else "has no value"
        return None if field.null else f"{field.column} {complaint}"
    _, holds, complaint = _kind_of(field)
    return None if isinstance(value, holds) else f"{field.column} {complaint}"


def _complaint(field: models.Field) -> str:
    return _kind_of(field)[2]


def _shown(key: str | None) -> str:
    """A key as it can be printed."""
    return key if key and key.isprintable() and len(key) <= LONGEST_SHOWN else ascii(key)[:LONGEST_SHOWN]


def _kind_of(field: models.Field) -> tuple[type[models.Field], tuple[type, ...], str]:
    return next(kind for kind in _HOLDS if isinstance(field, kind[0]))
