"""How the owner of the log removes records whose time is over: on PostgreSQL without taking a trigger off.

Taking it off locks the table, and whoever writes then waits behind whoever vacuums. So the function that refuses looks
at a setting of the transaction itself, and at who asks: whoever may take the trigger off anyway.

SQLite has one writer at a time, and the trigger is dropped and made again. There, too, REPLACE could take a seal's row
number from it; the guard of the records looks at theirs already.
"""

SEALS = "audit_logseal"

_POSTGRESQL = """
CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_NAME = 'audit_no_delete' AND current_setting('gateway.removes_records', true) = 'on'
        AND pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')
    THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the operations log is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
"""
_SQLITE = (
    "DROP TRIGGER IF EXISTS audit_seals_not_replaced",
    f"CREATE TRIGGER audit_seals_not_replaced BEFORE INSERT ON {SEALS}"
    f" WHEN EXISTS (SELECT 1 FROM {SEALS} WHERE number = NEW.number OR rowid = NEW.rowid)"
    " BEGIN SELECT RAISE(ABORT, 'the operations log is append-only: REPLACE refused'); END",
)


def let_owner_remove(_apps, schema_editor):
    """Change the guards, after `protect_records` in a migration that runs it again; for `RunPython`."""
    for statement in (_POSTGRESQL,) if schema_editor.connection.vendor == "postgresql" else _SQLITE:
        schema_editor.execute(statement, params=None)
