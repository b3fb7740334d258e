"""Two objects side by side, and their groups: give one the groups of the other, or take several groups away at once."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.objects.fields import fields_of
from console.directory.objects.memberships import direct_groups
from console.directory.objects.page import Record, find, frame_of, require, resource_of
from console.directory.selection.actions import find_chosen, step_for
from console.directory.selection.pages import start
from console.directory.selection.tasks import Task
from console.page_context import PageContext, console_page, page_address
from console.shared.safe_redirect import own_path
from core.errors import InvalidRequest
from core.shapes import parse_guid

_FOUND_AT_ONCE: Final = "25"
_NAMES: Final = frozenset({"givenName", "sn", "initials", "displayName", "sAMAccountName", "userPrincipalName"})
"""What two never have in common: their names are told by the head of the page."""


@console_page(get="objects.search")
def compare(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """Look for the other one (`q`), or show both (`with`)."""
    record = find(page, object_id)
    if (other_id := parse_guid(page.query.get("with", ""))) is None:
        return page.render("directory/objects/compare.html", {**frame_of(page, record), "found": _look(page, record)})
    other = find(page, other_id)
    own, others = ({str(group["id"]): group for group in direct_groups(page, each)} for each in (record, other))
    names = [field.attribute for field in fields_of(record["kind"]) if field.attribute not in _NAMES]
    compared = [(name, record["attributes"].get(name, []), other["attributes"].get(name, [])) for name in names]
    return page.render(
        "directory/objects/compare.html",
        {
            **frame_of(page, record),
            "other": other,
            "differing": [row for row in compared if sorted(row[1]) != sorted(row[2])],
            "same": [
                (name, values) for name, values, others in compared if values and sorted(values) == sorted(others)
            ],
            "own_alone": [group for id, group in own.items() if id not in others],
            "others_alone": [group for id, group in others.items() if id not in own],
            "of_both": [group for id, group in own.items() if id in others],
            "may_edit": page.may("groups.change-members"),
        },
    )


def _look(page: PageContext, record: Record) -> Sequence[Record]:
    """Objects of the same kind that are called so."""
    if "q" not in page.query:
        return ()
    query = {"q": page.query["q"], "sort": "name", "pageSize": _FOUND_AT_ONCE, "attributes": "mail,description"}
    found = page.perform(f"{resource_of(record)}.search", query=query)["items"]
    return [item for item in found if item["id"] != record["id"]]


@console_page("POST", post="groups.change-members")
def change_groups(page: PageContext, object_id: UUID, member: str) -> HttpResponse:
    """Become a member of the chosen groups (`group`), or leave them, after a look at each."""
    require(page, "directory.manage_membership")
    record = find(page, object_id)
    form = page.request.POST
    chosen = form.getlist("group")
    if not chosen:
        raise InvalidRequest(_("Choose at least one group."))
    groups = find_chosen(page, chosen)
    name, count, is_leaving = record["name"], len(groups), member == "remove"
    if is_leaving:
        title = ngettext("Remove {name} from {count} group?", "Remove {name} from {count} groups?", count)
        one, many, did, says = _("Leave the group"), _("Leave {} groups"), _("left"), _("Remove {name}")
    else:
        title = ngettext("Add {name} to {count} group?", "Add {name} to {count} groups?", count)
        one, many, did, says = _("Add to the group"), _("Add to {} groups"), _("joined"), _("Add {name}")
    return start(
        page,
        Task(
            title=title.format(name=name, count=count),
            confirm=one,
            confirm_many=many,
            did=did,
            steps=[
                step_for("groups.change-members", group, {member: [str(object_id)]}, says=says.format(name=name))
                for group in groups
            ],
            then=own_path(page.request, form.get("back", "")) or page_address("object-groups", object_id=object_id),
            is_dangerous=is_leaving,
        ),
    )


urls = [
    path("directory/objects/<uuid:object_id>/compare", compare, name="object-compare"),
    path("directory/objects/<uuid:object_id>/groups/take", change_groups, {"member": "add"}, name="object-take-groups"),
    path("directory/objects/<uuid:object_id>/groups/leave", change_groups, {"member": "remove"}, name="object-leave"),
]
