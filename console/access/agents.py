"""Agents for administrators: what people let them do, how they are supervised, their clients, and the end of both."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.access.buttons import button
from console.page_context import PageContext, console_page
from core.errors import GatewayError
from keys.agents.extra import how_to_install
from keys.models import Level

_CLIENTS_SHOWN = 100
_AT_ONCE = 200


@console_page(get="agents.search")
def agents(page: PageContext) -> HttpResponseBase:
    return _page(page)


def _page(page: PageContext, *_names: UUID, **context: Any) -> HttpResponseBase:
    filters: dict[str, str] = {name: page.query[name] for name in ("person", "state", "cursor") if name in page.query}
    found = page.perform("agents.search", query={"pageSize": "50", **filters}) if page.may("agents.search") else None
    clients: list[dict[str, Any]] = []
    if page.may("agent-clients.search"):
        clients = page.perform("agent-clients.search", query={"pageSize": str(_CLIENTS_SHOWN)})["items"]
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
    )


@console_page("POST", post="agents.revoke")
def revoke_all(page: PageContext) -> HttpResponseBase:
    """End every active grant, each as its own operation with its own record."""
    count = 0
    while living := page.perform("agents.search", query={"state": "active", "pageSize": str(_AT_ONCE)})["items"]:
        for agent in living:
            page.perform("agents.revoke", id=agent["id"])
        count += len(living)
    said = ngettext("Ended: {n} agent.", "Ended: {n} agents.", count).format(n=count)
    return page.redirect("agents", said=said)


@console_page("POST", post="agent-clients.create")
def create_client(page: PageContext) -> HttpResponseBase:
    body = {"name": page.form.get("name", ""), "redirectUris": page.form.get("redirectUris", "").split()}
    try:
        made = page.perform("agent-clients.create", body=body)
    except GatewayError as refusal:
        return _page(page, problem=refusal, typed=page.form)
    said = _("Made. Give its client ID to the program: {id}").format(id=made["clientId"])
    return page.redirect("agents", said=said)


_CHANGES_OF_CLIENTS = {
    "disable": gettext_lazy("Disabled. What anybody let it do is ended."),
    "enable": gettext_lazy("People can connect it again."),
    "delete": gettext_lazy("Deleted."),
}


urls = [
    path("agents/", agents, name="agents"),
    path("agents/revoke-all", revoke_all, name="agents-revoke-all"),
    button(
        "agents/<uuid:agent_id>/level",
        "agent-level",
        "agents.update",
        gettext_lazy("It holds from the agent's next request on."),
        _page,
        to_list="agents",
        body=lambda page: {"supervisionLevel": page.form.get("level", "")},
    ),
    button(
        "agents/<uuid:agent_id>/revoke",
        "agent-revoke",
        "agents.revoke",
        gettext_lazy("Ended. Every request of the agent is refused from now on."),
        _page,
        to_list="agents",
    ),
    path("agents/clients", create_client, name="agent-client-new"),
    *(
        button(
            f"agents/clients/<uuid:client_id>/{change}",
            f"agent-client-{change}",
            f"agent-clients.{change}",
            said,
            _page,
            to_list="agents",
        )
        for change, said in _CHANGES_OF_CLIENTS.items()
    ),
]
