"""How a search is run: conditions, scopes, order, pages (contract section 4).

Paging is stateless. A first pass collects identifiers and sort keys of all matches with the fewest attributes, orders
them and finds the page; a second one reads the page's records. So a cursor works on every process and domain
controller, holds nothing open, and yields each object that exists throughout exactly once.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from directory.access import client_of, find_base, is_within_any, parse_reference, scope_bases
from directory.filter_input import read_filter
from directory.ldap import And, Anr, AttributeType, Client, DistinguishedName, Entry, Filter, Schema, Scope, Syntax
from directory.ldap.codecs import decode
from directory.policy import SHOWN_AGE, protected_among
from directory.searches import Search
from directory.shapes.record import DirectoryObject, Selection, readable_name, render, select
from gateway.core.call import Call
from gateway.core.paging import CursorInvalid, Page, PageQuery, open_cursor, seal_cursor
from gateway.core.shapes import CommaList, parse_guid

_SCOPES = {"base": Scope.BASE, "one-level": Scope.ONE_LEVEL, "subtree": Scope.SUBTREE}
_NUMBERS = frozenset({Syntax.INTEGER, Syntax.LARGE_INTEGER})


class SearchQuery(PageQuery):
    """The parameters of every search of directory objects."""

    q: Annotated[str | None, Field(min_length=1, max_length=256, description="What a name or address begins with.")] = (
        None
    )
    filter: Annotated[str | None, Field(description="An LDAP filter (RFC 4515).")] = None
    base: Annotated[str | None, Field(description="UUID or distinguished name; default the directory's base.")] = None
    scope: Annotated[Literal["base", "one-level", "subtree"], Field(description="How deep below the base.")] = "subtree"
    attributes: Annotated[CommaList | None, Field(description="Attributes to return, with commas; `*` for all.")] = None
    sort: Annotated[str | None, Field(description="An attribute; `-` before it for descending order.")] = None


def run_search(call: Call, search: Search, query: SearchQuery) -> Page[DirectoryObject]:
    """One page of a search.

    Raises FilterMalformed, FilterUnsupported, AttributeUnknown, AttributeNotReadable, CursorInvalid, and ObjectNotFound
    for the base.
    """
    running = _Running.of(call, search, query)
    cursor = None if query.cursor is None else _Cursor.opened(call, search, query)
    matches = running.matches()
    start = 0 if cursor is None else bisect_right(matches, running.order.place(cursor.last), key=running.order.place)
    page = matches[start : start + query.page_size]
    total = len(matches) if cursor is None else cursor.total
    next_cursor = None
    if start + query.page_size < len(matches):
        next_cursor = _Cursor(page[-1], total).sealed(call, search, query)
    return {"items": list(running.records(page)), "nextCursor": next_cursor, "total": total, "truncated": False}


@dataclass(frozen=True, slots=True)
class _Match:
    """A found object, reduced to what its place in the result needs; `value` is None when it has none to sort by."""

    guid: UUID
    value: int | str | None


@total_ordering
@dataclass(frozen=True, slots=True)
class _Descending:
    value: int | str

    def __lt__(self, other: "_Descending") -> bool:
        return other.value < self.value  # type: ignore[operator]  # values of one attribute are of one type


@dataclass(frozen=True, slots=True)
class _Order:
    """By an attribute's first value without regard to case, missing ones last either way; then by objectGUID."""

    attribute: AttributeType | None = None
    descending: bool = False

    @classmethod
    def of(cls, sort: str | None, schema: Schema) -> "_Order":
        if sort is None:
            return cls()
        name = readable_name(schema, sort.removeprefix("-"), parameter="sort")
        return cls(schema.attribute(name), sort.startswith("-"))

    def match(self, entry: Entry) -> _Match:
        if self.attribute is None or not (values := entry.values(self.attribute.name)):
            return _Match(entry.guid, None)
        if self.attribute.syntax in _NUMBERS:
            return _Match(entry.guid, int(values[0]))
        return _Match(entry.guid, decode(self.attribute, values[:1])[0].casefold())

    def place(self, match: _Match) -> tuple[bool, Any, bytes]:
        if match.value is None:
            return (True, 0, match.guid.bytes)
        return (False, _Descending(match.value) if self.descending else match.value, match.guid.bytes)


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where a page ended, and how many matches there were when the first was read."""

    last: _Match
    total: int

    @classmethod
    def opened(cls, call: Call, search: Search, query: SearchQuery) -> "_Cursor":
        position = open_cursor(call, query, query.cursor or "", bound_to=_bound_to(call, search))
        guid = parse_guid(position["id"])
        if guid is None:
            raise CursorInvalid
        return cls(_Match(guid, position["value"]), position["total"])

    def sealed(self, call: Call, search: Search, query: SearchQuery) -> str:
        position = {"id": str(self.last.guid), "value": self.last.value, "total": self.total}
        return seal_cursor(call, query, position, bound_to=_bound_to(call, search))


def _bound_to(call: Call, search: Search) -> str:
    return f"{search.name} of {call.directory.id if call.directory else None}"


@dataclass(frozen=True, slots=True)
class _Running:
    """A search with everything about it looked up."""

    client: Client
    schema: Schema
    condition: Filter
    order: _Order
    selection: Selection
    bases: tuple[str, ...]
    scope: Scope
    confined_to: tuple[str, ...] | None

    @classmethod
    def of(cls, call: Call, search: Search, query: SearchQuery) -> "_Running":
        client = client_of(call)
        schema = client.schema
        conditions = [search.condition]
        if query.q is not None:
            conditions.append(Anr(query.q))
        if query.filter is not None:
            conditions.append(read_filter(query.filter, schema))
        selection = select(schema, query.attributes, search.kinds)
        order = _Order.of(query.sort, schema)
        base = client.settings.base_dn
        if query.base is not None:
            base = find_base(call, parse_reference(query.base, parameter="base"))
        confined_to = scope_bases(call)
        scope = _SCOPES[query.scope]
        return cls(
            client=client,
            schema=schema,
            condition=And(*conditions),
            order=order,
            selection=selection,
            bases=_confine(base, scope, confined_to),
            scope=scope,
            confined_to=confined_to,
        )

    def matches(self) -> list[_Match]:
        """All matches in order."""
        attributes = ["objectGUID"] if self.order.attribute is None else ["objectGUID", self.order.attribute.name]
        found = [
            self.order.match(entry)
            for base in self.bases
            for entry in self.client.search(base, self.scope, self.condition, attributes)
            if self._is_inside(entry)
        ]
        return sorted(found, key=self.order.place)

    def records(self, matches: Sequence[_Match]) -> Iterator[DirectoryObject]:
        """The records of some matches, without those deleted or moved away meanwhile."""
        entries = self.client.read_many((match.guid for match in matches), self.selection.to_read)
        protected = protected_among(self.client, entries.values(), max_age=SHOWN_AGE) if entries else set()
        for match in matches:
            entry = entries.get(match.guid)
            if entry is not None and self._is_inside(entry):
                yield render(entry, self.schema, self.selection, protected=match.guid in protected)

    def _is_inside(self, entry: Entry) -> bool:
        return self.confined_to is None or is_within_any(entry.dn, self.confined_to)


def _confine(base: str, scope: Scope, confined_to: tuple[str, ...] | None) -> tuple[str, ...]:
    """Where to search so that nothing outside is even read: the base, or the parts of it that the caller may see."""
    if confined_to is None or is_within_any(base, confined_to):
        return (base,)
    whole = DistinguishedName.parse(base)
    parts = {DistinguishedName.parse(name): name for name in confined_to}
    inside = [part for part in parts if part.is_within(whole)]
    if scope is not Scope.SUBTREE:
        return (base,) if inside else ()
    # A part inside another would be found twice.
    return tuple(parts[part] for part in inside if not any(part != other and part.is_within(other) for other in inside))
