"""Batches through HTTP, sentence by sentence of the contract: what each item comes to, and what the directory holds."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from directory.ldap import Client
from directory.models import DirectoryConnection
from gateway import batches, pipeline
from gateway.core.call import SupervisionLevel
from gateway.core.operation import operations
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person
from tests.support.directory import Directory, random_name
from tests.support.domain import Domain

pytestmark = pytest.mark.sqlite

KINDS = ("users", "groups", "computers", "organization-units")


@pytest.fixture(autouse=True)
def _without_rate_limits(settings: Any) -> None:
    """All requests of the tests come from one address."""
    configuration = settings.CONFIGURATION
    unlimited = configuration.RateLimiting.model_copy(update={"Enabled": False})
    settings.CONFIGURATION = configuration.model_copy(update={"RateLimiting": unlimited})


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def integration(connection: DirectoryConnection) -> Integration:
    """May do everything, without asking."""
    return make_integration(connection)


@pytest.fixture
def careful(connection: DirectoryConnection) -> Integration:
    """May do everything; destructive and security changes are held."""
    return make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)


@pytest.fixture
def users(directory: Directory, organizational_unit: str) -> Callable[[int], list[UUID]]:
    """Makes so many users with the title Analyst."""
    return lambda count: [directory.add_user(parent=organizational_unit, title="Analyst") for _ in range(count)]


def send(integration: Integration, verb: str, items: Any, noun: str = "users", **more: Any) -> Answer:
    headers = {name: value for name, value in more.items() if name[0].isupper()}
    members = {name: value for name, value in more.items() if not name[0].isupper() and name != "query"}
    return integration.post(f"/api/ad/{noun}/batch/{verb}{more.get('query', '')}", {"items": items, **members}, **headers)


def titled(guid: UUID, title: str, **more: Any) -> dict[str, Any]:
    return {"id": str(guid), "replace": {"title": title}, **more}


def statuses(answer: Answer) -> list[int | None]:
    return [result["status"] for result in answer.body["results"]]


def codes(answer: Answer) -> list[str | None]:
    return [result["problem"] and result["problem"]["code"] for result in answer.body["results"]]


def records(**filters: Any) -> list[OperationRecord]:
    return list(OperationRecord.objects.filter(**filters).order_by("id"))


def test_it_works(integration: Integration, users: Callable[[int], list[UUID]], directory: Directory) -> None:
    some = users(3)
    answer = send(integration, "update", [titled(guid, f"T{n}") for n, guid in enumerate(some)], X_Change_Reason="all")
    assert answer.status == 200
    assert answer.body == {
        "total": 3,
        "succeeded": 3,
        "failed": 0,
        "queued": 0,
        "skipped": 0,
        "results": [
            {"index": n, "status": 200, "id": str(guid), "problem": None, "changeRequestId": None}
            for n, guid in enumerate(some)
        ],
    }
    assert [directory.text(guid, "title") for guid in some] == ["T0", "T1", "T2"]
    kept = records()
    assert [(item.operation, item.outcome, item.target_id, item.batch_index) for item in kept] == [
        ("users.update", "succeeded", guid, n) for n, guid in enumerate(some)
    ]
    assert {item.request_id for item in kept} == {answer.headers["X-Request-Id"]}
    assert {(item.reason, item.key_name) for item in kept} == {("all", integration.key.name)}
    assert all(item.server and item.completed_at for item in kept)
    assert kept[1].changes == [{"attribute": "title", "before": ["Analyst"], "after": ["T1"]}]
