"""Groups of permissions: what each gives, who is in it, and what changing one means for its members."""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path

from gateway.console.access.permission_choices import choices, preset_of
from gateway.console.page_context import PageContext, console_page
from gateway.core.errors import GatewayError
from keys.permissions.presets import PRESETS


@console_page(get="permission-groups.search")
def groups(page: PageContext) -> HttpResponseBase:
    found = page.perform("permission-groups.search", query={"pageSize": "100", **page.query})
    return page.render("access/permission_groups.html", {"found": found})


@console_page(post="permission-groups.create")
def new(page: PageContext) -> HttpResponseBase:
    if page.request.method != "POST":
        page.perform("permission-groups.search", query={"pageSize": "1"})  # or refuse it to whom they are not shown
        return _form(page, None, "", [])
    name, chosen = page.form.get("name", ""), page.request.POST.getlist("permissions")
    if (preset := preset_of(page)) is not None:
        return _form(page, None, name or preset.title, preset.permissions)
    try:
        page.perform("permission-groups.create", body={"name": name, "permissions": chosen})
    except GatewayError as refusal:
        return _form(page, None, name, chosen, problem=refusal)
    messages.success(page.request, f"{name} is made. People are put into it on their own pages.")
    return page.redirect("permission-groups")


@console_page(post="permission-groups.update")
def group(page: PageContext, group_id: UUID) -> HttpResponseBase:
    found = page.perform("permission-groups.read", id=group_id)
    if page.request.method != "POST":
        return _form(page, found, found["name"], found["permissions"])
    name, chosen = page.form.get("name", ""), page.request.POST.getlist("permissions")
    if (preset := preset_of(page)) is not None:
        return _form(page, found, name, preset.permissions)
    body = {"name": name, "permissions": chosen}
    try:
        page.answer("permission-groups.update", body=body, if_match=page.form.get("version"), id=group_id)
    except GatewayError as refusal:
        return _form(page, found, name, chosen, problem=refusal)
    messages.success(page.request, "Saved. It holds for all members from their next request on.")
    return page.redirect("permission-groups")


def _form(
    page: PageContext,
    group: Mapping[str, Any] | None,
    name: str,
    chosen: Collection[str],
    *,
    problem: GatewayError | None = None,
) -> HttpResponseBase:
    context = {
        "group": group,
        "name": name,
        "version": page.form.get("version") or (group or {}).get("version"),
        "choices": choices(page, chosen, for_role=False),
        "presets": PRESETS,
        "problem": problem,
    }
    return page.render("access/permission_group.html", context, status=problem.status if problem else 200)


@console_page("POST")
def delete(page: PageContext, group_id: UUID) -> HttpResponseBase:
    page.perform("permission-groups.delete", id=group_id)
    messages.success(page.request, "The group is deleted. Its members keep what they were given otherwise.")
    return page.redirect("permission-groups")


urls = [
    path("people/groups", groups, name="permission-groups"),
    path("people/groups/new", new, name="permission-group-new"),
    path("people/groups/<uuid:group_id>", group, name="permission-group"),
    path("people/groups/<uuid:group_id>/delete", delete, name="permission-group-delete"),
]
