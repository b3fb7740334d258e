"""Locks the log for a moment, without making those who write wait behind whoever vacuums it."""

import time

from django.db import OperationalError, transaction

LOCK_SECONDS = 0.3
"""How long others may wait behind us for the table, which we get as soon as nobody vacuums it."""
_PAUSE_SECONDS = 2
_ATTEMPTS = 1800


def with_lock(connection, table, mode, action):
    """Call `action` with a cursor while the table is locked, in a transaction of its own; try for an hour."""
    for attempt in range(_ATTEMPTS):
        try:
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
                cursor.execute(f"LOCK TABLE {table} IN {mode} MODE")
                return action(cursor)
        except OperationalError:  # it is being vacuumed, for example
            if attempt + 1 == _ATTEMPTS:
                raise
            time.sleep(_PAUSE_SECONDS)
