"""Members that an agent describes by a search instead of listing them."""

from typing import Any
from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.support.agent_tools import call_tool, list_tools
from tests.support.agents import Agent, make_agent


@pytest.fixture
def group(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group(parent=organizational_unit)


def test_matches_join_and_leave(connection: DirectoryConnection, directory: Directory, group: UUID) -> None:
    agent, unit = make_agent(connection, level=SupervisionLevel.ACT), directory.dn(group).partition(",")[2]
    for _ in range(3):
        directory.add_user(parent=unit, department="Sales")
    other = str(directory.add_user(parent=unit, department="Sales East"))
    search = {"kind": "users", "filter": "(department=Sales)", "base": unit}
    shown = call_tool(
        agent, "preview_change", tool="change_members", arguments={"id": str(group), "addMatching": search}
    )
    assert len(shown.structured["changes"][0]["after"]) == 3, shown
    assert not directory.members(group)
    done = call_tool(agent, "change_members", id=str(group), add=[other], addMatching=search, reason="test")
    assert done.structured == {"added": 4, "removed": 0, "unchanged": 0}
    assert len(directory.members(group)) == 4
    done = call_tool(agent, "change_members", id=str(group), removeMatching=search, reason="test")
    assert done.structured == {"added": 0, "removed": 3, "unchanged": 0}
    assert directory.members(group) == {directory.dn(UUID(other))}
    reads.flush()
    searched = OperationRecord.objects.filter(operation="users.search")
    assert searched.count() == 3, "each search is on record"


def test_the_approver_decides_about_names(
    agent: Agent, directory: Directory, organizational_unit: str, group: UUID
) -> None:
    user = directory.add_user(parent=organizational_unit, department="Sales")
    asked = {"id": str(group), "addMatching": {"kind": "users", "filter": "(department=Sales)"}, "reason": "test"}
    asked["addMatching"]["base"] = organizational_unit  # type: ignore[index]
    held = call_tool(agent, "change_members", **asked).structured["changeRequest"]
    (change,) = ChangeRequest.objects.get(id=held["id"]).changes
    assert change["after"] == [directory.dn(user)]
    again = call_tool(agent, "change_members", **asked).structured["changeRequest"]
    assert again["id"] == held["id"]


def test_who_may_not_search_finds_nobody(connection: DirectoryConnection, group: UUID) -> None:
    agent = make_agent(connection, may=["directory.manage_membership"])
    assert "addMatching" not in list_tools(agent)["change_members"]["inputSchema"]["properties"]
    asked = {"id": str(group), "addMatching": {"kind": "users", "q": "a"}, "reason": "test"}
    assert call_tool(agent, "change_members", **asked).code == "Auth.Forbidden"


@pytest.mark.parametrize(
    ("search", "pointer"),
    [
        ("(cn=a)", "#/addMatching"),
        ({"kind": "users"}, "#/addMatching"),
        ({"kind": "users", "scope": "subtree"}, "#/addMatching"),
        ({"kind": "cars", "q": "a"}, "#/addMatching/kind"),
        ({"q": "a"}, "#/addMatching/kind"),
        ({"kind": "users", "q": 1}, "#/addMatching/q"),
        ({"kind": "users", "q": "a", "limit": "1"}, "#/addMatching/limit"),
        ({"kind": "users", "filter": "(cn=a"}, "#/addMatching/filter"),
        ({"kind": "users", "filter": "(cn=nobody has this name)"}, "#/addMatching"),
    ],
)
def test_a_bad_search_is_named(search: Any, pointer: str, agent: Agent, group: UUID) -> None:
    refused = call_tool(agent, "change_members", id=str(group), addMatching=search, reason="test")
    assert [error["pointer"] for error in refused.structured["errors"]] == [pointer], refused
    within = call_tool(
        agent, "preview_change", tool="change_members", arguments={"id": str(group), "addMatching": search}
    )
    assert within.is_error
