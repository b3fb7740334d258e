"""The tools: who gets which, what they take, how much they answer, and what a held change is."""

import threading
from typing import Any
from uuid import UUID

import jsonschema
import pytest
from django.db import connection as database

from approvals.models import ChangeRequest, Status
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from keys.agents.scopes import SCOPES
from keys.models.agents import AgentAccessToken
from lab.directory import Directory, random_name
from tests.support.agent_tools import call_tool, list_tools
from tests.support.agents import Agent, make_agent
from tests.support.cast import Console, make_integration, make_person
from tests.support.configuration import Configure

READERS = {"search_directory", "read_object", "describe_schema", "explain_sign_in", "count_objects"}
EVERYBODYS = {"my_change_requests", "my_changes"}
TOOLS_OF_SCOPE = {
    "read": READERS,
    "change": {"update_object", "move_or_rename_object"},
    "accounts": {"change_account"},
    "membership": {"change_members"},
    "passwords": {"change_account"},
    "create": {"create_object"},
    "delete": {"delete_object"},
    "restore": {"restore_object", "search_directory", "read_object"},
    "runs": {"change_account"},
    "requests": set(),
}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def words(tool: dict[str, Any], argument: str) -> list[str]:
    schema = tool["inputSchema"]["properties"][argument]
    found: list[str] = schema.get("enum") or schema["items"]["enum"]
    return found


@pytest.mark.parametrize("scope", list(SCOPES))
def test_a_scope_brings_its_tools_and_no_others(scope: str, connection: DirectoryConnection) -> None:
    agent = make_agent(connection, scopes=[scope])
    assert set(list_tools(agent)) == TOOLS_OF_SCOPE[scope] | EVERYBODYS
    previews = {"preview_change", "plan_changes"} if scope not in ("read", "requests") else set()
    reader = make_agent(connection, scopes=["read", scope])
    assert set(list_tools(reader)) == READERS | TOOLS_OF_SCOPE[scope] | EVERYBODYS | previews, "it shows values"


def test_nothing_is_listed_that_may_not_be_used(connection: DirectoryConnection) -> None:
    may = ["directory.read_object", "directory.update_user", "directory.unlock_account"]
    tools = list_tools(make_agent(connection, person=make_person(may=may)))
    assert set(tools) == READERS | EVERYBODYS | {
        *("update_object", "move_or_rename_object", "change_account", "preview_change", "plan_changes")
    }
    # Of the kinds only those: any object can be a user, and the operation judges what it is.
    assert words(tools["update_object"], "kind") == ["users", "objects"]
    assert words(tools["change_account"], "action") == ["unlock"]
    assert words(tools["change_account"], "kind") == ["users", "computers"]
    assert "newPassword" not in tools["change_account"]["inputSchema"]["properties"]
    assert "parent" not in tools["move_or_rename_object"]["inputSchema"]["properties"]  # renaming is updating
    assert words(tools["preview_change"], "tool") == [
        *("update_object", "move_or_rename_object", "change_account", "my_changes")
    ]
    assert "deleted-objects" not in words(tools["search_directory"], "kind")
    assert words(tools["read_object"], "include") == ["memberships", "members", "nested-members", "password-policy"]
    told = str(list(tools.values()))
    for hidden in ("history", "access", "delegations", "reset-password", "organization-units.enable"):
        assert hidden not in told


def test_what_is_not_listed_cannot_be_called(ada: UUID, connection: DirectoryConnection) -> None:
    agent = make_agent(connection, scopes=["read"])
    refused = call_tool(agent, "update_object", kind="users", id=str(ada), replace={"title": "x"}, reason="test")
    assert refused.code == "Auth.Forbidden"
    assert refused.said == (
        "Refused (Auth.Forbidden). This needs the scope change, which you do not have. You may not do this, and asking"
        " again does not help: tell the person you work for."
    )
    without_log = make_agent(connection, person=make_person(may=["directory.read_object"]))
    assert (
        call_tool(without_log, "read_object", kind="users", id=str(ada), include=["history"]).code == "Auth.Forbidden"
    )
    reads.flush()
    assert [(item.operation, item.code) for item in OperationRecord.objects.order_by("id")] == [
        ("users.update", "Auth.Forbidden"),
        ("objects.history", "Auth.Forbidden"),
    ]


def test_schemas_hold_for_what_is_answered(agent: Agent, ada: UUID, organizational_unit: str) -> None:
    tools = list_tools(agent)
    for tool in tools.values():
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
        assert tool["description"]
        assert tool["title"]
        assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_directory", {"kind": "users", "base": organizational_unit}),
        ("read_object", {"kind": "users", "id": str(ada), "include": ["memberships", "history", "password-policy"]}),
        ("describe_schema", {"kind": "users"}),
        ("preview_change", {"tool": "delete_object", "arguments": {"kind": "users", "id": str(ada)}}),
        ("create_object", {"kind": "groups", "name": random_name("g"), "parent": organizational_unit, "reason": "r"}),
        ("update_object", {"kind": "users", "id": str(ada), "replace": {"title": "Countess"}, "reason": "r"}),
        ("delete_object", {"kind": "users", "id": str(ada), "reason": "r"}),
        ("my_change_requests", {}),
        ("my_changes", {}),
    ]
    for name, arguments in calls:
        jsonschema.validate(arguments, tools[name]["inputSchema"])
        result = call_tool(agent, name, **arguments)
        assert not result.is_error, result
        jsonschema.validate(result.structured, tools[name]["outputSchema"])


def test_an_answer_is_that_of_the_api(agent: Agent, ada: UUID, connection: DirectoryConnection) -> None:
    machine = make_integration(connection)
    record = machine.get(f"/api/ad/users/{ada}").body
    assert call_tool(agent, "read_object", kind="users", id=str(ada)).structured == without_nulls(record)
    by_name = call_tool(agent, "read_object", kind="users", id=record["distinguishedName"].upper())
    assert by_name.structured == without_nulls(record)
    include = ["memberships", "access", "history", "password-policy"]
    whole = call_tool(agent, "read_object", kind="users", id=str(ada), include=include, attributes=["title"]).structured
    assert whole["attributes"] == {"title": ["Analyst"]}
    assert [item["name"] for item in whole["memberships"]["items"]] == ["Domain Users"]
    assert whole["access"] == without_nulls(machine.get(f"/api/ad/objects/{ada}/access-control").body)
    assert whole["password-policy"] == without_nulls(machine.get(f"/api/ad/users/{ada}/password-policy").body)
    assert whole["password-policy"]["minLength"] >= 0


def test_a_search_is_small_and_says_what_it_left_out(
    agent: Agent, directory: Directory, organizational_unit: str
) -> None:
    for number in range(3):
        directory.add_user(f"Person {number}", parent=organizational_unit, title="Analyst")
    asked = {"kind": "users", "base": organizational_unit, "sort": "name"}
    first = call_tool(agent, "search_directory", **asked, limit=2)
    assert [item["name"] for item in first.structured["items"]] == ["Person 0", "Person 1"]
    assert set(first.structured["items"][0]["attributes"]) <= {"displayName", "description", "mail"}
    assert first.said.startswith("2 shown. There are more: call again with the same arguments and cursor set to")
    rest = call_tool(agent, "search_directory", **asked, limit=2, cursor=first.structured["nextCursor"])
    assert [item["name"] for item in rest.structured["items"]] == ["Person 2"]
    chosen = call_tool(agent, "search_directory", **asked, attributes=["title"])
    assert [item["attributes"] for item in chosen.structured["items"]] == [{"title": ["Analyst"]}] * 3
    assert chosen.said == (
        "3 shown. Accounts are enabled, not locked out and not protected, and samAccountName is the name, unless it"
        " says otherwise. fields shows more of each."
    )
    disabled = call_tool(agent, "search_directory", kind="users", state="enabled", base=organizational_unit)
    assert len(disabled.structured["items"]) == 3
    assert disabled.structured["items"][0]["evidence"]
    refused = call_tool(agent, "search_directory", **asked, filter="(accountExpires<=tomorrow)")
    assert (refused.code, refused.structured["position"]) == ("Search.FilterInvalid", 17)
    assert "Write the value at position as read_object shows such values" in refused.said


def test_what_is_long_is_counted_until_it_is_asked_for(
    agent: Agent, directory: Directory, organizational_unit: str
) -> None:
    many = [f"smtp:address{number}@corp.example.test" for number in range(60)]
    guid = directory.add_user(parent=organizational_unit, proxyAddresses=many)
    result = call_tool(agent, "read_object", kind="users", id=str(guid))
    assert "proxyAddresses" not in result.structured["attributes"]
    assert result.structured["leftOut"] == {"values": {str(guid): {"proxyAddresses": 60}}}
    assert result.said.endswith("what leftOut counts; ask for it by name in attributes.")
    result = call_tool(agent, "read_object", kind="users", id=str(guid), attributes=["proxyAddresses"])
    assert sorted(result.structured["attributes"]["proxyAddresses"]) == sorted(many)
    assert "leftOut" not in result.structured


def test_attributes_are_described_by_kind_and_by_name(agent: Agent) -> None:
    usual = call_tool(agent, "describe_schema", kind="groups")
    names = {item["name"] for item in usual.structured["items"]}
    assert {"description", "mail"} <= names
    assert len(names) < 20
    assert usual.structured["leftOut"]["attributes"] > 50
    (one,) = call_tool(agent, "describe_schema", kind="users", attribute="employeeType").structured["items"]
    assert one == {"name": "employeeType", "type": "text", "singleValued": True, "writable": True}
    everything = call_tool(agent, "describe_schema", kind="groups", attribute="*").structured
    assert everything["total"] == usual.structured["total"]
    listed, more = [item["name"] for item in everything["items"]], everything
    while "nextCursor" in more:
        asked = {"kind": "groups", "attribute": "*", "cursor": more["nextCursor"]}
        more = call_tool(agent, "describe_schema", **asked).structured
        listed += [item["name"] for item in more["items"]]
    assert len(listed) == len(set(listed)) == everything["total"]
    assert call_tool(agent, "describe_schema", kind="users", attribute="shoeSize").code == "AD.Attributes.Unknown"


@pytest.mark.parametrize(
    ("tool", "arguments", "pointer"),
    [
        ("read_object", {"id": "x"}, "#/kind"),
        ("read_object", {"kind": "robots", "id": "x"}, "#/kind"),
        ("read_object", {"kind": "users"}, "#/id"),
        ("read_object", {"kind": "users", "id": "{ada}", "include": ["members"]}, "#/include"),
        ("read_object", {"kind": "users", "id": "{ada}", "deep": True}, "#/deep"),
        ("search_directory", {"kind": "groups", "state": "disabled"}, "#/state"),
        ("search_directory", {"kind": "users", "kinds": ["computer"]}, "#/kinds"),
        ("search_directory", {"kind": "users", "base": {"dn": "x"}}, "#/base"),
        ("update_object", {"kind": "users", "id": "{ada}", "replace": {"title": "x"}}, "#/reason"),
        ("update_object", {"kind": "users", "id": "{ada}", "replace": {"title": "x"}, "reason": "  "}, "#/reason"),
        ("update_object", {"kind": "users", "id": "{ada}", "reason": "x" * 501}, "#/reason"),
        ("update_object", {"kind": "users", "id": "{ada}", "change": {}, "reason": "x"}, "#/change"),
        ("move_or_rename_object", {"kind": "users", "id": "{ada}", "reason": "x"}, "#/parent"),
        ("move_or_rename_object", {"kind": "users", "id": "{ada}", "parent": "a", "name": "b"}, "#/parent"),
        ("change_account", {"kind": "computers", "id": "{ada}", "action": "reset-password"}, "#/action"),
        ("change_account", {"kind": "users", "id": "{ada}", "action": "unlock", "generate": True}, "#/reason"),
        ("delete_object", {"kind": "users", "id": "{ada}", "recursive": True, "reason": "x", "force": 1}, "#/force"),
        ("preview_change", {"tool": "read_object", "arguments": {}}, "#/tool"),
        ("preview_change", {"tool": "delete_object"}, "#/arguments"),
        ("preview_change", {"tool": "delete_object", "arguments": {}, "reason": "x"}, "#/reason"),
        ("preview_change", {"tool": "delete_object", "arguments": {}}, "#/arguments/kind"),
        ("preview_change", {"tool": "delete_object", "arguments": {"kind": "users"}}, "#/arguments/id"),
        ("search_directory", {"kind": "users", "limit": 5000}, "#/limit"),
        ("read_object", {"kind": "users", "id": "x" * 16385}, "#/id"),
        ("my_change_requests", {"wait": 5}, "#/wait"),
        ("my_change_requests", {"id": "{ada}", "wait": 61}, "#/wait"),
    ],
)
def test_a_bad_argument_is_named(
    tool: str, arguments: dict[str, Any], pointer: str, agent: Agent, ada: UUID, directory: Directory
) -> None:
    before = directory.text(ada, "title")
    given = {name: str(ada) if value == "{ada}" else value for name, value in arguments.items()}
    refused = call_tool(agent, tool, **given)
    assert refused.code in {"Request.Invalid", "Request.UnknownMember"}
    assert [error["pointer"] for error in refused.structured["errors"]] == [pointer]
    assert refused.said.endswith("errors names and call again.")
    assert directory.text(ada, "title") == before


def test_a_member_of_another_kind_is_named(agent: Agent, organizational_unit: str) -> None:
    body = {"kind": "users", "name": "x", "parent": organizational_unit, "scope": "global", "reason": "test"}
    refused = call_tool(agent, "create_object", **body)
    assert refused.code == "Request.UnknownMember"
    assert refused.structured["errors"][0]["pointer"] == "#/scope"


def test_errors_say_what_to_do_next(agent: Agent, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    nothing = str(UUID(int=7))
    refused = call_tool(agent, "read_object", kind="users", id=nothing)
    assert (refused.code, refused.said.split(". ", 1)[1]) == (
        "AD.Object.NotFound",
        "Find it with search_directory: it may be gone, or of another kind.",
    )
    taken = {"kind": "users", "name": "Ada Lovelace", "parent": organizational_unit, "reason": "test"}
    refused = call_tool(agent, "create_object", **taken)
    assert (refused.code, "choose another name" in refused.said) == ("AD.Object.AlreadyExists", True)
    stale = {"kind": "users", "id": str(ada), "replace": {"title": "x"}, "ifMatch": "0", "reason": "test"}
    refused = call_tool(agent, "update_object", **stale)
    assert (refused.code, "decide anew" in refused.said) == ("AD.Object.VersionMismatch", True)
    version = call_tool(agent, "read_object", kind="users", id=str(ada)).structured["version"]
    assert not call_tool(agent, "update_object", **{**stale, "ifMatch": version}).is_error
    assert directory.text(ada, "title") == "x"


def test_a_preview_changes_nothing(agent: Agent, ada: UUID, directory: Directory) -> None:
    arguments = {"kind": "users", "id": str(ada), "replace": {"title": "Countess"}}
    shown = call_tool(agent, "preview_change", tool="update_object", arguments=arguments)
    assert shown.structured["dryRun"] is True
    assert shown.structured["changes"] == [{"attribute": "title", "before": ["Analyst"], "after": ["Countess"]}]
    assert shown.said == "Nothing was changed. This would be done at once."
    shown = call_tool(
        agent, "preview_change", tool="delete_object", arguments={"kind": "users", "id": str(ada), "reason": "said"}
    )
    assert (shown.structured["wouldQueue"], shown.structured["risk"]) == (True, "destructive")
    assert directory.text(ada, "title") == "Analyst"
    assert not ChangeRequest.objects.exists()


def test_a_held_change_is_an_answer_and_waits_once(agent: Agent, ada: UUID, connection: DirectoryConnection) -> None:
    asked = {"kind": "users", "id": str(ada)}
    held = call_tool(agent, "delete_object", **asked, reason="left the company")
    request = ChangeRequest.objects.get()
    assert held.structured["changeRequest"]["id"] == str(request.id)
    assert not held.is_error
    assert held.said == (
        f"Not done yet: a person decides about change request {request.id} first, at the address in page, which you may"
        " show the person you work for. Asking again changes nothing; look with my_change_requests, or wait"
        " there with wait."
    )
    assert held.structured["changeRequest"]["page"] == f"http://testserver/console/changes/{request.id}"
    assert (request.reason, request.key_name, request.agent) == ("left the company", agent.grant.client.name, True)
    again = call_tool(agent, "delete_object", **asked, reason="please")
    assert again.structured == held.structured
    # Something else is another request, and so is the same of another agent.
    call_tool(agent, "change_account", **asked, action="disable", reason="left")
    other = make_agent(connection, person=agent.person)
    call_tool(other, "delete_object", **asked, reason="left")
    assert ChangeRequest.objects.count() == 3
    mine = call_tool(agent, "my_change_requests", status="pending").structured["items"]
    assert {item["id"] for item in mine} == {str(item.id) for item in ChangeRequest.objects.all()}
    cancelled = call_tool(agent, "my_change_requests", id=str(request.id), cancel=True, reason="a mistake")
    assert (cancelled.structured["status"], cancelled.said) == ("cancelled", "It was withdrawn.")
    disabled = ChangeRequest.objects.filter(operation="users.disable")
    disabled.update(status="partly-failed")
    partly = call_tool(agent, "my_change_requests", id=str(disabled.get().id))
    assert partly.said.startswith("It was approved, and a part of it failed: ")
    # What is decided does not stand in the way of asking anew.
    anew = call_tool(agent, "delete_object", **asked, reason="left after all").structured["changeRequest"]["id"]
    assert anew != str(request.id)


def test_the_brake_says_when_to_go_on(agent: Agent, ada: UUID, configure: Configure) -> None:
    configure("Agents", MaxPendingRequests=1)
    asked = {"kind": "users", "id": str(ada), "reason": "left"}
    held = call_tool(agent, "delete_object", **asked).structured
    braked = call_tool(agent, "change_account", **asked, action="disable")
    assert (braked.code, braked.said.split(". ", 1)[1]) == (
        "RateLimit.Exceeded",
        "Nothing was done: detail says when to go on.",
    )
    assert "when some of them are decided" in braked.structured["detail"]
    # What waits already takes no more room.
    assert call_tool(agent, "delete_object", **asked).structured == held


def test_the_same_with_other_values_is_another_request(agent: Agent, ada: UUID, directory: Directory) -> None:
    asked = {"kind": "users", "id": str(ada), "reason": "test"}
    secret = {**asked, "action": "reset-password"}
    first = call_tool(agent, "change_account", **secret, newPassword="Another-Horse-10").structured
    assert call_tool(agent, "change_account", **secret, newPassword="Another-Horse-10").structured == first
    assert call_tool(agent, "change_account", **secret, newPassword="Another-Horse-11").structured != first
    deleted = call_tool(agent, "delete_object", **asked).structured
    directory.modify(ada, title="Countess")  # what would be lost is another thing now
    assert call_tool(agent, "delete_object", **asked).structured != deleted


@pytest.mark.sqlite
def test_asked_for_twice_at_once_it_waits_once(
    transactional_db: None, connection: DirectoryConnection, ada: UUID
) -> None:
    agent = make_agent(connection)
    answers: list[str] = []

    def ask() -> None:
        try:
            held = call_tool(
                Agent(agent.grant, agent.token, ""), "delete_object", kind="users", id=str(ada), reason="r"
            )
            answers.append(held.structured["changeRequest"]["id"])
        finally:
            database.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert set(answers) == {str(ChangeRequest.objects.get().id)}


def test_what_a_person_decided_is_told(agent: Agent, ada: UUID) -> None:
    held = call_tool(agent, "delete_object", kind="users", id=str(ada), reason="left").structured["changeRequest"]
    waiting = call_tool(agent, "my_change_requests", id=held["id"])
    assert waiting.said == "It waits for a person, who decides at the address in page."
    (listed,) = call_tool(agent, "my_change_requests").structured["items"]
    assert held["page"] == waiting.structured["page"] == listed["page"]
    approver = Console(make_person(may=["approvals.decide_change"]))
    rejected = approver.post(f"/rest/change-requests/{held['id']}/reject", {"comment": "Ask HR first."})
    assert rejected.status == 200, rejected
    told = call_tool(agent, "my_change_requests", id=held["id"])
    assert (told.structured["status"], told.structured["comment"]) == ("rejected", "Ask HR first.")
    assert "page" not in told.structured
    assert told.said == "A person has refused it: see comment, and do not ask for it again."
    assert ChangeRequest.objects.get().status == Status.REJECTED


def test_others_requests_are_not_seen(agent: Agent, ada: UUID, connection: DirectoryConnection) -> None:
    held = call_tool(agent, "delete_object", kind="users", id=str(ada), reason="left").structured["changeRequest"]
    other = make_agent(connection)
    assert call_tool(other, "my_change_requests").structured["items"] == []
    for arguments in ({"id": held["id"]}, {"id": held["id"], "cancel": True}):
        assert call_tool(other, "my_change_requests", **arguments).code == "Request.NotFound"


def test_only_what_it_asked_for_is_withdrawn(connection: DirectoryConnection, ada: UUID) -> None:
    """Whoever lets an agent read has not let it undo what they ask for themselves."""
    first = make_agent(connection)
    held = call_tool(first, "delete_object", kind="users", id=str(ada), reason="left").structured["changeRequest"]
    cancel = {"id": held["id"], "cancel": True}
    other = make_agent(connection, person=first.person, scopes=["read", "delete"])
    assert call_tool(other, "my_change_requests", id=held["id"]).structured["status"] == "pending"
    refused = call_tool(other, "my_change_requests", **cancel)
    assert (refused.code, refused.structured["status"]) == ("Approvals.AskedElsewhere", 403)
    narrowed = make_agent(connection, person=first.person)
    AgentAccessToken.objects.filter(grant=narrowed.grant).update(scope="read")
    assert call_tool(narrowed, "my_change_requests", **cancel).code == "Approvals.AskedElsewhere"
    # The same program, connected again.
    again = make_agent(connection, person=first.person, client=first.grant.client, scopes=["read"])
    assert call_tool(again, "my_change_requests", **cancel).said == "It was withdrawn."


def test_the_rest_is_withdrawn_by_its_scope(connection: DirectoryConnection, ada: UUID) -> None:
    first = make_agent(connection)
    held = call_tool(first, "delete_object", kind="users", id=str(ada), reason="left").structured["changeRequest"]
    other = make_agent(connection, person=first.person, scopes=["requests"])
    assert call_tool(other, "my_change_requests", id=held["id"], cancel=True).said == "It was withdrawn."
    assert ChangeRequest.objects.get().status == Status.CANCELLED


def test_the_log_names_agent_client_and_person(connection: DirectoryConnection, ada: UUID) -> None:
    agent = make_agent(connection, level=SupervisionLevel.ACT)
    done = call_tool(agent, "change_account", kind="users", id=str(ada), action="disable", reason="long leave")
    assert (done.said, done.structured["account"]["enabled"]) == ("Done.", False)
    record = OperationRecord.objects.get()
    assert (record.surface, record.operation, record.outcome) == ("agent", "users.disable", "succeeded")
    assert (record.key_name, record.credential_id) == (agent.grant.client.name, agent.grant.client.client_id)
    assert (record.owner, record.reason) == (agent.person.username, "long leave")
