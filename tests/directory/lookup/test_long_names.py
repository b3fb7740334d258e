"""A name too long to be one is refused before the domain controller is asked."""

from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from tests.support.cast import Integration

LONG = "CN=" + "x" * 500_000 + ",DC=example,DC=test"
DEEP = "OU=unit," * 60_000 + "DC=example,DC=test"


@pytest.mark.parametrize("name", [LONG, DEEP])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/ad/users", {"name": "new", "parent": None}),
        ("POST", "/api/ad/users/{ada}/move", {"parent": None}),
        ("PATCH", "/api/ad/users/{ada}", {"replace": {"manager": None}}),
        ("PATCH", "/api/ad/users/{ada}", {"add": {"directReports": [None]}}),
    ],
)
def test_a_name_too_long_to_be_one_is_refused(
    integration: Integration, ada: UUID, name: str, method: str, path: str, body: dict[str, Any]
) -> None:
    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(each) for key, each in value.items()}
        return [name for _ in value] if isinstance(value, list) else name if value is None else value

    answer = integration.call(method, path.format(ada=ada), filled(body))
    assert 400 <= answer.status < 500
    assert len(str(answer.body)) < 2000


def test_in_a_query_too(integration: Integration) -> None:
    for name in ("base", "filter"):
        value = LONG[:60_000] if name == "base" else f"(manager={LONG[:60_000]})"
        answer = integration.get(f"/api/ad/users?{name}={quote(value)}")
        assert 400 <= answer.status < 500, name
