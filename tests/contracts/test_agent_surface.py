"""What holds for every operation on the agent surface: served by a tool or named with its reason, by the same rules."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from audit.models import OperationRecord
from audit.read_buffer import reads
from core.call import SupervisionLevel, Surface
from core.operation import SIGNED_IN, Operation, find_operation, operations
from directory.models import DirectoryConnection
from gateway.surfaces.agent.tools import NOT_SERVED, PREVIEWABLE, TOOLS, Tool
from lab.directory import Directory
from tests.audit.every_change import CHANGES, RUNS, World, attempt, named, require_told
from tests.contracts.test_registry import highest_usn
from tests.support.agent_tools import call_tool, list_tools, served_operations
from tests.support.agents import make_agent
from tests.support.cast import make_integration


def ways() -> Iterator[tuple[str, str, str]]:
    """Each way of using each tool."""
    return ((tool.name, kind, action) for tool in TOOLS.values() for kind, action in tool.serves)


GUARDED = [way for way in ways() if SIGNED_IN not in find_operation(TOOLS[way[0]].serves[way[1:]]).permission]
SERVED_CHANGES = [item for item in CHANGES if item.name in served_operations()]


def arguments_for(tool: Tool, kind: str, action: str, **given: Any) -> dict[str, Any]:
    """Arguments by which a tool is used in one way, for whatever object."""
    arguments: dict[str, Any] = {"id": str(uuid4()), **given}
    if len({kind for kind, _ in tool.serves}) > 1:
        arguments["kind"] = kind
    if action in tool.includes:
        arguments["include"] = [action]
    match tool.name, action:
        case "search_directory", _:
            arguments.pop("id")
            arguments |= {"state": "disabled"} if action == "state" else {}
        case "read_object", "read-by-dn":
            arguments["id"] = "CN=nobody,DC=corp,DC=example,DC=test"
        case "describe_schema" | "count_objects", _:
            arguments.pop("id")
        case "move_or_rename_object", _:
            arguments.setdefault("parent" if action == "move" else "name", "x")
        case "change_account", _:
            arguments["action"] = action
        case "create_object", _:
            arguments.pop("id")
        case "my_changes", "undo":
            arguments["undo"] = [arguments.pop("id")]
    return arguments


def test_every_operation_is_served_or_named() -> None:
    on_api = {item.name for item in operations(Surface.API)}
    assert served_operations() | NOT_SERVED.keys() == on_api
    assert not served_operations() & NOT_SERVED.keys()
    assert all(NOT_SERVED.values())


def test_no_tool_does_what_only_people_may() -> None:
    for name in served_operations():
        operation = find_operation(name)
        assert not operation.permission & {
            "approvals.decide_change",
            "audit.revert_change",
            "directory.read_confidential",
        }
        assert not any(permission.startswith("keys.") for permission in operation.permission)


@pytest.mark.parametrize(("name", "kind", "action"), GUARDED)
def test_refused_without_permission(
    name: str, kind: str, action: str, connection: DirectoryConnection, directory: Directory
) -> None:
    agent = make_agent(connection, may=[])
    before = highest_usn(directory)
    # Without a reason, and with what no operation takes: who may not do it learns nothing about how it is done.
    refused = call_tool(agent, name, **arguments_for(TOOLS[name], kind, action), unheard=1)
    assert (refused.code, refused.structured["status"]) == ("Auth.Forbidden", 403)
    assert "errors" not in refused.structured
    reads.flush()
    assert [
        (item.operation, item.outcome, item.code, item.key_name, item.surface) for item in OperationRecord.objects.all()
    ] == [(TOOLS[name].serves[kind, action], "failed", "Auth.Forbidden", agent.grant.client.name, "agent")]
    assert highest_usn(directory) == before


def test_who_may_nothing_is_listed_nothing(connection: DirectoryConnection) -> None:
    assert set(list_tools(make_agent(connection, may=[]))) == {"my_change_requests", "my_changes"}


@pytest.mark.parametrize("operation", SERVED_CHANGES, ids=named)
def test_a_change_has_the_same_effect(
    operation: Operation, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    world = World(make_integration(connection), directory, organizational_unit)
    change = attempt(operation, world)
    agent = make_agent(connection, level=SupervisionLevel.ACT)
    (tool, kind, action), *_ = (way for way in ways() if TOOLS[way[0]].serves[way[1:]] == operation.name)
    path, body = change.request[1], change.request[2] or {}
    given = {"id": path.removeprefix("/api/").split("/")[2]} if "{id}" in operation.path else {}
    arguments = arguments_for(TOOLS[tool], kind, action, **given, **body)
    assert tool in PREVIEWABLE

    shown = call_tool(agent, "preview_change", tool=tool, arguments=arguments)
    assert shown.structured["changes"]
    assert not change.is_done()
    done = call_tool(agent, tool, **arguments, reason="Ticket")
    assert not done.is_error, done
    assert change.is_done()
    record = world.integration.get(f"/api/operations?operation={change.recorded_as}").body["items"][0]
    assert (record["surface"], record["outcome"], record["reason"]) == ("agent", "succeeded", "Ticket")
    world.integration.key.name, world.integration.key.owner = agent.grant.client.name, agent.person
    require_told(record, change, world.integration)


def test_runs_are_served_too() -> None:
    assert set(RUNS) <= served_operations()
