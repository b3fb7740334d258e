"""The triggers that claim an approved change for the record that applies it, so that it is applied once.

A unique index did so before, which PostgreSQL does not have over the partitions of a table. The database claims and
frees by itself, also for the release before. On PostgreSQL the function does so as the owner of the log: whoever
writes records can neither claim nor free a change in another way.

SQLite's guard against REPLACE need no longer look for the record of the same change: a claim is never replaced.
"""

from django.db import transaction

from audit.migrations._locks import with_lock

TABLE = "audit_operationrecord"
CLAIMS = "audit_changeclaim"
INDEX = "audit_one_application_per_change_request"
ONCE = "an approved change is applied once"

_OPEN = "'pending', 'unknown'"
_APPLIES = "{0}.surface = 'worker' AND {0}.run_id IS NULL AND {0}.change_request_id IS NOT NULL"
_CLAIMS = f"{_APPLIES.format('NEW')} AND NEW.outcome IN ('succeeded', {_OPEN})"
_FREES = f"{_APPLIES.format('NEW')} AND NEW.outcome = 'failed' AND OLD.outcome <> 'failed'"

_POSTGRESQL = f"""
CREATE OR REPLACE FUNCTION audit_claim_change() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {{schema}}.{CLAIMS} (change_request_id, record_id) VALUES (NEW.change_request_id, NEW.id);
    ELSE
        DELETE FROM {{schema}}.{CLAIMS} WHERE change_request_id = NEW.change_request_id AND record_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION audit_claim_change() FROM PUBLIC;
DROP TRIGGER IF EXISTS audit_claim_change ON {TABLE};
DROP TRIGGER IF EXISTS audit_free_change ON {TABLE};
CREATE TRIGGER audit_claim_change AFTER INSERT ON {TABLE}
    FOR EACH ROW WHEN ({_CLAIMS}) EXECUTE FUNCTION audit_claim_change();
CREATE TRIGGER audit_free_change AFTER UPDATE OF outcome ON {TABLE}
    FOR EACH ROW WHEN ({_FREES}) EXECUTE FUNCTION audit_claim_change();
"""
# While the index is still there, it keeps a change from being claimed twice. A record that is open is claimed under a
# lock, so that it is not completed unseen; one that succeeded stays so.
_FILL = (
    f"INSERT INTO {CLAIMS} (change_request_id, record_id) SELECT change_request_id, id FROM {TABLE} AS record"
    f" WHERE {_APPLIES.format('record')} AND outcome IN ({_OPEN}) FOR SHARE ON CONFLICT DO NOTHING",
    f"INSERT INTO {CLAIMS} (change_request_id, record_id) SELECT change_request_id, id FROM {TABLE} AS record"
    f" WHERE {_APPLIES.format('record')} AND outcome = 'succeeded' ON CONFLICT DO NOTHING",
)

_REFUSAL = "SELECT RAISE(ABORT, '{}') WHERE EXISTS (SELECT 1 FROM {} WHERE {});"
_SQLITE = {
    # Refused before it is inserted: the insertion would replace the claim where the record was inserted by REPLACE.
    "audit_claim_change": f"AFTER INSERT ON {TABLE} WHEN {_CLAIMS} BEGIN"
    f" {_REFUSAL.format(ONCE, CLAIMS, 'change_request_id = NEW.change_request_id')}"
    f" INSERT INTO {CLAIMS} (change_request_id, record_id) VALUES (NEW.change_request_id, NEW.id); END",
    "audit_free_change": f"AFTER UPDATE OF outcome ON {TABLE} WHEN {_FREES} BEGIN"
    f" DELETE FROM {CLAIMS} WHERE change_request_id = NEW.change_request_id AND record_id = NEW.id; END",
    "audit_no_replace": f"BEFORE INSERT ON {TABLE}"
    f" WHEN EXISTS (SELECT 1 FROM {TABLE} WHERE id = NEW.id OR rowid = NEW.rowid)"
    " BEGIN SELECT RAISE(ABORT, 'the operations log is append-only: REPLACE refused'); END",
}


def claim_changes(_apps, schema_editor):
    """Claim each approved change that a record has applied or applies; for `RunPython`, outside a transaction."""
    connection = schema_editor.connection
    if connection.vendor == "postgresql":
        with_lock(connection, TABLE, "SHARE ROW EXCLUSIVE", lambda cursor: make_triggers(cursor, connection))
        with connection.cursor() as cursor:
            for statement in _FILL:
                cursor.execute(statement)
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}")
        return
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        make_triggers(cursor, connection)
        for statement in _FILL:
            cursor.execute(statement.replace(" FOR SHARE", ""))
        cursor.execute(f"DROP INDEX IF EXISTS {INDEX}")


def make_triggers(cursor, connection):
    """Make the triggers anew."""
    if connection.vendor == "postgresql":
        cursor.execute("SELECT quote_ident(current_schema())")
        cursor.execute(_POSTGRESQL.format(schema=cursor.fetchone()[0]))
        return
    for name, rest in _SQLITE.items():
        cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(f"CREATE TRIGGER {name} {rest}")
