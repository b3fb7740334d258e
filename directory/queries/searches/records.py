"""Making records of found entries, many at a time. The search decides which entries, and in which order.

The domain controller computes two parts of a record for each entry: the parent's objectGUID, and whether an account is
locked out or its password expired. Samba takes 60 µs an entry for these two, and 90 µs for the other 37 attributes. So
each parent is read once, and the computed state only of those accounts that the password policies leave in doubt.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

from active_directory import Client, Entry
from core.shapes import Encoded
from directory.lookup.visibility import Visibility, parent_of
from directory.policies.known_policies import (
    KnownPolicies,
    cached_policies,
    current_policies,
    doubtful_since,
    settled_since,
)
from directory.protection.state import MAX_SHOWN_AGE, protection_state
from directory.queries.member_counts import member_counts
from directory.queries.searches.definitions import Search
from directory.shapes.encoded import encoder_of, with_parent
from directory.shapes.kinds import ACCOUNT_KINDS, Kind
from directory.shapes.record import (
    COMPUTED_CONTROL,
    PARENT_ID,
    SPARING_CONTROL,
    DirectoryObject,
    GroupRecord,
    Renderer,
)

_COMPUTED = frozenset({PARENT_ID, COMPUTED_CONTROL})
_FEW_ACCOUNTS = 50
"""Up to so many accounts are read in one go, which costs less than reading the policies to spare some of them."""


class RecordMaker:
    """Makes the records of one search, from entries that were read with the attributes in `to_read`."""

    def __init__(
        self,
        client: Client,
        search: Search,
        renderer: Renderer,
        visibility: Visibility,
        *,
        needs: Iterable[str] = (),
        known: Mapping[str, UUID] = MappingProxyType({}),
    ) -> None:
        """`known` are the objectGUIDs of objects that may be parents, by name."""
        self._client = client
        self._visibility = visibility
        self._search = search
        self._renderer, selection = renderer, renderer.selection
        shown = {*(selection.shown or ()), *search.needs}
        names = [name for name in selection.to_read if name not in _COMPUTED or name in shown]
        of_accounts = SPARING_CONTROL if ACCOUNT_KINDS & search.kinds else ()
        # A deleted group has no members left that could change its version.
        self._has_own_versions = visibility.is_confined and Kind.GROUP in search.kinds and not search.show_deleted
        of_version = ("*",) if self._has_own_versions else ()
        self.to_read: tuple[str, ...] = tuple(dict.fromkeys((*names, *of_accounts, *search.needs, *needs, *of_version)))
        self._parents = {name: self._shown_parent(name, guid) for name, guid in known.items()}
        """By name, the objectGUID of each parent that is known, as far as the caller may see it."""
        finishes = search.extend is not None or search.complete is not None
        can_encode = renderer.octets and search.kinds <= ACCOUNT_KINDS and not finishes
        self._encoder = encoder_of(renderer) if can_encode else None

    def records(self, entries: Iterable[Entry]) -> list[DirectoryObject]:
        """The records of entries, in their order. Reads from the directory only after it has taken the last entry.

        They are Encoded where the caller takes octets and nothing is added to them.
        """
        if self._encoder is not None:
            return self._encoded(entries, self._encoder.encode)
        confined, children = self._visibility.confined, dict[str, UUID]()
        found = list(self._arrived(entries, children))
        self._complete(found, children)
        extend = self._search.extend
        records: list[DirectoryObject] = []
        groups: list[tuple[Entry, GroupRecord]] = []
        for each in found:
            entry, seen = each.entry, confined(each.entry)
            record = self._renderer.render(
                seen,
                protected=each.protected,
                parent_id=each.parent_id,
                computed_control=each.control or 0,
                version=self._visibility.version(seen) if self._has_own_versions else None,
            )
            if record["group"] is not None:
                groups.append((entry, record["group"]))
            if extend is not None:
                record.update(extend(entry, seen))  # type: ignore[typeddict-item]  # what a search adds is its own
            records.append(record)
        if not self._search.show_deleted:
            counts = member_counts(self._client, self._visibility, [entry for entry, _ in groups])
            for (_, group), count in zip(groups, counts, strict=True):
                group["memberCount"] = count
        if self._search.complete is not None:
            self._search.complete(records)
        return records

    def _encoded(self, entries: Iterable[Entry], encode: Callable[..., Encoded]) -> list[Any]:
        """The same as JSON.

        An entry whose state is certain is encoded and dropped before the next one arrives, which then reuses its memory
        while that is still in the processor's cache.
        """
        confined, children = self._visibility.confined, dict[str, UUID]()
        settled, found = settled_since(self._client), list[_Found]()

        def encoded(each: _Found) -> Encoded:
            return encode(
                confined(each.entry),
                protected=each.protected,
                parent_id=each.parent_id,
                computed_control=each.control or 0,
            )

        for each in self._arrived(entries, children):
            if each.since is None or each.since > settled:
                each.json = encoded(each)
                del each.entry
            found.append(each)
        late = [each for each in found if each.parent_id is None]
        self._complete(found, children)
        for each in late:
            if each.json is not None:
                each.json = with_parent(each.json, each.parent_id)
        return [encoded(each) if each.json is None else each.json for each in found]

    def _arrived(self, entries: Iterable[Entry], children: dict[str, UUID]) -> Iterator["_Found"]:
        """The entries as they arrive, and of each parent that is not known yet one of its `children`."""
        is_protected = protection_state(self._client, max_age=MAX_SHOWN_AGE).is_protected
        was_computed = COMPUTED_CONTROL in self.to_read
        for entry in self._visibility.prefetched(entries, self.to_read):
            each = _Found(entry, is_protected(entry), entry.integer(COMPUTED_CONTROL) if was_computed else None)
            if each.parent in self._parents:
                each.parent_id = self._parents[each.parent]
            elif each.parent not in children:
                children[each.parent] = entry.guid
            yield each

    def _complete(self, found: Sequence["_Found"], children: Mapping[str, UUID]) -> None:
        """Add what the domain controller computes, with one look-up for all entries that are not encoded yet."""
        doubts = [each for each in found if each.json is None and each.since is not None]
        find_policies = current_policies if len(doubts) > _FEW_ACCOUNTS else cached_policies
        if doubts and (policies := find_policies(self._client)) is not None:
            doubts = _settle_by_policies(doubts, policies)
        asked = {*children.values(), *(doubt.entry.guid for doubt in doubts)}
        deleted = self._search.show_deleted
        computed = self._client.read_many(asked, tuple(_COMPUTED), deleted=deleted) if asked else {}
        for entry in computed.values():
            parent, values = parent_of(entry.dn), entry.values(PARENT_ID)
            self._parents[parent] = self._shown_parent(parent, UUID(bytes_le=values[0]) if values else None)
        for parent in children.keys() - self._parents.keys():  # the child was moved or deleted in between
            there = self._client.find(parent, ("objectGUID",), deleted=deleted)
            guid = there.guid if there is not None and "objectGUID" in there else None
            self._parents[parent] = self._shown_parent(parent, guid)
        for each in found:
            each.parent_id = self._parents[each.parent]
        for doubt in doubts:
            if (asked_about := computed.get(doubt.entry.guid)) is not None:
                doubt.control = asked_about.integer(COMPUTED_CONTROL)

    def _shown_parent(self, name: str, guid: UUID | None) -> str | None:
        return str(guid) if guid is not None and self._visibility.can_see(name) else None


class _Found:
    """An entry, and what its own values do not tell: `since` when it may be locked out or its password expired."""

    __slots__ = ("control", "entry", "json", "parent", "parent_id", "protected", "since")

    def __init__(self, entry: Entry, protected: bool, control: int | None) -> None:
        self.entry, self.protected, self.control = entry, protected, control
        self.parent, self.since = parent_of(entry.dn), doubtful_since(entry) if control is None else None
        self.parent_id: str | None = None
        self.json: Encoded | None = None


def _settle_by_policies(doubts: Iterable[_Found], policies: KnownPolicies) -> list[_Found]:
    """Settle the state of accounts that the policies tell, and return the others."""
    since = policies.may_be_expired_since
    old = [doubt for doubt in doubts if doubt.since is not None and doubt.since <= since]
    for doubt in old:
        doubt.control = policies.computed_control_of(doubt.entry)
    return [doubt for doubt in old if doubt.control is None]
