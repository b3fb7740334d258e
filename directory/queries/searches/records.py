"""Making records of found entries, many at a time. The search decides which entries, and in which order.

The domain controller computes two parts of a record for each entry: the parent's objectGUID, and whether an account is
locked out or its password expired. Samba takes 60 µs an entry for these two, and 90 µs for the other 37 attributes. So
each parent is read once, and the computed state only of those accounts that the password policies leave in doubt.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from active_directory import Client, Entry, guid_to_text
from directory.lookup.visibility import Visibility, parent_of
from directory.policies.known_policies import (
    KnownPolicies,
    cached_policies,
    current_policies,
    doubtful_since,
)
from directory.protection.state import MAX_SHOWN_AGE, protection_state
from directory.queries.member_counts import member_counts
from directory.queries.searches.definitions import Search
from directory.shapes.kinds import ACCOUNT_KINDS, Kind
from directory.shapes.record import (
    COMPUTED_CONTROL,
    PARENT_ID,
    SPARING_CONTROL,
    DirectoryObject,
    GroupRecord,
    Renderer,
    Selection,
    set_computed_control,
    version_of,
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
        selection: Selection,
        visibility: Visibility,
        *,
        needs: Iterable[str] = (),
        octets: bool = False,
    ) -> None:
        self._client = client
        self._visibility = visibility
        self._search = search
        self._renderer = Renderer(client.schema, selection, octets=octets)
        shown = {*(selection.shown or ()), *search.needs}
        names = [name for name in selection.to_read if name not in _COMPUTED or name in shown]
        of_accounts = SPARING_CONTROL if ACCOUNT_KINDS & search.kinds else ()
        # A deleted group has no members left that could change its version.
        self._has_own_versions = visibility.is_confined and Kind.GROUP in search.kinds and not search.show_deleted
        of_version = ("*",) if self._has_own_versions else ()
        self.to_read: tuple[str, ...] = tuple(dict.fromkeys((*names, *of_accounts, *search.needs, *needs, *of_version)))
        self._parents: dict[str, str | None] = {}

    def records(self, entries: Iterable[Entry]) -> list[DirectoryObject]:
        """The records of entries, in their order. Reads from the directory only after it has taken the last entry."""
        state = protection_state(self._client, max_age=MAX_SHOWN_AGE)
        render, extend, confined = self._renderer.render, self._search.extend, self._visibility.confined
        was_computed = COMPUTED_CONTROL in self.to_read
        records: list[DirectoryObject] = []
        doubts: list[_Doubt] = []
        groups: list[tuple[Entry, GroupRecord]] = []
        # Rendered as they come, while their values are still in the processor's cache.
        for entry in self._visibility.prefetched(entries, self.to_read):
            control = entry.integer(COMPUTED_CONTROL) if was_computed else None
            seen = confined(entry)
            version = (self._visibility.version(seen) if self._has_own_versions else None) or version_of(entry)
            record = render(
                seen,
                protected=state.is_protected(entry),
                parent_id=None,
                computed_control=control or 0,
                version=version,
            )
            if control is None and (password_set := doubtful_since(entry)) is not None:
                doubts.append(_Doubt(entry, record, password_set))
            if record["group"] is not None:
                groups.append((entry, record["group"]))
            if extend is not None:
                record.update(extend(entry, seen))  # type: ignore[typeddict-item]  # what a search adds is its own
            records.append(record)
        self._complete(records, doubts)
        if not self._search.show_deleted:
            counts = member_counts(self._client, self._visibility, [entry for entry, _ in groups])
            for (_, group), count in zip(groups, counts, strict=True):
                group["memberCount"] = count
        if self._search.complete is not None:
            self._search.complete(records)
        return records

    def _complete(self, records: Sequence[DirectoryObject], doubts: list["_Doubt"]) -> None:
        """Add what the domain controller computes, with one look-up for all records."""
        parents = [parent_of(record["distinguishedName"]) for record in records]
        children = {
            parent: record for parent, record in zip(parents, records, strict=True) if parent not in self._parents
        }
        find_policies = current_policies if len(doubts) > _FEW_ACCOUNTS else cached_policies
        if doubts and (policies := find_policies(self._client)) is not None:
            doubts = _complete_by_policies(doubts, policies)
        asked = {UUID(record["id"]) for record in (*children.values(), *(doubt.record for doubt in doubts))}
        deleted = self._search.show_deleted
        found = self._client.read_many(asked, tuple(_COMPUTED), deleted=deleted) if asked else {}
        for entry in found.values():
            values = entry.values(PARENT_ID)
            self._parents[parent_of(entry.dn)] = guid_to_text(values[0]) if values else None
        for parent in children.keys() - self._parents.keys():  # the child was moved or deleted in between
            there = self._client.find(parent, ("objectGUID",), deleted=deleted)
            self._parents[parent] = None if there is None or "objectGUID" not in there else str(there.guid)
        for parent, record in zip(parents, records, strict=True):
            record["parentId"] = self._parents[parent] if self._visibility.can_see(parent) else None
        for doubt in doubts:
            asked_about, account = found.get(UUID(doubt.record["id"])), doubt.record["account"]
            if asked_about is not None and account is not None:
                set_computed_control(account, asked_about.integer(COMPUTED_CONTROL) or 0)


class _Doubt(NamedTuple):
    """An account that may be locked out or have an expired password; `since` comes from `doubtful_since`."""

    account: Entry
    record: DirectoryObject
    since: int


def _complete_by_policies(doubts: Iterable[_Doubt], policies: KnownPolicies) -> list[_Doubt]:
    """Complete the records of accounts whose state the policies tell, and return the others."""
    left = []
    since = policies.may_be_expired_since
    for doubt in doubts:
        if doubt.since > since:
            continue
        control, account = policies.computed_control_of(doubt.account), doubt.record["account"]
        if control is None:
            left.append(doubt)
        elif account is not None:
            set_computed_control(account, control)
    return left
