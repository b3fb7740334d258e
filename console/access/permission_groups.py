"""Groups of permissions: what each gives, who is in it, and what changing one means for its members."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _

from console.access.permission_choices import choices, preset_of
from console.page_context import PageContext, console_page
from console.shared.fields import scopes_of
from core.errors import GatewayError
from keys.permissions.presets import PRESETS


@dataclass(frozen=True, slots=True)
class GroupForm:
    """What the fields of a group say. `scopes`, and by directory its groups, are the text areas', one a line."""

    name: str = ""
    permissions: list[str] = field(default_factory=list)
    scopes: str = ""
    directory_groups: dict[str, str] = field(default_factory=dict)

    @classmethod
    def sent(cls, page: PageContext) -> "GroupForm":
        """The fields as they were sent."""
        form = page.request.POST
        mapped = {str(item.id): form.get(f"groups-of-{item.id}", "") for item in page.directories}
        return cls(form.get("name", ""), form.getlist("permissions"), form.get("scopes", ""), mapped)

    @classmethod
    def of(cls, group: Mapping[str, Any]) -> "GroupForm":
        """The fields of a group as it is."""
        mapped: dict[str, list[str]] = {}
        for item in group["directoryGroups"]:
            mapped.setdefault(item["directory"], []).append(item["distinguishedName"])
        lines = {directory: "\n".join(names) for directory, names in mapped.items()}
        return cls(group["name"], group["permissions"], "\n".join(group["scopes"]), lines)

    def body(self, group: Mapping[str, Any] | None) -> dict[str, Any]:
        """The body of `permission-groups.create` and `.update`; `group` is what there is already.

        What was there and is not touched stays the object it is. Groups of directories that the person does not work
        on have no field, and stay.
        """
        known = {"scopeObjects": [], "directoryGroups": []} if group is None else group
        mapped = [
            {"directory": item["directory"], "group": item["id"]}
            for item in known["directoryGroups"]
            if item["directory"] not in self.directory_groups
        ]
        for directory, lines in self.directory_groups.items():
            of_directory = [item for item in known["directoryGroups"] if item["directory"] == directory]
            mapped += [{"directory": directory, "group": each} for each in scopes_of(lines, of_directory)]
        return {
            "name": self.name,
            "permissions": self.permissions,
            "scopes": scopes_of(self.scopes, known["scopeObjects"]),
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
        return _form(page, None, GroupForm())
    typed = GroupForm.sent(page)
    name = typed.name
    if (preset := preset_of(page)) is not None:
        filled = replace(typed, name=name or _(preset.title), permissions=sorted(preset.permissions))
        return _form(page, None, filled)
    try:
        page.perform("permission-groups.create", body=typed.body(None))
    except GatewayError as refusal:
        return _form(page, None, typed, problem=refusal)
    messages.success(page.request, _("{name} is made. People are put into it on their own pages.").format(name=name))
    return page.redirect("permission-groups")


@console_page(post="permission-groups.update")
def group(page: PageContext, group_id: UUID) -> HttpResponseBase:
    found = page.perform("permission-groups.read", id=group_id)
    if page.request.method != "POST":
        return _form(page, found, GroupForm.of(found))
    typed = GroupForm.sent(page)
    if (preset := preset_of(page)) is not None:
        return _form(page, found, replace(typed, permissions=sorted(preset.permissions)))
    body = typed.body(found)
    try:
        page.answer("permission-groups.update", body=body, if_match=page.form.get("version"), id=group_id)
    except GatewayError as refusal:
        return _form(page, found, typed, problem=refusal)
    messages.success(page.request, _("Saved. It holds for all members from their next request on."))
    return page.redirect("permission-groups")


def _form(
    page: PageContext,
    group: Mapping[str, Any] | None,
    typed: GroupForm,
    *,
    problem: GatewayError | None = None,
) -> HttpResponseBase:
    context = {
        "group": group,
        "name": typed.name,
        "scopes": typed.scopes,
        "directories": [(item, typed.directory_groups.get(str(item.id), "")) for item in page.directories],
        "version": page.form.get("version") or (group or {}).get("version"),
        "choices": choices(page, typed.permissions, for_role=False),
        "presets": PRESETS,
        "problem": problem,
    }
    return page.render("access/permission_group.html", context, status=problem.status if problem else 200)


@console_page("POST")
def delete(page: PageContext, group_id: UUID) -> HttpResponseBase:
    try:
        page.perform("permission-groups.delete", id=group_id)
    except GatewayError as refusal:
        found = page.perform("permission-groups.read", id=group_id)
        return _form(page, found, GroupForm.of(found), problem=refusal)
    messages.success(page.request, _("The group is deleted. Its members keep what they were given otherwise."))
    return page.redirect("permission-groups")


urls = [
    path("people/groups", groups, name="permission-groups"),
    path("people/groups/new", new, name="permission-group-new"),
    path("people/groups/<uuid:group_id>", group, name="permission-group"),
    path("people/groups/<uuid:group_id>/delete", delete, name="permission-group-delete"),
]
