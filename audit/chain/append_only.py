"""What the database lets be changed of the operations log, and the one way to lift that for a moment.

The triggers themselves are in `audit.migrations._append_only`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.transaction import TransactionManagementError

TABLE = "audit_operationrecord"
SEALS = "audit_logseal"

COMPLETION = ("outcome", "completed_at", "code", "settle_at", "settle_attempts")
"""Columns that the completion of a record sets."""
FILLED_IN = ("server", "target_id", "target_dn")
"""Columns that the completion may set where they were NULL."""
SEALING = ("seal", "sealed_as")
"""Columns that sealing sets."""


@contextmanager
def deletions_allowed() -> Iterator[None]:
    """Let records be deleted in the rest of the caller's transaction, which nobody else writes to the log during.

    For removing old records (`audit.chain.retention`) and nothing else. Whatever goes wrong, the transaction's
    rollback puts the trigger back.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("the guard of the operations log is lifted for one transaction only")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            lift, restore = (
                f"ALTER TABLE {TABLE} {action} TRIGGER audit_no_delete" for action in ("DISABLE", "ENABLE")
            )
        else:
            cursor.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = 'audit_no_delete'")
            lift, (restore,) = "DROP TRIGGER audit_no_delete", cursor.fetchone()
        cursor.execute(lift)
        yield
        cursor.execute(restore)
