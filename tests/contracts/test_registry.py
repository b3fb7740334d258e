"""What holds for every operation, present and future."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission

from audit.models import OperationRecord
from audit.read_buffer import reads
from core.call import Surface
from core.operation import SIGNED_IN, Effect, Operation, Risk, operations
from core.shapes import load_body
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.support.cast import Console, make_integration, make_person

EVERY = list(operations())
ON_API = [item for item in EVERY if Surface.API in item.surfaces]
ON_REST = [item for item in EVERY if Surface.REST in item.surfaces]
GUARDED_ON_API = [item for item in ON_API if SIGNED_IN not in item.permission]
GUARDED_ON_REST = [item for item in ON_REST if SIGNED_IN not in item.permission]


KEPT_FOR_A_DIRECTORY = {"change-templates", "saved-filters", "runs", "schema"}
KEPT_ELSEWHERE = {"membership-rules"}
"""What is kept for a directory, too, and has a path of its own."""


def named(operation: Operation) -> str:
    return operation.name


def path_of(operation: Operation) -> str:
    path = operation.path
    while "{" in path:
        start, end = path.index("{"), path.index("}")
        path = f"{path[:start]}{uuid4()}{path[end + 1 :]}"
    return path


def highest_usn(directory: Directory) -> int:
    """The domain controller's counter of changes ([MS-ADTS] 3.1.1.3.2.14): unchanged means nothing was written."""
    return int(directory.read("", "highestCommittedUSN")["highestCommittedUSN"][0])


def test_there_are_operations() -> None:
    assert len(EVERY) > 30


@pytest.mark.parametrize("operation", EVERY, ids=named)
def test_is_described(operation: Operation) -> None:
    assert operation.summary.endswith(".")
    assert operation.resource
    assert operation.action


@pytest.mark.parametrize("operation", EVERY, ids=named)
def test_what_it_is_about_is_where_it_is(operation: Operation) -> None:
    is_below_ad = operation.path.startswith("ad/")
    is_for_directory = is_below_ad or operation.effect is Effect.CHANGE or operation.resource in KEPT_ELSEWHERE
    assert operation.needs_directory is is_for_directory
    assert operation.names_object is (is_below_ad and operation.resource not in KEPT_FOR_A_DIRECTORY)
    assert operation.creates is (
        operation.method == "POST" and operation.action in ("create", "create-link", "prepare")
    )


@pytest.mark.parametrize("operation", EVERY, ids=named)
def test_permission_exists(operation: Operation, db: None) -> None:
    for name in operation.permission - {SIGNED_IN}:
        app, _, codename = name.partition(".")
        assert Permission.objects.filter(content_type__app_label=app, codename=codename).count() == 1, name


@pytest.mark.parametrize("operation", [item for item in EVERY if item.body], ids=named)
def test_body_has_a_valid_example(operation: Operation) -> None:
    assert operation.body is not None
    extra: Any = operation.body.model_config.get("json_schema_extra", {})
    examples = extra.get("examples")
    assert examples, f"{operation.body.__name__} has no example"
    for example in examples:
        load_body(operation.body, example)


@pytest.mark.parametrize("operation", EVERY, ids=named)
def test_only_changes_of_the_directory_have_a_risk(operation: Operation) -> None:
    if operation.effect is not Effect.CHANGE:
        assert operation.risk is Risk.ORDINARY
    else:
        assert operation.needs_directory


@pytest.mark.parametrize("operation", GUARDED_ON_API, ids=named)
def test_refused_without_permission_on_api(
    operation: Operation, connection: DirectoryConnection, directory: Directory
) -> None:
    integration = make_integration(connection, may=[])
    before = highest_usn(directory)
    # Not even JSON: who may not do it learns nothing about how it is done.
    answer = integration.call(operation.method, f"/api/{path_of(operation)}", "{" if operation.body else None)
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert not answer.body.get("errors")
    reads.flush()
    records = OperationRecord.objects.all()
    assert [(item.operation, item.outcome, item.code, item.key_name) for item in records] == [
        (operation.name, "failed", "Auth.Forbidden", integration.key.name)
    ]
    assert highest_usn(directory) == before


@pytest.mark.parametrize("operation", GUARDED_ON_REST, ids=named)
def test_refused_without_permission_on_rest(operation: Operation, connection: DirectoryConnection) -> None:
    console = Console(make_person())
    answer = console.call(operation.method, f"/rest/{path_of(operation)}", "{" if operation.body else None)
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")


@pytest.mark.parametrize("operation", ON_API, ids=named)
def test_unauthorised_without_a_credential(operation: Operation, connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    integration.value = integration.value[:-1] + ("a" if integration.value[-1] != "a" else "b")
    answer = integration.call(operation.method, f"/api/{path_of(operation)}")
    assert (answer.status, answer.code) == (401, "Auth.Unauthorized")
    assert "WWW-Authenticate" in answer.headers
    assert OperationRecord.objects.count() == 0


@pytest.mark.parametrize("operation", [item for item in ON_API if "{id}" in item.path], ids=named)
def test_a_malformed_identifier_is_nothing_at_all(operation: Operation, connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    answer = integration.call(operation.method, f"/api/{operation.path}".replace("{id}", "ada"))
    assert (answer.status, answer.code) == (404, "Request.NotFound")
