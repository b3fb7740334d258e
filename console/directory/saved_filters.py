"""Saved filters: the person's own and those that others share, to make, change and run."""

from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _

from console.directory.columns import usual_columns
from console.directory.search import RESOURCES, SCOPES, listing
from console.page_context import PageContext, console_page
from console.shared.downloads import download, download_paths
from console.shared.lists import USUAL, given_in, wants_objects
from core.errors import Forbidden, GatewayError
from directory.queries.saved_filters import resource_of


@console_page()
def saved_filters(page: PageContext) -> HttpResponseBase:
    query = {"pageSize": "100", **{name: page.query[name] for name in ("cursor",) if name in page.query}}
    return page.render("directory/saved_filters.html", {"found": page.perform("saved-filters.list", query=query)})


@console_page("GET", "POST")
def create(page: PageContext) -> HttpResponseBase:
    """A new filter; what a search asked for is filled in."""
    if page.request.method != "POST":
        if not page.may("saved-filters.create"):
            raise Forbidden
        given = page.query
        return _form(page, {**given, "attributes": given.get("attributes", "").replace(",", ", ")})
    try:
        made = page.perform("saved-filters.create", body=_body(page))
    except GatewayError as refusal:
        return _form(page, page.form, problem=refusal)
    return page.redirect("saved-filter-run", filter_id=made["id"], said=_("{name} is saved.").format(name=made["name"]))


@console_page("GET", "POST")
def edit(page: PageContext, filter_id: UUID) -> HttpResponseBase:
    """A filter to change, for its owner; others see what it says."""
    record = page.perform("saved-filters.read", id=filter_id)
    if page.request.method != "POST":
        return _form(page, _typed(record), record=record)
    try:
        page.perform("saved-filters.update", id=filter_id, body=_body(page))
    except GatewayError as refusal:
        return _form(page, page.form, record=record, problem=refusal)
    return page.redirect(
        "saved-filter-run", filter_id=filter_id, said=_("{name} is saved.").format(name=page.form.get("name", ""))
    )


@console_page("POST")
def delete(page: PageContext, filter_id: UUID) -> HttpResponseBase:
    name = page.perform("saved-filters.read", id=filter_id)["name"]
    page.perform("saved-filters.delete", id=filter_id)
    return page.redirect("saved-filters", said=_("{name} is deleted.").format(name=name))


@console_page(get="saved-filters.run")
def run(page: PageContext, filter_id: UUID) -> HttpResponseBase:
    """What a filter finds now; the objects come after the page, as those of every search."""
    record = page.perform("saved-filters.read", id=filter_id)
    part = "directory/_saved_filter_found.html"
    context: dict[str, Any] = {"record": record, "is_own": _is_own(page, record), "part": f"console/{part}"}
    if wants_objects(page):
        resource, query = resource_of(record["kind"]), _query_of_run(page)
        found = page.perform("saved-filters.run", id=filter_id, query=query)
        shown = ",".join(record["attributes"] or usual_columns(resource))
        context |= listing(found, resource, {**query, "scope": record["scope"], "attributes": shown})
    return page.render(part if page.is_partial else "directory/saved_filter_run.html", context)


@console_page(get="saved-filters.run")
def run_result(page: PageContext, filter_id: UUID, form: str) -> HttpResponseBase:
    """All that a filter finds, as a file."""
    name = page.perform("saved-filters.read", id=filter_id)["name"]
    return download(page, "saved-filters.run", form, called=name, query=_query_of_run(page), id=filter_id)


def _query_of_run(page: PageContext) -> dict[str, str]:
    """What a run may be told: the rest is saved with the filter."""
    query = {**USUAL, **given_in(page)}
    return {name: query[name] for name in ("sort", "pageSize", "cursor") if name in query}


def _is_own(page: PageContext, record: dict[str, Any]) -> bool:
    return bool(record["owner"] == page.call.person.username)


def _typed(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "kind": resource_of(record["kind"]), "attributes": ", ".join(record["attributes"])}


def _form(
    page: PageContext,
    typed: dict[str, Any],
    *,
    record: dict[str, Any] | None = None,
    problem: GatewayError | None = None,
) -> HttpResponseBase:
    context = {
        "typed": typed,
        "record": record,
        "may_change": page.may("saved-filters.update") and (record is None or _is_own(page, record)),
        "resources": RESOURCES,
        "scopes": SCOPES,
        "problem": problem,
    }
    return page.render("directory/saved_filter.html", context)


def _body(page: PageContext) -> dict[str, Any]:
    given = page.form
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
    *download_paths("filters/<uuid:filter_id>/run", run_result, "saved-filter"),
]
