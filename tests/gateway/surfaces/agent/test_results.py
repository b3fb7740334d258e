"""What tools answer is small, says what it left out, and leads to it."""

import json
from uuid import UUID

import pytest

from directory.models import DirectoryConnection
from gateway.surfaces.agent import results
from keys.models.agents import AgentGrant
from lab.directory import Directory
from tests.gateway.surfaces.agent.test_size import count_tokens
from tests.support.agent_tools import call_tool, list_tools, send
from tests.support.agents import Agent, make_agent
from tests.support.cast import make_person
from tests.support.configuration import Configure


def test_fifty_people_are_3000_tokens(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    for number in range(50):
        account, person = f"grace.hopper{number}", f"Hopper, Grace {number}"
        name = account if number % 2 else f"Grace Hopper {number}"
        guid = directory.add_user(name, parent=organizational_unit, sAMAccountName=account)
        mail = f"{account}@corp.example.test"
        directory.modify(guid, displayName=person, description="Compilers, second floor", mail=mail)
    found = call_tool(agent, "search_directory", kind="users", base=organizational_unit)
    assert len(found.structured["items"]) == 50
    assert count_tokens(found.copy) <= 3_000, found.copy[:1000]
    for item in found.structured["items"]:
        account = item.get("account", {})
        assert ("samAccountName" in account) is ("displayName" not in item["attributes"])
        assert (account.get("samAccountName") or item["name"]).startswith("grace.hopper")
    assert "null" not in found.copy


def test_fields_are_chosen_by_name(agent: Agent, ada: UUID, organizational_unit: str) -> None:
    asked = {"kind": "users", "base": organizational_unit}
    found = call_tool(agent, "search_directory", **asked, fields=["id", "distinguishedName"])
    assert found.structured["items"] == [
        {"id": str(ada), "distinguishedName": f"CN=Ada Lovelace,{organizational_unit}"}
    ]
    refused = call_tool(agent, "search_directory", **asked, fields=["dn"])
    assert refused.structured["errors"][0]["pointer"] == "#/fields"
    assert "distinguishedName" in refused.structured["errors"][0]["detail"]


def test_what_is_unusual_is_told(agent: Agent, ada: UUID, organizational_unit: str, directory: Directory) -> None:
    asked = {"kind": "users", "base": organizational_unit}
    before = call_tool(agent, "search_directory", **asked).structured["items"][0].get("account", {})
    directory.modify(ada, userAccountControl="514")
    after = call_tool(agent, "search_directory", **asked).structured["items"][0]["account"]
    assert ("enabled" in before, after["enabled"]) == (False, False)


def test_a_long_list_is_cut_and_goes_on(
    agent: Agent, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_LIST_CHARACTERS", 1_000)
    names = [f"Person {number:02}" for number in range(12)]
    for name in names:
        directory.add_user(name, parent=organizational_unit)
    asked = {"kind": "users", "base": organizational_unit, "sort": "name", "limit": 10}
    shown: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(12):
        page = call_tool(agent, "search_directory", **asked, **cursor)
        assert len(json.dumps(page.structured["items"])) < 1_500
        shown += [item["name"] for item in page.structured["items"]]
        if "nextCursor" not in page.structured:
            break
        cursor = {"cursor": page.structured["nextCursor"]}
    assert shown == names
    first = call_tool(agent, "search_directory", **asked)
    assert first.structured["leftOut"] == {"items": {"items": 10 - len(first.structured["items"])}}
    other = {**asked, "sort": "-name"}
    refused = call_tool(agent, "search_directory", **other, cursor=first.structured["nextCursor"])
    assert refused.code == "Search.CursorInvalid"


def test_members_go_on_by_their_cursor(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    everybody = {f"Member {number:02}" for number in range(60)}
    people = [directory.add_user(name, parent=organizational_unit) for name in everybody]
    inner = directory.add_group(parent=organizational_unit, members=people)
    group = directory.add_group(parent=organizational_unit, members=[inner])
    asked = {"kind": "groups", "id": str(group), "include": ["nested-members"]}
    first = call_tool(agent, "read_object", **asked)
    assert "There is more of nested-members" in first.said
    assert "Accounts are enabled" in first.said
    assert first.structured["nested-members"]["total"] == len(everybody) + 1
    assert first.structured["group"]["memberCount"] == 1
    cursor = first.structured["nested-members"]["nextCursor"]
    rest = call_tool(agent, "read_object", **asked, cursor=cursor)
    pages = (first.structured["nested-members"], rest.structured["nested-members"])
    assert {item["name"] for page in pages for item in page["items"] if item["kind"] == "user"} == everybody
    both = call_tool(agent, "read_object", **{**asked, "include": ["members", "nested-members"]}, cursor=cursor)
    assert both.structured["errors"][0]["pointer"] == "#/cursor"


def test_why_somebody_cannot_sign_in(agent: Agent, ada: UUID, directory: Directory) -> None:
    directory.modify(ada, pwdLastSet="-1")
    assert call_tool(agent, "explain_sign_in", id=str(ada)).said.startswith("Nothing keeps this user")
    directory.modify(ada, userAccountControl="514", pwdLastSet="0")
    told = call_tool(agent, "explain_sign_in", id=str(ada))
    assert told.said.startswith(
        "Cannot sign in: the account is disabled. In some places or ways not: the password has to be changed first."
    )
    assert {item["code"] for item in told.structured["obstacles"]} == {"disabled", "mustChangePassword"}


def test_attributes_are_found_by_what_people_call_them(agent: Agent) -> None:
    found = call_tool(agent, "describe_schema", kind="users", q="employee id").structured["items"]
    assert [item["name"] for item in found] == ["employeeID"]


def test_delegations_are_read(connection: DirectoryConnection, organizational_unit: str) -> None:
    agent = make_agent(connection)
    read = call_tool(agent, "read_object", kind="organization-units", id=organizational_unit, include=["delegations"])
    assert read.structured["delegations"] == {"items": []}


def test_repeating_is_told_rightly(agent: Agent, connection: DirectoryConnection) -> None:
    tools = list_tools(agent)
    idempotent = {name: tool["annotations"]["idempotentHint"] for name, tool in tools.items()}
    assert [name for name in idempotent if not idempotent[name]] == [
        "create_object",
        "change_account",
        "restore_object",
    ]


def test_prompts_are_whole_tasks(connection: DirectoryConnection) -> None:
    agent = make_agent(connection, person=make_person(may=[]))
    listed = send(agent, "prompts/list").body["result"]["prompts"]
    assert [prompt["name"] for prompt in listed] == ["joiner", "leaver", "audit"]
    asked = {"name": "leaver", "arguments": {"person": "{like}"}}
    got = send(agent, "prompts/get", asked).body["result"]
    assert "Somebody leaves: {like}." in got["messages"][0]["content"]["text"]
    for wrong in ({"name": "leaver"}, {"name": "leaver", "arguments": {"person": " "}}, {"name": "unheard"}):
        assert send(agent, "prompts/get", wrong).body["error"]["code"] == -32602


def test_what_became_of_a_run_is_read(agent: Agent, ada: UUID, organizational_unit: str, configure: Configure) -> None:
    configure("Runs", WaitSeconds=0)
    AgentGrant.objects.update(supervision_level="act")
    run = {"kind": "organization-units", "id": organizational_unit, "action": "disable", "accounts": [str(ada)]}
    begun = call_tool(agent, "change_account", **run, reason="left")
    assert begun.said.startswith("Begun, and going on")
    read = call_tool(agent, "my_change_requests", run=begun.structured["runId"])
    assert read.structured["runId"] == begun.structured["runId"]
    for wrong in ({"run": "x"}, {"run": begun.structured["runId"], "id": str(ada)}):
        refused = call_tool(agent, "my_change_requests", **wrong)
        assert refused.structured["errors"][0]["pointer"] == "#/run"
