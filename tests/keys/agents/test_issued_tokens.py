"""Tokens that people issue on their account's page for agents without a browser."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import timezone

from audit.models import OperationRecord
from core.call import Call, SupervisionLevel
from core.errors import Unauthorized
from directory.models import DirectoryConnection
from keys.agents import grants
from keys.agents.identification import identify_agent
from keys.agents.scopes import permissions_of
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant
from tests.keys.agents.sign_in import Program
from tests.support.cast import Answer, Console, make_person
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db

PAGE, ISSUE = "/console/account/agents/new", "/console/account/agents/issue"


def issue(console: Console, corp: DirectoryConnection, **fields: Any) -> Answer:
    typed = {"name": "Nightly audit", "scope": ["read", "change"], "directory": str(corp.client_id), **fields}
    return console.submit(ISSUE, **typed)


def token_in(console: Console, answer: Answer) -> str:
    assert answer.status == 302, answer
    page = console.client.get(answer.headers["Location"]).content.decode()
    found = re.search(r'id="agent-token"[^>]* value="([^"]+)"', page)
    assert found, page
    assert console.client.get(answer.headers["Location"]).content.decode().count(found[1]) == 0, "shown once"
    return unescape(found[1])


def identify(token: str) -> Call:
    return identify_agent(RequestFactory().post("/mcp", headers={"Authorization": f"Bearer {token}"}))


def test_a_token_from_the_page_to_the_call(console: Console, corp: DirectoryConnection) -> None:
    token = token_in(console, issue(console, corp))
    call = identify(token)
    assert (call.person.id, call.credential.name) == (console.person.pk, "Nightly audit")
    assert call.permissions == permissions_of(["read", "change"])
    assert call.supervision is SupervisionLevel.ASK_DESTRUCTIVE_SECURITY
    assert call.directory is not None
    assert call.directory.id == corp.pk
    assert call.credential.expires_at is not None
    assert timedelta(days=29) < call.credential.expires_at - timezone.now() <= timedelta(days=30)
    records = OperationRecord.objects.filter(operation="agents.create")
    assert {record.owner for record in records} == {console.person.username}
    assert AgentGrant.objects.get().pk in {record.target_id for record in records}
    assert token not in str(list(records.values()))
    assert not AgentAccessToken.objects.filter(token=token).exists(), "only its digest is stored"


def test_its_person_ends_it(console: Console, corp: DirectoryConnection) -> None:
    token = token_in(console, issue(console, corp))
    assert b"Nightly audit" in console.client.get("/console/account").content
    assert console.submit(f"/console/account/agents/{AgentGrant.objects.get().pk}/revoke").status == 302
    with pytest.raises(Unauthorized):
        identify(token)


def test_it_ends_by_itself(console: Console, corp: DirectoryConnection) -> None:
    token = token_in(console, issue(console, corp))
    AgentGrant.objects.update(expires_at=timezone.now())
    with pytest.raises(Unauthorized):
        identify(token)
    AgentGrant.objects.update(expires_at=timezone.now() - timedelta(days=91))
    grants.sweep()
    assert not AgentClient.objects.exists(), "its client was made for it alone"


def test_nobody_gives_more_than_they_hold(corp: DirectoryConnection) -> None:
    reader = Console(make_person(may=["directory.read_object"]))
    token = token_in(reader, issue(reader, corp, scope=["read", "delete", "unknown"]))
    assert identify(token).permissions == {"directory.read_object"}
    assert AgentGrant.objects.get().scopes == ["read"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "ab\u202ec"}, "name"),
        ({"scope": []}, "scope"),
        ({"scope": ["unknown"]}, "scope"),
        ({"directory": "00000000-0000-0000-0000-000000000000"}, "directory"),
    ],
)
def test_refused(fields: dict[str, Any], pointer: str, console: Console, corp: DirectoryConnection) -> None:
    answer = issue(console, corp, **fields)
    assert answer.status == 400
    assert f'id="{pointer}-error"'.encode() in answer.body
    assert not AgentClient.objects.exists()
    assert not AgentGrant.objects.exists()


def test_not_where_only_administrators_make_agents(
    console: Console, corp: DirectoryConnection, configure: Configure
) -> None:
    configure("Agents", Registration="closed")
    assert issue(console, corp).status == 403
    assert console.client.get(PAGE).status_code == 403
    assert PAGE.encode() not in console.client.get("/console/account").content
    configure("Agents", Enabled=False)
    assert issue(console, corp).status == 404


def test_there_is_a_limit(console: Console, corp: DirectoryConnection, limited: None, configure: Configure) -> None:
    configure("Agents", RegistrationsPerHour=1)
    assert [issue(console, corp).status for _ in range(2)] == [302, 429]


def test_nobody_signs_in_with_its_client(console: Console, corp: DirectoryConnection) -> None:
    token_in(console, issue(console, corp))
    program = Program(AgentClient.objects.get().client_id)
    assert console.client.get(program.address()).status_code == 400
