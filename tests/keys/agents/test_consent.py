"""The consent page: what it says, what can be taken away, and that nobody says yes for somebody else."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from audit.models import OperationRecord
from console.account import connect_agent
from directory.models import DirectoryConnection
from keys.agents.scopes import SCOPES
from keys.models.agents import AgentClient, AgentGrant
from tests.contracts.test_unwritable_log import unwritable_log
from tests.keys.agents.sign_in import LOOPBACK, Program, answer_in, decide, fields_of, sign_in
from tests.support.agents import make_agent
from tests.support.cast import Console, make_person
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db

ALL = " ".join(SCOPES)


@pytest.fixture
def program(db: None) -> Program:
    program = Program()
    assert program.register().status == 201
    return program


def text_of(page: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.content.decode()))


def test_it_says_who_asks_for_what_and_where_the_answer_goes(console: Console, program: Program) -> None:
    page = console.client.get(program.address(scope=ALL))
    text = text_of(page)
    for said in ("Claude", console.person.username, LOOPBACK, "Corp", *(scope.title for scope in SCOPES.values())):
        assert said in text, said
    assert text.count("another person must approve each change") == sum(scope.waits for scope in SCOPES.values())
    assert "itself says that this is its name" in text


def test_nobody_frames_it_and_its_form_leads_to_the_agent_alone(console: Console, program: Program) -> None:
    page = console.client.get(program.address())
    policy = page.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' http://127.0.0.1:53682;" in policy
    assert page.headers["X-Frame-Options"] == "DENY"
    assert "no-store" in page.headers["Cache-Control"]
    elsewhere = console.client.get("/console/account").headers["Content-Security-Policy"]
    assert "form-action 'self';" in elsewhere


def test_the_name_is_text(console: Console) -> None:
    program, name = Program(), '<script>alert(1)</script>"&{{x}}'
    program.register(client_name=name)
    page = console.client.get(program.address()).content.decode()
    assert name not in page
    assert escape(name) in page


def test_scopes_can_be_taken_away(console: Console, program: Program) -> None:
    told = answer_in(decide(console, program.address(scope=ALL), scope=["read", "membership"]))
    assert program.exchange(told["code"]).body["scope"] == "read membership"
    assert AgentGrant.objects.get().scopes == ["read", "membership"]


def test_no_scope_is_added(console: Console, program: Program) -> None:
    told = answer_in(decide(console, program.address(scope="read"), scope=["read", "delete", "everything"]))
    assert program.exchange(told["code"]).body["scope"] == "read"


def test_whoever_asks_for_nothing_gets_the_least(console: Console, program: Program) -> None:
    told = answer_in(decide(console, program.address(scope=None)))
    assert program.exchange(told["code"]).body["scope"] == "read"


def test_all_taken_away(console: Console, program: Program) -> None:
    answer = decide(console, program.address(), scope=[])
    assert answer.status == 400
    assert b"at least one thing" in answer.body
    assert not AgentGrant.objects.exists()


def test_what_the_person_may_not_do_is_shown_and_not_offered(corp: DirectoryConnection, program: Program) -> None:
    reader = Console(make_person(may=["directory.read_object"]))
    assert "You may not do this yourself" in text_of(reader.client.get(program.address()))
    told = answer_in(decide(reader, program.address()))
    assert program.exchange(told["code"]).body["scope"] == "read"


def test_refusing(console: Console, program: Program) -> None:
    told = answer_in(decide(console, program.address(), decision="refuse"))
    assert told == {"error": "access_denied", "state": program.state, "iss": "http://testserver"}
    assert not AgentGrant.objects.exists()


def test_it_is_never_left_out(console: Console) -> None:
    """Neither for an agent that is connected already, nor when the request asks for it."""
    program, _ = sign_in(console)
    for more in ({}, {"prompt": "none"}, {"approval_prompt": "auto"}):
        page = console.client.get(program.address(**more))
        assert page.status_code == 200
        assert b'name="decision"' in page.content


def test_sign_in_first_then_back(corp: DirectoryConnection, program: Program) -> None:
    response = Client().get(program.address())
    assert response.status_code == 302
    place = urlsplit(response.headers["Location"])
    assert place.path == "/console/sign-in"
    assert "connect-agent" in place.query
    assert program.client_id in place.query


def test_a_yes_needs_the_form_that_was_shown(console: Console, program: Program) -> None:
    """Its own token beside Django's: of this session, for this request of this client, and not for long."""
    address, other_address = program.address(), program.address(scope=ALL)
    seal = fields_of(console.client.get(address).content)
    somebody_else = Console(make_person(may=["directory.read_object"]))
    others = fields_of(somebody_else.client.get(address).content)
    for fields, place in (
        ({}, address),
        ({"seal": ""}, address),
        ({"seal": seal["seal"][:-1] + "x"}, address),
        ({"seal": seal["seal"]}, other_address),
        ({"seal": others["seal"]}, address),
    ):
        answer = console.submit(place, directory=seal["directory"], scope=["read"], decision="allow", **fields)
        assert answer.status == 400, fields
        assert b"Read it again" in answer.body
    assert not AgentGrant.objects.exists()


def test_a_yes_is_to_the_agent_that_was_shown(console: Console, program: Program) -> None:
    fields = fields_of(console.client.get(program.address()).content)
    AgentClient.objects.update(name="Somebody else")
    answer = console.submit(program.address(), **fields, scope=["read"], decision="allow")
    assert answer.status == 400
    assert not AgentGrant.objects.exists()


def test_a_yes_does_not_keep(console: Console, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = fields_of(console.client.get(program.address()).content)
    monkeypatch.setattr(connect_agent, "_SEAL_MAX_AGE", -1)
    assert console.submit(program.address(), **fields, scope=["read"], decision="allow").status == 400


def test_without_djangos_token(console: Console, program: Program) -> None:
    """A page of somebody else's that sends the form for the person."""
    fields = fields_of(console.client.get(program.address()).content)
    response = console.client.post(program.address(), {**fields, "scope": "read", "decision": "allow"})
    assert response.status_code == 403
    assert not AgentGrant.objects.exists()


def test_a_form_cannot_change_what_the_address_asks(console: Console, program: Program) -> None:
    other = Program(redirect_uri="https://evil.example/callback")
    other.register()
    answer = decide(
        console, program.address(), client_id=other.client_id, redirect_uri=other.redirect_uri, state="evil"
    )
    assert answer.headers["Location"].startswith(LOOPBACK)
    assert answer_in(answer)["state"] == program.state
    assert AgentGrant.objects.get().client.client_id == program.client_id


def test_the_directory_is_chosen_where_there_are_several(console: Console, program: Program) -> None:
    other = DirectoryConnection.objects.create(
        name="Other", urls=["ldaps://127.0.0.1:1"], base_dn="DC=other", bind_dn="CN=g", bind_password="x"
    )
    closed = DirectoryConnection.objects.create(
        name="Closed", urls=["ldaps://127.0.0.1:1"], base_dn="DC=c", bind_dn="CN=g", bind_password="x", enabled=False
    )
    assert decide(console, program.address()).status == 400
    assert decide(console, program.address(), directory=closed.client_id).status == 400
    answer_in(decide(console, program.address(), directory=other.client_id))
    assert AgentGrant.objects.get().connection == other


def test_consenting_again_does_not_undo_a_stricter_level(console: Console) -> None:
    for level, then in (("ask_every_change", "ask_every_change"), ("act", "ask_destructive_security")):
        AgentGrant.objects.all().delete()
        program, _ = sign_in(console)
        AgentGrant.objects.update(supervision_level=level)
        answer_in(decide(console, program.address()))
        assert AgentGrant.objects.filter(code_used_at__isnull=True).get().supervision_level == then


def test_no_record_no_consent(console: Console, program: Program) -> None:
    with unwritable_log():
        assert decide(console, program.address()).status == 503
    assert not AgentGrant.objects.exists()
    assert not OperationRecord.objects.filter(operation="agents.create").exists()


def test_switched_off(console: Console, program: Program, configure: Configure) -> None:
    configure("Agents", Enabled=False)
    assert console.client.get(program.address()).status_code == 404


# --- afterwards


def test_my_agents(console: Console, corp: DirectoryConnection) -> None:
    """A person sees their own and ends them; others' are nobody's they know."""
    own, others = make_agent(corp, person=console.person), make_agent(corp)
    page = text_of(console.client.get("/console/account"))
    assert own.grant.client.name in page
    assert others.grant.client.name not in page
    [told] = console.get("/rest/agents/own").body["items"]
    assert (told["id"], told["state"], told["supervisionLevel"]) == (
        str(own.grant.id),
        "active",
        "ask_destructive_security",
    )
    assert console.post(f"/rest/agents/own/{others.grant.id}/revoke").status == 404
    assert console.submit(f"/console/account/agents/{own.grant.id}/revoke").status == 302
    assert AgentGrant.objects.get(pk=own.grant.id).ended_for == "person"
    assert AgentGrant.objects.get(pk=others.grant.id).ended_at is None
    assert console.get("/rest/agents").status == 403


def test_agents_for_administrators(corp: DirectoryConnection) -> None:
    administrator = Console(make_person(superuser=True))
    first, second = make_agent(corp), make_agent(corp)
    page = text_of(administrator.client.get("/console/agents/"))
    assert first.grant.client.name in page
    assert second.person.username in page
    place = f"/console/agents/{first.grant.id}"
    assert administrator.submit(f"{place}/level", supervisionLevel="ask_every_change").status == 302
    assert AgentGrant.objects.get(pk=first.grant.id).supervision_level == "ask_every_change"
    assert administrator.submit(f"{place}/level", supervisionLevel="free").status == 400
    assert administrator.submit(f"{place}/revoke").status == 302
    assert administrator.submit(f"{place}/level", supervisionLevel="act").status == 409
    assert administrator.submit("/console/agents/revoke-all").status == 302
    assert not AgentGrant.objects.filter(ended_at__isnull=True).exists()
    assert OperationRecord.objects.filter(operation="agents.revoke").count() == 2
    found = administrator.get(f"/rest/agents?person={second.person.username}&state=ended").body["items"]
    assert [item["endedFor"] for item in found] == ["administrator"]


def test_clients_made_by_hand(console: Console, configure: Configure) -> None:
    configure("Agents", Registration="closed")
    administrator = Console(make_person(superuser=True))
    fields = {"name": "Helper", "redirectUris": f"{LOOPBACK} https://helper.example/cb"}
    assert administrator.submit("/console/agents/clients", **fields).status == 302
    client = AgentClient.objects.get()
    assert client.redirect_uris.split() == [LOOPBACK, "https://helper.example/cb"]
    assert administrator.submit("/console/agents/clients", name="Evil", redirectUris="http://evil/").status == 400
    program = Program(client_id=client.client_id)
    page = console.client.get(program.address())
    assert "itself says" not in text_of(page)
    assert program.exchange(answer_in(decide(console, program.address()))["code"]).status == 200
    assert administrator.delete(f"/rest/agent-clients/{client.pk}").status == 409
    assert administrator.post(f"/rest/agent-clients/{client.pk}/disable").status == 200
    assert AgentGrant.objects.get().ended_for == "administrator"
    assert console.client.get(program.address()).status_code == 400
    assert administrator.delete(f"/rest/agent-clients/{client.pk}").status == 204


def test_more_freedom_waits_for_a_second_person(corp: DirectoryConnection, configure: Configure) -> None:
    configure("Approvals", AccessNeedsTwo=True)
    administrator, agent = Console(make_person(superuser=True)), make_agent(corp)
    place = f"/rest/agents/{agent.grant.id}"
    assert administrator.patch(place, {"supervisionLevel": "ask_every_change"}).status == 200
    assert administrator.patch(place, {"supervisionLevel": "act"}).status == 202
    assert AgentGrant.objects.get().supervision_level == "ask_every_change"


def test_a_grant_that_expired_is_told_so(console: Console, corp: DirectoryConnection) -> None:
    make_agent(corp, person=console.person, expires_at=timezone.now() - timedelta(seconds=1))
    [told] = console.get("/rest/agents/own").body["items"]
    assert told["state"] == "expired"
