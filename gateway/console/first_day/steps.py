"""The steps after the first administrator: address, directory, approver, first key. Any can be left for later."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path

from gateway.console.access.connections import context_of_report, make_tested, needed_rights, sent
from gateway.console.first_day.checklist import checklist
from gateway.console.page_context import Visit, page
from gateway.core.errors import Forbidden, GatewayError, InvalidRequest
from keys.permissions.presets import find_preset


def _show(
    visit: Visit,
    name: str,
    context: Mapping[str, Any] | None = None,
    *,
    problem: GatewayError | None = None,
    status: int = 200,
) -> HttpResponseBase:
    """A step's page, with where it is among the others; for superusers, who alone can take all of them."""
    if not visit.is_superuser:
        raise Forbidden
    items = checklist(visit)
    following = [item for item in items[[item.name for item in items].index(name) + 1 :] if not item.is_done]
    shown = {"items": items, "step": name, "following": next(iter(following), None), "problem": problem}
    status = problem.status if problem else status
    return visit.render(f"first_day/{name}.html", {**shown, **(context or {})}, status=status)


@page()
def first_day(visit: Visit) -> HttpResponseBase:
    """On to the first step that is left; home, when none is."""
    if not visit.is_superuser:
        return visit.redirect("home")
    left = next((item for item in checklist(visit) if not item.is_done), None)
    return visit.redirect(left.view if left else "home")


@page()
def address(visit: Visit) -> HttpResponseBase:
    """What the gateway is called by this browser, and what the configuration has to say of it."""
    request = visit.request
    here = f"{request.scheme}://{request.get_host()}"
    context = {
        "here": here,
        "configured": settings.CONFIGURATION.Approvals.BaseUrl,
        "is_secure": request.is_secure(),
        "client_address": visit.call.client_address,
        "has_proxies": bool(settings.CONFIGURATION.ForwardedHeaders.KnownProxies),
        "is_forwarded": "X-Forwarded-For" in request.headers,
    }
    return _show(visit, "address", context)


@page(post="directories.create")
def directory(visit: Visit) -> HttpResponseBase:
    """Connect the domain. What does not work is told apart, and nothing is saved before it works."""
    if visit.request.method != "POST":
        return _show(visit, "directory", {"typed": {}, **_connected(visit)})
    try:
        made, report = make_tested(visit)
    except GatewayError as refusal:
        return _show(visit, "directory", {"typed": sent(visit)}, problem=refusal)
    if made is None:
        return _show(
            visit,
            "directory",
            {"typed": sent(visit), "is_new": True, **context_of_report(report)},
            status=InvalidRequest.status,
        )
    messages.success(visit.request, f"{made['name']} is connected.")
    return visit.redirect("first-day-directory")


def _connected(visit: Visit) -> dict[str, Any]:
    found = visit.perform("directories.list", query={"pageSize": "1"})["items"]
    if not found:
        return {}
    return {"connection": found[0], "needed": needed_rights(found[0]["bindDn"], found[0]["baseDn"])}


@page(post="people.create")
def approver(visit: Visit) -> HttpResponseBase:
    """An account for somebody who decides on changes."""
    if visit.request.method != "POST":
        return _show(visit, "approver", {"typed": {}})
    preset = find_preset("approver")
    assert preset is not None
    body = {name: visit.form.get(name, "") for name in ("username", "displayName", "email", "password")}
    try:
        made = visit.perform("people.create", body={**body, "permissions": sorted(preset.permissions)})
    except GatewayError as refusal:
        return _show(visit, "approver", {"typed": visit.form}, problem=refusal)
    messages.success(visit.request, f"{made['username']} can decide now. Tell them the password, not by e-mail.")
    return visit.redirect("first-day-key")


@page()
def key(visit: Visit) -> HttpResponseBase:
    """Where the first key is made, and whose it had better be."""
    return _show(visit, "key", {"bar_days": settings.CONFIGURATION.Approvals.IssuerBarDays})


urls = [
    path("first-day", first_day, name="first-day"),
    path("first-day/address", address, name="first-day-address"),
    path("first-day/directory", directory, name="first-day-directory"),
    path("first-day/approver", approver, name="first-day-approver"),
    path("first-day/key", key, name="first-day-key"),
]
