"""What an agent has changed, and takes back when it is asked to."""

from uuid import UUID, uuid4

import pytest

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.support.agent_tools import call_tool, list_tools
from tests.support.agents import Agent, make_agent


def change(agent: Agent, id: UUID, **attributes: str) -> None:
    done = call_tool(agent, "update_object", kind="users", id=str(id), replace=attributes, reason="test")
    assert not done.is_error, done


def own(agent: Agent) -> list[str]:
    return [item["id"] for item in call_tool(agent, "my_changes").structured["items"]]


def test_several_changes_are_undone_the_newest_first(agent: Agent, ada: UUID, directory: Directory) -> None:
    for title in ("Countess", "Baroness"):
        change(agent, ada, title=title)
    newest, first = own(agent)
    shown = call_tool(agent, "preview_change", tool="my_changes", arguments={"undo": [newest]})
    assert shown.structured["dryRun"] is True
    assert shown.structured["results"][0]["changes"][0]["after"] == ["Countess"]
    assert directory.text(ada, "title") == "Baroness"
    # In whichever order they are named, and however often.
    done = call_tool(agent, "my_changes", undo=[first, newest, first], reason="a mistake")
    assert (done.said, done.structured["succeeded"], done.is_error) == ("Done: 2.", 2, False)
    assert [item["id"] for item in done.structured["results"]] == [newest, first]
    assert directory.text(ada, "title") == "Analyst"
    assert [item.get("revertedBy") is not None for item in call_tool(agent, "my_changes").structured["items"]] == [
        *(False, False),
        *(True, True),
    ]
    again = call_tool(agent, "my_changes", undo=first, reason="a mistake")
    assert (again.said, again.is_error) == ("Done: 0. Refused: 1, see problem.", True)
    assert again.structured["results"][0]["problem"]["code"] == "Operations.NotRevertible"


def test_what_undoes_waits_as_its_inverse_does(connection: DirectoryConnection, ada: UUID) -> None:
    agent = make_agent(connection, level=SupervisionLevel.ACT)
    done = call_tool(agent, "change_account", kind="users", id=str(ada), action="disable", reason="leave")
    assert not done.is_error, done
    agent.grant.supervision_level = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY
    agent.grant.save(update_fields=["supervision_level"])
    change(agent, ada, title="Countess")
    undone = call_tool(agent, "my_changes", undo=own(agent), reason="back already")
    assert undone.said == "Done: 1. Wait for a person: 1; look with my_change_requests."
    (held,) = (item for item in undone.structured["results"] if item["status"] == 202)
    assert call_tool(agent, "my_change_requests", id=held["changeRequestId"]).structured["status"] == "pending"


def test_others_changes_are_not_seen(agent: Agent, ada: UUID, connection: DirectoryConnection) -> None:
    other = make_agent(connection, client=agent.grant.client)  # the same program of another person
    change(other, ada, title="Countess")
    assert own(agent) == []
    refused = call_tool(agent, "my_changes", undo=own(other), reason="test")
    assert refused.structured["results"][0]["status"] == 404


def test_who_only_reads_is_offered_no_undo(connection: DirectoryConnection) -> None:
    tools = list_tools(make_agent(connection, may=["directory.read_object"]))
    assert "undo" not in tools["my_changes"]["inputSchema"]["properties"]
    assert "preview_change" not in tools


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"undo": [str(uuid4())]}, "#/reason"),
        ({"undo": [], "reason": "x"}, "#/undo"),
        ({"undo": ["x"], "reason": "x"}, "#/undo"),
        ({"undo": [str(uuid4()) for _ in range(51)], "reason": "x"}, "#/undo"),
        ({"undo": str(uuid4()), "reason": "x", "force": True}, "#/force"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, object], pointer: str, agent: Agent) -> None:
    refused = call_tool(agent, "my_changes", **arguments)
    assert [error["pointer"] for error in refused.structured["errors"]] == [pointer]


def test_only_undoing_can_be_previewed(agent: Agent) -> None:
    refused = call_tool(agent, "preview_change", tool="my_changes", arguments={})
    assert [error["pointer"] for error in refused.structured["errors"]] == ["#/arguments/undo"]
