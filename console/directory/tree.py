"""The tree of the directory's containers, read one level at a time: to browse by, and to choose a place in a form.

`directory/_tree_picker.html` puts it beside a form's field. What is shown of a container is the search's business.
"""

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponseBase
from django.urls import path

from active_directory import DistinguishedName
from console.page_context import PageContext, console_page
from core.errors import GatewayError
from directory.errors import ObjectNotFound, translated
from directory.lookup.access import is_within_any, scope_bases

_UNITS = "(objectClass=organizationalUnit)"
_CONTAINERS = f"(|{_UNITS}(objectClass=container)(objectClass=builtinDomain)(objectClass=lostAndFound))"
_SHOWN_AT_ONCE = 200


@dataclass(slots=True)
class Node:
    """A container: its record, what it is called here, and what is in it if it is open."""

    record: dict[str, Any]
    level: "Level | None" = None

    @property
    def id(self) -> str:
        return str(self.record["id"])

    @property
    def distinguished_name(self) -> str:
        return str(self.record["distinguishedName"])

    @property
    def is_domain(self) -> bool:
        return all(rdn[0][0].upper() == "DC" for rdn in DistinguishedName.parse(self.distinguished_name).rdns)

    @property
    def name(self) -> str:
        """A domain is called by the whole of its name."""
        name = DistinguishedName.parse(self.distinguished_name)
        return ".".join(rdn[0][1] for rdn in name.rdns) if self.is_domain else name.rdn_value


@dataclass(slots=True)
class Level:
    """The containers directly in one, by name; `more` is the cursor to further ones."""

    base: str
    nodes: list[Node]
    more: str | None


def find_container(page: PageContext, base: str | None) -> Node:
    """The object a search begins at: the one named by `base` (UUID or distinguished name), else the directory's own."""
    query = {"scope": "base", "attributes": "name", **({"base": base} if base else {})}
    found = page.perform("objects.search", query=query)["items"]
    if not found:
        raise ObjectNotFound
    return Node(found[0])


def read_level(page: PageContext, base: str, *, only_units: bool = False, cursor: str | None = None) -> Level:
    """The containers directly in the one with the id `base`."""
    query = {
        "base": base,
        "scope": "one-level",
        "filter": _UNITS if only_units else _CONTAINERS,
        "sort": "name",
        "attributes": "name",
        "pageSize": str(_SHOWN_AT_ONCE),
        **({"cursor": cursor} if cursor else {}),
    }
    found = page.perform("objects.search", query=query)
    return Level(base, [Node(record) for record in found["items"]], found["nextCursor"])


def find_roots(page: PageContext) -> list[Node]:
    """Where the tree begins: at the directory's own base; for whoever is confined, at each place they are confined to.

    Of a place inside another one, that one alone. Nothing is left where the places are gone or have nothing in common.
    """
    with translated():
        places = scope_bases(page.call)
    if places is None:
        return [find_container(page, None)]
    outer = {name for name in places if not any(is_within_any(name, (each,)) for each in places if each != name)}
    return [find_container(page, name) for name in sorted(outer, key=str.casefold)]


def open_down_to(page: PageContext, chosen: Node | None, *, only_units: bool = False) -> list[Node]:
    """The tree from its roots, open on the way down to a chosen container and the chosen one itself."""
    roots = find_roots(page)
    for root in roots:
        root.level = level = read_level(page, root.id, only_units=only_units)
        for name in _names_between(root, chosen):
            node = _found_in(page, level, name)
            node.level = level = read_level(page, node.id, only_units=only_units)
    return roots


def _names_between(root: Node, chosen: Node | None) -> list[DistinguishedName]:
    """The names below the root on the way to the chosen container, from the top."""
    name = None if chosen is None else DistinguishedName.parse(chosen.distinguished_name)
    top = DistinguishedName.parse(root.distinguished_name)
    names: list[DistinguishedName] = []
    while name is not None and name != top and name.is_within(top):
        names.insert(0, name)
        name = name.parent
    return names


def _found_in(page: PageContext, level: Level, name: DistinguishedName) -> Node:
    """The node of that name; one that the level has not shown yet, or that is no container, is put at its end."""
    for node in level.nodes:
        if DistinguishedName.parse(node.distinguished_name) == name:
            return node
    node = find_container(page, str(name))
    level.nodes.append(node)
    return node


@console_page(get="objects.search")
def tree_level(page: PageContext) -> HttpResponseBase:
    """What is in a container that is being opened."""
    context, cursor = _choice_of(page), page.query.get("cursor")
    level = read_level(page, page.query.get("base", ""), only_units=context["only"] == "units", cursor=cursor)
    return page.render("directory/_tree_level.html", {"level": level, "continued": cursor is not None, **context})


@console_page(get="objects.search")
def tree_picker(page: PageContext) -> HttpResponseBase:
    """The tree to choose from for a field of a form, open down to what the field says now, if that is a container."""
    context = _choice_of(page)
    try:
        chosen = find_container(page, page.query.get(context["field"]))
    except GatewayError:  # half typed, or several lines
        chosen = None
    roots = open_down_to(page, chosen, only_units=context["only"] == "units")
    return page.render("directory/_tree_root.html", {"roots": roots, "chosen": chosen and chosen.id, **context})


def _choice_of(page: PageContext) -> dict[str, str]:
    """What is chosen for: the field's id, none for browsing, and what may be chosen."""
    return {"field": page.query.get("field", ""), "only": page.query.get("only", "")}


urls = [
    path("directory/tree", tree_level, name="tree-level"),
    path("directory/tree-picker", tree_picker, name="tree-picker"),
]
