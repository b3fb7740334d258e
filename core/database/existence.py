"""Asks a table whether it has rows, in plain SQL: for questions about each of many changes, which mostly have none."""

from collections.abc import Collection
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections


def has_rows(query: str, ids: Collection[UUID] = ()) -> bool:
    """Whether a query finds rows; `{ids}` in it stands for the ids, of which there must be one.

    Django's ORM would take ten times as long to build such a query as the database to answer it: 0.1 ms a change.
    """
    database = connections[DEFAULT_DB_ALIAS]
    values = ids if database.features.has_native_uuid_field else [each.hex for each in ids]
    with database.cursor() as cursor:
        cursor.execute(query.format(ids=", ".join(["%s"] * len(ids))), list(values))
        return cursor.fetchone() is not None
