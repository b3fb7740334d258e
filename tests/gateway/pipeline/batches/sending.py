"""Sending batches, and reading what came of them."""

from typing import Any
from uuid import UUID

from audit.models import OperationRecord
from tests.support.cast import Answer, Integration


def send(integration: Integration, action: str, items: Any, resource: str = "users", **more: Any) -> Answer:
    headers = {name: value for name, value in more.items() if name[0].isupper()}
    members = {name: value for name, value in more.items() if not name[0].isupper() and name != "query"}
    return integration.post(
        f"/api/ad/{resource}/batch/{action}{more.get('query', '')}", {"items": items, **members}, **headers
    )


def titled(guid: UUID, title: str, **more: Any) -> dict[str, Any]:
    return {"id": str(guid), "replace": {"title": title}, **more}


def statuses(answer: Answer) -> list[int | None]:
    return [result["status"] for result in answer.body["results"]]


def codes(answer: Answer) -> list[str | None]:
    return [result["problem"] and result["problem"]["code"] for result in answer.body["results"]]


def records(**filters: Any) -> list[OperationRecord]:
    return list(OperationRecord.objects.filter(**filters).order_by("id"))
