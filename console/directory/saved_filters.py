"""Saved filters, the person's own and shared ones: list, edit and run."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.directory.browse import RESOURCES, SCOPES, table_context
from console.page_context import PageContext, page_at
from console.shared.forms import body_from_form
from console.shared.lists import DEFAULT_QUERY, download, downloads_at, search_parameters, wants_objects
from core.errors import Forbidden
from directory.queries.filters_and_templates import resource_of
from directory.shapes import kinds

Record = Mapping[str, Any]


@page_at("filters/", "saved-filters")
def saved_filters(page: PageContext) -> HttpResponseBase:
    query = {"pageSize": "100", **page.query_of("cursor")}
    return page.render("directory/saved_filters.html", {"found": page.perform("saved-filters.list", query=query)})


def _filter_form(page: PageContext, filter_id: UUID | None = None) -> HttpResponseBase:
    """The form of a filter: its owner edits it, others only see it. A new filter takes its values from the search."""
    record = page.perform("saved-filters.read", id=filter_id) if filter_id else None
    if record is None and page.problem is None and not page.may("saved-filters.create"):
        raise Forbidden
    typed: Record = page.form
    if page.problem is None:
        given = record or page.query
        names = record["attributes"] if record else page.query["attributes"].split(",")
        kind = resource_of(record["kind"]) if record else page.query["kind"]
        typed = {**given, "kind": kind, "attributes": ", ".join(names)}
    context = {
        "typed": typed,
        "record": record,
        "may_change": page.may("saved-filters.update") and (record is None or _is_own(page, record)),
        "resources": RESOURCES,
        "scopes": SCOPES,
    }
    return page.render("directory/saved_filter.html", context)


@page_at("filters/new", "saved-filter-new", "GET", "POST", form=_filter_form)
@page_at("filters/<uuid:filter_id>", "saved-filter", "GET", "POST", form=_filter_form)
def save(page: PageContext, filter_id: UUID | None = None) -> HttpResponseBase:
    if filter_id is None:
        saved = page.perform("saved-filters.create", body=_filter_body(page))
    else:
        saved = page.perform("saved-filters.update", id=filter_id, body=_filter_body(page))
    message = _("{name} is saved.").format(name=saved["name"])
    return page.redirect("saved-filter-run", filter_id=saved["id"], message=message)


@page_at("filters/<uuid:filter_id>/delete", "saved-filter-delete", "POST")
def delete(page: PageContext, filter_id: UUID) -> HttpResponseBase:
    name = page.perform("saved-filters.read", id=filter_id)["name"]
    page.perform("saved-filters.delete", id=filter_id)
    return page.redirect("saved-filters", message=_("{name} is deleted.").format(name=name))


@page_at("filters/<uuid:filter_id>/run", "saved-filter-run", get="saved-filters.run")
@downloads_at("filters/<uuid:filter_id>/run", "saved-filter", get="saved-filters.run")
def run(page: PageContext, filter_id: UUID, file_format: str = "") -> HttpResponseBase:
    """Run a filter and list the objects, which load after the page, or download them."""
    record = page.perform("saved-filters.read", id=filter_id)
    given = {**DEFAULT_QUERY, **search_parameters(page)}
    # The rest of the search is saved with the filter.
    query: dict[str, str] = {name: given[name] for name in ("sort", "pageSize", "cursor") if name in given}
    if file_format:
        return download(page, "saved-filters.run", file_format, file_name=record["name"], query=query, id=filter_id)
    part = "directory/_saved_filter_found.html"
    context: dict[str, Any] = {"record": record, "is_own": _is_own(page, record), "part": f"console/{part}"}
    if wants_objects(page):
        resource = resource_of(record["kind"])
        found = page.perform("saved-filters.run", id=filter_id, query=query)
        shown = ",".join(record["attributes"] or kinds.RESOURCES[resource].columns)
        context |= table_context(found, resource, {**query, "scope": record["scope"], "attributes": shown})
    return page.render(part if page.is_partial else "directory/saved_filter_run.html", context)


def _is_own(page: PageContext, record: Record) -> bool:
    return bool(record["owner"] == page.person.username)


def _filter_body(page: PageContext) -> dict[str, Any]:
    """The body of `saved-filters.create` and `.update`; attributes are on one line, with commas between them."""
    attributes = page.form["attributes"].replace(",", " ").split()
    return {**body_from_form(page.request.POST, "saved-filters.create"), "attributes": attributes}
