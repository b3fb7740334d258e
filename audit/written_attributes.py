"""Which attributes of a directory's objects are written through the gateway, by its log."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

from audit.models import OperationRecord, Outcome

_LOOKED_AT: Final = 20_000
"""Records, the newest ones."""


def attributes_written(directory_id: UUID, operations: Iterable[str], *, since: datetime) -> dict[str, set[str]]:
    """By kind of object, the attributes that these operations wrote. What was refused is not in use."""
    updates = OperationRecord.objects.filter(
        directory_id=directory_id, at__gte=since, operation__in=list(operations), outcome=Outcome.SUCCEEDED
    )
    found: dict[str, set[str]] = defaultdict(set)
    for kind, changes in updates.order_by("-id").values_list("target_kind", "changes")[:_LOOKED_AT]:
        if kind:
            found[kind].update(change["attribute"] for change in changes or ())
    return found
