"""Which objects are protected: administrators of the domain and what the domain itself rests on (contract section 2).

Decided by what the directory computes (SIDs, nested membership, flags), never by a name: names can be chosen.
Whether a caller may write a protected object is the pipeline's business.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from uuid import UUID
from weakref import WeakKeyDictionary

from directory.ldap import Client, Entry, Scope
from directory.ldap.codecs import text_to_sid
from directory.ldap.filters import And, BitAnd, Equals, Filter, Or
from directory.ldap.flags import (
    BUILTIN_DOMAIN_SID,
    PROTECTED_ACCOUNT_RIDS,
    PROTECTED_BUILTIN_RIDS,
    PROTECTED_DOMAIN_RIDS,
    SystemFlags,
    UserAccountControl,
)
from directory.read_ahead import current_look

_NAMES_IN_ONE_FILTER = 100
_CONTROLLER_BITS = UserAccountControl.SERVER_TRUST_ACCOUNT | UserAccountControl.PARTIAL_SECRETS_ACCOUNT
_IMMOVABLE = SystemFlags.DISALLOW_DELETE


@dataclass(frozen=True, slots=True)
class AdministrativeGroups:
    """The built-in administrative groups and every group nested in one of them, however deep."""

    names: frozenset[str]
    """Distinguished names in lower case, as `memberOf` of their members says them."""
    sids: frozenset[bytes]
    domain_sid: bytes
    configuration: str
    """The forest's configuration, in lower case: whoever writes there governs every domain."""

    def protect(self, entry: Entry) -> bool:
        """Whether the entry is protected by what it belongs to, or by its own marks."""
        return is_protected_by_itself(entry) or self.include(entry) or entry.dn.lower().endswith(self.configuration)

    def include(self, entry: Entry) -> bool:
        """Whether the entry is one of them, a member of one, or has one for its primary group."""
        sids = entry.values("objectSid")
        if sids and (sids[0] in self.sids or sids[0] in _account_sids(self.domain_sid)):
            return True
        if any(value.decode("utf-8", "replace").lower() in self.names for value in entry.values("memberOf")):
            return True
        # memberOf does not show the primary group.
        primary = entry.integer("primaryGroupID")
        return bool(sids) and primary is not None and _sibling(sids[0], primary) in self.sids


@dataclass(frozen=True, slots=True)
class _Known:
    """The groups as of one state of one domain controller, whose number grows with every write it makes."""

    state: tuple[str | None, str | None]
    checked_at: float
    groups: AdministrativeGroups


class _Cache:
    """What is kept is exact when it is checked against the domain controller's state, as every write does."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: WeakKeyDictionary[Client, _Known] = WeakKeyDictionary()

    def get(self, client: Client, max_age: float) -> AdministrativeGroups:
        with self._lock:
            known = self._known.get(client)
        now = monotonic()
        if known is not None and now - known.checked_at < max_age:
            return known.groups
        root = client.read("", ("dsServiceName", "highestCommittedUSN"))
        state = (root.text("dsServiceName"), root.text("highestCommittedUSN"))
        if known is not None and known.state == state:
            groups = known.groups
        else:
            groups = _read_administrative_groups(client, known.groups.domain_sid if known else None)
        with self._lock:
            self._known[client] = _Known(state, now, groups)
        return groups


_cache = _Cache()

SHOWN_AGE = 2.0
"""How many seconds old the groups may be that a *shown* `protected` comes from. A write never relies on it."""


def administrative_groups(client: Client, *, max_age: float = 0) -> AdministrativeGroups:
    """The administrative groups as they are now, or were at most `max_age` seconds ago, or since a look began."""
    look = current_look()
    return _cache.get(client, max_age if look is None else max(max_age, look.age))


def is_protected(client: Client, entry: Entry, *, max_age: float = 0) -> bool:
    """Whether an entry, read with PROTECTION_ATTRIBUTES, is protected."""
    return administrative_groups(client, max_age=max_age).protect(entry)


def protected_among(client: Client, entries: Iterable[Entry], *, max_age: float = 0) -> set[UUID]:
    """The objectGUIDs of those entries, read with PROTECTION_ATTRIBUTES, that are protected."""
    groups = administrative_groups(client, max_age=max_age)
    return {entry.guid for entry in entries if groups.protect(entry)}


def is_protected_by_itself(entry: Entry) -> bool:
    """Whether an entry's own marks protect it.

    adminCount stays when somebody leaves an administrative group, and is not set on joining until the domain controller
    gets to it (hourly): it protects, but its absence says nothing.
    """
    return (
        entry.boolean("isCriticalSystemObject")
        or entry.integer("adminCount") == 1
        or bool((entry.integer("systemFlags") or 0) & _IMMOVABLE)
        or bool((entry.integer("userAccountControl") or 0) & _CONTROLLER_BITS)
    )


def holds_protected(client: Client, dn: str) -> bool:
    """Whether the object of this name or anything below it, however deep, is protected."""
    groups = administrative_groups(client)
    if dn.lower().endswith(groups.configuration):
        return True
    relative_ids = [_relative_id(sid) for sid in groups.sids]
    own_marks: list[Filter] = [
        Equals("isCriticalSystemObject", "TRUE"),
        Equals("adminCount", 1),
        BitAnd("systemFlags", _IMMOVABLE.value),
        *(BitAnd("userAccountControl", bit.value) for bit in _CONTROLLER_BITS),
        *(Equals("objectSid", sid) for sid in _account_sids(groups.domain_sid)),
    ]
    memberships: list[Filter] = [
        *(Equals("objectSid", sid) for sid in groups.sids),
        *(Equals("memberOf", name) for name in groups.names),
        *(Equals("primaryGroupID", relative_id) for relative_id in relative_ids),
    ]
    for some in (own_marks, *_chunks(memberships)):
        if any(True for _ in client.search(dn, Scope.SUBTREE, Or(*some), ("objectGUID",), limit=1)):
            return True
    return False


def _read_administrative_groups(client: Client, domain_sid: bytes | None) -> AdministrativeGroups:
    if domain_sid is None:
        domain_sid = client.read(client.default_naming_context, ("objectSid",)).values("objectSid")[0]
    builtin = text_to_sid(BUILTIN_DOMAIN_SID)
    wanted = [
        *(_child(domain_sid, rid) for rid in sorted(PROTECTED_DOMAIN_RIDS)),
        *(_child(builtin, rid) for rid in sorted(PROTECTED_BUILTIN_RIDS)),
    ]
    names: dict[str, str] = {}
    sids: set[bytes] = set(wanted)
    found: Sequence[Filter] = [Equals("objectSid", sid) for sid in wanted]
    while found:
        fresh = []
        for some in _chunks(found):
            condition = And(Equals("objectClass", "group"), Or(*some))
            for group in client.search(client.default_naming_context, Scope.SUBTREE, condition, ("objectSid",)):
                if group.dn.lower() not in names:
                    names[group.dn.lower()] = group.dn
                    sids.update(group.values("objectSid"))
                    fresh.append(group.dn)
        found = [Equals("memberOf", name) for name in fresh]
    return AdministrativeGroups(
        names=frozenset(names),
        sids=frozenset(sids),
        domain_sid=domain_sid,
        configuration=client.configuration_naming_context.lower(),
    )


def _chunks(filters: Sequence[Filter]) -> Iterator[Sequence[Filter]]:
    for start in range(0, len(filters), _NAMES_IN_ONE_FILTER):
        yield filters[start : start + _NAMES_IN_ONE_FILTER]


def _child(domain_sid: bytes, relative_id: int) -> bytes:
    """The SID of an account of a domain ([MS-DTYP] 2.4.2: the count of parts is its second byte)."""
    return bytes([domain_sid[0], domain_sid[1] + 1]) + domain_sid[2:] + struct.pack("<I", relative_id)


def _sibling(sid: bytes, relative_id: int) -> bytes:
    return sid[:-4] + struct.pack("<I", relative_id)


def _relative_id(sid: bytes) -> int:
    relative_id: int = struct.unpack("<I", sid[-4:])[0]
    return relative_id


def _account_sids(domain_sid: bytes) -> frozenset[bytes]:
    """The built-in administrator and the key of all tickets."""
    return frozenset(_child(domain_sid, rid) for rid in PROTECTED_ACCOUNT_RIDS)
