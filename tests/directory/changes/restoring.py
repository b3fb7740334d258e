"""Restoring deleted objects through the front door."""

from typing import Any
from uuid import UUID

from tests.support.cast import Integration

PATH = "/api/ad/deleted-objects"


def restore(integration: Integration, guid: UUID, body: Any = None, *, query: str = "") -> Any:
    return integration.post(f"{PATH}/{guid}/restore{query}", body)


def refused(answer: Any) -> tuple[int, str | None]:
    return answer.status, answer.code
