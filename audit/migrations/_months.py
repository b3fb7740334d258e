"""Months of the log as partitions, on PostgreSQL: a month that has gone gives its room back.

Identifiers sort by time, so each partition has those of a month (UTC). `…_earlier` has all before them, at first the
table as it was; `…_later` all after them, so that nothing is ever refused for want of a month. Months are made before
they begin, by whoever asks for it: the function does so as the owner of the log.

Nobody waits: the table becomes a partition without being read under a lock, its indexes stay, and each lock is given up
after a moment and tried again. The guards hold on each partition, also for who names it.
"""

from datetime import UTC, timedelta

from audit.migrations._claims import make_triggers as make_claims
from audit.migrations._locks import LOCK_SECONDS, with_lock
from audit.migrations._unsealed import make_triggers as make_list

TABLE = "audit_operationrecord"
EARLIER = f"{TABLE}_earlier"
LATER = f"{TABLE}_later"
_CHECK = "audit_before_months"
_DAYS_LEFT = 7
"""How soon the first month may begin: by then an upgrade is over, or has been tried again."""

_ROWS_MOVED_AT_MOST = 200_000

FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION audit_lowest_of(month timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM month) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;

CREATE OR REPLACE FUNCTION audit_guard_partition(name text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role name;
BEGIN
    EXECUTE format(
        'CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON {{schema}}.%1$I'
        ' FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.audit_refuse()', name);
    EXECUTE format('ALTER TABLE {{schema}}.%I SET (autovacuum_vacuum_insert_scale_factor = 0.02,'
        ' autovacuum_analyze_scale_factor = 0.02)', name);
    FOR role IN
        SELECT DISTINCT rolname FROM pg_class, aclexplode(relacl) AS granted, pg_roles
        WHERE pg_class.oid = format('{{schema}}.%I', name)::regclass AND granted.grantee <> relowner
            AND pg_roles.oid = granted.grantee
    LOOP
        EXECUTE format('REVOKE ALL ON {{schema}}.%I FROM %I', name, role);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION audit_make_month() RETURNS boolean LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '{LOCK_SECONDS}s' AS $$
DECLARE
    later CONSTANT regclass := '{{schema}}.{LATER}';
    lowest uuid;
    month timestamptz;
    following timestamptz;
    name text;
    waiting bigint;
BEGIN
    FOR pass IN 1..2 LOOP  -- again under the lock: somebody else may have made it
        lowest := substring(
            (SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = later) FROM 'FROM [(]''([^'']+)''[)]');
        IF lowest >= {{schema}}.audit_lowest_of(date_trunc('month', now()) + interval '3 months') THEN
            RETURN false;
        END IF;
        IF pass = 1 THEN
            LOCK TABLE {{schema}}.{TABLE} IN ACCESS EXCLUSIVE MODE;
        END IF;
    END LOOP;
    month := to_timestamp(('x' || substr(replace(lowest::text, '-', ''), 1, 12))::bit(48)::bigint / 1000);
    following := month + interval '1 month';
    name := '{TABLE}_' || to_char(month, 'YYYY_MM');
    IF EXISTS (SELECT FROM {{schema}}.{LATER} WHERE id < {{schema}}.audit_lowest_of(following)) THEN
        -- It was not made in time. What holds its records becomes the month, and the months until now with it.
        following := greatest(following, date_trunc('month', now()) + interval '1 month');
        SELECT count(*) INTO waiting FROM (SELECT FROM {{schema}}.{LATER} LIMIT {_ROWS_MOVED_AT_MOST} + 1) AS caught;
        IF waiting > {_ROWS_MOVED_AT_MOST}
            OR EXISTS (SELECT FROM {{schema}}.{LATER} WHERE id >= {{schema}}.audit_lowest_of(following))
        THEN
            RETURN false;
        END IF;
        ALTER TABLE {{schema}}.{TABLE} DETACH PARTITION {{schema}}.{LATER};
        EXECUTE format('ALTER TABLE {{schema}}.{LATER} RENAME TO %I', name);
        EXECUTE format('ALTER TABLE {{schema}}.{TABLE} ATTACH PARTITION {{schema}}.%I FOR VALUES FROM (%L) TO (%L)',
            name, lowest, {{schema}}.audit_lowest_of(following));
        EXECUTE format('CREATE TABLE {{schema}}.{LATER} PARTITION OF {{schema}}.{TABLE}'
            ' FOR VALUES FROM (%L) TO (MAXVALUE)', {{schema}}.audit_lowest_of(following));
        PERFORM {{schema}}.audit_guard_partition('{LATER}');
        RETURN true;
    END IF;
    ALTER TABLE {{schema}}.{TABLE} DETACH PARTITION {{schema}}.{LATER};
    EXECUTE format('CREATE TABLE {{schema}}.%I PARTITION OF {{schema}}.{TABLE} FOR VALUES FROM (%L) TO (%L)',
        name, lowest, {{schema}}.audit_lowest_of(following));
    PERFORM {{schema}}.audit_guard_partition(name);
    EXECUTE format('ALTER TABLE {{schema}}.{TABLE} ATTACH PARTITION {{schema}}.{LATER}'
        ' FOR VALUES FROM (%L) TO (MAXVALUE)', {{schema}}.audit_lowest_of(following));
    RETURN true;
END $$;
"""

_GUARDS = f"""
CREATE TRIGGER audit_no_delete BEFORE DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_only_complete BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION audit_only_complete();
"""


def begin_months(_apps, schema_editor):
    """Make the log a partitioned table; for `RunPython`, outside a transaction. A log that is one already stays so.

    One with records of the future (somebody forged them, or a clock was wrong) stays one table, which works as well.
    """
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT quote_ident(current_schema())")
        schema = cursor.fetchone()[0]
        cursor.execute(FUNCTIONS.format(schema=schema))
        owner = _owner(cursor)  # who need not be the one who migrates: a superuser may do so
        for function in ("audit_lowest_of(timestamptz)", "audit_guard_partition(text)", "audit_make_month()"):
            cursor.execute(f"ALTER FUNCTION {function} OWNER TO {owner}")
        cursor.execute(f"GRANT EXECUTE ON FUNCTION audit_claim_change() TO {owner}")
        if not _is_partitioned(cursor):
            bound = _first_bound(cursor)
            if bound is None:
                print("\n    The operations log has records of the future and stays one table.", end="")
                return
            _divide(connection, bound)
        while make_month(connection):
            pass


def make_month(connection):
    """Make the next month that is due, if any; return whether there may be more."""

    def call(cursor):
        cursor.execute("SELECT audit_make_month()")
        return cursor.fetchone()[0]

    return with_lock(connection, TABLE, "ACCESS EXCLUSIVE", call)


def _is_partitioned(cursor):
    cursor.execute("SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)", [TABLE])
    return cursor.fetchone()[0]


def _first_bound(cursor):
    """Before which identifier the records that are there end: the first month begins with it. None if they do not."""
    cursor.execute(f"SELECT now(), (SELECT id FROM {TABLE} ORDER BY id DESC LIMIT 1)")
    now, newest = cursor.fetchone()
    month = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if newest is not None:
        while month < now + timedelta(days=_DAYS_LEFT):
            month = (month + timedelta(days=32)).replace(day=1)
    cursor.execute("SELECT audit_lowest_of(%s)", [month])
    bound = cursor.fetchone()[0]
    return None if newest is not None and newest >= bound else bound


def _divide(connection, bound):
    """Make the table the partition of all that is before the bound, and the log a table with that partition."""

    def announce(cursor):
        cursor.execute(f"ALTER TABLE {TABLE} DROP CONSTRAINT IF EXISTS {_CHECK}")
        cursor.execute(f"ALTER TABLE {TABLE} ADD CONSTRAINT {_CHECK} CHECK (id < '{bound}') NOT VALID")

    def withdraw(cursor):
        cursor.execute(f"ALTER TABLE {TABLE} DROP CONSTRAINT IF EXISTS {_CHECK}")

    with_lock(connection, TABLE, "ACCESS EXCLUSIVE", announce)
    try:
        with connection.cursor() as cursor:  # reads the table while others write
            cursor.execute(f"ALTER TABLE {TABLE} VALIDATE CONSTRAINT {_CHECK}")
        with_lock(connection, TABLE, "ACCESS EXCLUSIVE", lambda cursor: _exchange(cursor, connection, bound))
    except BaseException:
        with_lock(connection, TABLE, "ACCESS EXCLUSIVE", withdraw)
        raise


def _exchange(cursor, connection, bound):
    indexes, owner = _indexes(cursor), _owner(cursor)
    grants = _grants(cursor)
    cursor.execute("SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal", [TABLE])
    for (trigger,) in cursor.fetchall():
        cursor.execute(f'DROP TRIGGER "{trigger}" ON {TABLE}')
    cursor.execute(f"ALTER TABLE {TABLE} RENAME TO {EARLIER}")
    # Of the same shape, so that those that are there become the partition's: none is built under the lock.
    cursor.execute(
        f"CREATE TABLE {TABLE} (LIKE {EARLIER} INCLUDING ALL EXCLUDING STATISTICS) PARTITION BY RANGE (id)"
    )
    cursor.execute(f"ALTER TABLE {TABLE} DROP CONSTRAINT {_CHECK}")
    cursor.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {EARLIER} FOR VALUES FROM (MINVALUE) TO ('{bound}')")
    cursor.execute(f"ALTER TABLE {EARLIER} DROP CONSTRAINT {_CHECK}")
    for index, name in indexes.items():
        cursor.execute(f'ALTER INDEX "{name}" RENAME TO "{f"earlier_{name}"[:63]}"')
        cursor.execute("SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = %s", [index])
        ((of_all,),) = cursor.fetchall()
        if of_all != name:
            cursor.execute(f'ALTER INDEX {of_all} RENAME TO "{name}"')
    if indexes.keys() != _indexes(cursor, EARLIER).keys():
        raise RuntimeError("an index of the operations log does not fit its partition")
    cursor.execute(f"CREATE TABLE {LATER} PARTITION OF {TABLE} FOR VALUES FROM ('{bound}') TO (MAXVALUE)")
    for name in (TABLE, LATER):
        cursor.execute(f"ALTER TABLE {name} OWNER TO {owner}")
    cursor.execute(_GUARDS)
    make_list(cursor, connection.vendor)
    make_claims(cursor, connection)
    for name in (EARLIER, LATER):
        cursor.execute("SELECT audit_guard_partition(%s)", [name])
    for statement in grants:
        cursor.execute(statement)


def _owner(cursor):
    cursor.execute("SELECT relowner::regrole::text FROM pg_class WHERE oid = to_regclass(%s)", [TABLE])
    return cursor.fetchone()[0]


def _indexes(cursor, table=TABLE):
    """The names of a table's indexes by their numbers."""
    cursor.execute(
        "SELECT indexrelid, relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
        " WHERE indrelid = %s::regclass ORDER BY indexrelid",
        [table],
    )
    return dict(cursor.fetchall())


def _grants(cursor):
    """Statements that give others on the new table what they had on this one, and nothing else."""
    cursor.execute(
        "SELECT rolname, privilege_type, is_grantable, NULL FROM pg_class, aclexplode(relacl) AS granted, pg_roles"
        " WHERE pg_class.oid = %s::regclass AND pg_roles.oid = grantee AND grantee <> relowner"
        " UNION ALL SELECT rolname, privilege_type, is_grantable, attname"
        " FROM pg_class, pg_attribute, aclexplode(attacl) AS granted, pg_roles"
        " WHERE pg_class.oid = %s::regclass AND attrelid = pg_class.oid AND pg_roles.oid = grantee"
        " AND grantee <> relowner",
        [TABLE, TABLE],
    )
    found = cursor.fetchall()
    cursor.execute(
        "SELECT DISTINCT rolname FROM pg_default_acl, aclexplode(defaclacl) AS granted, pg_roles"
        " WHERE defaclobjtype = 'r' AND pg_roles.oid = grantee AND defaclrole <> grantee"
    )
    roles = {role for role, *_ in found} | {role for (role,) in cursor.fetchall()}
    statements = [f'REVOKE ALL ON {TABLE} FROM "{role}"' for role in sorted(roles)]
    for role, privilege, is_grantable, column in found:
        of_column = f' ("{column}")' if column else ""
        option = " WITH GRANT OPTION" if is_grantable else ""
        statements.append(f'GRANT {privilege}{of_column} ON {TABLE} TO "{role}"{option}')
    return statements
