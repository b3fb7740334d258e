"""Many changes of an agent as one plan: shown, refused, made or decided about together."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.gateway.surfaces.agent.test_planner import decide
from tests.support.agent_tools import call_tool, list_tools
from tests.support.agents import Agent, make_agent
from tests.support.cast import Console, make_person
from tests.support.configuration import Configure


def titled(*people: UUID, title: str = "Countess") -> dict[str, Any]:
    arguments = {"kind": "users", "replace": {"title": title}}
    return {"tool": "update_object", "arguments": arguments, "ids": [str(person) for person in people]}


def disabled(person: UUID) -> dict[str, Any]:
    return {"tool": "change_account", "arguments": {"kind": "users", "id": str(person), "action": "disable"}}


def show(agent: Agent, *changes: dict[str, Any]) -> Any:
    shown = call_tool(agent, "plan_changes", changes=changes)
    assert not shown.is_error, shown
    return shown.structured


@pytest.fixture
def grace(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(parent=organizational_unit, title="Analyst")


def test_one_call_makes_them(agent: Agent, ada: UUID, grace: UUID, directory: Directory) -> None:
    changes = [titled(ada, grace)]
    shown = show(agent, *changes)
    assert [item["changes"][0]["after"] for item in shown["changes"]] == [["Countess"], ["Countess"]]
    assert directory.text(ada, "title") == "Analyst"
    done = call_tool(agent, "plan_changes", changes=changes, digest=shown["digest"], reason="promoted")
    assert (done.said, done.is_error) == ("Done: 2.", False)
    assert [directory.text(person, "title") for person in (ada, grace)] == ["Countess", "Countess"]
    assert len(set(OperationRecord.objects.values_list("call_id", flat=True))) == 1


def test_all_wait_if_one_does(agent: Agent, ada: UUID, grace: UUID, directory: Directory) -> None:
    changes = [titled(grace), disabled(ada)]
    shown = show(agent, *changes)
    held = call_tool(agent, "plan_changes", changes=changes, digest=shown["digest"], reason="leaves")
    assert held.said == "Done: 0. Wait for a person: 2, decided together; look with my_change_requests."
    assert directory.text(grace, "title") == "Analyst"
    (call_id,) = set(ChangeRequest.objects.values_list("call_id", flat=True))
    assert call_id is not None
    assert decide(Console(make_person(may=["approvals.decide_change"]))) == 2
    assert (directory.text(grace, "title"), directory.is_enabled(ada)) == ("Countess", False)


def test_what_waits_together_counts_once(
    agent: Agent, ada: UUID, grace: UUID, directory: Directory, configure: Configure
) -> None:
    configure("Agents", MaxPendingRequests=1)
    changes = [disabled(ada), disabled(grace)]
    asked = {"changes": changes, "digest": show(agent, *changes)["digest"], "reason": "leave"}
    assert len(call_tool(agent, "plan_changes", **asked).structured["results"]) == 2
    assert ChangeRequest.objects.count() == 2
    again = call_tool(agent, "plan_changes", **asked)
    assert (again.is_error, ChangeRequest.objects.count()) == (False, 2)
    other = call_tool(agent, "delete_object", kind="users", id=str(ada), reason="left")
    assert other.code == "RateLimit.Exceeded"


def test_none_is_made_if_one_cannot_be(agent: Agent, ada: UUID, directory: Directory) -> None:
    changes = [titled(ada, uuid4())]
    shown = show(agent, *changes)
    assert shown["changes"][1]["problem"]["code"] == "AD.Object.NotFound"
    refused = call_tool(agent, "plan_changes", changes=changes, digest=shown["digest"], reason="promoted")
    assert refused.code == "Plans.Refused"
    assert directory.text(ada, "title") == "Analyst"


def test_only_what_was_shown_is_made(agent: Agent, ada: UUID, directory: Directory) -> None:
    digest = show(agent, titled(ada))["digest"]
    other = call_tool(agent, "plan_changes", changes=[titled(ada, title="King")], digest=digest, reason="x")
    assert other.code == "Plans.Changed"
    directory.modify(ada, title="Baroness")
    stale = call_tool(agent, "plan_changes", changes=[titled(ada)], digest=digest, reason="x")
    assert (stale.code, directory.text(ada, "title")) == ("Plans.Changed", "Baroness")


def test_a_plan_gives_no_rights(connection: DirectoryConnection, ada: UUID) -> None:
    agent = make_agent(connection, may=["directory.read_object", "directory.update_user"])
    assert call_tool(agent, "plan_changes", changes=[disabled(ada)]).code == "Auth.Forbidden"
    assert "plan_changes" not in list_tools(make_agent(connection, may=["directory.read_object"]))


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({}, "#/changes"),
        ({"changes": []}, "#/changes"),
        ({"changes": ["x"]}, "#/changes/0"),
        ({"changes": [{"tool": "read_object", "arguments": {}}]}, "#/changes/0/tool"),
        ({"changes": [{"tool": ["update_object"], "arguments": {}}]}, "#/changes/0/tool"),
        ({"changes": [{"tool": "my_changes", "arguments": {}}]}, "#/changes/0/tool"),
        ({"changes": [{"tool": "update_object"}]}, "#/changes/0/arguments"),
        ({"changes": [titled(uuid4()), {"tool": "update_object", "arguments": {}}]}, "#/changes/1/arguments/kind"),
        ({"changes": [{"tool": "update_object", "arguments": {}, "ids": []}]}, "#/changes/0/ids"),
        ({"changes": [{**titled(uuid4()), "ids": [str(uuid4()) for _ in range(101)]}]}, "#/changes"),
        ({"changes": [titled(uuid4())], "digest": "x"}, "#/reason"),
        ({"changes": [titled(uuid4())], "apply": True}, "#/apply"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], pointer: str, agent: Agent) -> None:
    refused = call_tool(agent, "plan_changes", **arguments)
    assert [error["pointer"] for error in refused.structured["errors"]] == [pointer]
