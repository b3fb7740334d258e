"""Browsing and searching the directory: the tree at one side, the objects of a container or a search at the other."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.directory.columns import MOST, find_columns, keep_columns, offered_columns, usual_columns
from console.directory.tree import Node, find_container, find_roots, open_down_to
from console.page_context import PageContext, console_page
from console.shared.downloads import download, download_paths
from console.shared.lists import PAGE_SIZES, USUAL, find_fault, given_in
from console.shared.safe_redirect import own_path
from core.errors import GatewayError, InvalidRequest
from core.text.messages import message
from directory.errors import ObjectNotFound
from directory.shapes import kinds

RESOURCES = {
    "objects": "objects of any kind",
    **{name: resource.many for name, resource in kinds.RESOURCES.items() if name != "objects"},
}
"""What can be searched for, by the path of its search; words that the filter `words` says in the reader's language."""
SCOPES = {
    "one-level": gettext_noop("Directly in it"),
    "subtree": gettext_noop("In it and below"),
    "base": gettext_noop("The container itself"),
}


def resource_of(page: PageContext) -> str:
    """What the address asks for (`kind`), as a path calls it; raises InvalidRequest."""
    resource = page.query.get("kind", "objects")
    if resource not in RESOURCES:
        raise InvalidRequest.naming(message("is not a searchable kind"), parameter="kind")
    return resource


def query_of(page: PageContext, resource: str) -> dict[str, str]:
    """The parameters of the search that the address asks for, with what is usual for those it leaves out.

    Whoever seeks something means everything below the container; whoever looks into one, what is directly in it.
    """
    given = given_in(page)
    scope = "subtree" if given.keys() & {"q", "filter"} else "one-level"
    return {**USUAL, "scope": scope, "attributes": ",".join(find_columns(page, resource)), **given}


def listing(found: Any, resource: str, query: dict[str, str]) -> dict[str, Any]:
    """What the table of a search shows."""
    return {
        "found": found,
        "resource": resource,
        "columns": columns_in(query),
        "sort": query.get("sort", ""),
        "show_place": query["scope"] != "one-level",
        "is_search": bool(query.keys() & {"q", "filter"}),
    }


def columns_in(query: dict[str, str]) -> list[str]:
    """The columns that a query asks for."""
    return [name.strip() for name in query["attributes"].split(",") if name.strip() not in ("", "*")][:MOST]


@console_page(get="objects.search")
def browse(page: PageContext) -> HttpResponseBase:
    """The page, or with htmx its side with the search, or the found objects alone."""
    part = page.request.headers.get("HX-Target") if page.is_partial else None
    if part == "found":
        return page.render("directory/_search_found.html", _found(page))
    chosen, problem = _look(page)
    context: dict[str, Any] = {
        "chosen_container": chosen,
        "chosen": chosen and chosen.id,
        "typed": page.query,
        "resources": RESOURCES,
        "scopes": SCOPES,
        "page_sizes": PAGE_SIZES,
        "page_size": page.query.get("pageSize", USUAL["pageSize"]),
        "scope": page.query.get("scope", "subtree"),
        "problem": problem,
        "part": "console/directory/_search_found.html",
    }
    if part == "search" and problem is None:
        return page.render("directory/_search.html", {**context, **_found(page)})
    if problem is None and "now" in page.query:
        context = {**context, **_found(page)}
    return page.render("directory/tree.html", {**context, "roots": open_down_to(page, chosen)})


def _look(page: PageContext) -> tuple[Node | None, GatewayError | None]:
    """The container to search in, and what is wrong with the search."""
    try:
        chosen = _container(page)
        resource = resource_of(page)
    except GatewayError as refusal:
        if refusal.status not in (400, 404):
            raise
        return None, refusal
    return chosen, find_fault(page, f"{resource}.search", query_of(page, resource))


def _container(page: PageContext) -> Node:
    """The container that is looked into: the one chosen, else the first that the tree begins with."""
    if (base := page.query.get("base")) is not None or not page.call.scopes:
        return find_container(page, base)
    roots = find_roots(page)
    if not roots:
        raise ObjectNotFound(_("What you are confined to is not there any more."))
    return roots[0]


def _found(page: PageContext) -> dict[str, Any]:
    resource = resource_of(page)
    query = query_of(page, resource)
    # A search finds what lies in all places that somebody is confined to; looking into a container is about one.
    if page.call.scopes and "base" not in query and query["scope"] != "subtree":
        query["base"] = _container(page).id
    found = page.perform(f"{resource}.search", query=query)
    return {**listing(found, resource, query), "offered": _offered(page, resource)}


def _offered(page: PageContext, resource: str) -> list[tuple[str, bool]]:
    """The columns to choose from, and whether each is shown."""
    shown = columns_in(query_of(page, resource))
    spelled = {name.lower() for name in shown}
    others = [name for name in offered_columns(resource) if name.lower() not in spelled]
    return [*((name, True) for name in shown), *((name, False) for name in others)]


@console_page(get="objects.search")
def result(page: PageContext, form: str) -> HttpResponseBase:
    """All that a search finds, as a file."""
    resource = resource_of(page)
    return download(page, f"{resource}.search", form, called=resource, query=query_of(page, resource))


@console_page("POST")
def choose_columns(page: PageContext) -> HttpResponseBase:
    """Keep the columns chosen for a kind, after a look whether the directory knows and shows them."""
    resource, there = page.form.get("kind", ""), own_path(page.request, page.form.get("next", ""))
    if resource not in RESOURCES:
        raise InvalidRequest
    typed = page.form.get("more", "").replace(",", " ").split()
    names = [] if "usual" in page.form else [*page.request.POST.getlist("column"), *typed]
    try:
        page.perform(
            "objects.search", query={"scope": "base", "attributes": ",".join(names or usual_columns(resource))}
        )
        keep_columns(page, resource, names)
    except GatewayError as refusal:
        messages.error(page.request, refusal.detail)
    return page.redirect_to(there) if there else page.redirect("tree")


@console_page(get="schema.list-attributes")
def attribute_names(page: PageContext) -> HttpResponseBase:
    """The attributes to suggest for what is being typed into any field, those that begin with it first."""
    typed = next(iter(page.query.values()), "").strip().lower()
    known = page.perform("schema.list-attributes")["items"] if typed else []
    found = [item for item in known if typed in item["name"].lower()]
    found.sort(key=lambda item: not item["name"].lower().startswith(typed))
    return page.render("directory/_attribute_names.html", {"found": found[:_SUGGESTED]})


_SUGGESTED = 25

urls = [
    path("directory/", browse, name="tree"),
    path("directory/columns", choose_columns, name="search-columns"),
    path("directory/attribute-names", attribute_names, name="attribute-names"),
    *download_paths("directory/result", result, "search"),
]
