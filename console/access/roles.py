"""Roles: their permissions and scopes, the keys with a role, and what a change means for these."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.page_context import PageContext, page_at
from console.shared.forms import (
    body_from_form,
    chosen_permissions,
    declare_button,
    keep_known_ids,
    permission_choices,
    permissions_by_group,
    permissions_by_name,
    submit,
)
from core.database.own_rows import version_of
from core.errors import GatewayError
from keys.permission_catalogue import FOR_ROLES

_KEYS_SHOWN = 50


def typed_role(page: PageContext) -> dict[str, Any]:
    """The body of `roles.create` from the form, with the permissions of the preset whose button was pressed."""
    body = body_from_form(page.request.POST, "roles.create")
    return {**body, "permissions": chosen_permissions(page, for_role=True)}


@page_at("roles/", "roles", get="roles.search")
def roles(page: PageContext) -> HttpResponseBase:
    found = page.list_page("roles.search")
    meanings = permissions_by_name()
    for item in found["items"]:
        item["dangers"] = [meanings[name] for name in item["permissions"] if meanings[name]["danger"]]
    return page.render("access/roles.html", {"found": found})


@page_at("roles/<uuid:role_id>", "role", get="roles.read")
def role(page: PageContext, role_id: UUID) -> HttpResponseBase:
    found = page.perform("roles.read", id=role_id)
    permissions = permissions_by_group(found["permissions"])
    return page.render("access/role.html", {**_role_context(page, found), "permissions": permissions})


def _role_context(page: PageContext, role: Mapping[str, Any]) -> dict[str, Any]:
    """A role, its keys, and its permissions that the person does not hold: these keep the person from changing it."""
    meanings = permissions_by_name()
    return {
        "role": role,
        "keys": page.list_first("api-keys.search", _KEYS_SHOWN, role=role["id"]),
        "not_held": [meanings[name] for name in role["permissions"] if name not in page.call.permissions],
    }


@page_at("roles/<uuid:role_id>/scopes", "role-scopes", get="roles.read-scopes")
def scopes(page: PageContext, role_id: UUID) -> HttpResponseBase:
    """The role's scopes. It reads their names from the directory, so it loads after the page."""
    return page.render("access/_scopes.html", {"scopes": page.perform("roles.read-scopes", id=role_id)["items"]})


def _role_form(page: PageContext, role_id: UUID | None = None, **context: Any) -> HttpResponseBase:
    shown, typed = {}, typed_role(page)
    if role_id is None:
        page.perform("roles.search", query={"pageSize": "1"})  # refuses people who may not see roles
    else:
        role = page.perform("roles.read", id=role_id)
        shown = _role_context(page, role)
        typed = {**typed, "version": page.form["version"]} if page.is_post else role
    return page.render(
        "access/role_edit.html",
        {
            **shown,
            "typed": typed,
            "choices": permission_choices(page, typed["permissions"], for_role=True),
            "presets": FOR_ROLES,
            **context,
        },
    )


@page_at("roles/new", "role-new", post="roles.create", form=_role_form)
def new(page: PageContext) -> HttpResponseBase:
    made = submit(page, "roles.create")
    return page.redirect("role", message=_("The role was created. It can be given to keys now."), role_id=made["id"])


@page_at("roles/<uuid:role_id>/edit", "role-edit", post="roles.update", form=_role_form)
def edit(page: PageContext, role_id: UUID) -> HttpResponseBase:
    found, typed = page.perform("roles.read", id=role_id), typed_role(page)
    consequences = _consequences(found, typed)
    # More access for existing keys is saved only after the person has seen exactly these consequences.
    if consequences["is_wider"] and found["keys"] and page.form.get("consequences") != consequences["digest"]:
        return _role_form(page, role_id, consequences=consequences)
    body = {**typed, "scopes": keep_known_ids(typed["scopes"], found["scopeObjects"])}
    page.perform("roles.update", body=body, if_match=page.form["version"], id=role_id)
    message = _("Saved. It applies to every key with this role from its next request on.")
    return page.redirect("role", message=message, role_id=role_id)


@page_at("roles/<uuid:role_id>/preview", "role-preview", "POST")
def preview(page: PageContext, role_id: UUID) -> HttpResponseBase:
    """What the submitted fields would change for the role's keys."""
    found = page.perform("roles.read", id=role_id)
    context = {**_role_context(page, found), "consequences": _consequences(found, typed_role(page))}
    return page.render("access/_role_preview.html", context)


def _consequences(role: Mapping[str, Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields would change for the role's keys. The form returns `digest` as proof that it showed them."""
    meanings = permissions_by_name()
    before, after = set(role["permissions"]), set(typed["permissions"])
    scopes_before, scopes_after = set(role["scopes"]), set(typed["scopes"])
    is_elsewhere = bool(scopes_before) and (not scopes_after or not scopes_after <= scopes_before)
    return {
        "given": [item for name, item in meanings.items() if name in after - before],
        "taken": [item for name, item in meanings.items() if name in before - after],
        "scopes_changed": scopes_before != scopes_after,
        "is_everywhere": bool(scopes_before) and not scopes_after,
        "is_wider": bool(after - before) or is_elsewhere,
        "digest": version_of({"permissions": sorted(after), "scopes": sorted(scopes_after)}),
    }


@page_at("roles/scopes", "role-scopes-check", "POST")
def check_scopes(page: PageContext) -> HttpResponseBase:
    """Look up the scopes in the field while the form is being filled in."""
    try:
        found = submit(page, "roles.find-scopes")["items"]
    except GatewayError as refusal:
        return page.render("access/_scopes_checked.html", {"problem": refusal}, status=200)
    return page.render("access/_scopes_checked.html", {"scopes": found})


declare_button(
    *("roles/<uuid:role_id>/delete", "role-delete", "roles.delete"),
    "The role is deleted.",
    role,
    to_list="roles",
)
