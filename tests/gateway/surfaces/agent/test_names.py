"""Where a tool asks for an id, a distinguished name or an account name will do, under the same rules."""

from typing import Any
from uuid import UUID

import pytest

from active_directory import Client, Entry, Filter, Scope
from audit.models import OperationRecord
from audit.read_buffer import reads
from directory.models import DirectoryConnection
from keys.models.agents import AgentGrant
from lab.directory import Directory, random_name
from tests.support.agent_tools import call_tool
from tests.support.agents import Agent, make_agent
from tests.support.cast import make_confined


@pytest.fixture
def named(directory: Directory, ada: UUID) -> str:
    name = random_name("ada")
    directory.modify(ada, sAMAccountName=name, userPrincipalName=f"{name}@corp.example.test")
    return name


def test_it_works(agent: Agent, ada: UUID, named: str, directory: Directory) -> None:
    for name in (named, named.upper(), f"{named}@corp.example.test", directory.dn(ada)):
        found = call_tool(agent, "read_object", kind="users", id=name, include=["memberships"])
        assert found.structured["id"] == str(ada)
        changed = call_tool(agent, "update_object", kind="users", id=name, replace={"title": name[:9]}, reason="r")
        assert changed.said == "Done."
        assert directory.text(ada, "title") == name[:9]
        assert OperationRecord.objects.latest("id").target_id == ada


def test_a_held_change_waits_once_by_whatever_name(agent: Agent, ada: UUID, named: str) -> None:
    by_name = call_tool(agent, "delete_object", kind="users", id=named, reason="left").structured
    by_id = call_tool(agent, "delete_object", kind="users", id=str(ada), reason="left").structured
    assert by_name == by_id
    assert by_name["changeRequest"]["target"]["id"] == str(ada)


def test_a_computer_needs_no_dollar(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    computer = directory.add_computer("PC-4711", parent=organizational_unit)
    assert call_tool(agent, "read_object", kind="computers", id="pc-4711").structured["id"] == str(computer)


def test_what_is_not_there_is_on_record(agent: Agent, named: str) -> None:
    for name, kind in ((f"{named}x", "users"), (named, "groups"), ("*", "users"), (")(objectClass=*", "users")):
        refused = call_tool(agent, "update_object", kind=kind, id=name, replace={"title": "x"}, reason="r")
        assert refused.code == "AD.Object.NotFound"
    reads.flush()
    assert {(item.outcome, item.code) for item in OperationRecord.objects.all()} == {("failed", "AD.Object.NotFound")}


def test_a_confined_person_learns_no_names(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str, named: str
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    person = make_confined("owner", connection, directory.guid(inner)).key.owner
    agent = make_agent(connection, person=person)
    there, not_there = (call_tool(agent, "read_object", kind="users", id=name) for name in (named, f"{named}x"))
    assert (there.code, there.said) == (not_there.code, not_there.said) == ("AD.Object.NotFound", there.said)


def test_without_permission_no_name_is_looked_up(connection: DirectoryConnection, named: str) -> None:
    agent = make_agent(connection, may=[])
    for name in (named, f"{named}x"):
        assert call_tool(agent, "read_object", kind="users", id=name).code == "Auth.Forbidden"


def test_members_are_named(agent: Agent, ada: UUID, named: str, directory: Directory, organizational_unit: str) -> None:
    group, bob = directory.add_group(parent=organizational_unit), directory.add_user("Bob", parent=organizational_unit)
    asked = {"id": str(group), "reason": "r"}
    AgentGrant.objects.update(supervision_level="act")
    assert call_tool(agent, "change_members", **asked, add=[named, str(bob)]).said == "Done."
    assert call_tool(agent, "change_members", **asked, remove=[directory.dn(bob)]).said == "Done."
    assert directory.read(group, "member")["member"] == [directory.dn(ada).encode()]
    refused = call_tool(agent, "change_members", **asked, add=[str(bob), f"{named}x"])
    assert (refused.code, refused.structured["errors"][0]["pointer"]) == ("AD.Object.NotFound", "#/add/1")
    for wrong in ([""], [7], [named] * 1001):
        assert call_tool(agent, "change_members", **asked, add=wrong).structured["errors"]
    reader = make_agent(agent.grant.connection, may=["directory.read_object"])
    assert call_tool(reader, "change_members", **asked, add=[f"{named}x"]).code == "Auth.Forbidden"


def test_two_of_a_name_are_told(agent: Agent, named: str, ada: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samba lets no two accounts have the same name; two domain controllers of Windows may each have made one."""
    search = Client.search

    def twice(client: Client, base: str, scope: Scope, condition: Filter, *rest: Any, **options: Any) -> list[Entry]:
        found = list(search(client, base, scope, condition, *rest, **options))
        return found * 2 if "sAMAccountName" in str(condition) else found

    monkeypatch.setattr(Client, "search", twice)
    assert call_tool(agent, "read_object", kind="users", id=named).code == "AD.Object.Ambiguous"
