"""Roles: what each gives and where, which keys have it, and what a change of it means for them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.access.bodies import known_objects
from console.access.buttons import button
from console.access.permission_choices import by_group, choices, explained, preset_of
from console.page_context import PageContext, console_page
from console.shared.fields import lines_of
from core.errors import GatewayError
from core.versions import version_of
from keys.permissions.presets import FOR_ROLES

_KEYS_SHOWN = 50


NO_ROLE: Mapping[str, Any] = {"name": "", "description": "", "permissions": [], "scopes": ""}
"""The fields of a role that is still to be described. `scopes` is the text area's, one a line."""


def typed_role(page: PageContext) -> dict[str, Any]:
    """The fields as they were sent."""
    texts = {name: page.form.get(name, "") for name in NO_ROLE}
    return {**texts, "permissions": page.request.POST.getlist("permissions")}


def _shown(role: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a role as it is."""
    return {**{name: role[name] for name in NO_ROLE}, "scopes": "\n".join(role["scopes"])}


def role_body(typed: Mapping[str, Any], known: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The body of `roles.create` and `roles.update`; `known` are the scopes that the role has already."""
    fields = {name: typed[name] for name in NO_ROLE}
    return {**fields, "scopes": known_objects(lines_of(typed["scopes"]), known)}


@console_page(get="roles.search")
def roles(page: PageContext) -> HttpResponseBase:
    found = page.perform("roles.search", query={"pageSize": "50", **page.query})
    meanings = explained(page)
    for item in found["items"]:
        item["dangers"] = [meanings[name] for name in item["permissions"] if meanings[name]["danger"]]
    return page.render("access/roles.html", {"found": found})


@console_page(get="roles.read")
def role(page: PageContext, role_id: UUID) -> HttpResponseBase:
    return _page(page, role_id)


def _page(page: PageContext, role_id: UUID, problem: GatewayError | None = None) -> HttpResponseBase:
    found = page.perform("roles.read", id=role_id)
    return page.render(
        "access/role.html",
        {
            "role": found,
            "permissions": by_group(page, found["permissions"]),
            "keys": _keys_with(page, found),
            "not_held": _not_held(page, found),
            "problem": problem,
        },
    )


def _keys_with(page: PageContext, role: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not page.may("api-keys.search"):
        return []
    query = {"role": role["id"], "pageSize": str(_KEYS_SHOWN)}
    found: list[dict[str, Any]] = page.perform("api-keys.search", query=query)["items"]
    return found


def _not_held(page: PageContext, role: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What keeps the person from changing the role: permissions that it gives and they do not hold."""
    meanings = explained(page)
    return [meanings[name] for name in role["permissions"] if name not in page.call.permissions]


@console_page(get="roles.read-scopes")
def scopes(page: PageContext, role_id: UUID) -> HttpResponseBase:
    """What the role is confined to. The names are asked of the directory, so this comes after the page."""
    return page.render("access/_scopes.html", {"scopes": page.perform("roles.read-scopes", id=role_id)["items"]})


@console_page(post="roles.create")
def new(page: PageContext) -> HttpResponseBase:
    if page.request.method != "POST":
        page.perform("roles.search", query={"pageSize": "1"})  # or refuse it to whom roles are not shown
        return _form(page, None, NO_ROLE)
    typed = typed_role(page)
    if (preset := preset_of(page)) is not None:
        return _form(page, None, {**typed, "permissions": sorted(preset.for_role)})
    try:
        made = page.perform("roles.create", body=role_body(typed))
    except GatewayError as refusal:
        return _form(page, None, typed, problem=refusal)
    return page.redirect("role", said=_("The role is made. Keys can be given it now."), role_id=made["id"])


@console_page(post="roles.update")
def edit(page: PageContext, role_id: UUID) -> HttpResponseBase:
    found = page.perform("roles.read", id=role_id)
    if page.request.method != "POST":
        return _form(page, found, _shown(found))
    typed = typed_role(page)
    version = page.form.get("version", "")
    if (preset := preset_of(page)) is not None:
        return _form(page, found, {**typed, "permissions": sorted(preset.for_role)}, version=version)
    consequences = _consequences(page, found, typed)
    if consequences["is_wider"] and found["keys"] and page.form.get("consequences") != consequences["digest"]:
        return _form(page, found, typed, version=version, consequences=consequences)
    try:
        page.answer("roles.update", body=role_body(typed, found["scopeObjects"]), if_match=version, id=role_id)
    except GatewayError as refusal:
        return _form(page, found, typed, problem=refusal, version=version)
    said = _("Saved. It holds for every key with this role from its next request on.")
    return page.redirect("role", said=said, role_id=role_id)


def _form(
    page: PageContext,
    role: Mapping[str, Any] | None,
    typed: Mapping[str, Any],
    *,
    problem: GatewayError | None = None,
    version: str | None = None,
    consequences: Mapping[str, Any] | None = None,
) -> HttpResponseBase:
    context = {
        "role": role,
        "typed": typed,
        "version": version or (role or {}).get("version"),
        "choices": choices(page, typed["permissions"], for_role=True),
        "keys": _keys_with(page, role) if role else [],
        "not_held": _not_held(page, role) if role else [],
        "presets": FOR_ROLES,
        "consequences": consequences,
        "problem": problem,
    }
    return page.render("access/role_edit.html", context)


@console_page("POST")
def preview(page: PageContext, role_id: UUID) -> HttpResponseBase:
    """What the fields would change for the keys that have the role."""
    found = page.perform("roles.read", id=role_id)
    consequences = _consequences(page, found, typed_role(page))
    return page.render(
        "access/_role_preview.html", {"role": found, "keys": _keys_with(page, found), "consequences": consequences}
    )


def _consequences(page: PageContext, role: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields would change for the keys that have the role. `digest` says that just this was seen."""
    meanings = explained(page)
    before, after = set(role["permissions"]), set(typed["permissions"])
    scopes_before, scopes_after = set(role["scopes"]), set(lines_of(typed["scopes"]))
    is_elsewhere = bool(scopes_before) and (not scopes_after or not scopes_after <= scopes_before)
    return {
        "given": [item for name, item in meanings.items() if name in after - before],
        "taken": [item for name, item in meanings.items() if name in before - after],
        "scopes_changed": scopes_before != scopes_after,
        "is_everywhere": bool(scopes_before) and not scopes_after,
        "is_wider": bool(after - before) or is_elsewhere,
        "digest": version_of({"permissions": sorted(after), "scopes": sorted(scopes_after)}),
    }


@console_page("POST")
def check_scopes(page: PageContext) -> HttpResponseBase:
    """What the names in the field stand for, while the form is still being filled in."""
    try:
        found = page.perform("roles.find-scopes", body={"scopes": lines_of(page.form.get("scopes", ""))})["items"]
    except GatewayError as refusal:
        return page.render("access/_scopes_checked.html", {"problem": refusal}, status=200)
    return page.render("access/_scopes_checked.html", {"scopes": found})


urls = [
    path("roles/", roles, name="roles"),
    path("roles/new", new, name="role-new"),
    path("roles/scopes", check_scopes, name="role-scopes-check"),
    path("roles/<uuid:role_id>", role, name="role"),
    path("roles/<uuid:role_id>/scopes", scopes, name="role-scopes"),
    path("roles/<uuid:role_id>/edit", edit, name="role-edit"),
    path("roles/<uuid:role_id>/preview", preview, name="role-preview"),
    button(
        "roles/<uuid:role_id>/delete",
        "role-delete",
        "roles.delete",
        gettext_lazy("The role is deleted."),
        _page,
        to_list="roles",
    ),
]
