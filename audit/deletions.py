"""Where the operations log keeps what a deleted object was like: the record of its deletion."""

from datetime import datetime, timedelta
from uuid import UUID

from audit.models import OperationRecord, Outcome

CLOCKS_DIFFER_BY = timedelta(minutes=5)
"""The clocks of a domain may differ by so much (Kerberos' default); so may ours and the domain controller's."""


def last_deletion(directory_id: UUID, target: UUID, *, deleted_at: datetime) -> OperationRecord | None:
    """The record of an object's deletion at that time, None when somebody else deleted it.

    An earlier deletion, undone since, tells what the object was like then: it is not taken for this one.
    """
    return (
        OperationRecord.objects.filter(
            directory_id=directory_id,
            target_id=target,
            operation__endswith=".delete",
            outcome__in=(Outcome.SUCCEEDED, Outcome.PENDING, Outcome.UNKNOWN),
            at__range=(deleted_at - CLOCKS_DIFFER_BY, deleted_at + CLOCKS_DIFFER_BY),
        )
        .order_by("-id")
        .first()
    )
