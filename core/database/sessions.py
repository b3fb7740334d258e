"""Makes PostgreSQL end a session whose host is lost in the middle of a transaction, and compile no query.

A host that loses power or network cannot say goodbye. PostgreSQL would keep its session and locks for two hours (TCP
keepalive). If it was sealing the log, every worker would wait for its lock, since the next seal has the same number.

Without statistics of a table PostgreSQL may take a short query for a long one, and compiles it for half a second.
"""

from typing import Any

from django.db import DatabaseError
from django.db.backends.signals import connection_created

_IDLE = "30s"
"""Between two statements of a transaction. The gateway's own transactions compute only briefly in between."""

_NAME = "idle_in_transaction_session_timeout"


def watch() -> None:
    """Configure each session as it is opened. Call it once per process, at its start."""
    connection_created.connect(_limit, dispatch_uid="database-sessions")


def _limit(connection: Any, **_: Any) -> None:
    """Set both, the timeout unless the server, the role or the connection's options have set one."""
    if connection.vendor != "postgresql":
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('jit', 'off', false),"
                " CASE WHEN current_setting(%s) = '0' THEN set_config(%s, %s, false) END",
                [_NAME, _NAME, _IDLE],
            )
    except DatabaseError:  # the connection is broken: its next user gets the error
        return
