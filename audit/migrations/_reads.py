"""Adds the column of how many reads a record stands for: on PostgreSQL beside all work, on SQLite in one transaction."""

from django.db import transaction

from audit.migrations._append_only import TABLE, protect_records, release_records
from audit.migrations._locks import with_lock
from audit.migrations._removal import let_owner_remove


def add_reads(apps, schema_editor):
    """For `RunPython`, outside a transaction, with the state after it."""
    connection = schema_editor.connection
    if connection.vendor == "postgresql":  # whose triggers name no columns
        column = f"ALTER TABLE {TABLE} ADD COLUMN IF NOT EXISTS reads integer NULL"
        with_lock(connection, TABLE, "ACCESS EXCLUSIVE", lambda cursor: cursor.execute(column))
        return
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        release_records(apps, schema_editor)
        cursor.execute(f"ALTER TABLE {TABLE} ADD COLUMN reads integer NULL")
        protect_records(apps, schema_editor)
        let_owner_remove(apps, schema_editor)
