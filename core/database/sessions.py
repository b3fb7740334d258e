"""What every session of PostgreSQL is told: to end when whoever has it open is gone in the middle of a transaction.

A host that loses its power or its network says nothing. PostgreSQL would keep its session, with all that it locks, for
two hours (TCP's keepalive): the next seal of the log has the number that the lost one had, so every worker would wait.
"""

from typing import Any, Final

from django.db import DatabaseError
from django.db.backends.signals import connection_created

_IDLE: Final = "30s"
"""Between two statements of a transaction; the gateway's own compute for a moment and wait for nobody."""

_NAME: Final = "idle_in_transaction_session_timeout"


def watch() -> None:
    """Tell each session as it is opened; once for each process, as it starts."""
    connection_created.connect(_limit, dispatch_uid="database-sessions")


def _limit(connection: Any, **_: Any) -> None:
    """What the server, its role or the connection's own options have decided is left as it is."""
    if connection.vendor != "postgresql":
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config(%s, %s, false) WHERE current_setting(%s) = '0'", [_NAME, _IDLE, _NAME])
    except DatabaseError:  # whoever opened the connection hears of it
        return
