"""Agents for administrators: grants, their supervision levels, agent clients, and revoking all of them."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.page_context import PageContext, page_at
from console.shared.forms import declare_button
from core.errors import Forbidden, NotFound
from core.operation import SIGNED_IN, find_operation
from core.text.vocabulary import texts_by_name
from keys.agents.availability import install_command
from keys.agents.scopes import missing_scopes
from keys.models import Level

_STATES = texts_by_name({"active": "Active", "expired": "Expired", "ended": "Ended"})
_CLIENTS_SHOWN = 100
_REVOKED_AT_ONCE = 200
_RECORDS_SHOWN = 25
_REQUESTS_READ = 100


@page_at("agents/", "agents", get="agents.search")
def agents(page: PageContext, /, **context: Any) -> HttpResponseBase:
    filters = page.query_of("person", "state", "cursor")
    found = page.perform("agents.search", query={"pageSize": "50", **filters}) if page.may("agents.search") else None
    return page.render(
        "access/agents.html",
        {
            "found": found,
            "clients": page.list_first("agent-clients.search", _CLIENTS_SHOWN),
            "levels": Level,
            "states": _STATES,
            "is_on": settings.CONFIGURATION.Agents.Enabled,
            "install_command": install_command(),
            "registration": settings.CONFIGURATION.Agents.Registration,
            "address": page.request.build_absolute_uri("/mcp"),
            "typed": page.form,
            **context,
        },
    )


@page_at("agents/<uuid:agent_id>", "agent", get="agents.list-own")
def agent(page: PageContext, agent_id: UUID) -> HttpResponseBase:
    """What an agent may do, did, was refused and asks for: of anybody for administrators, else of one's own."""
    if page.may("agents.read"):
        found = page.perform("agents.read", id=agent_id)
    else:
        own = (each for each in page.list_all("agents.list-own") if each["id"] == str(agent_id))
        if (found := next(own, None)) is None:
            raise NotFound
    its = {"owner": found["person"], "keyName": found["name"]}
    refused = page.list_first("operations.search", _RECORDS_SHOWN, outcome="failed", **its)
    asked = page.list_first("change-requests.search", _REQUESTS_READ, owner=found["person"], status="pending")
    return page.render(
        "access/agent.html",
        {
            "agent": found,
            "records": page.list_first("operations.search", _RECORDS_SHOWN, onlyChanges="true", **its),
            "refused": [
                {"record": each, "scopes": _missing_scopes(each["operation"], found)}
                for each in refused
                if each["code"] == Forbidden.code
            ],
            "asked": [each for each in asked if each["agent"] and each["requestedBy"]["keyName"] == found["name"]],
            "level": Level(found["supervisionLevel"]).label,
        },
    )


def _missing_scopes(name: str, agent: Mapping[str, Any]) -> list[str]:
    """The scopes without which an operation is refused whatever its object; none if it was the object's fault."""
    operation = find_operation(name)
    missing = operation.requires.difference(agent["permissions"])
    if operation.permission.isdisjoint({*agent["permissions"], SIGNED_IN}):
        missing |= operation.permission
    return missing_scopes(agent["scopes"], missing)


@page_at("agents/revoke-all", "agents-revoke-all", "POST", post="agents.revoke")
def revoke_all(page: PageContext) -> HttpResponseBase:
    """Revoke every active grant, each by an operation and log record of its own."""
    count = 0
    while active := page.perform("agents.search", query={"state": "active", "pageSize": str(_REVOKED_AT_ONCE)})[
        "items"
    ]:
        for agent in active:
            page.perform("agents.revoke", id=agent["id"])
        count += len(active)
    message = ngettext("Ended: {n} agent.", "Ended: {n} agents.", count).format(n=count)
    return page.redirect("agents", message=message)


@page_at("agents/clients", "agent-client-new", "POST", post="agent-clients.create", form=agents)
def create_client(page: PageContext) -> HttpResponseBase:
    body = {"name": page.form["name"], "redirectUris": page.form["redirectUris"].split()}
    made = page.perform("agent-clients.create", body=body)
    message = _("Created. Give the program its client ID: {id}").format(id=made["clientId"])
    return page.redirect("agents", message=message)


declare_button(
    *("agents/<uuid:agent_id>/level", "agent-level", "agents.update"),
    "It applies from the agent's next request on.",
    agents,
    to_list="agents",
    sends="supervisionLevel",
)
declare_button(
    *("agents/<uuid:agent_id>/revoke", "agent-revoke", "agents.revoke"),
    "Ended. Every request of the agent is refused from now on.",
    agents,
    to_list="agents",
)
for _change, _said in (
    ("disable", "Disabled. Everything that people let it do is ended."),
    ("enable", "People can connect it again."),
    ("delete", "Deleted."),
):
    declare_button(
        *(f"agents/clients/<uuid:client_id>/{_change}", f"agent-client-{_change}", f"agent-clients.{_change}"),
        _said,
        agents,
        to_list="agents",
    )
