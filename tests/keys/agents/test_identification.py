"""Who an agent's token stands for, and every way it is refused."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import RequestFactory
from django.utils import timezone
from structlog.testing import capture_logs

from core.call import Call, CredentialKind, SupervisionLevel, Surface
from core.errors import AmbiguousCredential, Forbidden, Unauthorized
from directory.models import DirectoryConnection
from keys.agents import scopes
from keys.agents.identification import call_for_agent, identify_agent
from keys.models import Person
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant
from tests.support.agents import Agent, make_agent
from tests.support.cast import make_integration, permissions
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(connection: DirectoryConnection) -> Agent:
    return make_agent(connection, scopes=["read", "change"])


def identify(agent: Agent, *, path: str = "/mcp", **headers: str) -> Call:
    request = RequestFactory().post(path, headers={"Authorization": f"Bearer {agent.token}", **headers})
    request.client_address, request.request_id = "192.0.2.7", "r-1"  # type: ignore[attr-defined]
    return identify_agent(request)


def test_it_works(agent: Agent, connection: DirectoryConnection) -> None:
    call = identify(agent)
    client, person = agent.grant.client, agent.person
    assert call.surface is Surface.AGENT
    assert (call.person.id, call.person.username) == (person.pk, person.username)
    assert (call.credential.kind, call.credential.id) == (CredentialKind.AGENT_TOKEN, client.client_id)
    assert (call.credential.name, call.credential.grant_id) == (client.name, agent.grant.id)
    assert call.permissions == scopes.permissions_of(["read", "change"])
    assert call.directory is not None
    assert call.directory.id == connection.id
    assert call.supervision is SupervisionLevel.ASK_DESTRUCTIVE_SECURITY
    assert (call.client_address, call.request_id) == ("192.0.2.7", "r-1")


def test_consented_and_held_by_the_person_now(agent: Agent) -> None:
    agent.person.user_permissions.set(permissions(["directory.read_object", "directory.delete_user"]))
    assert identify(agent).permissions == {"directory.read_object"}


def test_a_superuser_lends_no_more_than_was_consented(agent: Agent) -> None:
    Person.objects.filter(pk=agent.person.pk).update(is_superuser=True)
    assert identify(agent).permissions == scopes.permissions_of(["read", "change"])


def test_what_a_scope_comes_to_mean_later_was_not_consented_to(agent: Agent) -> None:
    AgentGrant.objects.update(permissions=["directory.read_object"])
    assert identify(agent).permissions == {"directory.read_object"}


def test_the_token_may_be_for_less(agent: Agent) -> None:
    AgentAccessToken.objects.update(scope="change")
    assert identify(agent).permissions == scopes.permissions_of(["change"])


def test_the_level_is_the_agents(agent: Agent) -> None:
    AgentGrant.objects.update(supervision_level="ask_every_change")
    assert identify(agent).supervision is SupervisionLevel.ASK_EVERY_CHANGE


def _change(model: Any, **values: Any) -> Callable[[Agent], None]:
    return lambda _: model.objects.update(**values)


def _past() -> Any:
    return timezone.now() - timedelta(seconds=1)


REFUSALS: dict[str, Callable[[Agent], Any]] = {
    "unknown agent token": lambda agent: setattr(agent, "token", agent.token[::-1]),
    "agent token expired": lambda _: AgentAccessToken.objects.update(expires=_past()),
    "agent token for another audience": _change(AgentAccessToken, resource=["https://other.example/mcp"]),
    "agent revoked": lambda _: AgentGrant.objects.update(ended_at=_past()),
    "agent not used for too long": lambda _: AgentGrant.objects.update(expires_at=_past()),
    "agent's client disabled": lambda _: AgentClient.objects.update(disabled_at=_past()),
    "person deactivated": lambda agent: Person.objects.filter(pk=agent.person.pk).update(is_active=False),
    "person has another password since": lambda agent: Person.objects.filter(pk=agent.person.pk).update(password="!"),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_refused_at_the_next_request(reason: str, agent: Agent) -> None:
    identify(agent)
    REFUSALS[reason](agent)
    with capture_logs() as logs, pytest.raises(Unauthorized) as refusal:
        identify(agent)
    assert [entry["reason"] for entry in logs if entry["event"] == "credential refused"] == [reason]
    assert agent.token not in str(logs)
    assert refusal.value.as_problem()["code"] == "Auth.Unauthorized"
    assert refusal.value.headers["WWW-Authenticate"] == (
        'Bearer realm="directory-gateway", error="invalid_token", '
        'resource_metadata="http://testserver/.well-known/oauth-protected-resource/mcp"'
    )


@pytest.mark.parametrize("audiences", [[], [None], ["http://testserver/mcp", "http://testserver/other"]])
def test_a_token_has_exactly_one_audience(agent: Agent, audiences: list[str]) -> None:
    AgentAccessToken.objects.update(resource=[str(each) for each in audiences])
    with pytest.raises(Unauthorized):
        identify(agent)


def test_good_at_the_host_it_was_issued_for_alone(agent: Agent) -> None:
    with pytest.raises(Unauthorized):
        identify(agent, Host="gateway.example.test")


def test_switched_off(agent: Agent, configure: Configure) -> None:
    configure("Agents", Enabled=False)
    with pytest.raises(Unauthorized):
        identify(agent)
    with pytest.raises(Forbidden):
        later(agent)


def test_in_the_header_alone(agent: Agent, connection: DirectoryConnection) -> None:
    factory, value = RequestFactory(), agent.token
    for request in (
        factory.post("/mcp"),
        factory.post(f"/mcp?access_token={value}"),
        factory.post(f"/mcp?access_token={value}", headers={"Authorization": f"Bearer {value}"}),
        factory.post("/mcp", {"access_token": value}),
        factory.post("/mcp", headers={"Authorization": f"Basic {value}"}),
        factory.post("/mcp", headers={"Authorization": "Bearer "}),
        factory.post("/mcp", headers={"Authorization": f"Bearer {value * 50}"}),
        factory.post("/mcp", headers={"Authorization": f"Bearer {agent.refresh_token}"}),
        factory.post("/mcp", headers={"X-API-Key": value}),
        factory.post("/mcp", headers={"X-API-Key": make_integration(connection).value}),
    ):
        with pytest.raises(Unauthorized):
            identify_agent(request)
    with pytest.raises(AmbiguousCredential):
        identify(agent, **{"X-API-Key": "dgk_x"})


def test_a_directory_that_is_closed_or_not_the_persons(agent: Agent, connection: DirectoryConnection) -> None:
    other = DirectoryConnection.objects.create(name="Other", urls=["ldaps://127.0.0.1:1"], base_dn="DC=other")
    AgentGrant.objects.update(connection=other)
    Person.objects.filter(pk=agent.person.pk).update(connection=connection, object_guid=agent.grant.id)
    assert identify(agent).directory is None
    AgentGrant.objects.update(connection=connection)
    assert identify(agent).directory is not None
    DirectoryConnection.objects.update(enabled=False)
    assert identify(agent).directory_refusal is Forbidden


def later(agent: Agent) -> Call:
    """The call of what was asked for earlier, made now."""
    return call_for_agent(
        str(agent.grant.id), connection_id=agent.grant.connection_id, surface=Surface.WORKER, request_id="r-2"
    )


def test_later(agent: Agent) -> None:
    """An approved change needs no living access token, but a living grant."""
    AgentAccessToken.objects.all().delete()
    call = later(agent)
    assert call.permissions == scopes.permissions_of(["read", "change"])
    assert (call.credential.kind, call.surface) == (CredentialKind.AGENT_TOKEN, Surface.WORKER)


@pytest.mark.parametrize("reason", [reason for reason in REFUSALS if "token" not in reason])
def test_later_refused(reason: str, agent: Agent) -> None:
    REFUSALS[reason](agent)
    with pytest.raises(Forbidden):
        later(agent)


def test_two_people_share_a_client_and_nothing_else(connection: DirectoryConnection) -> None:
    first = make_agent(connection)
    second = make_agent(connection, client=first.grant.client)
    calls = [identify(agent) for agent in (first, second)]
    assert calls[0].credential.id == calls[1].credential.id
    assert calls[0].credential.unique_id != calls[1].credential.unique_id
    assert [call.person.id for call in calls] == [first.person.pk, second.person.pk]


def test_every_scope_means_permissions_that_roles_know() -> None:
    from keys.permission_catalogue import GRANTABLE

    for name, scope in scopes.SCOPES.items():
        assert scope.permissions or name == scopes.WITHDRAW_ALL, name
        assert scope.permissions <= GRANTABLE, name
    out_of_reach = {"directory.manage_protected", "directory.read_confidential", "approvals.decide_change"}
    assert not scopes.permissions_of(scopes.SCOPES) & out_of_reach
