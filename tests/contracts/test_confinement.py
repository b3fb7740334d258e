"""Whoever is confined to a part of the directory is refused outside of it, by every operation and however confined."""

import json
from typing import Any
from uuid import UUID

import pytest

from core.call import Surface
from core.operation import Operation, operations
from directory.models import DirectoryConnection
from lab.directory import Directory, random_name
from tests.support.cast import Answer, Confined, Console, make_confined

ON_OBJECTS = [item for item in operations() if item.names_object and "{id}" in item.path]
QUERIES = {
    "objects.count": "?kind=users",
    "organization-units.plan-accounts": "?action=disable",
    "organization-units.read-account-plan": "?action=disable",
}
BODIES: dict[str, Any] = {"organization-units.enable-accounts": {"kinds": ["user"]}}


class Outside:
    """One object of each kind beside the unit that callers are confined to, and a deleted one."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self.inside = directory.guid(directory.add_unit("Inside", parent=unit))
        self.unit = directory.add_unit(random_name("hidden"), parent=unit)
        gone = directory.add_user(parent=self.unit)
        directory.delete(gone)
        user = directory.add_user(parent=self.unit)
        self.objects: dict[str, UUID] = {
            "users": user,
            "groups": directory.add_group(parent=self.unit, members=[user]),
            "computers": directory.add_computer(parent=self.unit),
            "contacts": directory.add(f"CN={random_name('contact')},{self.unit}", {"objectClass": "contact"}),
            "organization-units": directory.guid(self.unit),
            "objects": user,
            "deleted-objects": gone,
        }

    def versions(self, directory: Directory) -> dict[str, Any]:
        """The change numbers of the objects ([MS-ADA3] 2.362): equal ones mean that nothing was written."""
        living = {name: id for name, id in self.objects.items() if name != "deleted-objects"}
        return {name: directory.read(id, "uSNChanged")["uSNChanged"] for name, id in living.items()}

    def path_of(self, operation: Operation) -> str:
        resource = operation.path.split("/")[1]
        object_id = self.objects.get(resource, self.objects["users"])
        return operation.path.replace("{id}", str(object_id)) + QUERIES.get(operation.name, "")


def body_of(operation: Operation) -> Any:
    if operation.body is None:
        return None
    extra: Any = operation.body.model_config.get("json_schema_extra", {})
    return BODIES.get(operation.name, extra["examples"][0])


@pytest.fixture
def outside(directory: Directory, organizational_unit: str) -> Outside:
    return Outside(directory, organizational_unit)


def told_of(operation: Operation, answer: Answer, outside: Outside) -> str | None:
    """What a caller has learnt or done who should have been refused."""
    if (answer.status, answer.code) == (403, "Auth.Forbidden") and outside.unit not in json.dumps(answer.body):
        return None
    return f"{operation.name}: {answer.status} {answer.body}"


@pytest.mark.parametrize("by", ["role", "token"])
def test_every_operation_on_an_object(
    by: Confined, connection: DirectoryConnection, directory: Directory, outside: Outside
) -> None:
    """The machine surface as a key and as a person; what is there for people alone in a session of theirs."""
    caller = make_confined(by, connection, outside.inside)
    before = outside.versions(directory)
    told = []
    for operation in ON_OBJECTS:
        path, body = outside.path_of(operation), body_of(operation)
        if Surface.API in operation.surfaces:
            told.append(told_of(operation, caller.call(operation.method, f"/api/{path}", body), outside))
    if by == "token":
        console = Console(caller.key.owner)
        for operation in ON_OBJECTS:
            if Surface.API not in operation.surfaces:
                answer = console.call(operation.method, f"/rest/{outside.path_of(operation)}", body_of(operation))
                told.append(told_of(operation, answer, outside))
    assert [each for each in told if each] == []
    assert len(told) > 40
    assert outside.versions(directory) == before
