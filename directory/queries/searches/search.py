"""How a search is run: conditions, scopes, order, pages, streams (docs/api.md#searches).

A small page is read in one pass if it is all there is. Else a first pass collects the identifiers of all matches, with
what they are sorted by; their records are read as they are needed. So each object that exists throughout comes exactly
once, whatever is created, renamed or deleted meanwhile, and a cursor works on every process and domain controller:
what is still to come is kept in Redis (`snapshots`), and found anew, behind the last place, when it is not.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Literal, NamedTuple, cast

from django.conf import settings
from django.core.cache.backends.locmem import LocMemCache
from pydantic import Field

from active_directory import ANYTHING, And, Client, Entry, Filter, run_in_background
from core.call import Call
from core.errors import InvalidRequest
from core.paging import Page, PageQuery, open_cursor, seal_cursor
from core.shapes import CommaList
from core.streams import RecordStream, StreamFormat
from core.text.messages import message
from directory.errors import AttributeNotReadable, translated
from directory.lookup.access import client_of
from directory.lookup.visibility import Visibility, may_see_confidential
from directory.queries.searches import snapshots
from directory.queries.searches.area import Area, area_of
from directory.queries.searches.concurrency import turn
from directory.queries.searches.definitions import SCOPES, SEARCHES, Search
from directory.queries.searches.filter_cost import Cost, is_narrow
from directory.queries.searches.filter_input import read_filter, resolve_names
from directory.queries.searches.filter_scoping import scope_filter
from directory.queries.searches.order import Match, Order
from directory.queries.searches.records import RecordMaker
from directory.queries.searches.snapshots import Snapshot
from directory.shapes.kinds import ACCOUNT_KINDS, Kind
from directory.shapes.record import DirectoryObject, Selection, default_attributes, select

_GUESSED = 100
"""Of a search that was not made before, a page of so many is read in one pass, in the hope that it is all there is."""
_FIRST_STREAMED = 100
# [MS-ADTS] 3.1.1.4.5.19 to 21.
_OF_ONE_OBJECT = frozenset({"tokenGroups", "tokenGroupsGlobalAndUniversal", "tokenGroupsNoGCAcceptable"})
_STREAMED_AT_ONCE = 250
"""Records of one part of a stream, at most."""
_PARTS_AHEAD = 2
"""Parts that are read while one is sent, each over a connection: with one, the domain controller waits for Python."""
_STREAMED_OCTETS = 1_000_000
"""Of their values, about: large records are read fewer at a time."""


FILTER = (
    "An LDAP filter (RFC 4515). One that asks for more than a domain controller does for a request, such as many chains"
    " of links or substrings, is refused with `AD.Filter.TooCostly`."
)


class SearchQuery(PageQuery):
    """The parameters of every search of directory objects."""

    q: Annotated[str | None, Field(min_length=1, max_length=256, description="What a name or address begins with.")] = (
        None
    )
    filter: Annotated[str | None, Field(description=FILTER)] = None
    base: Annotated[str | None, Field(description="UUID or distinguished name; default the directory's base.")] = None
    scope: Annotated[Literal["base", "one-level", "subtree"], Field(description="How deep below the base.")] = "subtree"
    attributes: Annotated[CommaList | None, Field(description="Attributes to return, with commas; `*` for all.")] = None
    sort: Annotated[str | None, Field(description="An attribute; `-` before it for descending order.")] = None


def run_search(call: Call, search: Search, query: SearchQuery) -> Page[DirectoryObject]:
    """One page of a search, or all of it as a RecordStream where the call asks for one.

    Raises FilterMalformed, FilterUnsupported, FilterTooCostly, AttributeUnknown, AttributeNotReadable, CursorInvalid,
    ObjectNotFound for the base, and RateLimited while other searches of the caller are under way.
    """
    if call.stream_as is not None:
        # A surface that asks for a stream takes one; nobody else gets anything but the page that the type promises.
        return cast(Page[DirectoryObject], _stream(_Running.of(call, search, query), call.stream_as))
    cursor = None if query.cursor is None else _opened(call, search, query)
    running = _Running.of(call, search, query)
    if cursor is not None:
        return _next_page(running, cursor)
    with running.turn() as let_next_in:
        if (items := running.read_few(query.page_size, let_next_in)) is not None:
            running.note_count(len(items))
            return _page(items, len(items))
        matches = running.order.sorted(running.identify())
    running.note_count(len(matches))
    return _page_of(running, matches, len(matches))


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where a page ended, at `last` and `offset` matches into a snapshot; `total` is of the first page's matches."""

    last: Match
    snapshot: Snapshot
    offset: int
    total: int


def _opened(call: Call, search: Search, query: SearchQuery) -> _Cursor:
    position = open_cursor(call, query, query.cursor or "", bound_to=_bound_to(call, search))
    value, guid, name, left, offset, total = position
    return _Cursor(Match(value, bytes.fromhex(guid)), Snapshot(name, left), offset, total)


def _sealed(running: "_Running", cursor: _Cursor) -> str:
    position = [cursor.last.value, cursor.last.guid.hex(), *cursor.snapshot, cursor.offset, cursor.total]
    return seal_cursor(running.call, running.query, position, bound_to=_bound_to(running.call, running.search))


def _bound_to(call: Call, search: Search) -> str:
    return f"{search.name} of {call.directory.id if call.directory else None}"


def _page(items: list[DirectoryObject], total: int, following: str | None = None) -> Page[DirectoryObject]:
    # Nothing cuts a result: a limit of the directory that stands in the way is an error.
    return {"items": items, "nextCursor": following, "total": total, "truncated": False}


def _next_page(running: "_Running", cursor: _Cursor) -> Page[DirectoryObject]:
    """The page behind a cursor. One whose objects are all gone is passed over: an empty page looks like the end."""
    size = running.query.page_size
    while True:
        excerpt = snapshots.find(cursor.snapshot, cursor.offset, size)
        if excerpt is None:
            with running.turn():
                matches = running.order.sorted(running.identify())
            return _page_of(running, running.order.after(matches, cursor.last), cursor.total)
        items = running.read(excerpt.guids)
        if cursor.offset + size >= cursor.snapshot.left:
            return _page(items, cursor.total)
        cursor = replace(cursor, last=excerpt.last, offset=cursor.offset + size)
        if items:
            return _page(items, cursor.total, _sealed(running, cursor))


def _page_of(running: "_Running", matches: list[Match], total: int) -> Page[DirectoryObject]:
    """The first page of matches in order; the others are kept for the next ones."""
    size = running.query.page_size
    page, rest = matches[:size], matches[size:]
    following = None
    if rest:
        following = _sealed(running, _Cursor(page[-1], snapshots.keep(rest, size), 0, total))
    return _page(running.read([match.guid for match in page]), total, following)


def _stream(running: "_Running", form: StreamFormat) -> RecordStream:
    """All records, read a few at a time; a failure before the first of them is raised here."""
    kinds, selection = running.search.kinds, running.selection
    if form is StreamFormat.CSV and selection.everything:
        detail = message("* has no columns that could be known beforehand: name the attributes")
        raise InvalidRequest.naming(detail, parameter="attributes")
    packed = bytearray()  # 16 octets each, a quarter of what so many objects would take
    with running.turn():
        found: Iterable[Match] = running.identify()
        if running.order.attribute is not None:
            found = running.order.sorted(found)
        for match in found:
            packed += match.guid
    parts = running.read_parts(bytes(packed))
    absent = {"account": ACCOUNT_KINDS, "group": {Kind.GROUP}}
    first = next(parts, [])
    return RecordStream(
        parts=chain([first], parts),
        form=form,
        attributes=_names_shown(running, kinds),
        absent=frozenset(name for name, having in absent.items() if not having & kinds),
    )


def _require_of_many(names: Iterable[str], *, parameter: str) -> None:
    """Refuse what a domain controller computes for one object at a time and fails every other search for."""
    for name in names:
        if name in _OF_ONE_OBJECT:
            detail = message("{name} is computed for one object at a time: read each by itself", name=name)
            raise AttributeNotReadable.naming(detail, parameter=parameter)


def _names_shown(running: "_Running", kinds: Iterable[Kind]) -> tuple[str, ...] | None:
    selection, schema = running.selection, running.client.schema
    if selection.everything:
        return None
    if selection.shown is not None:
        return selection.shown
    shown = (default_attributes(schema, kind, confidential=selection.confidential) for kind in kinds)
    return tuple(sorted({name for names in shown for name in names}))


def _count_of_next(entries: Sequence[Entry]) -> int:
    """How many entries to read after these, judged by the length of a few of them."""
    few = entries[:10]
    length = sum(len(value) for entry in few for values in entry.attributes.values() for value in values)
    return max(1, min(_STREAMED_AT_ONCE, _STREAMED_OCTETS * len(few) // max(1, length)))


# How many matches a search had lately, which decides how it is best read. A domain controller sends nothing before it
# has everything: whoever does not know how many there are would have all of a large domain read for one page of it. A
# wrong number costs time, no more.
_counts = LocMemCache("matches of searches", {"OPTIONS": {"MAX_ENTRIES": 1000}})


class _Part(NamedTuple):
    """Of a stream: identifiers, what waits for the entries, and where the next part's identifiers begin."""

    guids: list[bytes]
    entries: Callable[[], list[Entry]]
    end: int


class _TooMany(Exception):
    """There are more matches than are wanted at once, or there could be."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A search with everything about it looked up."""

    call: Call
    search: Search
    query: SearchQuery
    client: Client
    condition: Filter
    order: Order
    selection: Selection
    area: Area
    visibility: Visibility
    maker: RecordMaker
    is_narrow: bool
    seconds: int | None
    """The time limit of an expensive filter; None for what takes as long as any answer."""
    accept: Callable[[Entry], bool] | None
    needs: tuple[str, ...]
    """The attributes that `accept` and `visibility` look at."""

    @classmethod
    def of(cls, call: Call, search: Search, query: SearchQuery) -> "_Running":
        client = client_of(call)
        schema, confidential = client.schema, may_see_confidential(call)
        conditions = [search.condition]
        if query.q is not None:
            conditions.append(resolve_names(query.q, schema, confidential=confidential))
        asked: Filter = ANYTHING
        cost = Cost()
        if query.filter is not None:
            asked, cost = read_filter(query.filter, schema, confidential=confidential)
        selection = select(schema, query.attributes, search.kinds, confidential=confidential)
        _require_of_many(selection.shown or (), parameter="attributes")
        order = Order.of(query.sort, schema, confidential=confidential)
        _require_of_many([order.attribute.name] if order.attribute else [], parameter="sort")
        area = area_of(call, query.base, SCOPES[query.scope], fixed_base=search.base, show_deleted=search.show_deleted)
        visibility = Visibility.of(client, confidential=confidential, bases=area.confined_to)
        scoped = scope_filter(asked, visibility)
        accepts = [accept for accept in (search.accept, scoped.acceptor(visibility)) if accept is not None]
        condition = And(*conditions, scoped.condition) if query.filter is not None else And(*conditions)
        needs = (*order.needs, *area.needs)
        return cls(
            call=call,
            search=search,
            query=query,
            client=client,
            condition=condition,
            order=order,
            selection=selection,
            area=area,
            visibility=visibility,
            maker=RecordMaker(client, search, selection, visibility, needs=needs, octets=call.takes_octets),
            is_narrow=query.scope == "base" or is_narrow(condition),
            seconds=settings.CONFIGURATION.Searches.ExpensiveSeconds if cost.is_expensive else None,
            accept=(lambda entry: all(accept(entry) for accept in accepts)) if accepts else None,
            needs=tuple(dict.fromkeys((*(search.needs if search.accept else ()), *scoped.present, *visibility.needs))),
        )

    @property
    def key(self) -> str:
        """What the number of its matches depends on, but for what the directory holds."""
        parts = self.call.directory, self.search.name, self.area.bases, self.area.scope, str(self.condition)
        return str(hash(parts))

    def note_count(self, count: int) -> None:
        _counts.set(self.key, count, timeout=None)

    @property
    def is_expensive(self) -> bool:
        """Whether a domain controller may be busy with it for so long that its other clients notice."""
        return not self.is_narrow and (self.search.expensive or self.seconds is not None)

    def turn(self) -> AbstractContextManager[Callable[[], None]]:
        """The caller's turn, which all searches wait for but those of a few objects."""
        return nullcontext(lambda: None) if self.is_narrow else turn(self.call, expensive=self.is_expensive)

    def read_few(self, limit: int, received: Callable[[], None]) -> list[DirectoryObject] | None:
        """All records in order, in one pass; None when there are more than `limit`, or it would be no good way.

        `received` is called when the directory has begun to answer, unless the search is expensive.

        Where `accept` decides, many may be found that are no matches: too many to read all that a record needs. Of an
        expensive search, or of a list of everything, nothing is worth asking for twice unless few are known to match:
        Samba reads all of every match before it sends the first.
        """
        if self.accept is not None:
            return None
        known: int | None = _counts.get(self.key)
        if (known > limit) if known is not None else (limit > _GUESSED or self.is_expensive or self._is_listing):
            return None
        matches: list[Match] = []
        whole = known is not None
        # Samba sends nothing before it has everything, Windows what it finds: an expensive search may go on for long.
        may_overlap = whole and len(self.area.bases) == 1 and not self.is_expensive

        def few(found: Iterator[Entry]) -> Iterator[Entry]:
            for entry in found:
                if len(matches) == limit:
                    raise _TooMany
                if may_overlap and not matches:
                    received()
                matches.append(self._match(entry))
                yield entry

        try:
            with closing(self._find(self.maker.to_read, limit=limit + 1, whole=whole)) as found:
                records = self.maker.records(few(found))
        except _TooMany:
            return None
        by_guid = {match.guid: record for match, record in zip(matches, records, strict=True)}
        return [by_guid[match.guid] for match in self.order.sorted(matches)]

    @property
    def _is_listing(self) -> bool:
        query = self.query
        return query.filter is None and query.q is None and query.base is None and self.search.name in SEARCHES

    def identify(self) -> Iterator[Match]:
        """All matches, in the order the directory finds them."""
        needs = dict.fromkeys((*self.order.needs, *self.area.needs, *self.needs))
        return map(self._match, self._find(tuple(needs)))

    def _match(self, entry: Entry) -> Match:
        """The entry's place, which what the caller may not see does not decide."""
        sorted_by = self.order.attribute
        if sorted_by is not None and self.visibility.may_hide(sorted_by.name):
            entry = self.visibility.confined(entry, sorted_by.name)
        return self.order.match(entry)

    def read(self, guids: Sequence[bytes]) -> list[DirectoryObject]:
        """The records of matches, in their order, without those deleted or moved out of sight meanwhile."""
        return self._records(guids, self._entries(guids))

    def _entries(self, guids: Sequence[bytes]) -> Iterator[Entry]:
        return self.client.read_each(guids, self.maker.to_read, deleted=self.search.show_deleted)

    def _records(self, guids: Sequence[bytes], found: Iterable[Entry]) -> list[DirectoryObject]:
        order: list[bytes] = []

        def in_sight(found: Iterable[Entry]) -> Iterator[Entry]:
            for entry in found:
                if self.area.holds(entry):
                    order.append(entry.values("objectGUID")[0])
                    yield entry

        by_guid = dict(zip(order, self.maker.records(in_sight(found)), strict=True))
        return [by_guid[guid] for guid in guids if guid in by_guid]

    def read_parts(self, packed: bytes) -> Iterator[list[DirectoryObject]]:
        """The same of many matches, packed, a part at a time. No connection is held once the next parts are there.

        They are read while this one is rendered and sent, which takes as long as a domain controller needs for it.
        """
        if not packed:
            return
        ahead = deque([self._begin_part(packed, 0, min(_FIRST_STREAMED, _STREAMED_AT_ONCE))])
        place = ahead[0].end
        while ahead:
            part = ahead.popleft()
            with translated():
                entries = part.entries()
            count = _count_of_next(entries)
            while len(ahead) < _PARTS_AHEAD and place < len(packed):
                ahead.append(self._begin_part(packed, place, count))
                place = ahead[-1].end
            with translated():
                records = self._records(part.guids, entries)
            del part, entries  # memory holds those ahead by now
            yield records
            del records

    def _begin_part(self, packed: bytes, start: int, count: int) -> "_Part":
        """Begin to read the entries of so many identifiers from a place on."""
        end = min(start + 16 * count, len(packed))
        guids = [packed[place : place + 16] for place in range(start, end, 16)]
        return _Part(guids, run_in_background(lambda: list(self._entries(guids)), "part of a stream"), end)

    def _find(
        self, attributes: tuple[str, ...], *, limit: int | None = None, whole: bool = False
    ) -> Generator[Entry, None, None]:
        """The matches; with a limit, at least so many if there are so many, or _TooMany.

        What the gateway's account may list but not read is none: nothing could be told of it, not even which it is.
        """
        accept, deleted = self.accept, self.search.show_deleted
        if self.area.refines:
            limit = None
        for base in self.area.bases:
            found = self.client.search(
                base,
                self.area.scope,
                self.condition,
                attributes,
                limit=limit,
                deleted=deleted,
                seconds=self.seconds,
                patient=True,
                apart=self.is_expensive,
                whole=whole,
            )
            for entry in self.visibility.prepared(found, (*self.order.needs, *self.needs)):
                if "objectGUID" not in entry.attributes:
                    if limit is not None:  # it counted, and may have kept a match away
                        raise _TooMany
                elif self.area.holds(entry) and (accept is None or accept(entry)):
                    yield entry
