"""Browsing and searching the directory: the tree of containers beside the objects of a container or a search.

The tree is read one level at a time. `directory/_object_field.html` puts it beside a form's field to choose
a container. The session keeps the columns that a person has chosen for each kind of objects.
"""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from active_directory import DistinguishedName
from console.directory.objects.page import domain_of
from console.page_context import PageContext, page_at
from console.shared.lists import DEFAULT_QUERY, PAGE_SIZES, download, downloads_at, find_search_error, search_parameters
from core.errors import GatewayError, InvalidRequest
from core.text.messages import message
from core.text.vocabulary import texts_by_name
from directory.errors import ObjectNotFound, translate_ldap_errors
from directory.lookup.access import is_within_any, scope_bases
from directory.shapes import kinds

RESOURCES = {
    "objects": "objects of any kind",
    **{name: resource.many for name, resource in kinds.RESOURCES.items() if name != "objects"},
}
"""What people can search for, by the resource of the search; the filter `words` translates the labels."""
SCOPES = texts_by_name(
    {
        "one-level": "Directly in it",
        "subtree": "In it and below",
        "base": "The container itself",
    }
)
_COLUMNS_SESSION_KEY = "console-columns"
_MAX_COLUMNS = 20
"""More columns make a table unreadable."""
_MAX_SUGGESTIONS = 25
_UNITS = "(objectClass=organizationalUnit)"
_CONTAINERS = f"(|{_UNITS}(objectClass=container)(objectClass=builtinDomain)(objectClass=lostAndFound))"
_LEVEL_PAGE_SIZE = 200


@dataclass(slots=True)
class Node:
    """A container of the tree; `level` holds its children if it is open."""

    id: str
    distinguished_name: DistinguishedName
    level: "Level | None" = None

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Node":
        return cls(record["id"], DistinguishedName.parse(record["distinguishedName"]))

    @property
    def is_domain(self) -> bool:
        return self.distinguished_name == self.distinguished_name.domain

    @property
    def name(self) -> str:
        """The value of the RDN; for a domain its whole DNS name."""
        return domain_of(str(self.distinguished_name)) if self.is_domain else self.distinguished_name.rdn_value


@dataclass(slots=True)
class Level:
    """The containers directly in the one with the id `base`, by name; `more` is the cursor of the next page."""

    base: str
    nodes: list[Node]
    more: str | None


def requested_resource(page: PageContext) -> str:
    """The resource that the URL asks for (`kind`); raises InvalidRequest for an unknown one."""
    resource = page.query.get("kind", "objects")
    if resource not in RESOURCES:
        raise InvalidRequest.naming(message("is not a searchable kind"), parameter="kind")
    return resource


def search_query(page: PageContext, resource: str) -> dict[str, str]:
    """The search that the URL asks for, with defaults for the parameters it leaves out.

    A search covers the whole subtree by default; without a search term the container's own level is listed.
    """
    given = search_parameters(page)
    scope = "subtree" if given.keys() & {"q", "filter"} else "one-level"
    usual = kinds.RESOURCES[resource].columns
    chosen = page.request.session.get(_COLUMNS_SESSION_KEY, {}).get(resource, usual)
    return {**DEFAULT_QUERY, "scope": scope, "attributes": ",".join(chosen), **given}


def table_context(found: Any, resource: str, query: dict[str, str]) -> dict[str, Any]:
    """The context of `directory/_objects_table.html`."""
    return {
        "found": found,
        "resource": resource,
        "columns": _requested_columns(query),
        "sort": query.get("sort", ""),
        "show_place": query["scope"] != "one-level",
        "is_search": bool(query.keys() & {"q", "filter"}),
    }


def _requested_columns(query: dict[str, str]) -> list[str]:
    """The columns that a query asks for, at most `_MAX_COLUMNS`."""
    return [name.strip() for name in query["attributes"].split(",") if name.strip() not in ("", "*")][:_MAX_COLUMNS]


@page_at("directory/", "tree", get="objects.search")
def browse(page: PageContext) -> HttpResponseBase:
    """The page, or for htmx its search side or only the objects found."""
    part = page.requested_part
    if part == "found":
        return page.render("directory/_search_found.html", _search_context(page))
    chosen, problem = _check_search(page)
    context: dict[str, Any] = {
        "chosen_container": chosen,
        "chosen": chosen and chosen.id,
        "typed": page.query,
        "resources": RESOURCES,
        "scopes": SCOPES,
        "page_sizes": PAGE_SIZES,
        "page_size": page.query.get("pageSize", DEFAULT_QUERY["pageSize"]),
        "scope": page.query.get("scope", "subtree"),
        "problem": problem,
        "part": "console/directory/_search_found.html",
    }
    is_search = part == "search"
    if problem is None and (is_search or "now" in page.query):
        context |= _search_context(page)
        if is_search:
            return page.render("directory/_search.html", context)
    return page.render("directory/tree.html", {**context, "roots": _open_path_to(page, chosen)})


def _check_search(page: PageContext) -> tuple[Node | None, GatewayError | None]:
    """The container to search in, or None, and the refusal of wrong parameters."""
    try:
        chosen, resource = _requested_container(page), requested_resource(page)
    except GatewayError as refusal:
        if refusal.status not in (400, 404):
            raise
        return None, refusal
    return chosen, find_search_error(page, f"{resource}.search", search_query(page, resource))


def _requested_container(page: PageContext) -> Node:
    """The container to list: the chosen one, else the tree's first root."""
    if (base := page.query.get("base")) is not None or not page.call.scopes:
        return _find_container(page, base)
    roots = _find_roots(page)
    if not roots:
        raise ObjectNotFound(_("What you are confined to does not exist any more."))
    return roots[0]


def _search_context(page: PageContext) -> dict[str, Any]:
    """The context of a search's objects, with the columns to choose from."""
    resource = requested_resource(page)
    query = search_query(page, resource)
    # A subtree search of a confined person covers all their scopes; listing a level needs one container.
    if page.call.scopes and "base" not in query and query["scope"] != "subtree":
        query["base"] = _requested_container(page).id
    declared, people = kinds.RESOURCES[resource], kinds.RESOURCES["users"].columns
    is_usual = query["attributes"] == ",".join(declared.columns)
    if resource == "objects" and is_usual:
        query["attributes"] = ",".join((*declared.columns, *people))
    found = page.perform(f"{resource}.search", query=query)
    if resource == "objects" and is_usual:  # where people are, their columns say more than a description
        users = sum(item["kind"] == kinds.Kind.USER for item in found["items"])
        query["attributes"] = ",".join(people if 2 * users > len(found["items"]) else declared.columns)
    shown = _requested_columns(query)
    names = {*declared.columns, *(name for kind in declared.kinds for name in kinds.DEFAULT_ATTRIBUTES[kind])}
    spelled = {name.lower() for name in shown}
    others = sorted((name for name in names if name.lower() not in spelled), key=str.lower)
    offered = [*((name, True) for name in shown), *((name, False) for name in others)]
    return {**table_context(found, resource, query), "offered": offered}


@downloads_at("directory/result", "search", get="objects.search")
def download_results(page: PageContext, file_format: str) -> HttpResponseBase:
    """All objects that a search finds, as a file."""
    resource = requested_resource(page)
    return download(page, f"{resource}.search", file_format, file_name=resource, query=search_query(page, resource))


@page_at("directory/columns", "search-columns", "POST")
def choose_columns(page: PageContext) -> HttpResponseBase:
    """Keep the columns chosen for a kind, if the directory knows the attributes and the person may read them.

    Choosing none restores the defaults.
    """
    resource = page.form["kind"]
    if resource not in RESOURCES:
        raise InvalidRequest
    typed = page.form["more"].replace(",", " ").split()
    names = [] if "usual" in page.form else [*page.request.POST.getlist("column"), *typed]
    attributes = ",".join(names or kinds.RESOURCES[resource].columns)
    try:
        page.perform("objects.search", query={"scope": "base", "attributes": attributes})
    except GatewayError as refusal:
        messages.error(page.request, refusal.detail)
    else:
        kept = {
            **page.request.session.get(_COLUMNS_SESSION_KEY, {}),
            resource: list(dict.fromkeys(names))[:_MAX_COLUMNS],
        }
        page.request.session[_COLUMNS_SESSION_KEY] = {name: columns for name, columns in kept.items() if columns}
    return page.redirect_to(page.return_url("tree"))


@page_at("directory/attribute-names", "attribute-names", get="schema.list-attributes")
@page_at(
    "directory/objects/attribute-names",
    "object-attribute-names",
    get="schema.list-attributes",
    fixed={"only_writable": "yes"},
)
def attribute_names(page: PageContext, only_writable: str = "") -> HttpResponseBase:
    """Suggest attributes for what is typed into a field; names that begin with it come first.

    `only_writable` suggests only attributes that can be written, and only by their beginning.
    """
    typed = next(iter(page.query.values()), "").strip().lower()
    known = page.perform("schema.list-attributes")["items"] if typed else []
    beginning = [item for item in known if item["name"].lower().startswith(typed)]
    if only_writable:
        found = [item for item in beginning if item["writable"]]
    else:
        found = [*beginning, *(item for item in known if typed in item["name"].lower()[1:] and item not in beginning)]
    return page.render("directory/_attribute_names.html", {"found": found[:_MAX_SUGGESTIONS]})


@page_at("directory/tree", "tree-level", get="objects.search")
def tree_level(page: PageContext) -> HttpResponseBase:
    """The children of a container that is being opened."""
    context, cursor = _picker_context(page), page.query.get("cursor")
    level = _read_level(page, page.query["base"], only_units=context["only"] == "units", cursor=cursor)
    return page.render("directory/_tree_level.html", {"level": level, "continued": cursor is not None, **context})


@page_at("directory/tree-picker", "tree-picker", get="objects.search")
def tree_picker(page: PageContext) -> HttpResponseBase:
    """The tree beside a form's field, opened down to the container that the field names."""
    context = _picker_context(page)
    try:
        chosen = _find_container(page, page.query.get(context["field"]))
    except GatewayError:  # half typed, or several names
        chosen = None
    roots = _open_path_to(page, chosen, only_units=context["only"] == "units")
    return page.render("directory/_tree_root.html", {"roots": roots, "chosen": chosen and chosen.id, **context})


def _picker_context(page: PageContext) -> dict[str, str]:
    """The id of the field that the tree fills (empty for browsing), and what may be chosen (`units` or all)."""
    return {"field": page.query["field"], "only": page.query["only"]}


def _find_container(page: PageContext, base: str | None) -> Node:
    """The search base named by UUID or distinguished name, else the directory's own; raises ObjectNotFound."""
    query = {"scope": "base", "attributes": "name", **({"base": base} if base else {})}
    found = page.perform("objects.search", query=query)["items"]
    if not found:
        raise ObjectNotFound
    return Node.from_record(found[0])


def _read_level(page: PageContext, base: str, *, only_units: bool, cursor: str | None = None) -> Level:
    """The containers directly in the one with the id `base`."""
    query = {
        "base": base,
        "scope": "one-level",
        "filter": _UNITS if only_units else _CONTAINERS,
        "sort": "name",
        "attributes": "name",
        "pageSize": str(_LEVEL_PAGE_SIZE),
        **({"cursor": cursor} if cursor else {}),
    }
    found = page.perform("objects.search", query=query)
    return Level(base, [Node.from_record(record) for record in found["items"]], found["nextCursor"])


def _find_roots(page: PageContext) -> list[Node]:
    """The roots of the tree: the directory's base, or a confined person's scopes.

    A scope inside another is no root of its own. The list is empty if the scopes are gone or have nothing in common.
    """
    with translate_ldap_errors():
        places = scope_bases(page.call)
    if places is None:
        return [_find_container(page, None)]
    outer = {name for name in places if not any(is_within_any(name, (each,)) for each in places if each != name)}
    return [_find_container(page, name) for name in sorted(outer, key=str.casefold)]


def _open_path_to(page: PageContext, chosen: Node | None, *, only_units: bool = False) -> list[Node]:
    """The tree's roots, with the levels opened down to the chosen container and its children."""
    roots = _find_roots(page)
    for root in roots:
        name = chosen and chosen.distinguished_name
        below: list[DistinguishedName] = []
        while name and name != root.distinguished_name and name.is_within(root.distinguished_name):
            below.insert(0, name)
            name = name.parent
        root.level = level = _read_level(page, root.id, only_units=only_units)
        for name in below:
            node = _find_node(page, level, name)
            node.level = level = _read_level(page, node.id, only_units=only_units)
    return roots


def _find_node(page: PageContext, level: Level, name: DistinguishedName) -> Node:
    """The node of that name. It is appended if it is on a later page of the level, or no container."""
    for node in level.nodes:
        if node.distinguished_name == name:
            return node
    node = _find_container(page, str(name))
    level.nodes.append(node)
    return node
