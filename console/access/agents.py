"""Agents for administrators: what people let them do, how they are supervised, their clients, and the end of both."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.page_context import PageContext, console_page
from core.errors import GatewayError
from keys.agents.extra import how_to_install
from keys.models import Level

_CLIENTS_SHOWN = 100
_AT_ONCE = 200


@console_page(get="agents.search")
def agents(page: PageContext) -> HttpResponseBase:
    return _page(page)


def _page(page: PageContext, **context: Any) -> HttpResponseBase:
    filters: dict[str, str] = {name: page.query[name] for name in ("person", "state", "cursor") if name in page.query}
    found = page.perform("agents.search", query={"pageSize": "50", **filters}) if page.may("agents.search") else None
    clients: list[dict[str, Any]] = []
    if page.may("agent-clients.search"):
        clients = page.perform("agent-clients.search", query={"pageSize": str(_CLIENTS_SHOWN)})["items"]
    problem = context.get("problem")
    return page.render(
        "access/agents.html",
        {
            "found": found,
            "clients": clients,
            "levels": Level,
            "states": (("active", _("Active")), ("expired", _("Expired")), ("ended", _("Ended"))),
            "is_on": settings.CONFIGURATION.Agents.Enabled,
            "how_to_install": how_to_install(),
            "registration": settings.CONFIGURATION.Agents.Registration,
            "address": page.request.build_absolute_uri("/mcp"),
            **context,
        },
        status=problem.status if problem else 200,
    )


@console_page("POST", post="agents.update")
def supervise(page: PageContext, agent_id: UUID) -> HttpResponseBase:
    body = {"supervisionLevel": page.form.get("level", "")}
    return _done(page, "agents.update", _("It holds from the agent's next request on."), id=agent_id, body=body)


@console_page("POST", post="agents.revoke")
def revoke(page: PageContext, agent_id: UUID) -> HttpResponseBase:
    return _done(page, "agents.revoke", _("Ended. Every request of the agent is refused from now on."), id=agent_id)


@console_page("POST", post="agents.revoke")
def revoke_all(page: PageContext) -> HttpResponseBase:
    """End every active grant, each as its own operation with its own record."""
    count = 0
    while living := page.perform("agents.search", query={"state": "active", "pageSize": str(_AT_ONCE)})["items"]:
        for agent in living:
            page.perform("agents.revoke", id=agent["id"])
        count += len(living)
    messages.success(page.request, ngettext("Ended: {n} agent.", "Ended: {n} agents.", count).format(n=count))
    return page.redirect("agents")


@console_page("POST", post="agent-clients.create")
def create_client(page: PageContext) -> HttpResponseBase:
    typed = {"name": page.form.get("name", ""), "redirectUris": page.form.get("redirectUris", "")}
    try:
        made = page.perform(
            "agent-clients.create", body={"name": typed["name"], "redirectUris": typed["redirectUris"].split()}
        )
    except GatewayError as refusal:
        return _page(page, problem=refusal, typed=typed)
    messages.success(page.request, _("Made. Give its client ID to the program: {id}").format(id=made["clientId"]))
    return page.redirect("agents")


@console_page("POST", post="agent-clients.disable")
def change_client(page: PageContext, client_id: UUID, change: str) -> HttpResponseBase:
    message = {
        "disable": _("Disabled. What anybody let it do is ended."),
        "enable": _("People can connect it again."),
        "delete": _("Deleted."),
    }
    return _done(page, f"agent-clients.{change}", message[change], id=client_id)


def _done(page: PageContext, operation: str, message: str, **inputs: Any) -> HttpResponseBase:
    try:
        page.perform(operation, **inputs)
    except GatewayError as refusal:
        return _page(page, problem=refusal)
    messages.success(page.request, message)
    return page.redirect("agents")


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
