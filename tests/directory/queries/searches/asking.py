"""Asking lists of objects, and the names in their answers."""

from typing import Any
from urllib.parse import urlencode

from tests.support.cast import Answer, Integration


def search(integration: Integration, resource: str = "users", **parameters: Any) -> Answer:
    return integration.get(f"/api/ad/{resource}?{urlencode(parameters)}")


def found(answer: Answer) -> set[str]:
    assert answer.status == 200, answer.body
    return {item["name"] for item in answer.body["items"]}
