"""Agents for administrators: what people let them do, how they are supervised, their clients, and the end of both."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path

from gateway.console.page_context import Visit, page
from gateway.core.errors import GatewayError
from keys.models import Level

_CLIENTS_SHOWN = 100
_AT_ONCE = 200


@page(get="agents.search")
def agents(visit: Visit) -> HttpResponseBase:
    return _page(visit)


def _page(visit: Visit, **context: Any) -> HttpResponseBase:
    filters: dict[str, str] = {name: visit.query[name] for name in ("person", "state", "cursor") if name in visit.query}
    found = visit.perform("agents.search", query={"pageSize": "50", **filters}) if visit.may("agents.search") else None
    clients: list[dict[str, Any]] = []
    if visit.may("agent-clients.search"):
        clients = visit.perform("agent-clients.search", query={"pageSize": str(_CLIENTS_SHOWN)})["items"]
    problem = context.get("problem")
    return visit.render(
        "access/agents.html",
        {
            "found": found,
            "clients": clients,
            "levels": Level,
            "states": ("active", "expired", "ended"),
            "is_on": settings.CONFIGURATION.Agents.Enabled,
            "registration": settings.CONFIGURATION.Agents.Registration,
            "address": visit.request.build_absolute_uri("/mcp"),
            **context,
        },
        status=problem.status if problem else 200,
    )


@page(post="agents.update")
def supervise(visit: Visit, agent_id: UUID) -> HttpResponseBase:
    body = {"supervisionLevel": visit.form.get("level", "")}
    return _done(visit, "agents.update", "It holds from the agent's next request on.", id=agent_id, body=body)


@page(post="agents.revoke")
def revoke(visit: Visit, agent_id: UUID) -> HttpResponseBase:
    return _done(visit, "agents.revoke", "Ended. Every request of the agent is refused from now on.", id=agent_id)


@page(post="agents.revoke")
def revoke_all(visit: Visit) -> HttpResponseBase:
    """End every active grant, each as its own operation with its own record."""
    count = 0
    while living := visit.perform("agents.search", query={"state": "active", "pageSize": str(_AT_ONCE)})["items"]:
        for agent in living:
            visit.perform("agents.revoke", id=agent["id"])
        count += len(living)
    messages.success(visit.request, f"Ended: {count} agent{'' if count == 1 else 's'}.")
    return visit.redirect("agents")


@page(post="agent-clients.create")
def create_client(visit: Visit) -> HttpResponseBase:
    typed = {"name": visit.form.get("name", ""), "redirectUris": visit.form.get("redirectUris", "")}
    try:
        made = visit.perform(
            "agent-clients.create", body={"name": typed["name"], "redirectUris": typed["redirectUris"].split()}
        )
    except GatewayError as refusal:
        return _page(visit, problem=refusal, typed=typed)
    messages.success(visit.request, f"Made. Give its client ID to the program: {made['clientId']}")
    return visit.redirect("agents")


@page(post="agent-clients.disable")
def change_client(visit: Visit, client_id: UUID, change: str) -> HttpResponseBase:
    message = {
        "disable": "Disabled. What anybody let it do is ended.",
        "enable": "People can connect it again.",
        "delete": "Deleted.",
    }
    return _done(visit, f"agent-clients.{change}", message[change], id=client_id)


def _done(visit: Visit, operation: str, message: str, **inputs: Any) -> HttpResponseBase:
    try:
        visit.perform(operation, **inputs)
    except GatewayError as refusal:
        return _page(visit, problem=refusal)
    messages.success(visit.request, message)
    return visit.redirect("agents")


urls = [
    path("agents/", agents, name="agents"),
    path("agents/revoke-all", revoke_all, name="agents-revoke-all"),
    path("agents/<uuid:agent_id>/level", supervise, name="agent-level"),
    path("agents/<uuid:agent_id>/revoke", revoke, name="agent-revoke"),
    path("agents/clients", create_client, name="agent-client-new"),
    *(
        path(
            f"agents/clients/<uuid:client_id>/{change}",
            change_client,
            {"change": change},
            name=f"agent-client-{change}",
        )
        for change in ("disable", "enable", "delete")
    ),
]
