"""The triggers that list each record that is to be sealed, so that sealing need not write the log again.

They run as whoever writes the record, and nothing else adds to the list. While workers of the release before still
seal, they note that in the record, which takes it off the list.
"""

import time

from django.db import OperationalError, transaction

TABLE = "audit_operationrecord"
LIST = "audit_unsealedrecord"
INDEX_OF_RELEASE_BEFORE = "audit_to_seal"

_LOCK_SECONDS = 0.3
"""How long others may wait behind us for the table, which we get as soon as nobody vacuums it."""
_PAUSE_SECONDS = 2
_ATTEMPTS = 1800

_OPEN = "({0}.outcome IN ('pending', 'unknown'))"
_STATE = f"CASE WHEN {_OPEN} THEN 'open' ELSE 'final' END"
_IS_COMPLETED = f"{_OPEN.format('OLD')} AND NOT {_OPEN.format('NEW')}"
_IS_SEALED = f"(NEW.sealed_as = 'final' OR (NEW.sealed_as = 'open' AND {_OPEN.format('NEW')}))"

# Whoever completes a record waits for the sealer that has it at this moment: so none is taken off the list unseen.
_UPSERT = (
    f"INSERT INTO {LIST} (record_id, sealed_as) VALUES (NEW.id, {{}})"
    " ON CONFLICT (record_id) DO UPDATE SET sealed_as = excluded.sealed_as;"
)

_POSTGRESQL = f"""
CREATE OR REPLACE FUNCTION audit_list_unsealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        {_UPSERT.format(_STATE.format("NEW"))}
    ELSIF NEW.sealed_as IS DISTINCT FROM OLD.sealed_as THEN
        IF {_IS_SEALED} THEN
            DELETE FROM {LIST} WHERE record_id = NEW.id;
        ELSIF NEW.sealed_as = 'refused' THEN
            {_UPSERT.format("'refused'")}
        END IF;
    ELSIF {_IS_COMPLETED} THEN
        {_UPSERT.format("'final'")}
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS audit_list_unsealed ON {TABLE};
CREATE TRIGGER audit_list_unsealed AFTER INSERT OR UPDATE ON {TABLE}
    FOR EACH ROW EXECUTE FUNCTION audit_list_unsealed();
"""
_POSTGRESQL_RELEASE = f"""
DROP TRIGGER IF EXISTS audit_list_unsealed ON {TABLE};
DROP FUNCTION IF EXISTS audit_list_unsealed();
"""
_POSTGRESQL_VACUUM = (
    f"ALTER TABLE {LIST} SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,"
    " autovacuum_vacuum_cost_delay = 0)",
    f"ALTER TABLE {TABLE} SET (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02)",
)

_SQLITE = {
    "audit_list_new": ("INSERT", "", _UPSERT.format(_STATE.format("NEW"))),
    "audit_list_completed": ("UPDATE OF outcome", f"WHEN {_IS_COMPLETED}", _UPSERT.format("'final'")),
    "audit_list_sealed": (
        "UPDATE OF sealed_as",
        f"WHEN NEW.sealed_as IS NOT OLD.sealed_as AND {_IS_SEALED}",
        f"DELETE FROM {LIST} WHERE record_id = NEW.id;",
    ),
    "audit_list_refused": (
        "UPDATE OF sealed_as",
        "WHEN NEW.sealed_as IS NOT OLD.sealed_as AND NEW.sealed_as = 'refused'",
        _UPSERT.format("'refused'"),
    ),
}

_WAITING = f"""
INSERT INTO {LIST} (record_id, sealed_as)
SELECT id, CASE WHEN sealed_as = 'refused' THEN 'refused' ELSE {_STATE.format(TABLE)} END FROM {TABLE} WHERE seal IS NULL
UNION ALL
SELECT id, 'final' FROM {TABLE}
WHERE (sealed_as IS NULL OR sealed_as = 'open') AND seal IS NOT NULL AND NOT {_OPEN.format(TABLE)}
ON CONFLICT (record_id) DO NOTHING
"""


def list_unsealed(_apps, schema_editor):
    """List the records that wait for a seal now, and each one from now on; for `RunPython`, outside a transaction."""
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            make_triggers(cursor, connection.vendor)
            cursor.execute(_WAITING)
        return
    with connection.cursor() as cursor:
        for statement in _POSTGRESQL_VACUUM:
            cursor.execute(statement)
        for attempt in range(_ATTEMPTS):
            try:
                with transaction.atomic(using=connection.alias):
                    cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
                    cursor.execute(f"LOCK TABLE {TABLE} IN SHARE ROW EXCLUSIVE MODE")
                    make_triggers(cursor, connection.vendor)
                    cursor.execute(_WAITING)
                return
            except OperationalError:  # it is being vacuumed, for example: those who write must not wait behind us
                if attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(_PAUSE_SECONDS)


def make_triggers(cursor, vendor):
    """Make the triggers anew."""
    if vendor == "postgresql":
        cursor.execute(_POSTGRESQL)
        return
    drop_triggers(cursor, vendor)
    for name, (event, condition, body) in _SQLITE.items():
        cursor.execute(f"CREATE TRIGGER {name} AFTER {event} ON {TABLE} {condition} BEGIN {body} END")


def drop_triggers(cursor, vendor):
    """Drop the triggers, if they are there."""
    if vendor == "postgresql":
        cursor.execute(_POSTGRESQL_RELEASE)
        return
    for name in _SQLITE:
        cursor.execute(f"DROP TRIGGER IF EXISTS {name}")


def unlist(_apps, schema_editor):
    """The reverse of `list_unsealed`."""
    with schema_editor.connection.cursor() as cursor:
        drop_triggers(cursor, schema_editor.connection.vendor)


def forget_release_before(_apps, schema_editor):
    """In a log that is empty, drop the indexes that only the release before needs: its records are not marked."""
    connection = schema_editor.connection
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {TABLE})")
        if cursor.fetchone()[0]:
            return
        found = connection.introspection.get_constraints(cursor, TABLE)
        for name, about in found.items():
            if name == INDEX_OF_RELEASE_BEFORE or (about["index"] and about["columns"] == ["seal"]):
                cursor.execute(f"DROP INDEX {quote(name)}")
