"""Groups of permissions: what each gives, who is in it, and what changing one means for its members."""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path

from gateway.console.access.permission_choices import choices, preset_of
from gateway.console.page_context import Visit, page
from gateway.core.errors import GatewayError
from keys.permissions.presets import PRESETS


@page(get="permission-groups.search")
def groups(visit: Visit) -> HttpResponseBase:
    found = visit.perform("permission-groups.search", query={"pageSize": "100", **visit.query})
    return visit.render("access/permission_groups.html", {"found": found})


@page(post="permission-groups.create")
def new(visit: Visit) -> HttpResponseBase:
    if visit.request.method != "POST":
        visit.perform("permission-groups.search", query={"pageSize": "1"})  # or refuse it to whom they are not shown
        return _form(visit, None, "", [])
    name, chosen = visit.form.get("name", ""), visit.request.POST.getlist("permissions")
    if (preset := preset_of(visit)) is not None:
        return _form(visit, None, name or preset.title, preset.permissions)
    try:
        visit.perform("permission-groups.create", body={"name": name, "permissions": chosen})
    except GatewayError as refusal:
        return _form(visit, None, name, chosen, problem=refusal)
    messages.success(visit.request, f"{name} is made. People are put into it on their own pages.")
    return visit.redirect("permission-groups")


@page(post="permission-groups.update")
def group(visit: Visit, group_id: UUID) -> HttpResponseBase:
    found = visit.perform("permission-groups.read", id=group_id)
    if visit.request.method != "POST":
        return _form(visit, found, found["name"], found["permissions"])
    name, chosen = visit.form.get("name", ""), visit.request.POST.getlist("permissions")
    if (preset := preset_of(visit)) is not None:
        return _form(visit, found, name, preset.permissions)
    body = {"name": name, "permissions": chosen}
    try:
        visit.answer("permission-groups.update", body=body, if_match=visit.form.get("version"), id=group_id)
    except GatewayError as refusal:
        return _form(visit, found, name, chosen, problem=refusal)
    messages.success(visit.request, "Saved. It holds for all members from their next request on.")
    return visit.redirect("permission-groups")


def _form(
    visit: Visit,
    group: Mapping[str, Any] | None,
    name: str,
    chosen: Collection[str],
    *,
    problem: GatewayError | None = None,
) -> HttpResponseBase:
    context = {
        "group": group,
        "name": name,
        "version": visit.form.get("version") or (group or {}).get("version"),
        "choices": choices(visit, chosen, for_role=False),
        "presets": PRESETS,
        "problem": problem,
    }
    return visit.render("access/permission_group.html", context, status=problem.status if problem else 200)


@page("POST")
def delete(visit: Visit, group_id: UUID) -> HttpResponseBase:
    visit.perform("permission-groups.delete", id=group_id)
    messages.success(visit.request, "The group is deleted. Its members keep what they were given otherwise.")
    return visit.redirect("permission-groups")


urls = [
    path("people/groups", groups, name="permission-groups"),
    path("people/groups/new", new, name="permission-group-new"),
    path("people/groups/<uuid:group_id>", group, name="permission-group"),
    path("people/groups/<uuid:group_id>/delete", delete, name="permission-group-delete"),
]
