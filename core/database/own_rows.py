"""Rows of the gateway's own tables for operations: found, saved and deleted, or refused in the words of the API."""

from collections.abc import Mapping
from typing import TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Model, ProtectedError, QuerySet, RestrictedError

from core.errors import Conflict, NotFound

RowT = TypeVar("RowT", bound=Model)


def find(rows: QuerySet[RowT], **conditions: object) -> RowT:
    """The row that meets the conditions; raises NotFound."""
    row = rows.filter(**conditions).first()
    if row is None:
        raise NotFound
    return row


def assign(row: Model, values: Mapping[str, object]) -> None:
    """Give a row the values of columns by their names."""
    for name, value in values.items():
        setattr(row, name, value)


def save(row: Model, *, taken: str) -> None:
    """Save a row; raises Conflict with `taken` where another one has what has to be unique."""
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise Conflict(taken) from None


def delete(row: Model, *, used: str) -> None:
    """Delete a row; raises Conflict with `used` where others depend on it."""
    try:
        row.delete()
    except (ProtectedError, RestrictedError):
        raise Conflict(used) from None
