"""A path answers to the methods it is described with, and does nothing at all for any other."""

import json
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from audit.models import OperationRecord
from tests.support.cast import Console, Integration, make_person

DESCRIPTIONS = Path(__file__).parents[2] / "docs" / "openapi"
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}


@cache
def described(surface: str) -> dict[str, set[str]]:
    """The methods of every path of a surface."""
    document = json.loads((DESCRIPTIONS / f"{surface}.json").read_text())
    return {
        path: {method.upper() for method in METHODS if method.lower() in has} for path, has in document["paths"].items()
    }


def others(surface: str) -> list[tuple[str, str]]:
    return [(method, path) for path, known in described(surface).items() for method in sorted(METHODS - known)]


def of_some(path: str) -> str:
    """The path with identifiers in place of its placeholders."""
    while "{" in path:
        path = path.replace(path[path.index("{") : path.index("}") + 1], str(uuid4()), 1)
    return path


@pytest.mark.parametrize("surface", ["api", "rest"])
def test_any_other_method_is_refused(surface: str, integration: Integration) -> None:
    caller = integration if surface == "api" else Console(make_person())
    before = OperationRecord.objects.count()
    for method, path in others(surface):
        answer = caller.call(method, of_some(path))
        assert (answer.status, answer.code) == (405, "Request.MethodNotAllowed"), (method, path)
        allowed = set(answer.headers["Allow"].split(", ")) - {"HEAD"}
        assert allowed == described(surface)[path], (method, path)
    assert OperationRecord.objects.count() == before
    assert len(others(surface)) > 100
