"""A group's members, an object's groups, and changes of both, which always change the group's `member` attribute.

Two objects can be compared side by side, to add one to the other's groups or remove it from several at once.
"""

from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.objects.changes import Change, preview_or_make
from console.directory.objects.form import Record, fields_of
from console.directory.objects.page import (
    direct_groups,
    find_object,
    is_primary_group,
    may_change,
    object_url,
    operation_for,
    render_object,
    require_permission,
    resource_of,
)
from console.directory.selection.actions import find_chosen, step_for
from console.directory.selection.pages import start_task
from console.directory.selection.tasks import Task
from console.page_context import PageContext, page_at, same_site_path
from core.errors import GatewayError, InvalidRequest
from core.shapes import parse_guid

_PAGE_SIZE = "50"
_IDENTIFYING = frozenset({"givenName", "sn", "initials", "displayName", "sAMAccountName", "userPrincipalName"})
"""Attributes that always differ between two people; the page's heading shows their names."""


@page_at("directory/objects/<uuid:object_id>/members", "object-members")
def members(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The members of a group. They load after the page, since a group can have thousands."""
    record = find_object(page, object_id)
    is_part = page.requested_part == "found"
    context = {
        "nested": _is_nested(page),
        "may_edit": may_change(page, record) and page.may("groups.change-members"),
        "part": "console/directory/objects/_members_found.html",
    }
    if is_part or "now" in page.query:
        found = _list_page(page, "groups.list-members", record, attributes="primaryGroupID,mail,description")
        context |= {"found": found, "rows": [(item, is_primary_group(record, item)) for item in found["items"]]}
    return render_object(page, record, "_members_found" if is_part else "members", **context)


@page_at("directory/objects/<uuid:object_id>/groups", "object-groups")
def groups(page: PageContext, object_id: UUID) -> HttpResponseBase:
    record = find_object(page, object_id)
    found = _list_page(page, operation_for(record, "list-groups"), record, attributes="objectSid,description")
    return render_object(
        page,
        record,
        "groups",
        found=found,
        rows=[(item, is_primary_group(item, record)) for item in found["items"]],
        nested=_is_nested(page),
        may_edit=page.may("groups.change-members"),
    )


def _list_page(page: PageContext, operation: str, record: Record, *, attributes: str) -> Any:
    """A page of members or groups, filtered as the URL says."""
    nested = "true" if _is_nested(page) else "false"
    wanted = {"sort": "name", "pageSize": _PAGE_SIZE, "attributes": attributes, "nested": nested}
    return page.perform(operation, id=record["id"], query={**wanted, **page.query_of("q", "cursor")})


def _is_nested(page: PageContext) -> bool:
    return page.query.get("nested") == "true"


@page_at("directory/objects/<uuid:object_id>/members/change", "object-change-members", "POST")
def change_members(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Add members (`add`) to a group and remove others (`remove`); `back` is the page to return to."""
    if page.unresolved is not None:
        return add_members(page, object_id, page.unresolved)
    record = find_object(page, object_id)
    body = {name: page.request.POST.getlist(name) for name in ("add", "remove")}
    return _preview_members(page, record, body, then=_return_url(page, record, "members"))


def _preview_members(page: PageContext, record: Record, body: dict[str, list[str]], *, then: str) -> HttpResponse:
    change = Change(
        operation="groups.change-members",
        about=record,
        body=body,
        title=_("Change the members of {name}?").format(name=record["name"]),
        confirm=_("Change the members"),
        message=_("The members of {name} are changed.").format(name=record["name"]),
        then=then,
        is_dangerous=bool(body["remove"]),
    )
    return preview_or_make(page, change)


def _return_url(page: PageContext, record: Record, view: str) -> str:
    """The page to return to: the form's `back` if it is one of ours, else the object's view."""
    return same_site_path(page.request, page.form["back"]) or object_url(record, view)


@page_at("directory/objects/<uuid:object_id>/members/add", "object-add-members")
def add_members(page: PageContext, object_id: UUID, problem: GatewayError | None = None) -> HttpResponse:
    """The form for new members of a group; `add` names some of them."""
    return _render_form(page, object_id, "add_members", "add", problem)


@page_at("directory/objects/<uuid:object_id>/groups/join", "object-join")
def join(page: PageContext, object_id: UUID, problem: GatewayError | None = None) -> HttpResponse:
    """The form for groups to join."""
    return _render_form(page, object_id, "join", "group", problem)


def _render_form(
    page: PageContext, object_id: UUID, template: str, field: str, problem: GatewayError | None
) -> HttpResponse:
    require_permission(page, "directory.manage_membership")
    chosen = "\n".join(page.submitted.getlist(field))
    return render_object(page, find_object(page, object_id), template, chosen=chosen, problem=problem)


@page_at("directory/objects/<uuid:object_id>/compare", "object-compare", get="objects.search")
def compare(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Ask for the object to compare with, or show both (`with`)."""
    record = find_object(page, object_id)
    if page.unresolved is not None or (other_id := parse_guid(page.query["with"])) is None:
        resource = resource_of(record)
        kind = resource if resource in ("users", "groups") else "any"
        return render_object(page, record, "compare", kind=kind, problem=page.unresolved)
    other = find_object(page, other_id)
    own, others = ({group["id"]: group for group in direct_groups(page, each)} for each in (record, other))
    names = [field.attribute for field in fields_of(record["kind"]) if field.attribute not in _IDENTIFYING]
    pairs = [(name, record["attributes"].get(name, []), other["attributes"].get(name, [])) for name in names]
    return render_object(
        page,
        record,
        "compare",
        other=other,
        differing=[pair for pair in pairs if sorted(pair[1]) != sorted(pair[2])],
        same=[(name, values) for name, values, of_other in pairs if values and sorted(values) == sorted(of_other)],
        own_alone=[group for id, group in own.items() if id not in others],
        others_alone=[group for id, group in others.items() if id not in own],
        of_both=[group for id, group in own.items() if id in others],
        may_edit=page.may("groups.change-members"),
    )


@page_at(
    "directory/objects/<uuid:object_id>/groups/take",
    "object-take-groups",
    "POST",
    post="groups.change-members",
    fixed={"member": "add"},
)
@page_at(
    "directory/objects/<uuid:object_id>/groups/leave",
    "object-leave",
    "POST",
    post="groups.change-members",
    fixed={"member": "remove"},
)
def change_groups(page: PageContext, object_id: UUID, member: str) -> HttpResponse:
    """Add the object to the chosen groups (`group`) or remove it from them, after a preview of each change."""
    require_permission(page, "directory.manage_membership")
    if page.unresolved is not None:
        return join(page, object_id, page.unresolved)
    record, chosen = find_object(page, object_id), page.request.POST.getlist("group")
    if not chosen:
        raise InvalidRequest(_("Choose at least one group."))
    groups = find_chosen(page, chosen)
    name, count, is_leaving = record["name"], len(groups), member == "remove"
    then = _return_url(page, record, "groups")
    if count == 1 and not is_leaving:  # its preview offers a reason, and an end
        return _preview_members(page, groups[0], {"add": [record["id"]], "remove": []}, then=then)
    if is_leaving:
        title = ngettext("Remove {name} from {count} group?", "Remove {name} from {count} groups?", count)
        one, many, did, says = _("Leave the group"), _("Leave {} groups"), _("left"), _("Remove {name}")
    else:
        title = ngettext("Add {name} to {count} group?", "Add {name} to {count} groups?", count)
        one, many, did, says = _("Add to the group"), _("Add to {} groups"), _("joined"), _("Add {name}")
    says, document = says.format(name=name), {member: [record["id"]]}
    task = Task(
        title=title.format(name=name, count=count),
        confirm=one,
        confirm_many=many,
        did=did,
        steps=[step_for("groups.change-members", group, document, says=says) for group in groups],
        then=then,
        is_dangerous=is_leaving,
    )
    return start_task(page, task)
