"""How the owner of the log removes the seals of removed records, too, once another seal stands for them."""

_POSTGRESQL = """
CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND TG_NAME IN ('audit_no_delete', 'audit_seals_stay')
        AND current_setting('gateway.removes_records', true) = 'on'
        AND pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')
    THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the operations log is append-only: % refused', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
"""


def let_owner_close(_apps, schema_editor):
    """Change the guard, after `let_owner_remove`; for `RunPython`."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(_POSTGRESQL, params=None)
