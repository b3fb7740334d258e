"""Saved filters: the person's own and those that others share, to make, change and run."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path

from directory.queries.saved_filters import resource_of
from gateway.console.directory.columns import usual_columns
from gateway.console.directory.search import RESOURCES, SCOPES, listing
from gateway.console.page_context import Visit, page
from gateway.console.shared.downloads import FORMATS, download
from gateway.console.shared.lists import USUAL, given_in, wants_objects
from gateway.core.errors import Forbidden, GatewayError


@page()
def saved_filters(visit: Visit) -> HttpResponseBase:
    query = {"pageSize": "100", **{name: visit.query[name] for name in ("cursor",) if name in visit.query}}
    return visit.render("directory/saved_filters.html", {"found": visit.perform("saved-filters.list", query=query)})


@page("GET", "POST")
def create(visit: Visit) -> HttpResponseBase:
    """A new filter; what a search asked for is filled in."""
    if visit.request.method != "POST":
        if not visit.may("saved-filters.create"):
            raise Forbidden
        given = visit.query
        return _form(visit, {**given, "attributes": given.get("attributes", "").replace(",", ", ")})
    try:
        made = visit.perform("saved-filters.create", body=_body(visit))
    except GatewayError as refusal:
        return _form(visit, visit.form, problem=refusal)
    messages.success(visit.request, f"{made['name']} is saved.")
    return visit.redirect("saved-filter-run", filter_id=made["id"])


@page("GET", "POST")
def edit(visit: Visit, filter_id: UUID) -> HttpResponseBase:
    """A filter to change, for its owner; others see what it says."""
    record = visit.perform("saved-filters.read", id=filter_id)
    if visit.request.method != "POST":
        return _form(visit, _typed(record), record=record)
    try:
        visit.perform("saved-filters.update", id=filter_id, body=_body(visit))
    except GatewayError as refusal:
        return _form(visit, visit.form, record=record, problem=refusal)
    messages.success(visit.request, f"{visit.form.get('name', '')} is saved.")
    return visit.redirect("saved-filter-run", filter_id=filter_id)


@page("POST")
def delete(visit: Visit, filter_id: UUID) -> HttpResponseBase:
    name = visit.perform("saved-filters.read", id=filter_id)["name"]
    visit.perform("saved-filters.delete", id=filter_id)
    messages.success(visit.request, f"{name} is deleted.")
    return visit.redirect("saved-filters")


@page(get="saved-filters.run")
def run(visit: Visit, filter_id: UUID) -> HttpResponseBase:
    """What a filter finds now; the objects come after the page, as those of every search."""
    record = visit.perform("saved-filters.read", id=filter_id)
    part = "directory/_saved_filter_found.html"
    context: dict[str, Any] = {"record": record, "is_own": _is_own(visit, record), "part": f"console/{part}"}
    if wants_objects(visit):
        resource, query = resource_of(record["kind"]), _query_of_run(visit)
        found = visit.perform("saved-filters.run", id=filter_id, query=query)
        shown = ",".join(record["attributes"] or usual_columns(resource))
        context |= listing(found, resource, {**query, "scope": record["scope"], "attributes": shown})
    return visit.render(part if visit.is_partial else "directory/saved_filter_run.html", context)


@page(get="saved-filters.run")
def run_result(visit: Visit, filter_id: UUID, form: str) -> HttpResponseBase:
    """All that a filter finds, as a file."""
    name = visit.perform("saved-filters.read", id=filter_id)["name"]
    return download(visit, "saved-filters.run", form, called=name, query=_query_of_run(visit), id=filter_id)


def _query_of_run(visit: Visit) -> dict[str, str]:
    """What a run may be told: the rest is saved with the filter."""
    query = {**USUAL, **given_in(visit)}
    return {name: query[name] for name in ("sort", "pageSize", "cursor") if name in query}


def _is_own(visit: Visit, record: dict[str, Any]) -> bool:
    return bool(record["owner"] == visit.call.person.username)


def _typed(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "kind": resource_of(record["kind"]), "attributes": ", ".join(record["attributes"])}


def _form(
    visit: Visit, typed: dict[str, Any], *, record: dict[str, Any] | None = None, problem: GatewayError | None = None
) -> HttpResponseBase:
    context = {
        "typed": typed,
        "record": record,
        "may_change": visit.may("saved-filters.update") and (record is None or _is_own(visit, record)),
        "resources": RESOURCES,
        "scopes": SCOPES,
        "problem": problem,
    }
    return visit.render("directory/saved_filter.html", context, status=200 if problem is None else problem.status)


def _body(visit: Visit) -> dict[str, Any]:
    given = visit.form
    return {
        "name": given.get("name", ""),
        "kind": given.get("kind", ""),
        "filter": given.get("filter", ""),
        "base": given.get("base", "").strip() or None,
        "scope": given.get("scope", ""),
        "attributes": given.get("attributes", "").replace(",", " ").split(),
        "shared": "shared" in given,
    }


urls = [
    path("filters/", saved_filters, name="saved-filters"),
    path("filters/new", create, name="saved-filter-new"),
    path("filters/<uuid:filter_id>", edit, name="saved-filter"),
    path("filters/<uuid:filter_id>/delete", delete, name="saved-filter-delete"),
    path("filters/<uuid:filter_id>/run", run, name="saved-filter-run"),
    *(
        path(f"filters/<uuid:filter_id>/run.{form}", run_result, {"form": form}, name=f"saved-filter-{form}")
        for form in FORMATS
    ),
]
