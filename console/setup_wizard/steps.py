"""The steps after the first administrator: address, directory, approver, first key. Any can be left for later."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _

from console.access.connections import context_of_report, make_tested, needed_rights, sent
from console.page_context import PageContext, console_page
from console.setup_wizard.checklist import checklist
from core.errors import Forbidden, GatewayError, InvalidRequest
from keys.permissions.presets import find_preset


def _show(
    page: PageContext,
    name: str,
    context: Mapping[str, Any] | None = None,
    *,
    problem: GatewayError | None = None,
    status: int | None = None,
) -> HttpResponseBase:
    """A step's page, with where it is among the others; for superusers, who alone can take all of them."""
    if not page.is_superuser:
        raise Forbidden
    items = checklist(page)
    following = [item for item in items[[item.name for item in items].index(name) + 1 :] if not item.is_done]
    shown = {"items": items, "step": name, "following": next(iter(following), None), "problem": problem}
    return page.render(f"setup_wizard/{name}.html", {**shown, **(context or {})}, status=status)


@console_page()
def first_day(page: PageContext) -> HttpResponseBase:
    """On to the first step that is left; home, when none is."""
    if not page.is_superuser:
        return page.redirect("home")
    left = next((item for item in checklist(page) if not item.is_done), None)
    return page.redirect(left.view if left else "home")


@console_page()
def address(page: PageContext) -> HttpResponseBase:
    """What the gateway is called by this browser, and what the configuration has to say of it."""
    request = page.request
    here = f"{request.scheme}://{request.get_host()}"
    context = {
        "here": here,
        "configured": settings.CONFIGURATION.Approvals.BaseUrl,
        "is_secure": request.is_secure(),
        "client_address": page.call.client_address,
        "has_proxies": bool(settings.CONFIGURATION.ForwardedHeaders.KnownProxies),
        "is_forwarded": "X-Forwarded-For" in request.headers,
    }
    return _show(page, "address", context)


@console_page(post="directories.create")
def directory(page: PageContext) -> HttpResponseBase:
    """Connect the domain. What does not work is told apart, and nothing is saved before it works."""
    if page.request.method != "POST":
        return _show(page, "directory", {"typed": {}, **_connected(page)})
    try:
        made, report = make_tested(page)
    except GatewayError as refusal:
        return _show(page, "directory", {"typed": sent(page)}, problem=refusal)
    if made is None:
        return _show(
            page,
            "directory",
            {"typed": sent(page), "is_new": True, **context_of_report(report)},
            status=InvalidRequest.status,
        )
    return page.redirect("first-day-directory", said=_("{name} is connected.").format(name=made["name"]))


def _connected(page: PageContext) -> dict[str, Any]:
    found = page.perform("directories.list", query={"pageSize": "1"})["items"]
    if not found:
        return {}
    return {"connection": found[0], "needed": needed_rights(found[0]["bindDn"], found[0]["baseDn"])}


@console_page(post="people.create")
def approver(page: PageContext) -> HttpResponseBase:
    """An account for somebody who decides on changes."""
    if page.request.method != "POST":
        return _show(page, "approver", {"typed": {}})
    preset = find_preset("approver")
    assert preset is not None
    body = {name: page.form.get(name, "") for name in ("username", "displayName", "email", "password")}
    try:
        made = page.perform("people.create", body={**body, "permissions": sorted(preset.permissions)})
    except GatewayError as refusal:
        return _show(page, "approver", {"typed": page.form}, problem=refusal)
    said = _("{name} can decide now. Tell them the password, not by e-mail.")
    return page.redirect("first-day-key", said=said.format(name=made["username"]))


@console_page()
def key(page: PageContext) -> HttpResponseBase:
    """Where the first key is made, and whose it had better be."""
    return _show(page, "key", {"bar_days": settings.CONFIGURATION.Approvals.IssuerBarDays})


urls = [
    path("first-day", first_day, name="first-day"),
    path("first-day/address", address, name="first-day-address"),
    path("first-day/directory", directory, name="first-day-directory"),
    path("first-day/approver", approver, name="first-day-approver"),
    path("first-day/key", key, name="first-day-key"),
]
