"""Adds an index beside all work: writers of a large table do not wait for it."""

from django.contrib.postgres import operations
from django.db import migrations


class AddIndexConcurrently(operations.AddIndexConcurrently):
    """Works on SQLite, too, and again after a migration that was killed, which leaves an invalid index behind.

    PostgreSQL adds none of a partitioned table concurrently, only those of its partitions.
    """

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor != "postgresql":
            migrations.AddIndex.database_forwards(self, app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        if partitions := _partitions(schema_editor.connection, model._meta.db_table):
            self._ensure_not_in_transaction(schema_editor)
            _add_to_partitions(schema_editor, str(self.index.create_sql(model, schema_editor)), self.index, partitions)
            return
        schema_editor.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{self.index.name}"', params=None)
        super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
        else:
            migrations.AddIndex.database_backwards(self, app_label, schema_editor, from_state, to_state)


def _partitions(connection, table):
    """The names of a table's partitions by their numbers."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid, inhrelid::regclass::text FROM pg_inherits WHERE inhparent = to_regclass(%s)"
            " ORDER BY pg_inherits.inhrelid",
            [table],
        )
        return dict(cursor.fetchall())


def _add_to_partitions(schema_editor, definition, index, partitions):
    """Declare the index of the table, which new partitions then have; add it to each; it is whole with the last."""
    name, (beginning, _, rest) = index.name, definition.partition(' ON "')
    table, _, rest = rest.partition('"')
    if beginning != f'CREATE INDEX "{name}"':
        raise ValueError(f"not an index that can be added to partitions: {definition}")
    schema_editor.execute(f'DROP INDEX IF EXISTS "{name}"', params=None)
    schema_editor.execute(f'CREATE INDEX "{name}" ON ONLY "{table}"{rest}', params=None)
    for number, partition in partitions.items():
        own = f"{name}_{number}"
        schema_editor.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{own}"', params=None)
        schema_editor.execute(f'CREATE INDEX CONCURRENTLY "{own}" ON {partition}{rest}', params=None)
        schema_editor.execute(f'ALTER INDEX "{name}" ATTACH PARTITION "{own}"', params=None)
