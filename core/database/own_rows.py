"""Finds, saves and deletes rows of our own tables for operations, and raises the API's errors.

Their records carry versions for ETag and If-Match; those of directory objects come from the directory instead.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

from django.db import IntegrityError, connection, transaction
from django.db.models import Model, ProtectedError, Q, QuerySet, RestrictedError

from core.errors import Conflict, NotFound
from core.shapes import RecordT

RowT = TypeVar("RowT", bound=Model)


def find(rows: QuerySet[RowT], **conditions: object) -> RowT:
    """The row that meets the conditions. Raises NotFound."""
    row = rows.filter(**conditions).first()
    if row is None:
        raise NotFound
    return row


def filter_optional(rows: QuerySet[RowT], **conditions: object) -> QuerySet[RowT]:
    """Filter rows by those conditions that are not None, such as a query's optional parameters."""
    return rows.filter(**{name: value for name, value in conditions.items() if value is not None})


def containing(text: str, *columns: str) -> Q:
    """The condition that one of the columns contains the text, in any case of letters."""
    # SQLite's LIKE knows only the case of ASCII letters.
    by_pattern = connection.vendor == "sqlite" and not text.isascii()
    lookup, sought = ("iregex", re.escape(text)) if by_pattern else ("icontains", text)
    return Q(*((f"{name}__{lookup}", sought) for name in columns), _connector=Q.OR)


def assign(row: Model, values: Mapping[str, object]) -> None:
    """Set columns of a row by name."""
    for name, value in values.items():
        setattr(row, name, value)


def save(row: Model, *, taken: str, columns: Collection[str] | None = None) -> None:
    """Save a row, or only these columns. Raises Conflict with the sentence `taken` if a unique value is in use."""
    try:
        with transaction.atomic():  # a savepoint: PostgreSQL refuses all further statements after an error
            row.save(update_fields=columns)
    except IntegrityError:
        raise Conflict(taken) from None


def delete(row: Model, *, used: str) -> None:
    """Delete a row. Raises Conflict with the sentence `used` if others depend on it."""
    try:
        row.delete()
    except (ProtectedError, RestrictedError):
        raise Conflict(used) from None


def version_of(facts: Mapping[str, Any]) -> str:
    """An opaque version, 20 hex digits, that differs whenever one of the facts (JSON values) does."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]


def with_version(record: RecordT, *, ignoring: Collection[str] = ()) -> RecordT:
    """Add to a record its `version`, which changes with every member except the `ignoring` ones."""
    facts = {name: value for name, value in record.items() if name != "version" and name not in ignoring}
    return cast("RecordT", {**record, "version": version_of(facts)})


def lock_record(resource: str, id: Any) -> None:
    """Serialize changes of one record: the second waits for the end of the first one's transaction.

    An advisory lock, since a record may span several tables. SQLite has one writer at a time anyway.
    """
    if connection.vendor != "postgresql":
        return
    number = int.from_bytes(hashlib.sha256(f"{resource} {id}".encode()).digest()[:8], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
