"""Who belongs to a group, what somebody belongs to, and changing either: always a change of the group's members."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _

from console.directory.objects.changes import Change, Question, ask
from console.directory.objects.page import (
    Record,
    find,
    frame_of,
    may_change,
    operation_on,
    require,
    resource_of,
)
from console.page_context import PageContext, console_page, page_address
from console.shared.safe_redirect import own_path
from core.errors import GatewayError
from core.shapes import parse_guid

_AT_ONCE: Final = "50"
_FOUND_AT_ONCE: Final = "25"
_MOST_COMPARED: Final = "1000"
_HAVE_GROUPS: Final = frozenset({"users", "computers", "groups"})
_CAN_BE_MEMBERS: Final = (
    "(|(objectClass=user)(objectClass=group)(objectClass=contact)(objectClass=foreignSecurityPrincipal))"
)
_GROUPS: Final = "(objectClass=group)"


@console_page()
def members(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The page, which comes at once, or its members, which take the directory longer where they are thousands."""
    record = find(page, object_id)
    is_part = page.is_partial and page.request.headers.get("HX-Target") == "found"
    context = {
        **frame_of(page, record, "object-members"),
        "nested": _is_nested(page),
        "may_edit": may_change(page, record) and page.may("groups.change-members"),
        "part": "console/directory/objects/_members_found.html",
    }
    if is_part or "now" in page.query:
        context |= _members_of(page, record)
    return page.render(
        "directory/objects/_members_found.html" if is_part else "directory/objects/members.html", context
    )


def _members_of(page: PageContext, record: Record) -> dict[str, Any]:
    """A page of a group's members, each with whether the group is its primary one."""
    found = _listed(page, "groups.list-members", record["id"], attributes="primaryGroupID,mail,description")
    rows = [(item, _is_primary(record, item)) for item in found["items"]]
    return {"found": found, "rows": rows}


@console_page()
def groups(page: PageContext, object_id: UUID) -> HttpResponseBase:
    record = find(page, object_id)
    found = _listed(page, operation_on(record, "list-groups"), object_id, attributes="objectSid,description")
    rows = [(item, _is_primary(item, record)) for item in found["items"]]
    return page.render(
        "directory/objects/groups.html",
        {
            **frame_of(page, record, "object-groups"),
            "found": found,
            "rows": rows,
            "nested": _is_nested(page),
            "may_edit": page.may("groups.change-members"),
        },
    )


def direct_groups(page: PageContext, record: Record) -> list[Record]:
    """The groups that an object, read with primaryGroupID, is in directly, by name.

    The primary group, which is no matter of membership, is left out; kinds that belong to no groups have none.
    """
    resource = resource_of(record)
    if resource not in _HAVE_GROUPS:
        return []
    query = {"sort": "name", "pageSize": _MOST_COMPARED, "attributes": "objectSid,description", "nested": "false"}
    found: list[Record] = page.perform(f"{resource}.list-groups", id=record["id"], query=query)["items"]
    return [group for group in found if not _is_primary(group, record)]


def _listed(page: PageContext, operation: str, object_id: UUID | str, *, attributes: str) -> Mapping[str, Any]:
    given: dict[str, str] = {name: page.query[name] for name in ("q", "cursor") if name in page.query}
    nested = "true" if _is_nested(page) else "false"
    wanted: dict[str, str] = {"sort": "name", "pageSize": _AT_ONCE, "attributes": attributes, "nested": nested}
    found: Mapping[str, Any] = page.perform(operation, id=object_id, query={**wanted, **given})
    return found


def _is_nested(page: PageContext) -> bool:
    return page.query.get("nested") == "true"


def _is_primary(group: Record, member: Record) -> bool:
    """Whether it is the member's primary group, which the member names by the last number of the group's SID."""
    sids, numbers = group["attributes"]["objectSid"], member["attributes"]["primaryGroupID"]
    return bool(sids and numbers) and str(sids[0]).rpartition("-")[2] == numbers[0]


@console_page("POST")
def change_members(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Add members (`add`) to a group and remove others (`remove`); `back` is the page to return to."""
    record = find(page, object_id)
    form = page.request.POST
    body = {name: form.getlist(name) for name in ("add", "remove")}
    members = page_address("object-members", object_id=object_id)
    back = own_path(page.request, form.get("back", "")) or members
    question = Question(
        title=_("Change the members of {name}?").format(name=record["name"]),
        confirm=_("Change the members"),
        about=record,
        then=back,
        message=_("The members of {name} are changed.").format(name=record["name"]),
        dangerous=bool(form.getlist("remove")),
    )
    change = Change("groups.change-members", object_id, body=body)
    return ask(page, change, question)


@console_page(get="objects.search")
def look(page: PageContext, object_id: UUID, template: str, filter: str, several: bool) -> HttpResponse:
    """Look for new members of a group, where what was chosen before is kept, or for a group to become a member of."""
    record = find(page, object_id)
    require(page, "directory.manage_membership")
    chosen = [guid for text in page.request.GET.getlist("add") if (guid := parse_guid(text))] if several else []
    found: Sequence[Record] = ()
    problem = None
    if "q" in page.query:
        query = {"q": page.query["q"], "filter": filter, "sort": "name", "pageSize": _FOUND_AT_ONCE}
        try:
            answer = page.perform("objects.search", query={**query, "attributes": "mail,description"})
        except GatewayError as refusal:
            problem = refusal
        else:
            found = [item for item in answer["items"] if item["id"] not in map(str, (*chosen, record["id"]))]
    context = {
        **frame_of(page, record),
        "chosen": [find(page, guid) for guid in chosen],
        "found": found,
        "problem": problem,
    }
    return page.render(template, context)


urls = [
    path("directory/objects/<uuid:object_id>/members", members, name="object-members"),
    path("directory/objects/<uuid:object_id>/members/change", change_members, name="object-change-members"),
    path(
        "directory/objects/<uuid:object_id>/members/add",
        look,
        {"template": "directory/objects/add_members.html", "filter": _CAN_BE_MEMBERS, "several": True},
        name="object-add-members",
    ),
    path("directory/objects/<uuid:object_id>/groups", groups, name="object-groups"),
    path(
        "directory/objects/<uuid:object_id>/groups/join",
        look,
        {"template": "directory/objects/join.html", "filter": _GROUPS, "several": False},
        name="object-join",
    ),
]
