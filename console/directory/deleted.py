"""Deleted objects: list, view, and restore after a preview of what comes back and what does not."""

from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from active_directory import MANGLED
from console.directory.objects.changes import show_success
from console.page_context import PageContext, page_at
from console.shared.forms import submit
from console.shared.lists import DEFAULT_QUERY, downloads_at, render_list, search_parameters
from core.errors import GatewayError

_HIDDEN_ATTRIBUTES = frozenset(
    {
        *("isDeleted", "isRecycled", "lastKnownParent", "msDS-LastKnownRDN", "objectGUID"),
        *("cn", "ou", "name", "distinguishedName", "objectClass", "instanceType", "uSNChanged", "uSNCreated"),
    }
)
"""Attributes that the page shows in another way, or that only the deletion itself has set."""


@page_at("deleted/", "deleted-objects", get="deleted-objects.search")
@downloads_at("deleted/result", "deleted", get="deleted-objects.search")
def deleted_objects(page: PageContext, file_format: str = "") -> HttpResponseBase:
    """Deleted objects, the latest first."""
    # Searching deleted objects scans all of them whatever the base, so a base search of live objects checks the query.
    is_quick = all(map(page.may, ("objects.search", "deleted-objects.search")))
    return render_list(
        page,
        "directory/deleted.html",
        "directory/_deleted_found.html",
        {},
        operation="deleted-objects.search",
        query={**DEFAULT_QUERY, "sort": "-whenChanged", "attributes": "sAMAccountName", **search_parameters(page)},
        checked_by="objects.search" if is_quick else None,
        file_format=file_format,
        file_name="deleted-objects",
    )


def _restore_form(page: PageContext, object_id: UUID, **context: Any) -> HttpResponseBase:
    """What is left of a deleted object, with a form to restore it if the person may."""
    found = page.perform("deleted-objects.read", query={"attributes": "*"}, id=object_id)
    parent = found["lastKnownParent"] or ""
    # The last known parent may be deleted as well; its mangled name is no container to restore into.
    typed = {"parent": "" if MANGLED in parent else parent, "name": found["lastKnownName"], **page.form}
    attributes = {
        name: values for name, values in sorted(found["attributes"].items()) if name not in _HIDDEN_ATTRIBUTES
    }
    shown = {"deleted": found, "attributes": attributes, "typed": typed, **context}
    return page.render("directory/deleted_object.html", shown)


@page_at(
    "deleted/<uuid:object_id>",
    "deleted-object",
    get="deleted-objects.read",
    post="deleted-objects.restore",
    form=_restore_form,
)
def restore(page: PageContext, object_id: UUID) -> HttpResponseBase:
    if "preview" in page.form:
        return _restore_form(page, object_id, **_preview(page, object_id))
    submit(page, "deleted-objects.restore", id=object_id)  # empty fields mean the original parent and name
    show_success(page, _("The object is restored."))
    return page.redirect("object", object_id=object_id)


@page_at("deleted/<uuid:object_id>/preview", "deleted-preview", "POST", post="deleted-objects.restore")
def preview(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The preview alone, while the form is being filled in."""
    return page.render("directory/_deleted_preview.html", _preview(page, object_id))


def _preview(page: PageContext, object_id: UUID) -> dict[str, Any]:
    """What a restore would do, or why it would be refused."""
    try:
        dry_run = submit(page, "deleted-objects.restore", id=object_id, query={"dryRun": "true"})
    except GatewayError as refusal:
        return {"refusal": refusal}
    return {"dry_run": dry_run}
