"""Deleted objects: found, looked at, and restored after a look at what comes back and what does not."""

from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _

from active_directory import MANGLED
from console.directory.objects.changes import tell
from console.page_context import PageContext, console_page
from console.shared.downloads import download, download_paths
from console.shared.lists import USUAL, given_in, render_list
from core.errors import GatewayError

_NEWEST_FIRST = "-whenChanged"
_NOT_LISTED = frozenset(
    {
        *("isDeleted", "isRecycled", "lastKnownParent", "msDS-LastKnownRDN", "objectGUID"),
        *("cn", "ou", "name", "distinguishedName", "objectClass", "instanceType", "uSNChanged", "uSNCreated"),
    }
)
"""What the page of a deleted object says otherwise, and what is the deletion's own."""


@console_page(get="deleted-objects.search")
def deleted_objects(page: PageContext) -> HttpResponseBase:
    """The list, the last deleted first."""
    # A search of deleted objects looks at all of them, whatever its base: its parameters are tried on the living.
    is_quick = all(map(page.may, ("objects.search", "deleted-objects.search")))
    return render_list(
        page,
        "directory/deleted.html",
        "directory/_deleted_found.html",
        {},
        operation="deleted-objects.search",
        query=_query_of(page),
        tried="objects.search" if is_quick else None,
    )


@console_page(get="deleted-objects.search")
def result(page: PageContext, form: str) -> HttpResponseBase:
    """All of them, as a file."""
    query = {name: value for name, value in _query_of(page).items() if name != "attributes"}
    return download(page, "deleted-objects.search", form, called="deleted-objects", query=query)


def _query_of(page: PageContext) -> dict[str, str]:
    return {**USUAL, "sort": _NEWEST_FIRST, "attributes": "sAMAccountName", **given_in(page)}


@console_page(get="deleted-objects.read", post="deleted-objects.restore")
def deleted_object(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """What is left of an object, and with the right to it a form to restore it."""
    if page.request.method != "POST":
        return _page(page, object_id)
    if "preview" in page.form:
        return _page(page, object_id, **_preview(page, object_id))
    try:
        page.perform("deleted-objects.restore", id=object_id, body=_body(page))
    except GatewayError as refusal:
        return _page(page, object_id, problem=refusal)
    tell(page, _("The object is restored."))
    return page.redirect("object", object_id=object_id)


def _page(page: PageContext, object_id: UUID, **context: Any) -> HttpResponseBase:
    found = page.perform("deleted-objects.read", query={"attributes": "*"}, id=object_id)
    parent = found["lastKnownParent"] or ""
    typed = {"parent": "" if MANGLED in parent else parent, "name": found["lastKnownName"], **page.form}
    attributes = {name: values for name, values in sorted(found["attributes"].items()) if name not in _NOT_LISTED}
    shown = {"deleted": found, "attributes": attributes, "typed": typed, **context}
    return page.render("directory/deleted_object.html", shown)


@console_page("POST", post="deleted-objects.restore")
def preview(page: PageContext, object_id: UUID) -> HttpResponseBase:
    """The preview alone, as the form is filled in."""
    return page.render("directory/_deleted_preview.html", _preview(page, object_id))


def _preview(page: PageContext, object_id: UUID) -> dict[str, Any]:
    """What restoring would do, or why it would be refused."""
    try:
        dry_run = page.perform("deleted-objects.restore", id=object_id, query={"dryRun": "true"}, body=_body(page))
    except GatewayError as refusal:
        return {"refusal": refusal}
    return {"dry_run": dry_run}


def _body(page: PageContext) -> dict[str, Any]:
    """Where and as what, as the form says; what is left empty is as it was."""
    given = {name: page.form.get(name, "").strip() for name in ("parent", "name")}
    return {name: value for name, value in given.items() if value}


urls = [
    path("deleted/", deleted_objects, name="deleted-objects"),
    *download_paths("deleted/result", result, "deleted"),
    path("deleted/<uuid:object_id>", deleted_object, name="deleted-object"),
    path("deleted/<uuid:object_id>/preview", preview, name="deleted-preview"),
]
