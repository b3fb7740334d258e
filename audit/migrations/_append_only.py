"""The triggers that make the operations log append-only in the database itself, for whoever goes around the gateway.

Rows cannot be deleted or truncated. Two kinds of UPDATE are allowed. One completes a `pending` or `unknown` record: it
may set the outcome, its code and time, fill in what was NULL (the domain controller, the identity of an object just
created) and move the settler's lease; whatever was known stays. The other notes that a record was sealed, and changes
nothing else. Seals can neither be changed nor deleted. Who may alter the tables can drop the triggers: that is not
prevented here, but shows (see `audit.chain`).

SQLite rebuilds a table to alter it and loses its triggers: a migration that alters the table runs
`protect_records` again after it (a test compares the triggers with the columns). What stands here is part of migrations
that have been carried out: triggers that differ are a module of their own.
"""

TABLE = "audit_operationrecord"
SEALS = "audit_logseal"

# Columns that the completion sets; that it may set where they were NULL; that sealing sets.
COMPLETION = ("outcome", "completed_at", "code", "settle_at", "settle_attempts")
FILLED_IN = ("server", "target_id", "target_dn")
SEALING = ("seal", "sealed_as")

_NEXT_OUTCOMES = (
    "(OLD.outcome = 'pending' AND NEW.outcome IN ('pending', 'succeeded', 'failed', 'unknown'))"
    " OR (OLD.outcome = 'unknown' AND NEW.outcome IN ('unknown', 'succeeded', 'failed'))"
)

_NEXT_SEALS = (
    "(OLD.sealed_as IS NULL AND NEW.sealed_as IN ('open', 'final', 'refused'))"
    " OR (OLD.sealed_as = 'open' AND NEW.sealed_as = 'final')"
)

_POSTGRESQL = f"""
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the operations log is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE FUNCTION audit_only_complete() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    allowed {TABLE}%ROWTYPE := OLD;
BEGIN
    {" ".join(f"allowed.{name} := NEW.{name};" for name in SEALING)}
    IF ({_NEXT_SEALS}) AND NEW IS NOT DISTINCT FROM allowed THEN
        RETURN NEW;
    END IF;
    allowed := OLD;
    {" ".join(f"allowed.{name} := NEW.{name};" for name in COMPLETION)}
    {" ".join(f"allowed.{name} := coalesce(OLD.{name}, NEW.{name});" for name in FILLED_IN)}
    IF NOT ({_NEXT_OUTCOMES}) OR NEW IS DISTINCT FROM allowed THEN
        RAISE EXCEPTION 'the operations log is append-only: UPDATE refused' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER audit_no_delete BEFORE DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_only_complete BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_only_complete();
"""
_POSTGRESQL_SEALS = f"""
CREATE TRIGGER audit_seals_stay BEFORE UPDATE OR DELETE ON {SEALS} FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_seals_not_truncated BEFORE TRUNCATE ON {SEALS}
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
"""

_POSTGRESQL_RELEASE = f"""
DROP TRIGGER IF EXISTS audit_no_delete ON {TABLE};
DROP TRIGGER IF EXISTS audit_no_truncate ON {TABLE};
DROP TRIGGER IF EXISTS audit_only_complete ON {TABLE};
DROP FUNCTION IF EXISTS audit_refuse() CASCADE;
DROP FUNCTION IF EXISTS audit_only_complete();
"""

_SQLITE_SEALS = [
    f"CREATE TRIGGER audit_seals_{kind} BEFORE {event} ON {SEALS} {condition}"
    f"BEGIN SELECT RAISE(ABORT, 'the operations log is append-only: {refused} refused'); END"
    for kind, event, condition, refused in (
        ("not_deleted", "DELETE", "", "DELETE"),
        ("not_changed", "UPDATE", "", "UPDATE"),
        (
            "not_replaced",
            "INSERT",
            f"WHEN EXISTS (SELECT 1 FROM {SEALS} WHERE number = NEW.number) ",
            "REPLACE",
        ),
    )
]
_SQLITE_REFUSAL = "BEGIN SELECT RAISE(ABORT, 'the operations log is append-only: {} refused'); END"
_SQLITE_NAMES = (
    *("audit_no_delete", "audit_no_replace", "audit_only_complete"),
    *("audit_seals_not_deleted", "audit_seals_not_changed", "audit_seals_not_replaced"),
)


def _sqlite(columns):
    """SQLite cannot compare rows, so every column is named; the rowid too, which REPLACE could take from another."""
    every = ["rowid", *columns]
    untouched = [f"NEW.{name} IS OLD.{name}" for name in every if name not in COMPLETION + FILLED_IN]
    filled_in = [f"(OLD.{name} IS NULL OR NEW.{name} IS OLD.{name})" for name in FILLED_IN]
    # INSERT OR REPLACE deletes the row in its way without a DELETE trigger (https://sqlite.org/lang_conflict.html):
    # the one with the same key, or with the same value in the one unique index.
    replaced = (
        f"SELECT 1 FROM {TABLE} WHERE id = NEW.id OR rowid = NEW.rowid"
        " OR (change_request_id = NEW.change_request_id AND surface = 'worker' AND run_id IS NULL"
        " AND NEW.surface = 'worker' AND NEW.run_id IS NULL AND outcome <> 'failed' AND NEW.outcome <> 'failed')"
    )
    allowed = f"(({_NEXT_OUTCOMES}) AND {' AND '.join(untouched + filled_in)})"
    if set(SEALING) <= set(columns):
        unsealed = [f"NEW.{name} IS OLD.{name}" for name in every if name not in SEALING]
        allowed += f" OR (({_NEXT_SEALS}) AND {' AND '.join(unsealed)})"
    condition = f"WHEN ({allowed}) IS NOT TRUE"
    no_replace, only_complete = _SQLITE_REFUSAL.format("REPLACE"), _SQLITE_REFUSAL.format("UPDATE")
    return [
        f"CREATE TRIGGER audit_no_delete BEFORE DELETE ON {TABLE} {_SQLITE_REFUSAL.format('DELETE')}",
        f"CREATE TRIGGER audit_no_replace BEFORE INSERT ON {TABLE} WHEN EXISTS ({replaced}) {no_replace}",
        f"CREATE TRIGGER audit_only_complete BEFORE UPDATE ON {TABLE} {condition} {only_complete}",
    ]


def protect_records(apps, schema_editor):
    """Put the triggers on the table as it is now; for `RunPython`."""
    release_records(apps, schema_editor)
    is_sealed = "logseal" in apps.all_models["audit"]
    if schema_editor.connection.vendor == "postgresql":
        statements = [_POSTGRESQL, *([_POSTGRESQL_SEALS] if is_sealed else [])]
    else:
        model = apps.get_model("audit", "OperationRecord")
        statements = _sqlite([field.column for field in model._meta.local_concrete_fields])
        statements += _SQLITE_SEALS if is_sealed else []
    for statement in statements:
        schema_editor.execute(statement, params=None)


def release_records(_apps, schema_editor):
    """Take the triggers off; the reverse of `protect_records`. Those of the seals go with PostgreSQL's function."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(_POSTGRESQL_RELEASE, params=None)
        return
    for name in _SQLITE_NAMES:
        schema_editor.execute(f"DROP TRIGGER IF EXISTS {name}", params=None)
