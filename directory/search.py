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

from directory.access import client_of
from directory.filter_input import read_filter
from directory.ldap import And, Anr, AttributeType, Client, Entry, Filter, Schema, Scope, Syntax
from directory.ldap.codecs import decode
from directory.policy import SHOWN_AGE, protected_among
from directory.search_area import Area, area_of
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

    search: Search
    client: Client
    schema: Schema
    condition: Filter
    order: _Order
    selection: Selection
    area: Area

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
        scope = _SCOPES[query.scope]
        return cls(
            search=search,
            client=client,
            schema=schema,
            condition=And(*conditions),
            order=order,
            selection=selection,
            area=area_of(call, query.base, scope, fixed_base=search.base, show_deleted=search.show_deleted),
        )

    def matches(self) -> list[_Match]:
        """All matches in order."""
        wanted = dict.fromkeys(("objectGUID", *self.area.needs))
        if self.order.attribute is not None:
            wanted[self.order.attribute.name] = None
        accept = self.search.accept
        if accept is not None:
            wanted.update(dict.fromkeys(self.search.needs))
        found = [
            self.order.match(entry)
            for base in self.area.bases
            for entry in self.client.search(
                base, self.area.scope, self.condition, tuple(wanted), deleted=self.search.show_deleted
            )
            if self.area.holds(entry) and (accept is None or accept(entry))
        ]
        return sorted(found, key=self.order.place)

    def records(self, matches: Sequence[_Match]) -> Iterator[DirectoryObject]:
        """The records of some matches, without those deleted or moved away meanwhile."""
        names = tuple(dict.fromkeys((*self.selection.to_read, *self.area.needs, *self.search.needs)))
        entries = self.client.read_many((match.guid for match in matches), names, deleted=self.search.show_deleted)
        protected = protected_among(self.client, entries.values(), max_age=SHOWN_AGE) if entries else set()
        for match in matches:
            entry = entries.get(match.guid)
            if entry is None or not self.area.holds(entry):
                continue
            record = render(entry, self.schema, self.selection, protected=match.guid in protected)
            if self.search.extend is not None:
                record.update(self.search.extend(entry))  # type: ignore[typeddict-item]  # what a search adds is its own
            yield record
