"""What is deprecated says so in every answer and in the document, a year before it goes."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from django.test import RequestFactory
from django.urls import resolve

from core.call import Surface
from core.operation import Deprecation, find_operation, operations
from gateway.management.openapi import document

GOING = Deprecation(date(2026, 12, 1), date(2028, 1, 1), "Use `me.read-more`.")


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The view of an operation that is deprecated."""
    view: Any = resolve("/api/me").func
    (action,) = view.cls.operations
    going = replace(find_operation("me.read"), deprecation=GOING)
    monkeypatch.setitem(view.cls.operations, action, going)
    return view


def test_every_answer_says_so(view: Any) -> None:
    refused = view(RequestFactory().get("/api/me"))
    assert refused.status_code == 401
    assert refused["Deprecation"] == "@1796083200"
    assert refused["Sunset"] == "Sat, 01 Jan 2028 00:00:00 GMT"


def test_the_document_says_so(view: Any) -> None:
    described = document(Surface.API)["paths"]["/api/me"]["get"]
    assert described["deprecated"] is True
    assert described["description"].count("Removed on 2028-01-01 at the earliest. Use `me.read-more`.") == 1
    assert {"Deprecation", "Sunset"} <= described["responses"]["200"]["headers"].keys()


def test_nothing_goes_within_a_year() -> None:
    with pytest.raises(ValueError, match="a year"):
        Deprecation(date(2026, 12, 1), date(2027, 11, 30), "")


def test_nothing_is_deprecated_now() -> None:
    assert [item.name for item in operations() if item.deprecation] == [], "docs/api.md says so"
