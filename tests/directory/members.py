"""Changing the members of groups through the front door."""

from typing import Any
from uuid import UUID

from audit.models import OperationRecord
from tests.support.cast import Answer, Console, Integration


def change(
    integration: Integration | Console, group: UUID, *, add: Any = (), remove: Any = (), query: Any = "", **headers: Any
) -> Answer:
    prefix = "/rest" if isinstance(integration, Console) else "/api"
    body = {"add": [str(guid) for guid in add], "remove": [str(guid) for guid in remove]}
    return integration.post(f"{prefix}/ad/groups/{group}/members{query}", body, **headers)


def counts(added: int = 0, removed: int = 0, unchanged: int = 0) -> dict[str, int]:
    return {"added": added, "removed": removed, "unchanged": unchanged}


def records() -> list[OperationRecord]:
    return list(OperationRecord.objects.order_by("at"))
