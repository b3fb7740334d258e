"""From found entries to records, many at a time. Which entries, and in which order, is the search's business.

Two things of a record are computed by the domain controller for each entry: the parent's objectGUID, and whether an
account is locked out or its password expired. Samba takes 60 µs an entry for these two, and 90 for the other 37
attributes. So a parent is asked for once, and only those accounts are asked about of which it is not known from the
password policies whether they are locked out or have an expired password.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from active_directory import Client, Entry, guid_to_text
from directory.lookup.visibility import Visibility, parent_of
from directory.policies.known_policies import (
    KnownPolicies,
    current_policies,
    doubtful_since,
    policies_lately_known,
)
from directory.protection.state import SHOWN_AGE, protection_state
from directory.queries.searches.definitions import Search
from directory.shapes.kinds import ACCOUNT_KINDS, Kind
from directory.shapes.record import (
    COMPUTED_CONTROL,
    PARENT_ID,
    SPARING_CONTROL,
    DirectoryObject,
    Renderer,
    Selection,
    set_computed_control,
    version_of,
)

_COMPUTED = frozenset({PARENT_ID, COMPUTED_CONTROL})
_ASKED_WITHOUT_POLICIES = 50
"""So many accounts are asked about at once: up to then it costs more to find out who need not be."""


class RecordMaker:
    """Makes the records of one search; what entries must be read with is `to_read`."""

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
        # Of a deleted group no members are left that could move its version.
        self._has_own_versions = visibility.is_confined and Kind.GROUP in search.kinds and not search.show_deleted
        of_version = ("*",) if self._has_own_versions else ()
        self.to_read: tuple[str, ...] = tuple(dict.fromkeys((*names, *of_accounts, *search.needs, *needs, *of_version)))
        self._parents: dict[str, str | None] = {}

    def records(self, entries: Iterable[Entry]) -> list[DirectoryObject]:
        """The records of entries, in their order. Asks the directory itself only when the last entry was taken."""
        state = protection_state(self._client, max_age=SHOWN_AGE)
        render, extend, confined = self._renderer.render, self._search.extend, self._visibility.confined
        was_computed = COMPUTED_CONTROL in self.to_read
        records: list[DirectoryObject] = []
        doubts: list[_Doubt] = []
        # Each is rendered as it comes, while its values are still in the processor's cache.
        for entry in self._visibility.prepared(entries, self.to_read):
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
            if extend is not None:
                record.update(extend(entry, seen))  # type: ignore[typeddict-item]  # what a search adds is its own
            records.append(record)
        self._complete(records, doubts)
        if self._search.complete is not None:
            self._search.complete(records)
        return records

    def _complete(self, records: Sequence[DirectoryObject], doubts: list["_Doubt"]) -> None:
        """Add what the domain controller computes, in one look-up for all."""
        parents = [parent_of(record["distinguishedName"]) for record in records]
        children = {
            parent: record for parent, record in zip(parents, records, strict=True) if parent not in self._parents
        }
        find_policies = current_policies if len(doubts) > _ASKED_WITHOUT_POLICIES else policies_lately_known
        if doubts and (policies := find_policies(self._client)) is not None:
            doubts = _left_in_doubt(doubts, policies)
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
    """An account that may be locked out or have an expired password, and `doubtful_since` when."""

    account: Entry
    record: DirectoryObject
    since: int


def _left_in_doubt(doubts: Iterable[_Doubt], policies: KnownPolicies) -> list[_Doubt]:
    """Those that must be asked about; the records of the others are completed."""
    left = []
    since = policies.may_be_expired_since
    for doubt in doubts:
        if doubt.since > since:
            continue
        control, account = policies.control_of(doubt.account), doubt.record["account"]
        if control is None:
            left.append(doubt)
        elif account is not None:
            set_computed_control(account, control)
    return left
