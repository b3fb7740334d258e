"""Running a search: conditions, scopes, order, pages, streams (docs/api.md#searches).

One pass reads all records where they fit on the first page. Otherwise a first pass collects the objectGUIDs of all
matches with their sort values, and the records are read page by page. So each object that exists throughout comes
exactly once, whatever is created, renamed or deleted meanwhile. A cursor works on every process and domain controller:
Redis keeps the matches of later pages (`matches`), and without them the search finds its matches again.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import chain, repeat
from typing import NamedTuple, cast

from django.conf import settings
from django.core.cache.backends.locmem import LocMemCache

from active_directory import ANYTHING, Entry, LimitExceeded, run_in_background
from core.call import Call, RecordStream, StreamFormat
from core.errors import InvalidRequest
from core.paging import Page, open_cursor, seal_cursor
from core.text.messages import message
from directory.errors import translate_ldap_errors
from directory.lookup.access import client_of
from directory.lookup.visibility import Visibility, may_see_confidential
from directory.queries.searches.area import area_of
from directory.queries.searches.chains import Followed, chains_in, follow_chains
from directory.queries.searches.concurrency import search_turn
from directory.queries.searches.conditions import read_conditions
from directory.queries.searches.definitions import SCOPES, Search, SearchQuery
from directory.queries.searches.filters import (
    all_of,
    cost_of,
    is_narrow,
    past_user_index,
    read_filter,
    require_searchable,
    resolve_names,
    scope_filter,
    took_too_long,
)
from directory.queries.searches.listed import FEW, Listed, in_both, in_order, listed_in, of_classes
from directory.queries.searches.matches import Match, Order, Snapshot, Value, keep_snapshot, read_snapshot
from directory.queries.searches.records import RecordMaker
from directory.shapes.kinds import ACCOUNT_KINDS, Kind
from directory.shapes.record import DirectoryObject, default_attributes, renderer_for

_FIRST_PART = 100
_MAX_PART = 250
"""Records in one part of a stream, at most."""
_PARTS_AHEAD = 2
"""Parts read while one is sent, each over its own connection: with one, the domain controller would wait for Python."""
_PART_OCTETS = 1_000_000
"""The values in one part, about: fewer large records are read at a time."""


def run_search(call: Call, search: Search, query: SearchQuery) -> Page[DirectoryObject]:
    """One page of a search, or all of it as a RecordStream where the call asks for one.

    Raises FilterMalformed, FilterValueInvalid, FilterUnsupported, FilterTooCostly, AttributeUnknown,
    AttributeNotReadable, CursorInvalid, ObjectNotFound for the base, and RateLimited while other searches of the caller
    are under way.
    """
    if call.stream_as is not None:
        # Only a surface that asks for a stream gets one; all other callers get the page that the type promises.
        return cast(Page[DirectoryObject], _stream(_SearchRun(call, search, query), call.stream_as))
    cursor = None
    if query.cursor is not None:
        cursor = _Cursor(*open_cursor(call, query, query.cursor, bound_to=_bound_to(call, search)))
    running = _SearchRun(call, search, query)
    if cursor is not None:
        return _next_page(running, cursor)
    with running.turn():
        if (items := running.read_few(query.page_size)) is not None:
            running.remember_count(len(items))
            return _page(items, len(items))
        matches = running.order.sorted(running.identify())
    running.remember_count(len(matches))
    return _page_of(running, matches, len(matches))


def visible_matches(call: Call, search: Search, query: SearchQuery) -> Iterator[Entry]:
    """All matches with the attribute that `query` sorts by, without its values that are hidden from the caller.

    They come in no order; raises as `run_search`.
    """
    running = _SearchRun(call, search, query)
    with running.turn():
        yield from running.visible()


class _Cursor(NamedTuple):
    """Where a page ended: its last match, and its position in a snapshot. `total` is the number of all matches."""

    value: Value
    guid: str
    snapshot: str
    length: int
    offset: int
    total: int


def _bound_to(call: Call, search: Search) -> str:
    return f"{search.name} of {call.directory.id if call.directory else None}"


def _sealed(running: "_SearchRun", last: Match, snapshot: Snapshot, offset: int, total: int) -> str:
    cursor = _Cursor(last.value, last.guid.hex(), *snapshot, offset, total)
    return seal_cursor(running.call, running.query, list(cursor), bound_to=_bound_to(running.call, running.search))


def _page(items: list[DirectoryObject], total: int, following: str | None = None) -> Page[DirectoryObject]:
    # No result is ever cut short: reaching a limit of the directory is an error.
    return {"items": items, "nextCursor": following, "total": total, "truncated": False}


def _next_page(running: "_SearchRun", cursor: _Cursor) -> Page[DirectoryObject]:
    """The page behind a cursor. A page whose objects are all gone is skipped: clients would take it for the end."""
    size, snapshot, total = running.query.page_size, Snapshot(cursor.snapshot, cursor.length), cursor.total
    last, offset = Match(cursor.value, bytes.fromhex(cursor.guid)), cursor.offset
    while True:
        excerpt = read_snapshot(snapshot, offset, size)
        if excerpt is None:
            with running.turn():
                matches = running.order.after(running.identify(), last)
            return _page_of(running, matches, total)
        items = running.read(excerpt.guids)
        last, offset = excerpt.last, offset + size
        if offset >= snapshot.length:
            return _page(items, total)
        if items:
            return _page(items, total, _sealed(running, last, snapshot, offset, total))


def _page_of(running: "_SearchRun", matches: list[Match], total: int) -> Page[DirectoryObject]:
    """The first page of matches in order; a snapshot keeps the others for the next pages."""
    size = running.query.page_size
    page: list[Match] = []
    items: list[DirectoryObject] = []
    while matches and not items:  # as in `_next_page`
        page, matches = matches[:size], matches[size:]
        items = running.read([match.guid for match in page])
    following = _sealed(running, page[-1], keep_snapshot(matches, size), 0, total) if matches else None
    return _page(items, total, following)


def _stream(running: "_SearchRun", form: StreamFormat) -> RecordStream:
    """All records, read a few at a time; a failure before the first of them is raised here."""
    kinds, selection, schema = running.search.kinds, running.selection, running.client.schema
    names = selection.shown
    if form is StreamFormat.CSV and selection.everything:
        detail = message("* has no columns that could be known beforehand: name the attributes")
        raise InvalidRequest.naming(detail, parameter="attributes")
    if names is None and not selection.everything:
        shown = (default_attributes(schema, kind, confidential=selection.confidential) for kind in kinds)
        names = tuple(sorted({name for names in shown for name in names}))
    packed = bytearray()  # 16 octets a match, a quarter of what a list of Python objects would take
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
        attributes=None if selection.everything else names,
        absent=frozenset(name for name, having in absent.items() if not having & kinds)
        | ({"manager"} - {*running.search.needs}),
    )


def _next_part_size(entries: Sequence[Entry]) -> int:
    """How many entries to read next, estimated from the length of these."""
    few = entries[:10]
    length = sum(len(value) for entry in few for values in entry.attributes.values() for value in values)
    return max(1, min(_MAX_PART, _PART_OCTETS * len(few) // max(1, length)))


# How many matches a search had last time, which decides how to read it. A domain controller sends nothing before it has
# found everything, so asking for whole records without this number might read all of a large domain for one page. A
# wrong number only costs time.
_counts = LocMemCache("matches of searches", {"OPTIONS": {"MAX_ENTRIES": 1000}})


class _TooMany(Exception):
    """There are, or may be, more matches than the caller wants at once."""


class _SearchRun:
    """One run of a search for one caller: its parsed filter, area, order, visibility and cost."""

    def __init__(self, call: Call, search: Search, query: SearchQuery) -> None:
        self.call, self.search, self.query = call, search, query
        self.client = client_of(call)
        schema, confidential = self.client.schema, may_see_confidential(call)
        conditions = [search.condition]
        if query.q is not None:
            conditions.append(resolve_names(query.q, schema, confidential=confidential))
        known = (str(field.alias) for field in type(query).model_fields.values())
        given = read_conditions(query.model_extra or {}, schema, known=known, confidential=confidential)
        if query.filter is not None:
            given.append(read_filter(query.filter, schema, confidential=confidential)[0])
        asked = all_of(given)
        octets = call.takes_octets
        renderer = renderer_for(schema, query.attributes, search.kinds, confidential=confidential, octets=octets)
        self.selection = renderer.selection
        require_searchable(self.selection.shown or (), parameter="attributes")
        self.order = order = Order.of(query.sort, schema, confidential=confidential)
        require_searchable([order.attribute.name] if order.attribute else [], parameter="sort")
        self.area = area_of(
            call, query.base, SCOPES[query.scope], fixed_base=search.base, show_deleted=search.show_deleted
        )
        self.visibility = Visibility.of(self.client, confidential=confidential, bases=self.area.confined_to)
        scoped = scope_filter(asked, self.visibility)
        self.condition = all_of((*conditions, scoped.condition))
        self._acceptor = scoped.acceptor(self.visibility)
        self._needs = (*scoped.present, *self.visibility.needs)
        needs = (*order.needs, *self.area.needs)
        self.maker = RecordMaker(self.client, search, renderer, self.visibility, needs=needs, known=self.area.known)
        self._cost = cost_of(asked, schema)
        # Everything that the number of matches depends on, except the contents of the directory.
        self._key = str(hash((call.directory, search.name, self.area.bases, self.area.scope, str(self.condition))))

    @cached_property
    def _followed(self) -> Followed:
        """The condition to send. Chains are followed where matches are looked for, not for each later page."""
        # What deleted objects were members of no list of members shows.
        show_deleted, listed = self.search.show_deleted, self.search.listed
        followed = Followed(self.condition) if show_deleted else follow_chains(self.client, self.condition)
        return replace(followed, listed=in_both(listed and listed(), followed.listed))

    @cached_property
    def _listed(self) -> Listed | None:
        """Everything in the area that may match; None where it must be searched."""
        return listed_in(self.area, self.client, self._followed.listed)

    @cached_property
    def _is_list(self) -> bool:
        """Whether everything listed matches."""
        is_filtered = self._followed.condition != ANYTHING or self._accepts or self.search.accept
        return self._listed is not None and not is_filtered

    @cached_property
    def _accepts(self) -> list[Callable[[Entry], bool]]:
        given = [self._acceptor, *self._followed.accepts]
        if (named := self._followed.listed) is not None and self._listed is None:
            given.append(lambda entry: entry.values("objectGUID")[0] in named.names)
        return [accept for accept in given if accept is not None]

    @cached_property
    def is_narrow(self) -> bool:
        is_short = self._listed is not None and (self._is_list or len(self._listed.names) <= FEW)
        return is_short or self.query.scope == "base" or is_narrow(self._followed.condition)

    @cached_property
    def _has_expensive_filter(self) -> bool:
        return self._followed.is_expensive or self._cost.is_expensive

    @property
    def seconds(self) -> int | None:
        """The LDAP time limit of an expensive filter; None for the usual one."""
        return settings.CONFIGURATION.Searches.ExpensiveSeconds if self._has_expensive_filter else None

    @property
    def is_expensive(self) -> bool:
        """Whether it may keep a domain controller busy so long that its other clients notice."""
        return not self.is_narrow and self._has_expensive_filter

    def remember_count(self, count: int) -> None:
        _counts.set(self._key, count, timeout=None)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The caller's turn, which following chains takes, too. Searches that look at few objects need not wait."""
        follows = self.search.listed or chains_in(self.condition)
        with search_turn(self.call, expensive=False) if follows else nullcontext():
            is_narrow = self.is_narrow
        with nullcontext() if is_narrow else search_turn(self.call, expensive=self.is_expensive):
            yield

    def read_few(self, limit: int) -> list[DirectoryObject] | None:
        """All records in order, read in one pass; None when there are more than `limit`, or when one pass costs more.

        Where `accept` decides, the filter may find many entries that do not match, and reading whole records of those
        is wasted. Unless an index leads to its matches, a search must be known to have few: if the pass fails, all is
        read twice, and Samba reads every match completely before it sends the first, and admits no write meanwhile.
        """
        listed, known = self._listed, _counts.get(self._key)
        if listed is not None and self._is_list:
            known = listed.size
        elif listed is not None and len(listed.names) <= limit:
            known = len(listed.names)
        if self._accepts or self.search.accept or (not self.is_narrow if known is None else known > limit):
            return None
        matches: list[Match] = []

        def few(found: Iterator[Entry]) -> Iterator[Entry]:
            for entry in found:
                if len(matches) == limit:
                    raise _TooMany
                matches.append(self._match(entry))
                yield entry

        try:
            with closing(self._find(self.maker.to_read, limit=limit + 1, whole=known is not None)) as found:
                records = self.maker.records(few(found))
        except _TooMany:
            return None
        by_guid = {match.guid: record for match, record in zip(matches, records, strict=True)}
        return [by_guid[match.guid] for match in self.order.sorted(matches)]

    def identify(self) -> Iterator[Match]:
        """All matches, in the order the directory finds them."""
        listed, condition = self._listed, self._followed.condition
        if listed is not None and self.order.attribute is None and not (self._accepts or self.search.accept):
            if condition == ANYTHING:
                return map(Match, repeat(None), in_order(listed, key=self._key))
            if condition.attributes() == {"objectClass"}:
                return map(Match, repeat(None), of_classes(self.client, condition, listed, key=self._key))
        return map(self.order.match, self.visible())

    def visible(self) -> Iterator[Entry]:
        """All matches with the attribute sorted by, in the order the directory finds them."""
        needs = dict.fromkeys((*self.order.needs, *self.area.needs, *self._needs, *self.search.decided_by))
        found = self._find(tuple(needs))
        return map(self._without_hidden, found if self.search.accept is None else self._accepted(found, needs))

    def _accepted(self, found: Iterable[Entry], attributes: Iterable[str]) -> Iterator[Entry]:
        """The entries that the search accepts; those in doubt come last, read again together."""
        accept, doubtful = cast(Callable[[Entry], bool | None], self.search.accept), list[bytes]()
        for entry in found:
            if is_match := accept(entry):
                yield entry
            elif is_match is None:
                doubtful += entry.values("objectGUID")
        again = self.client.read_each(doubtful, (*attributes, *self.search.needs), of_domain=True)
        for entry in self.visibility.prefetched(again, self.order.needs):
            if self.area.contains(entry) and accept(entry):
                yield entry

    def _match(self, entry: Entry) -> Match:
        return self.order.match(self._without_hidden(entry))

    def _without_hidden(self, entry: Entry) -> Entry:
        """The entry without hidden values to sort by, which a caller could bisect by the order."""
        sorted_by = self.order.attribute
        if sorted_by is not None and self.visibility.may_hide(sorted_by.name):
            return self.visibility.confined(entry, sorted_by.name)
        return entry

    def read(self, guids: Sequence[bytes]) -> list[DirectoryObject]:
        """The records of matches, in their order, without objects that were deleted or moved out of sight meanwhile."""
        return self._records(guids, self._entries(guids))

    def _entries(self, guids: Sequence[bytes]) -> Iterator[Entry]:
        return self.client.read_each(guids, self.maker.to_read, deleted=self.search.show_deleted)

    def _records(self, guids: Sequence[bytes], found: Iterable[Entry]) -> list[DirectoryObject]:
        order: list[bytes] = []

        def in_sight(found: Iterable[Entry]) -> Iterator[Entry]:
            for entry in found:
                if self.area.contains(entry):
                    order.append(entry.values("objectGUID")[0])
                    yield entry

        by_guid = dict(zip(order, self.maker.records(in_sight(found)), strict=True))
        return [by_guid[guid] for guid in guids if guid in by_guid]

    def read_parts(self, packed: bytes) -> Iterator[list[DirectoryObject]]:
        """The records of many matches, given as packed objectGUIDs, one part after another.

        The next parts are read while this one is rendered and sent, which takes about as long. No LDAP connection is
        held while a slow client takes its time.
        """
        ahead: deque[tuple[list[bytes], Callable[[], list[Entry]]]] = deque()
        place = 0

        def begin(count: int) -> None:
            nonlocal place
            end = min(place + 16 * count, len(packed))
            guids = [packed[start : start + 16] for start in range(place, end, 16)]
            ahead.append((guids, run_in_background(lambda: list(self._entries(guids)), "part of a stream")))
            place = end

        if packed:
            begin(min(_FIRST_PART, _MAX_PART))
        while ahead:
            guids, read = ahead.popleft()
            with translate_ldap_errors():
                entries = read()
            count = _next_part_size(entries)
            while len(ahead) < _PARTS_AHEAD and place < len(packed):
                begin(count)
            with translate_ldap_errors():
                records = self._records(guids, entries)
            del read, entries  # the parts ahead need the memory
            yield records
            del records

    def _find(
        self, attributes: tuple[str, ...], *, limit: int | None = None, whole: bool = False
    ) -> Generator[Entry, None, None]:
        """The matches. With a limit it may end after that many; raises _TooMany where it cannot tell.

        An entry that the gateway's account may list but not read is no match: it has no objectGUID to name it by.
        """
        if self.area.needs_check:
            limit = None
        condition = past_user_index(self.client, self._followed.condition, self.search.condition)
        searches: Iterable[Iterator[Entry]] = (
            self.client.search(
                *(base, self.area.scope, condition, attributes),
                limit=limit,
                deleted=self.search.show_deleted,
                seconds=self.seconds,
                patient=True,
                apart=self.is_expensive,
                whole=whole,
            )
            for base in self.area.bases
        )
        if self._listed is not None:
            searches = [self.client.read_each(self._listed.names, attributes, of_domain=True, within=condition)]
        accepts = self._accepts
        try:
            for found in searches:
                for entry in self.visibility.prefetched(found, (*self.order.needs, *self._needs)):
                    if "objectGUID" not in entry.attributes:
                        if limit is not None:  # it used up one of the `limit` and may have displaced a match
                            raise _TooMany
                    elif self.area.contains(entry) and (not accepts or all(accept(entry) for accept in accepts)):
                        yield entry
        except LimitExceeded as reached:
            if self.seconds is None:
                raise
            raise took_too_long(self.seconds) from reached
