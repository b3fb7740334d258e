"""The request as a whole, through HTTP: what is asked of it, and what of it is refused whole."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from core.call import Surface
from core.operation import Operation, operations
from core.shapes import load_body
from directory.models import DirectoryConnection
from gateway.management.openapi import document
from gateway.pipeline.batches import Item, batch_shape, item_shape
from lab.directory import Directory, random_name
from tests.audit.calls import CALL
from tests.gateway.pipeline.batches.sending import records, send, statuses, titled
from tests.support.cast import Answer, Console, Integration, make_integration, make_person

KINDS = ("users", "groups", "computers", "organization-units", "contacts")


NEW = {
    "users": lambda parent: {"name": random_name("new"), "parent": parent, "replace": {"description": "made"}},
    "groups": lambda parent: {"name": random_name("new"), "parent": parent, "replace": {"description": "made"}},
    "computers": lambda parent: {"name": random_name("n")[:14], "parent": parent, "replace": {"description": "made"}},
    "organization-units": lambda parent: {"name": random_name("new"), "parent": parent, "replace": {"l": "London"}},
    "contacts": lambda parent: {"name": random_name("new"), "parent": parent, "replace": {"mail": "new@x.test"}},
}


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


@pytest.mark.parametrize("resource", KINDS)
def test_create_update_and_delete_of_each_kind(
    integration: Integration, organizational_unit: str, directory: Directory, resource: str
) -> None:
    created = send(integration, "create", [NEW[resource](organizational_unit) for _ in range(3)], resource)
    assert (created.status, statuses(created)) == (200, [201, 201, 201])
    ids = [result["id"] for result in created.body["results"]]
    assert all(directory.dn(UUID(guid)).endswith(organizational_unit) for guid in ids)
    updated = send(integration, "update", [{"id": guid, "replace": {"description": guid}} for guid in ids], resource)
    assert (updated.status, statuses(updated)) == (200, [200, 200, 200])
    assert [directory.text(UUID(guid), "description") for guid in ids] == ids
    deleted = send(integration, "delete", [{"id": guid} for guid in ids], resource)
    assert (deleted.status, statuses(deleted)) == (200, [204, 204, 204])
    assert [result["id"] for result in deleted.body["results"]] == ids
    assert not any(directory.exists(UUID(guid)) for guid in ids)
    kept = [(item.operation, item.outcome, item.batch_index, str(item.target_id)) for item in records()]
    assert kept == [
        (f"{resource}.{action}", "succeeded", n, guid)
        for action in ("create", "update", "delete")
        for n, guid in enumerate(ids)
    ]


def test_there_are_three_for_each_kind(integration: Integration, connection: DirectoryConnection) -> None:
    declared = sorted(item.name for item in operations() if item.batchable)
    assert declared == sorted(f"{resource}.{action}" for resource in KINDS for action in ("create", "update", "delete"))
    console = Console(make_person(superuser=True))
    for resource in KINDS:
        for action in ("create", "update", "delete"):
            assert send(integration, action, [], resource).status == 200
            assert console.post(f"/rest/ad/{resource}/batch/{action}", {"items": []}).status == 200
    assert send(integration, "update", [], "objects").status == 404
    refused = integration.get("/api/ad/users/batch/update")
    assert (refused.status, refused.code, refused.headers["Allow"]) == (405, "Request.MethodNotAllowed", "POST")


@pytest.mark.parametrize(
    ("headers", "status"), [({"X_Change_Reason": "x" * 501}, 400), ({"Content_Encoding": "gzip"}, 415)]
)
def test_headers_are_read_as_strictly(integration: Integration, headers: dict[str, str], status: int) -> None:
    assert send(integration, "update", [], **headers).status == status


def test_an_empty_list_is_no_failure(integration: Integration) -> None:
    answer = send(integration, "update", [])
    assert (answer.status, answer.body) == (
        200,
        {"total": 0, "succeeded": 0, "failed": 0, "queued": 0, "skipped": 0, "results": []},
    )
    assert records() == []


def test_a_person_is_served_too(
    connection: DirectoryConnection, users: Callable[[int], list[UUID]], directory: Directory
) -> None:
    console = Console(make_person(superuser=True))
    (guid,) = users(1)
    answer = console.post("/rest/ad/users/batch/update", {"items": [titled(guid, "Countess")]})
    assert (answer.status, directory.text(guid, "title")) == (200, "Countess")
    (record,) = records(operation="users.update")
    assert (record.surface, record.owner, record.batch_index) == ("rest", console.person.username, 0)


def test_without_the_permission_the_batch_is_refused_whole(
    connection: DirectoryConnection, users: Callable[[int], list[UUID]], directory: Directory
) -> None:
    integration = make_integration(connection, may=["directory.read_object", "directory.update_group"])
    (guid,) = users(1)
    for body in ({"items": [titled(guid, "x")]}, {"nonsense": 1}, "{"):
        answer = integration.post("/api/ad/users/batch/update", body)
        assert (answer.status, answer.code, answer.body.get("errors")) == (403, "Auth.Forbidden", None)
    assert directory.text(guid, "title") == "Analyst"
    refused = [(item.operation, item.outcome, item.code, item.batch_index) for item in records()]
    assert refused == [("users.update", "failed", "Auth.Forbidden", None)] * 3


@pytest.mark.parametrize(
    ("body", "code", "where"),
    [
        ({}, "Request.Invalid", "#/items"),
        ({"items": {}}, "Request.Invalid", "#/items"),
        ({"items": None}, "Request.Invalid", "#/items"),
        ({"items": [], "onError": "pause"}, "Request.Invalid", "#/onError"),
        ({"items": [], "more": 1}, "Request.UnknownMember", "#/more"),
        ([], "Request.Invalid", "#"),
    ],
)
def test_a_malformed_batch_is_refused_whole(integration: Integration, body: Any, code: str, where: str) -> None:
    answer = integration.post("/api/ad/users/batch/update", body)
    assert (answer.status, answer.code) == (400, code)
    assert [error["pointer"] for error in answer.body["errors"]] == [where]
    (record,) = records()
    assert (record.operation, record.outcome, record.code, record.batch_index) == ("users.update", "failed", code, None)


def test_what_is_said_around_the_body_is_strict(integration: Integration) -> None:
    answer = send(integration, "delete", [], query="?recursive=true")
    assert (answer.status, answer.code) == (400, "Request.UnknownParameter")
    answer = send(integration, "update", [], query="?dryRun=yes")
    assert (answer.status, answer.code) == (400, "Request.Invalid")
    answer = send(integration, "update", [], If_Match='"1"')
    assert (answer.status, answer.code) == (400, "Request.Invalid")
    assert answer.body["errors"][0]["parameter"] == "If-Match"
    answer = send(integration, "update", [], Content_Encoding="gzip")
    assert (answer.status, answer.code) == (415, "Request.UnsupportedMediaType")


def test_too_many_items(integration: Integration, users: Callable[[int], list[UUID]], directory: Directory) -> None:
    (guid,) = users(1)
    answer = send(integration, "update", [titled(guid, "x")] * 1001)
    assert (answer.status, answer.code, answer.body["maxItems"]) == (400, "Batch.TooMany", 1000)
    assert directory.text(guid, "title") == "Analyst"


def test_a_retry_with_the_same_key_gets_the_whole_answer(
    integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
) -> None:
    (one,) = users(1)
    items = [titled(one, "A"), {"id": str(uuid4())}]
    first = send(integration, "update", items, Idempotency_Key="one")
    directory.modify(one, title="B")
    again = send(integration, "update", items, Idempotency_Key="one")
    assert (again.status, again.body, again.headers["Idempotency-Replayed"]) == (207, first.body, "true")
    assert directory.text(one, "title") == "B"
    assert send(integration, "update", items[:1], Idempotency_Key="one").code == "Idempotency.KeyReused"
    refused = send(integration, "update", items * 600, Idempotency_Key="two")
    assert (refused.status, refused.code) == (400, "Batch.TooMany")
    assert send(integration, "update", items * 600, Idempotency_Key="two").headers["Idempotency-Replayed"] == "true"


def test_a_batch_counts_once_against_the_rate_limit(
    limited: None, integration: Integration, users: Callable[[int], list[UUID]]
) -> None:
    def remaining(answer: Answer) -> int:
        return int(answer.headers["RateLimit"].partition(";r=")[2].partition(";")[0])

    before = remaining(send(integration, "update", []))
    answer = send(integration, "update", [titled(guid, "x") for guid in users(5)])
    assert (answer.status, remaining(answer)) == (200, before - 1)


def test_a_large_body_is_taken_by_batches_only(
    integration: Integration, users: Callable[[int], list[UUID]], directory: Directory
) -> None:
    (guid,) = users(1)
    values = ["x" * 200_000 + str(n) for n in range(10)]
    item = {"id": str(guid), "replace": {"url": values}}
    assert send(integration, "update", [item, titled(guid, "x")]).status in (200, 207)
    assert directory.text(guid, "title") == "x"
    waits = {"Expect": "100-continue"}  # else the rest of the body is read, which the test client does not allow
    for path in (f"/api/ad/users/{guid}", "/api/ad/users/batch/rename", "/api/ad/objects/batch/update"):
        answer = integration.call("POST", path, {"items": [item]}, **waits)
        assert (answer.status, answer.code, answer.body["maxBodyBytes"]) == (413, "Request.BodyTooLarge", 1_048_576)
    answer = send(integration, "update", [item] * 6, **waits)
    assert (answer.status, answer.code, answer.body["maxBodyBytes"]) == (413, "Request.BodyTooLarge", 10_485_760)


@pytest.mark.parametrize("surface", [Surface.API, Surface.REST])
def test_the_documents_name_them_all(surface: Surface) -> None:
    paths = document(surface)["paths"]
    described = {path: methods["post"] for path, methods in paths.items() if "/batch/" in path}
    assert {path: item["operationId"] for path, item in described.items()} == {
        f"/{surface}/ad/{item.resource}/batch/{item.action}": f"{item.resource}.batch-{item.action}"
        for item in operations()
        if item.batchable
    }
    assert all({"200", "207", "413"} <= set(item["responses"]) for item in described.values())


@pytest.mark.parametrize("operation", [item for item in operations() if item.batchable], ids=lambda item: item.name)
def test_the_shapes_have_valid_examples(operation: Operation) -> None:
    for shape in (item_shape(operation), batch_shape(operation)):
        schema = shape.model_json_schema()
        assert schema["examples"]
        for example in schema["examples"]:
            load_body(shape, example)
    for item in batch_shape(operation).model_json_schema()["examples"][0]["items"]:
        Item(0, item).validate(operation, CALL)
