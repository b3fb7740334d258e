"""A documented default is what its absence means: generated clients send every default that the document gives."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from core.operation import Effect, Operation, operations
from core.shapes import load_body
from directory.models import DirectoryConnection
from tests.support.cast import Integration, make_integration
from tests.support.openapi import Document, Documented

DOCUMENTS = [
    Document(json.loads((Path(__file__).parents[2] / "docs" / "openapi" / f"{surface}.json").read_text()))
    for surface in ("api", "rest")
]


def defaults_within(document: Document, schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every default that a schema documents, however deep, by the path of its member."""
    resolved = document.resolve(schema)
    for name, member in resolved.get("properties", {}).items():
        if "default" in member:
            yield f"{path}/{name}", member["default"]
        yield from defaults_within(document, member, f"{path}/{name}")
    for inner in (*resolved.get("anyOf", ()), *resolved.get("oneOf", ()), resolved.get("items")):
        if inner:
            yield from defaults_within(document, inner, path)


def documented(method: str | None = None) -> list[tuple[Document, Documented]]:
    return [
        (document, operation)
        for document in DOCUMENTS
        for operation in document.operations
        if method in (None, operation.method)
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=["api", "rest"])
def test_there_are_defaults(document: Document) -> None:
    batch = next(item for item in document.operations if item.path.endswith("/groups/batch/create"))
    assert dict(defaults_within(document, batch.body))["/onError"] == "continue"


@pytest.mark.parametrize(("document", "operation"), documented("PATCH"), ids=lambda item: getattr(item, "name", ""))
def test_what_an_update_leaves_out_stays(document: Document, operation: Documented) -> None:
    assert list(defaults_within(document, operation.body)) == []


def test_batches_of_updates_document_no_defaults_of_items() -> None:
    for document, operation in documented("POST"):
        if operation.path.endswith("/batch/update"):
            items = document.resolve(operation.body)["properties"]["items"]
            assert [name for name, default in defaults_within(document, items) if default is not None] == []


BODIES = [item for item in operations() if item.body is not None and item.method != "PATCH"]


def own_defaults(operation: Operation) -> dict[str, Any]:
    """The defaults of the members at the top of an operation's body, as its document gives them."""
    assert operation.body is not None
    described = operation.body.model_json_schema(by_alias=True).get("properties", {})
    return {name: member["default"] for name, member in described.items() if "default" in member}


def examples_of(operation: Operation) -> Any:
    assert operation.body is not None
    extra: Any = operation.body.model_config["json_schema_extra"]
    return extra["examples"]


@pytest.mark.parametrize("operation", BODIES, ids=lambda item: item.name)
def test_a_default_that_is_sent_is_understood_as_its_absence(operation: Operation) -> None:
    assert operation.body is not None
    for example in examples_of(operation):
        without = load_body(operation.body, example)
        for name, default in own_defaults(operation).items():
            assert load_body(operation.body, {name: default} | example) == without, name


CHANGES = [item for item in BODIES if item.effect is Effect.CHANGE and item.is_creation]


@pytest.mark.parametrize("operation", CHANGES, ids=lambda item: item.name)
def test_a_default_that_is_sent_changes_nothing_else(
    operation: Operation, connection: DirectoryConnection, organizational_unit: str
) -> None:
    integration = make_integration(connection)
    assert operation.body is not None
    example = examples_of(operation)[0]
    least = {name: example[name] for name in ("name", "objectClass") if name in example} | {
        "parent": organizational_unit
    }
    path = f"/api/{operation.path}?dryRun=true"
    without = integration.call("POST", path, least)
    assert without.status == 200
    for name, default in own_defaults(operation).items():
        answer = integration.call("POST", path, {name: default} | least)
        assert (answer.status, answer.body) == (200, without.body), name


def status_of(integration: Integration, path: str, query: dict[str, str], headers: dict[str, str]) -> int:
    answer = integration.client.get(path, query, headers=headers)
    b"".join(answer)  # a stream holds a connection until it ends
    return int(answer.status_code)


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/csv"])
def test_a_parameter_with_its_default_is_as_good_as_none(
    accept: str, connection: DirectoryConnection, ada: UUID
) -> None:
    integration = make_integration(connection)
    document = DOCUMENTS[0]
    compared = 0
    for item in document.operations:
        found = {
            parameter["name"]: parameter["schema"]["default"]
            for parameter in item.parameters("query")
            if "default" in parameter["schema"]
        }
        if item.method != "GET" or not found:
            continue
        path = item.path.replace("{id}", str(ada if "/users/" in item.path else uuid4()))
        needed = {"action": "disable", "state": "disabled"}
        given = {
            parameter["name"]: needed[parameter["name"]]
            for parameter in item.parameters("query")
            if parameter.get("required") and parameter["name"] in needed
        }
        headers = {"X-API-Key": integration.value, "Accept": accept}
        without = status_of(integration, path, given, headers)
        for name, default in found.items():
            text = ",".join(default) if isinstance(default, list) else json.dumps(default).strip('"')
            assert status_of(integration, path, {**given, name: text}, headers) == without, (item.name, name)
            compared += 1
    assert compared > 10
