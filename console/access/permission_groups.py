"""Groups of permissions: what each gives, who is in it, and what changing one means for its members."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.access.bodies import known_objects
from console.access.buttons import button
from console.access.permission_choices import choices, preset_of
from console.page_context import PageContext, console_page
from console.shared.fields import lines_of
from core.errors import GatewayError
from keys.permissions.presets import PRESETS

_NO_GROUP: Mapping[str, Any] = {"name": "", "permissions": [], "scopes": "", "mapped": {}}
"""The fields of a group that is still to be described. `scopes`, and the groups `mapped` by directory, are text areas',
one a line.
"""


def _typed(page: PageContext) -> dict[str, Any]:
    """The fields as they were sent."""
    form = page.request.POST
    mapped = {str(item.id): form.get(f"groups-of-{item.id}", "") for item in page.directories}
    texts = {name: form.get(name, "") for name in ("name", "scopes")}
    return {**texts, "permissions": form.getlist("permissions"), "mapped": mapped}


def _shown(group: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a group as it is."""
    mapped: dict[str, str] = {}
    for item in group["directoryGroups"]:
        mapped[item["directory"]] = f"{mapped.get(item['directory'], '')}{item['distinguishedName']}\n"
    scopes = "\n".join(group["scopes"])
    return {"name": group["name"], "permissions": group["permissions"], "scopes": scopes, "mapped": mapped}


def _body(typed: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    """The body of `permission-groups.create` and `.update`; `group` is what there is already.

    What was there and is not touched stays the object it is. Groups of directories that the person does not work on
    have no field, and stay.
    """
    kept = [item for item in group["directoryGroups"] if item["directory"] not in typed["mapped"]]
    mapped = [{"directory": item["directory"], "group": item["id"]} for item in kept]
    for directory, lines in typed["mapped"].items():
        known = [item for item in group["directoryGroups"] if item["directory"] == directory]
        mapped += [{"directory": directory, "group": each} for each in known_objects(lines_of(lines), known)]
    return {
        "name": typed["name"],
        "permissions": typed["permissions"],
        "scopes": known_objects(lines_of(typed["scopes"]), group["scopeObjects"]),
        "directoryGroups": mapped,
    }


@console_page(get="permission-groups.search")
def groups(page: PageContext) -> HttpResponseBase:
    found = page.perform("permission-groups.search", query={"pageSize": "100", **page.query})
    return page.render("access/permission_groups.html", {"found": found})


@console_page(post="permission-groups.create")
def new(page: PageContext) -> HttpResponseBase:
    if page.request.method != "POST":
        page.perform("permission-groups.search", query={"pageSize": "1"})  # or refuse it to whom they are not shown
        return _form(page, None, _NO_GROUP)
    typed = _typed(page)
    name = typed["name"]
    if (preset := preset_of(page)) is not None:
        filled = {**typed, "name": name or _(preset.title), "permissions": sorted(preset.permissions)}
        return _form(page, None, filled)
    try:
        page.perform("permission-groups.create", body=_body(typed, {"scopeObjects": [], "directoryGroups": []}))
    except GatewayError as refusal:
        return _form(page, None, typed, problem=refusal)
    said = _("{name} is made. People are put into it on their own pages.").format(name=name)
    return page.redirect("permission-groups", said=said)


@console_page(post="permission-groups.update")
def group(page: PageContext, group_id: UUID) -> HttpResponseBase:
    found = page.perform("permission-groups.read", id=group_id)
    if page.request.method != "POST":
        return _form(page, found, _shown(found))
    typed = _typed(page)
    if (preset := preset_of(page)) is not None:
        return _form(page, found, {**typed, "permissions": sorted(preset.permissions)})
    body = _body(typed, found)
    try:
        page.answer("permission-groups.update", body=body, if_match=page.form.get("version"), id=group_id)
    except GatewayError as refusal:
        return _form(page, found, typed, problem=refusal)
    return page.redirect("permission-groups", said=_("Saved. It holds for all members from their next request on."))


def _form(
    page: PageContext,
    group: Mapping[str, Any] | None,
    typed: Mapping[str, Any],
    *,
    problem: GatewayError | None = None,
) -> HttpResponseBase:
    context = {
        "group": group,
        "name": typed["name"],
        "scopes": typed["scopes"],
        "directories": [(item, typed["mapped"].get(str(item.id), "")) for item in page.directories],
        "version": page.form.get("version") or (group or {}).get("version"),
        "choices": choices(page, typed["permissions"], for_role=False),
        "presets": PRESETS,
        "problem": problem,
    }
    return page.render("access/permission_group.html", context)


def _show(page: PageContext, group_id: UUID, problem: GatewayError) -> HttpResponseBase:
    found = page.perform("permission-groups.read", id=group_id)
    return _form(page, found, _shown(found), problem=problem)


urls = [
    path("people/groups", groups, name="permission-groups"),
    path("people/groups/new", new, name="permission-group-new"),
    path("people/groups/<uuid:group_id>", group, name="permission-group"),
    button(
        "people/groups/<uuid:group_id>/delete",
        "permission-group-delete",
        "permission-groups.delete",
        gettext_lazy("The group is deleted. Its members keep what they were given otherwise."),
        _show,
        to_list="permission-groups",
    ),
]
