"""OAuth clients of agents: programs that people can connect, self-registered or made here."""

from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from core.call import Call
from core.database import own_rows
from core.errors import Conflict
from core.operation import administration, rest_operation
from core.paging import Page, page_of
from core.text.messages import message
from keys.agents import grants
from keys.agents.clients import make_client
from keys.agents.shapes import AgentClientRecord, CreateAgentClient, SearchAgentClients, agent_client_as_json
from keys.models import Person
from keys.models.agents import AgentClient, AgentGrant, Ended


@rest_operation("agent-clients.search", "GET agent-clients", "Search agent clients", permission="keys.view_agentclient")
def search_agent_clients(call: Call, *, query: SearchAgentClients) -> Page[AgentClientRecord]:
    """List the programs that people can connect as agents, newest first."""
    found = _clients() if query.name is None else _clients().filter(own_rows.containing(query.name, "name"))
    if query.state is not None:
        found = found.filter(disabled_at__isnull=query.state == "active")
    return page_of(call, found, query=query, order=("-created", "-id"), render=_as_json)


@rest_operation(
    "agent-clients.read", "GET agent-clients/{id}", "Read {an agent client}", permission="keys.view_agentclient"
)
def read_agent_client(_: Call, *, id: UUID) -> AgentClientRecord:
    """Read one program that people can connect as an agent."""
    return _as_json(_find(id))


@administration(
    "agent-clients.create",
    "POST agent-clients",
    "Create {an agent client}",
    permission="keys.add_agentclient",
    creates=True,
)
def create_agent_client(call: Call, *, body: CreateAgentClient) -> AgentClientRecord:
    """Make a client for an agent, as closed registration asks for. It has an id and no secret."""
    addresses = list(dict.fromkeys(body.redirect_uris))
    maker = Person.objects.get(pk=call.person.id)
    made = make_client(body.name.strip(), addresses, AgentClient.RegistrationSource.MANUAL, created_by=maker)
    return _as_json(_find(made.pk))


@administration(
    "agent-clients.disable",
    "POST agent-clients/{id}/disable",
    "Disable {an agent client}",
    permission="keys.change_agentclient",
)
def disable_agent_client(call: Call, *, id: UUID) -> AgentClientRecord:
    """Refuse a client everything from now on, and end what anybody lets it do."""
    client = _find(id)
    if client.disabled_at is None:
        AgentClient.objects.filter(pk=id, disabled_at__isnull=True).update(disabled_at=timezone.now())
    living = AgentGrant.objects.filter(client=client, ended_at__isnull=True)
    grants.end_each(call, living, Ended.BY_ADMINISTRATOR)
    return _as_json(_find(id))


@administration(
    "agent-clients.enable",
    "POST agent-clients/{id}/enable",
    "Enable {an agent client}",
    permission="keys.change_agentclient",
)
def enable_agent_client(_: Call, *, id: UUID) -> AgentClientRecord:
    """Let people connect a disabled client again. What they had let it do stays ended."""
    _find(id)
    AgentClient.objects.filter(pk=id).update(disabled_at=None)
    return _as_json(_find(id))


@administration(
    "agent-clients.delete",
    "DELETE agent-clients/{id}",
    "Delete {an agent client}",
    permission="keys.delete_agentclient",
)
def delete_agent_client(_: Call, *, id: UUID) -> None:
    """Delete a client that nobody lets do anything now."""
    client = _find(id)
    if client.agents:
        raise Conflict(message("People let this agent act for them: disable it first."))
    AgentClient.objects.get(pk=id).delete()


def _clients() -> QuerySet[AgentClient]:
    living = Q(grants__ended_at__isnull=True, grants__expires_at__gt=timezone.now(), grants__code_used_at__isnull=False)
    counted: QuerySet[AgentClient] = AgentClient.objects.select_related("created_by").annotate(
        agents=Count("grants", filter=living)
    )
    return counted


def _find(id: UUID) -> AgentClient:
    return own_rows.find(_clients(), pk=id)


def _as_json(client: AgentClient) -> AgentClientRecord:
    return agent_client_as_json(client, agents=client.agents)
