"""Agents: the grants that people gave them. Consent is given on a page only, so no operation grants anything."""

from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from core.call import Call
from core.database import own_rows
from core.errors import Conflict
from core.operation import SIGNED_IN, administration, rest_operation
from core.paging import Page, PageQuery, page_of
from core.text.messages import message
from keys.agents import grants
from keys.agents.shapes import AgentRecord, SearchAgents, UpdateAgent, agent_as_json
from keys.models.agents import AgentGrant, Ended


class SearchOwnAgents(PageQuery):
    """No filters: nobody has many."""


@rest_operation("agents.search", "GET agents", "Search agents", permission="keys.view_agentgrant")
def search_agents(call: Call, *, query: SearchAgents) -> Page[AgentRecord]:
    """List what people let agents do, newest first."""
    return page_of(call, _filtered(query), query=query, order=("-created_at", "-id"), render=agent_as_json)


@rest_operation("agents.list-own", "GET agents/own", "List own agents", permission=SIGNED_IN)
def list_own_agents(call: Call, *, query: SearchOwnAgents) -> Page[AgentRecord]:
    """List the agents that act for you, newest first."""
    own = _taken_up().filter(person_id=call.person.id)
    return page_of(call, own, query=query, order=("-created_at", "-id"), render=agent_as_json)


@rest_operation("agents.read", "GET agents/{id}", "Read {an agent}", permission="keys.view_agentgrant")
def read_agent(_: Call, *, id: UUID) -> AgentRecord:
    """Read what one person lets one agent do."""
    return agent_as_json(own_rows.find(_grants(), pk=id))


@administration("agents.update", "PATCH agents/{id}", "Update {an agent}", permission="keys.change_agentgrant")
def update_agent(_: Call, *, id: UUID, body: UpdateAgent) -> AgentRecord:
    """Change the supervision level of one agent. It holds from its next request on."""
    grant = own_rows.find(_grants(), pk=id)
    if grant.state != "active":
        raise Conflict(message("The agent is not connected any more."))
    AgentGrant.objects.filter(pk=id).update(supervision_level=body.supervision_level)
    return agent_as_json(own_rows.find(_grants(), pk=id))


@administration("agents.revoke", "POST agents/{id}/revoke", "Revoke {an agent}", permission="keys.change_agentgrant")
def revoke_agent(call: Call, *, id: UUID) -> AgentRecord:
    """End what somebody lets an agent do, for good. Every request with its tokens is refused from now on."""
    own_rows.find(_grants(), pk=id)
    grants.end(id, Ended.BY_ADMINISTRATOR, by_id=call.person.id)
    return agent_as_json(own_rows.find(_grants(), pk=id))


@administration(
    "agents.revoke-own", "POST agents/own/{id}/revoke", "Revoke {an agent of one's own}", permission=SIGNED_IN
)
def revoke_own_agent(call: Call, *, id: UUID) -> AgentRecord:
    """End what you let an agent do, for good. Every request with its tokens is refused from now on."""
    own = _grants().filter(person_id=call.person.id)
    own_rows.find(own, pk=id)
    grants.end(id, Ended.BY_PERSON, by_id=call.person.id)
    return agent_as_json(own_rows.find(own, pk=id))


def _grants() -> QuerySet[AgentGrant]:
    return AgentGrant.objects.select_related("person", "client", "connection", "ended_by")


def _taken_up() -> QuerySet[AgentGrant]:
    """Grants whose agent has redeemed its code; the others are unfinished consents."""
    return _grants().filter(code_used_at__isnull=False)


def _filtered(query: SearchAgents) -> QuerySet[AgentGrant]:
    found = own_rows.filter_optional(_taken_up(), person__username=query.person, client=query.client)
    if query.state is not None:
        is_over = Q(expires_at__lte=timezone.now())
        states = {
            "active": Q(ended_at__isnull=True) & ~is_over,
            "expired": Q(ended_at__isnull=True) & is_over,
            "ended": Q(ended_at__isnull=False),
        }
        found = found.filter(states[query.state])
    return found
