"""Roles: what each gives and where, which keys have it, and what a change of it means for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase, QueryDict
from django.urls import path

from gateway.console.access.permission_choices import by_group, choices, explained, preset_of
from gateway.console.page_context import Visit, page
from gateway.console.shared.fields import lines_of, scopes_of
from gateway.core.errors import GatewayError
from gateway.core.versions import version_of
from keys.permissions.presets import FOR_ROLES

_KEYS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class RoleForm:
    """What the fields of a role say. `scopes` is the text area's, one a line."""

    name: str = ""
    description: str = ""
    permissions: list[str] = field(default_factory=list)
    scopes: str = ""

    @classmethod
    def sent(cls, form: QueryDict) -> "RoleForm":
        """The fields as they were sent."""
        texts = {name: form.get(name, "") for name in ("name", "description", "scopes")}
        return cls(**texts, permissions=form.getlist("permissions"))

    @classmethod
    def of(cls, role: Mapping[str, Any]) -> "RoleForm":
        """The fields of a role as it is."""
        return cls(role["name"], role["description"], role["permissions"], "\n".join(role["scopes"]))

    def body(self, known: list[Mapping[str, Any]]) -> dict[str, Any]:
        """The body of `roles.create` and `roles.update`; `known` are the scopes that the role has already."""
        return {
            "name": self.name,
            "description": self.description,
            "permissions": self.permissions,
            "scopes": scopes_of(self.scopes, known),
        }


@page(get="roles.search")
def roles(visit: Visit) -> HttpResponseBase:
    found = visit.perform("roles.search", query={"pageSize": "50", **visit.query})
    meanings = explained(visit)
    for item in found["items"]:
        item["dangers"] = [meanings[name] for name in item["permissions"] if meanings[name]["danger"]]
    return visit.render("access/roles.html", {"found": found})


@page(get="roles.read")
def role(visit: Visit, role_id: UUID) -> HttpResponseBase:
    return _page(visit, role_id)


def _page(visit: Visit, role_id: UUID, problem: GatewayError | None = None) -> HttpResponseBase:
    found = visit.perform("roles.read", id=role_id)
    return visit.render(
        "access/role.html",
        {
            "role": found,
            "permissions": by_group(visit, found["permissions"]),
            "keys": _keys_with(visit, found),
            "not_held": _not_held(visit, found),
            "problem": problem,
        },
        status=problem.status if problem else 200,
    )


def _keys_with(visit: Visit, role: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not visit.may("api-keys.search"):
        return []
    query = {"role": role["id"], "pageSize": str(_KEYS_SHOWN)}
    found: list[dict[str, Any]] = visit.perform("api-keys.search", query=query)["items"]
    return found


def _not_held(visit: Visit, role: Mapping[str, Any]) -> list[str]:
    """What keeps the person from changing the role: titles of permissions that it gives and they do not hold."""
    meanings = explained(visit)
    return [meanings[name]["title"] for name in role["permissions"] if name not in visit.call.permissions]


@page(get="roles.read-scopes")
def scopes(visit: Visit, role_id: UUID) -> HttpResponseBase:
    """What the role is confined to. The names are asked of the directory, so this comes after the page."""
    return visit.render("access/_scopes.html", {"scopes": visit.perform("roles.read-scopes", id=role_id)["items"]})


@page(post="roles.create")
def new(visit: Visit) -> HttpResponseBase:
    if visit.request.method != "POST":
        visit.perform("roles.search", query={"pageSize": "1"})  # or refuse it to whom roles are not shown
        return _form(visit, None, RoleForm())
    typed = RoleForm.sent(visit.request.POST)
    if (preset := preset_of(visit)) is not None:
        return _form(visit, None, replace(typed, permissions=sorted(preset.for_role)))
    try:
        made = visit.perform("roles.create", body=typed.body([]))
    except GatewayError as refusal:
        return _form(visit, None, typed, problem=refusal)
    messages.success(visit.request, "The role is made. Keys can be given it now.")
    return visit.redirect("role", role_id=made["id"])


@page(post="roles.update")
def edit(visit: Visit, role_id: UUID) -> HttpResponseBase:
    found = visit.perform("roles.read", id=role_id)
    if visit.request.method != "POST":
        return _form(visit, found, RoleForm.of(found))
    typed = RoleForm.sent(visit.request.POST)
    version = visit.form.get("version", "")
    if (preset := preset_of(visit)) is not None:
        return _form(visit, found, replace(typed, permissions=sorted(preset.for_role)), version=version)
    consequences = _consequences(visit, found, typed)
    if consequences["is_wider"] and found["keys"] and visit.form.get("consequences") != consequences["digest"]:
        return _form(visit, found, typed, version=version, consequences=consequences)
    try:
        visit.answer("roles.update", body=typed.body(found["scopeObjects"]), if_match=version, id=role_id)
    except GatewayError as refusal:
        return _form(visit, found, typed, problem=refusal, version=version)
    messages.success(visit.request, "Saved. It holds for every key with this role from its next request on.")
    return visit.redirect("role", role_id=role_id)


def _form(
    visit: Visit,
    role: Mapping[str, Any] | None,
    typed: RoleForm,
    *,
    problem: GatewayError | None = None,
    version: str | None = None,
    consequences: Mapping[str, Any] | None = None,
) -> HttpResponseBase:
    context = {
        "role": role,
        "typed": typed,
        "version": version or (role or {}).get("version"),
        "choices": choices(visit, typed.permissions, for_role=True),
        "keys": _keys_with(visit, role) if role else [],
        "not_held": _not_held(visit, role) if role else [],
        "presets": FOR_ROLES,
        "consequences": consequences,
        "problem": problem,
    }
    return visit.render("access/role_edit.html", context, status=problem.status if problem else 200)


@page("POST")
def preview(visit: Visit, role_id: UUID) -> HttpResponseBase:
    """What the fields would change for the keys that have the role."""
    found = visit.perform("roles.read", id=role_id)
    consequences = _consequences(visit, found, RoleForm.sent(visit.request.POST))
    return visit.render(
        "access/_role_preview.html", {"role": found, "keys": _keys_with(visit, found), "consequences": consequences}
    )


def _consequences(visit: Visit, role: Mapping[str, Any], typed: RoleForm) -> dict[str, Any]:
    """What the fields would change for the keys that have the role. `digest` says that just this was seen."""
    meanings = explained(visit)
    before, after = set(role["permissions"]), set(typed.permissions)
    scopes_before, scopes_after = set(role["scopes"]), set(lines_of(typed.scopes))
    is_elsewhere = bool(scopes_before) and (not scopes_after or not scopes_after <= scopes_before)
    return {
        "given": [item for name, item in meanings.items() if name in after - before],
        "taken": [item for name, item in meanings.items() if name in before - after],
        "scopes_changed": scopes_before != scopes_after,
        "is_everywhere": bool(scopes_before) and not scopes_after,
        "is_wider": bool(after - before) or is_elsewhere,
        "digest": version_of({"permissions": sorted(after), "scopes": sorted(scopes_after)}),
    }


@page("POST")
def check_scopes(visit: Visit) -> HttpResponseBase:
    """What the names in the field stand for, while the form is still being filled in."""
    try:
        found = visit.perform("roles.find-scopes", body={"scopes": lines_of(visit.form.get("scopes", ""))})["items"]
    except GatewayError as refusal:
        return visit.render("access/_scopes_checked.html", {"problem": refusal})
    return visit.render("access/_scopes_checked.html", {"scopes": found})


@page("POST")
def delete(visit: Visit, role_id: UUID) -> HttpResponseBase:
    try:
        visit.perform("roles.delete", id=role_id)
    except GatewayError as refusal:
        return _page(visit, role_id, problem=refusal)
    messages.success(visit.request, "The role is deleted.")
    return visit.redirect("roles")


urls = [
    path("roles/", roles, name="roles"),
    path("roles/new", new, name="role-new"),
    path("roles/scopes", check_scopes, name="role-scopes-check"),
    path("roles/<uuid:role_id>", role, name="role"),
    path("roles/<uuid:role_id>/scopes", scopes, name="role-scopes"),
    path("roles/<uuid:role_id>/edit", edit, name="role-edit"),
    path("roles/<uuid:role_id>/preview", preview, name="role-preview"),
    path("roles/<uuid:role_id>/delete", delete, name="role-delete"),
]
