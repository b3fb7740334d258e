"""Steps up to a scope: HTTP 403 for what the person could allow and was not asked, and the consent that follows."""

import re
from typing import Any
from uuid import UUID

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from keys.agents.scopes import SCOPES, permissions_of
from keys.models.agents import AgentAccessToken, AgentGrant
from lab.directory import Directory
from tests.keys.agents.sign_in import Program, answer_in, decide, sign_in
from tests.support.agent_tools import call_tool, list_tools, send, send_with_envelope
from tests.support.agents import Agent, make_agent
from tests.support.cast import Answer, Console, make_person

ALL = " ".join(SCOPES)


def agent_of(tokens: dict[str, Any]) -> Agent:
    token = AgentAccessToken.objects.select_related("grant").latest("created")
    return Agent(token.grant, tokens["access_token"], tokens["refresh_token"])


def challenged(answer: Answer) -> str:
    """The scopes that the answer makes a program ask for."""
    assert answer.status == 403, answer
    assert answer.body["code"] == "Auth.InsufficientScope"
    told = re.fullmatch(
        r'Bearer realm="directory-gateway", error="insufficient_scope", scope="([a-z ]+)",'
        r' resource_metadata="http://testserver/.well-known/oauth-protected-resource/mcp"',
        answer.headers["WWW-Authenticate"],
    )
    assert told, answer.headers
    return told[1]


def ask(agent: Agent, tool: str, /, **arguments: Any) -> Answer:
    return send(agent, "tools/call", {"name": tool, "arguments": arguments})


def test_it_works(connection: DirectoryConnection, directory: Directory, ada: UUID) -> None:
    """An agent that was let read only changes a title, as soon as its person has said so."""
    console = Console(make_person(may=permissions_of(SCOPES)))
    program, tokens = sign_in(console, scope="read")
    agent = agent_of(tokens)
    assert set(list_tools(agent)) == set(list_tools(make_agent(connection))), "what its person could allow is listed"
    change = {"kind": "users", "id": str(ada), "replace": {"title": "Countess"}, "reason": "Promoted."}
    for send_it in (send, send_with_envelope):
        scope = challenged(send_it(agent, "tools/call", {"name": "update_object", "arguments": change}))
        assert scope == "read change"
    preview = ask(agent, "preview_change", tool="update_object", arguments={**change, "reason": "x"})
    assert challenged(preview) == "read change"
    assert directory.text(ada, "title") == "Analyst"
    # Whoever refuses is not asked again by this agent; here its person thinks better of it.
    decide(console, program.address(scope=scope), decision="refuse")
    assert call_tool(agent, "update_object", **change).code == "Auth.Forbidden"
    noted = OperationRecord.objects.get(operation="agents.update")
    assert (noted.owner, noted.target_id) == (console.person.username, agent.grant.pk)
    assert "refusedScopes" in str(noted.changes)
    refused = OperationRecord.objects.filter(operation="users.update", credential_id=agent.grant.client.client_id)
    assert {record.code for record in refused} == {"Auth.Forbidden"}
    told = answer_in(decide(console, program.address(scope=scope), scope=scope.split()))
    stepped_up = agent_of(program.exchange(told["code"]).body)
    assert call_tool(stepped_up, "update_object", **change).is_error is False
    assert directory.text(ada, "title") == "Countess"


def test_what_the_change_needs_besides(connection: DirectoryConnection, ada: UUID) -> None:
    person = make_person(may=permissions_of(SCOPES) - permissions_of(["passwords"]))
    agent = make_agent(connection, person=person, scopes=["read", "change"], refused_scopes=[])
    change = {"kind": "users", "id": str(ada), "reason": "back"}
    assert challenged(ask(agent, "update_object", **change, replace={"lockoutTime": "0"})) == "read change accounts"
    # Of which one part cannot be had, nothing is asked for.
    both = {"replace": {"lockoutTime": "0", "pwdLastSet": "0"}}
    assert call_tool(agent, "update_object", **change, **both).code == "Auth.Forbidden"


def test_what_the_person_took_away_is_not_asked_for(connection: DirectoryConnection, ada: UUID) -> None:
    console = Console(make_person(may=permissions_of(SCOPES)))
    program = Program()
    program.register()
    told = answer_in(decide(console, program.address(scope=ALL), scope=["read", "create"]))
    agent = agent_of(program.exchange(told["code"]).body)
    assert set(list_tools(agent)) == set(list_tools(make_agent(connection, scopes=["read", "create"])))
    deletion = {"kind": "users", "id": str(ada), "reason": "left"}
    assert call_tool(agent, "delete_object", **deletion).code == "Auth.Forbidden"
    # Nor after another consent, whose page does not tick it until the person does.
    page = console.client.get(program.address(scope="read delete")).content.decode()
    assert [f'value="{name}" checked' in " ".join(page.split()) for name in ("read", "delete")] == [True, False]
    told = answer_in(decide(console, program.address(scope="read")))
    again = agent_of(program.exchange(told["code"]).body)
    assert call_tool(again, "delete_object", **deletion).code == "Auth.Forbidden"
    decide(console, program.address(scope="read delete"))
    assert "delete" not in AgentGrant.objects.latest("created_at").refused_scopes
    # Whoever ends the agent and connects it anew begins anew.
    AgentGrant.objects.update(ended_at=AgentGrant.objects.latest("created_at").created_at)
    decide(console, program.address(scope="read"))
    assert AgentGrant.objects.latest("created_at").refused_scopes == []


def test_what_the_person_may_not_do_is_not_asked_for(
    connection: DirectoryConnection, directory: Directory, ada: UUID
) -> None:
    reader = make_agent(
        connection, person=make_person(may=["directory.read_object"]), scopes=["read"], refused_scopes=[]
    )
    assert "update_object" not in list_tools(reader)
    title = {"replace": {"title": "x"}, "reason": "test"}
    assert call_tool(reader, "update_object", kind="users", id=str(ada), **title).code == "Auth.Forbidden"
    # A protected object needs what is in no scope, whoever the person is.
    admins = directory.guid(f"CN=Domain Admins,CN=Users,{directory.base_dn}")
    superuser = make_agent(connection, person=make_person(superuser=True), scopes=["read"], refused_scopes=[])
    assert challenged(ask(superuser, "delete_object", kind="groups", id=str(admins), reason="x")) == "read delete"
    changing = make_agent(connection, person=make_person(superuser=True), scopes=["change"], refused_scopes=[])
    protected = call_tool(changing, "update_object", kind="groups", id=str(admins), replace={"info": "x"}, reason="x")
    assert protected.code == "Auth.Forbidden"


def test_a_narrowed_token_and_a_withdrawal(connection: DirectoryConnection, ada: UUID) -> None:
    first = make_agent(connection, refused_scopes=[])
    deletion = {"kind": "users", "id": str(ada), "reason": "left"}
    held = call_tool(first, "delete_object", **deletion).structured["changeRequest"]
    AgentAccessToken.objects.filter(grant=first.grant).update(scope="read")
    assert challenged(ask(first, "delete_object", **deletion)) == ALL
    other = make_agent(connection, person=first.person, scopes=["read"], refused_scopes=[])
    withdrawal = {"id": held["id"], "cancel": True}
    assert challenged(ask(other, "my_change_requests", **withdrawal)) == "read requests"
    AgentGrant.objects.filter(pk=other.grant.pk).update(refused_scopes=["requests"])
    assert call_tool(other, "my_change_requests", **withdrawal).code == "Approvals.AskedElsewhere"
