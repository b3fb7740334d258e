"""Each change of the directory that there is, as a request, with what its record has to tell of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from core.operation import Effect, Operation, operations
from directory.shapes.kinds import RESOURCES
from lab.directory import PASSWORD, Directory, random_name, split_dn
from tests.support.cast import Integration

NEW_PASSWORD = "Another-Horse-10"
SECRET = "<secret>"

RUNS = ("organization-units.enable-accounts", "organization-units.disable-accounts")
OF_ANY_SIZE = ("organization-units.enable-all-accounts", "organization-units.disable-all-accounts")
"""Runs of people alone, judged as those: tests/console/test_runs.py."""
OWN = ("operations.undo", "change-requests.extend", "change-requests.revert-now")
"""Only for the credential that made a change: tests/directory/changes/test_undo.py and tests/approvals/test_ends.py.

Undoing a change, and ending it before its time, are reverts otherwise."""
CHANGES = [
    item for item in operations() if item.effect is Effect.CHANGE and item.name not in (*RUNS, *OF_ANY_SIZE, *OWN)
]
"""The changes of one object each; a run needs a worker."""
BATCHABLE = [item for item in CHANGES if item.batchable]

KINDS = {name: str(resource.kind) for name, resource in RESOURCES.items()} | {"objects": "contact"}


@dataclass
class World:
    """Where changes are tried: a unit of the domain, seen by the tests' own client, and a key that may do all."""

    integration: Integration
    directory: Directory
    unit: str

    def add(self, resource: str, **attributes: Any) -> UUID:
        """A new object of the kind that a resource stands for."""
        name = random_name("new")
        match resource:
            case "users":
                return self.directory.add_user(name, parent=self.unit, **attributes)
            case "computers":
                return self.directory.add_computer(name, parent=self.unit, **attributes)
            case "groups":
                return self.directory.add_group(name, parent=self.unit, **attributes)
            case "organization-units":
                return self.directory.guid(self.directory.add_unit(name, parent=self.unit, **attributes))
        return self.directory.add(f"CN={name},{self.unit}", {"objectClass": "contact", **attributes})


Values = tuple[list[str], list[str]]


@dataclass
class Attempt:
    """A change to be asked for. `target` is None for an object still to be made, at `dn`.

    `changes` are those its record shows at least, by attribute; `recorded_as` is the operation's name in the log.
    """

    request: tuple[str, str, Any]
    recorded_as: str
    target: UUID | None
    kind: str
    dn: str
    is_done: Callable[[], bool]
    changes: dict[str, Values]
    reversible: str = "full"
    item: dict[str, Any] = field(default_factory=dict)

    def ask(self, integration: Integration, **headers: str) -> Any:
        method, path, body = self.request
        return integration.call(method, path, body, **headers)


def attempt(operation: Operation, world: World) -> Attempt:
    """Make what the operation needs, and the request for it."""
    return _BY_ACTION[operation.action](operation, world)


def _on(operation: Operation, guid: UUID, world: World, body: Any = None, **facts: Any) -> Attempt:
    path = f"/api/{operation.path}".replace("{id}", str(guid))
    return Attempt(
        **{
            "request": (operation.method, path, body),
            "recorded_as": operation.name,
            "target": guid,
            "kind": KINDS[operation.resource],
            "dn": world.directory.dn(guid),
            "item": {"id": str(guid), **(body or {})},
            **facts,
        }
    )


def _create(operation: Operation, world: World) -> Attempt:
    name = random_name("new")
    dn = f"{'OU' if operation.resource == 'organization-units' else 'CN'}={name},{world.unit}"
    body = {"name": name, "parent": world.unit, "replace": {"description": "new"}}
    if operation.resource == "objects":
        body["objectClass"] = "contact"
    return Attempt(
        request=("POST", f"/api/{operation.path}", body),
        recorded_as=operation.name,
        target=None,
        kind=KINDS[operation.resource],
        dn=dn,
        is_done=lambda: world.directory.exists(dn),
        changes={"distinguishedName": ([], [dn]), "description": ([], ["new"])},
        item=body,
    )


def _update(operation: Operation, world: World) -> Attempt:
    guid = world.add(operation.resource, description="old")
    return _on(
        operation,
        guid,
        world,
        {"replace": {"description": "new"}},
        is_done=lambda: world.directory.text(guid, "description") == "new",
        changes={"description": (["old"], ["new"])},
    )


def _delete(operation: Operation, world: World) -> Attempt:
    guid = world.add(operation.resource, description="old")
    return _on(
        operation,
        guid,
        world,
        is_done=lambda: not world.directory.exists(guid),
        changes={"distinguishedName": ([world.directory.dn(guid)], []), "description": (["old"], [])},
        reversible="partial",
    )


def _enable(operation: Operation, world: World, *, enable: bool = True) -> Attempt:
    guid = world.add(operation.resource, enabled=not enable)
    before = world.directory.text(guid, "userAccountControl")
    return _on(
        operation,
        guid,
        world,
        is_done=lambda: world.directory.is_enabled(guid) == enable,
        changes={"userAccountControl": ([before], [str(int(before or 0) ^ 2)])},
    )


def _disable(operation: Operation, world: World) -> Attempt:
    return _enable(operation, world, enable=False)


def _unlock(operation: Operation, world: World) -> Attempt:
    guid = world.add(operation.resource)
    world.directory.modify(guid, lockoutTime="133000000000000000")
    return _on(
        operation,
        guid,
        world,
        is_done=lambda: world.directory.text(guid, "lockoutTime") == "0",
        changes={"lockoutTime": (["2022-06-18T04:26:40Z"], ["never"])},
        reversible="none",
    )


def _move(operation: Operation, world: World) -> Attempt:
    guid = world.add(operation.resource)
    dn, parent = world.directory.dn(guid), world.directory.add_unit(random_name("inner"), parent=world.unit)
    return _on(
        operation,
        guid,
        world,
        {"parent": parent},
        is_done=lambda: world.directory.dn(guid).endswith(parent),
        changes={"distinguishedName": ([dn], [f"{split_dn(dn)[0]},{parent}"])},
    )


def _rename(operation: Operation, world: World) -> Attempt:
    guid = world.add(operation.resource)
    dn, name = world.directory.dn(guid), random_name("renamed")
    new_dn = f"{dn.partition('=')[0]}={name},{world.unit}"
    return _on(
        operation,
        guid,
        world,
        {"name": name},
        is_done=lambda: world.directory.dn(guid) == new_dn,
        changes={"distinguishedName": ([dn], [new_dn])},
    )


def _restore(operation: Operation, world: World) -> Attempt:
    guid = world.add("users")
    dn = world.directory.dn(guid)
    world.directory.delete(guid)
    return Attempt(
        request=("POST", f"/api/ad/deleted-objects/{guid}/restore", None),
        recorded_as=operation.name,
        target=guid,
        kind="user",
        dn=dn,
        is_done=lambda: world.directory.exists(guid),
        changes={"isDeleted": (["TRUE"], [])},
    )


def _change_members(operation: Operation, world: World) -> Attempt:
    stays, goes, comes = (world.add("users") for _ in range(3))
    guid = world.directory.add_group(parent=world.unit, members=[stays, goes])
    gone, come = world.directory.dn(goes), world.directory.dn(comes)
    return _on(
        operation,
        guid,
        world,
        {"add": [str(comes)], "remove": [str(goes)]},
        is_done=lambda: world.directory.members(guid) == {world.directory.dn(stays), come},
        changes={"member": ([gone], [come])},
    )


def _reset_password(operation: Operation, world: World) -> Attempt:
    guid = world.add("users", password=PASSWORD)
    return _on(
        operation,
        guid,
        world,
        {"newPassword": NEW_PASSWORD},
        is_done=lambda: world.directory.can_sign_in(guid, NEW_PASSWORD),
        changes={"unicodePwd": ([SECRET], [SECRET])},
        reversible="none",
    )


def _change_password(operation: Operation, world: World) -> Attempt:
    guid = world.add("users", password=PASSWORD)
    world.directory.modify(guid, pwdLastSet="0")  # so that the minimum age does not matter
    return _on(
        operation,
        guid,
        world,
        {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD},
        is_done=lambda: world.directory.can_sign_in(guid, NEW_PASSWORD),
        changes={"unicodePwd": ([SECRET], [SECRET])},
        reversible="none",
    )


def _revert(operation: Operation, world: World) -> Attempt:
    guid = world.add("users", description="old")
    made = world.integration.patch(f"/api/ad/users/{guid}", {"replace": {"description": "new"}})
    assert made.status == 200, made
    record = world.integration.get(f"/api/operations?target={guid}&operation=users.update").body["items"][0]
    return Attempt(
        request=("POST", f"/api/operations/{record['id']}/revert", None),
        recorded_as="users.update",
        target=guid,
        kind="user",
        dn=world.directory.dn(guid),
        is_done=lambda: world.directory.text(guid, "description") == "old",
        changes={"description": (["new"], ["old"])},
    )


_BY_ACTION: dict[str, Callable[[Operation, World], Attempt]] = {
    "create": _create,
    "update": _update,
    "delete": _delete,
    "enable": _enable,
    "disable": _disable,
    "unlock": _unlock,
    "move": _move,
    "rename": _rename,
    "restore": _restore,
    "change-members": _change_members,
    "reset-password": _reset_password,
    "change-password": _change_password,
    "revert": _revert,
}


def named(operation: Operation) -> str:
    """The name of a parameter."""
    return operation.name


def records_of(integration: Integration, request_id: str) -> list[dict[str, Any]]:
    """The records of one request, the oldest first."""
    items: list[dict[str, Any]] = integration.get(f"/api/operations?requestId={request_id}").body["items"]
    return items[::-1]


def require_told(record: dict[str, Any], change: Attempt, integration: Integration) -> None:
    """What a record tells of a change: which, by whom, of what, from what to what."""
    assert record["operation"] == change.recorded_as
    assert (record["owner"], record["keyName"]) == (integration.key.owner.username, integration.key.name)
    assert record["directory"]
    changes = {item["attribute"]: (item["before"], item["after"]) for item in record["changes"]}
    assert change.changes.items() <= changes.items(), record["changes"]
