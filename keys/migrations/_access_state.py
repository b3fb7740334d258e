"""The triggers by which the database says that something has changed of all that decides about who calls.

What a process keeps of keys and agents (`keys.permissions.cache`) is good for one state of access. Every transaction that changes
a key, an agent, a role, a person, a group, a permission or a connection makes another one, whoever changes it and by whatever
statement. Stamps of use, and of look-ups that changed nothing, are told apart by the columns they are in.

On PostgreSQL the state is the set of tokens in `keys_accessstate`. A transaction adds one under its own number: none
waits for another, and a token is seen from the moment on at which what it stands for is seen. On SQLite, which has one
writer at a time, the state is one token, which each change makes anew. Tokens are random: no state comes back after a
rollback, a compaction or a restored backup.

SQLite rebuilds a table to alter it and loses its triggers: a migration that alters one of these tables runs `watch`
again after it, and so does one that adds a table which decides about who calls (a test compares). What stands here is
part of migrations that have been carried out: it is only added to.
"""

WATCHED = (
    ("auth_group", ()),
    ("auth_group_permissions", ()),
    ("auth_permission", ()),
    ("django_content_type", ()),
    ("directory_directoryconnection", ("bind_account", "bind_account_learnt_for")),
    ("keys_agentaccesstoken", ()),
    ("keys_agentclient", ()),
    ("keys_agentgrant", ("last_used_at", "last_used_address")),
    ("keys_apikey", ("last_used_at", "last_used_address")),
    ("keys_groupscopes", ()),
    ("keys_link", ()),
    ("keys_person", ("last_login", "directory_checked_at", "password_set")),
    ("keys_person_groups", ()),
    ("keys_person_user_permissions", ()),
    ("keys_role", ()),
    ("keys_role_permissions", ()),
)
"""Tables with the columns in them that are only stamps. A table that does not exist yet is left out."""

_POSTGRESQL = """
CREATE TABLE IF NOT EXISTS keys_accessstate (
    transaction xid8 PRIMARY KEY DEFAULT pg_current_xact_id(),
    token uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO keys_accessstate DEFAULT VALUES ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION keys_note_access_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND to_jsonb(OLD) - TG_ARGV[0]::text[] = to_jsonb(NEW) - TG_ARGV[0]::text[] THEN
        RETURN NULL;
    END IF;
    INSERT INTO keys_accessstate DEFAULT VALUES ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
"""
# ENABLE ALWAYS: in a superuser's session that replays what others wrote (session_replication_role), too.
_POSTGRESQL_TRIGGERS = """
CREATE OR REPLACE TRIGGER keys_access_rows AFTER INSERT OR DELETE OR TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION keys_note_access_change();
CREATE OR REPLACE TRIGGER keys_access_values AFTER UPDATE ON {table}
    FOR EACH ROW EXECUTE FUNCTION keys_note_access_change('{{{stamps}}}');
ALTER TABLE {table} ENABLE ALWAYS TRIGGER keys_access_rows, ENABLE ALWAYS TRIGGER keys_access_values;
"""

_SQLITE = (
    "CREATE TABLE IF NOT EXISTS keys_accessstate"
    " (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), token BLOB NOT NULL)",
    "INSERT OR REPLACE INTO keys_accessstate VALUES (1, randomblob(16))",
)
# UPDATE and no INSERT OR REPLACE: where the statement that fires the trigger says OR IGNORE, as Django does for links
# of many-to-many fields, that would hold inside of it too (https://sqlite.org/lang_createtrigger.html).
_SQLITE_TRIGGER = (
    "CREATE TRIGGER {name} AFTER {event} ON {table} {condition}"
    "BEGIN UPDATE keys_accessstate SET token = randomblob(16); END"
)


def watch(_apps, schema_editor):
    """Put the triggers on the tables as they are now; for `RunPython`."""
    database = schema_editor.connection
    with database.cursor() as cursor:
        there = set(database.introspection.table_names(cursor))
    watched = [(table, stamps) for table, stamps in WATCHED if table in there]
    if database.vendor == "postgresql":
        schema_editor.execute(_POSTGRESQL, params=None)
        for table, stamps in watched:
            schema_editor.execute(_POSTGRESQL_TRIGGERS.format(table=table, stamps=",".join(stamps)), params=None)
        return
    for statement in _SQLITE:
        schema_editor.execute(statement, params=None)
    for table, stamps in watched:
        with database.cursor() as cursor:
            columns = [column.name for column in database.introspection.get_table_description(cursor, table)]
        changed = " OR ".join(f'NEW."{name}" IS NOT OLD."{name}"' for name in columns if name not in stamps)
        for event, condition in (("INSERT", ""), ("DELETE", ""), ("UPDATE", f"WHEN {changed} ")):
            name = f"{table}_access_{event.lower()}"
            schema_editor.execute(f"DROP TRIGGER IF EXISTS {name}", params=None)
            statement = _SQLITE_TRIGGER.format(name=name, event=event, table=table, condition=condition)
            schema_editor.execute(statement, params=None)


def unwatch(_apps, schema_editor):
    """Take all of it away; the reverse of the first `watch`."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION IF EXISTS keys_note_access_change() CASCADE", params=None)
    else:
        for table, _ in WATCHED:
            for event in ("insert", "delete", "update"):
                schema_editor.execute(f"DROP TRIGGER IF EXISTS {table}_access_{event}", params=None)
    schema_editor.execute("DROP TABLE IF EXISTS keys_accessstate", params=None)
