"""From found entries to records, many at a time. Which entries, and in which order, is the search's business.

Two things of a record are computed by the domain controller for each entry: the parent's objectGUID, and whether an
account is locked out or its password expired. For thousands of entries Samba takes longer for these two than for the
rest of the search (58 µs of 100 for an entry with 37 attributes). So a parent is asked for once, and only those
accounts are asked about that could be locked out or have an expired password.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property

from directory.ldap import Client, Entry, UserAccountControl, datetime_to_filetime
from directory.ldap.codecs import guid_to_text
from directory.password_policy import maximum_ages
from directory.policy import SHOWN_AGE, administrative_groups
from directory.searches import Search
from directory.shapes.kinds import ACCOUNT_KINDS
from directory.shapes.record import COMPUTED_CONTROL, PARENT_ID, DirectoryObject, Renderer, Selection

_COMPUTED = frozenset({PARENT_ID, COMPUTED_CONTROL})
_LOCKED_AT = "lockoutTime"
# Whose password does not expire, whatever its age ([MS-ADTS] 3.1.1.4.5.17).
_KEEPS_PASSWORD = (
    UserAccountControl.SMARTCARD_REQUIRED
    | UserAccountControl.DONT_EXPIRE_PASSWD
    | UserAccountControl.WORKSTATION_TRUST_ACCOUNT
    | UserAccountControl.SERVER_TRUST_ACCOUNT
    | UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT
).value
_ASKED_WITHOUT_AGES = 50
"""So many accounts are asked about at once: up to then it costs more to find out who need not be."""
_CLOCKS_DIFFER = timedelta(days=1)
_FIRST_RDN = re.compile(r"(?:\\.|[^\\,])*,?", re.DOTALL)


class RecordMaker:
    """Makes the records of one search; what entries must be read with is `to_read`."""

    def __init__(self, client: Client, search: Search, selection: Selection, *, needs: Iterable[str] = ()) -> None:
        self._client = client
        self._search = search
        self._renderer = Renderer(client.schema, selection)
        shown = {*(selection.shown or ()), *search.needs}
        names = [name for name in selection.to_read if name not in _COMPUTED or name in shown]
        of_accounts = (_LOCKED_AT,) if ACCOUNT_KINDS & search.kinds else ()
        self.to_read: tuple[str, ...] = tuple(dict.fromkeys((*names, *of_accounts, *search.needs, *needs)))
        self._parents: dict[str, str | None] = {}

    def records(self, entries: Sequence[Entry]) -> list[DirectoryObject]:
        """The records of entries, in their order."""
        if not entries:
            return []
        groups = administrative_groups(self._client, max_age=SHOWN_AGE)
        controls = self._compute(entries)
        records = []
        for entry in entries:
            record = self._renderer.render(
                entry,
                protected=groups.protect(entry),
                parent_id=self._parents[_parent_of(entry.dn)],
                computed_control=controls.get(entry.values("objectGUID")[0], 0),
            )
            if self._search.extend is not None:
                record.update(self._search.extend(entry))  # type: ignore[typeddict-item]  # what a search adds is its own
            records.append(record)
        if self._search.complete is not None:
            self._search.complete(records)
        return records

    def _compute(self, entries: Sequence[Entry]) -> dict[bytes, int]:
        """Learn the parents not known yet; the computed flags of those accounts that may have any, by objectGUID."""
        children = {
            parent: entry for entry in reversed(entries) if (parent := _parent_of(entry.dn)) not in self._parents
        }
        accounts = [] if COMPUTED_CONTROL in self.to_read else self._doubtful(entries)
        asked = {entry.guid for entry in (*children.values(), *accounts)}
        deleted = self._search.show_deleted
        found = self._client.read_many(asked, tuple(_COMPUTED), deleted=deleted) if asked else {}
        for entry in found.values():
            values = entry.values(PARENT_ID)
            self._parents[_parent_of(entry.dn)] = guid_to_text(values[0]) if values else None
        for parent in children.keys() - self._parents.keys():  # the child was moved or deleted in between
            self._parents[parent] = _id_of(self._client.find(parent, ("objectGUID",), deleted=deleted))
        computed = entries if COMPUTED_CONTROL in self.to_read else found.values()
        return {entry.values("objectGUID")[0]: entry.integer(COMPUTED_CONTROL) or 0 for entry in computed}

    def _doubtful(self, entries: Sequence[Entry]) -> list[Entry]:
        """The accounts that may be locked out or have an expired password."""
        doubtful = [entry for entry in entries if _is_doubtful(entry, None)]
        if len(doubtful) <= _ASKED_WITHOUT_AGES:
            return doubtful
        return [entry for entry in doubtful if _is_doubtful(entry, self._may_be_expired_since)]

    @cached_property
    def _may_be_expired_since(self) -> int | None:
        """A password set after this FILETIME is not expired under any policy; None when not all of them can be read."""
        ages = maximum_ages(self._client)
        if ages is None:
            return None
        if not ages:
            return 0
        return datetime_to_filetime(datetime.now(UTC) + _CLOCKS_DIFFER) - min(ages)


def _is_doubtful(entry: Entry, set_until: int | None) -> bool:
    values = entry.attributes.get
    control, locked_at, password_set = values("userAccountControl"), values(_LOCKED_AT), values("pwdLastSet")
    if not control:
        return False
    if locked_at and locked_at[0] != b"0":
        return True
    if int(control[0]) & _KEEPS_PASSWORD:
        return False
    if not password_set:
        return True
    # 0: it must be changed, and is shown as that.
    return password_set[0] != b"0" and (set_until is None or int(password_set[0]) <= set_until)


def _parent_of(dn: str) -> str:
    first, _, rest = dn.partition(",")
    if "\\" not in first:
        return rest
    match = _FIRST_RDN.match(dn)
    return dn[match.end() :] if match else ""


def _id_of(entry: Entry | None) -> str | None:
    return None if entry is None else guid_to_text(entry.guid.bytes_le)
