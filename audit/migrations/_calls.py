"""Adds the column and the index of calls: on PostgreSQL beside all work, on SQLite in one transaction."""

from django.db import transaction

from audit.migrations._append_only import TABLE, protect_records, release_records
from audit.migrations._locks import with_lock

_INDEX = f"audit_by_call ON {TABLE} (call_id, id) WHERE call_id IS NOT NULL"


def add_calls(apps, schema_editor):
    """For `RunPython`, outside a transaction, with the state after it."""
    connection = schema_editor.connection
    if connection.vendor == "postgresql":  # whose triggers name no columns
        column = f"ALTER TABLE {TABLE} ADD COLUMN IF NOT EXISTS call_id uuid NULL"
        with_lock(connection, TABLE, "ACCESS EXCLUSIVE", lambda cursor: cursor.execute(column))
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX CONCURRENTLY IF EXISTS audit_by_call")
            cursor.execute(f"CREATE INDEX CONCURRENTLY {_INDEX}")
        return
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        release_records(apps, schema_editor)
        cursor.execute(f"ALTER TABLE {TABLE} ADD COLUMN call_id char(32) NULL")
        cursor.execute(f"CREATE INDEX {_INDEX}")
        protect_records(apps, schema_editor)
