"""The protected objects as of one state of one domain controller, found from the owners of the domain downwards.

This serves many objects at once. For a single object `rules` follows its groups upwards; both must agree.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from weakref import WeakKeyDictionary

from active_directory import (
    BUILTIN_DOMAIN_SID,
    PROTECTED_ACCOUNT_RIDS,
    PROTECTED_BUILTIN_RIDS,
    PROTECTED_DOMAIN_RIDS,
    Add,
    Client,
    Entry,
    Equals,
    Modify,
    SystemFlags,
    UserAccountControl,
    Write,
    is_samba_root_dse,
    sid_to_text,
    text_to_sid,
)
from directory.groups import group_finder, primary_group_sid
from directory.lookup.connection import known_protection_changes
from directory.protection.bind_accounts import bind_accounts, groups_of_bind_accounts, token_sids
from directory.protection.domain_control import CriticalContainers, critical_containers, domain_owners
from directory.shapes.kinds import ACCOUNT_KINDS, Kind

# Plain integers, as these are used for each record of a search and an IntFlag creates an object for each result.
_DOMAIN_ACCOUNT_BITS = (
    UserAccountControl.SERVER_TRUST_ACCOUNT
    | UserAccountControl.PARTIAL_SECRETS_ACCOUNT
    | UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT
).value
_UNDELETABLE = SystemFlags.DISALLOW_DELETE.value
_WITHOUT_MEMBERS = frozenset({*ACCOUNT_KINDS, Kind.CONTACT})


@dataclass(frozen=True, slots=True)
class ProtectionState:
    """The groups whose members are protected: built-in administrative ones, owners of the domain by access control, and
    every group nested in one of these.

    All members are among the names, because one that cannot be read may be a group, and one whose `memberOf` cannot be
    read does not show its groups. To find out which these are would take a search for every hundred members.
    """

    names: frozenset[str]
    """Distinguished names in the directory's own spelling, which `memberOf` of their members has, too."""
    sids: frozenset[bytes]
    individual_sids: frozenset[bytes]
    """The SIDs of protected objects that do not protect members: accounts, and the groups of bind accounts."""
    containers: CriticalContainers

    def is_protected(self, entry: Entry) -> bool:
        """Whether the entry is protected by what it is, by its groups, or by its own marks."""
        if has_protection_marks(entry):
            return True
        sids = entry.values("objectSid")
        if sids and (sids[0] in self.sids or sids[0] in self.individual_sids):
            return True
        groups = entry.values("memberOf")
        if groups and any(name.decode("utf-8", "replace") in self.names for name in groups):
            return True
        if primary_group_sid(entry) in self.sids:
            return True
        return entry.dn in self.names or self.containers.contains(entry.dn)


@dataclass(frozen=True, slots=True)
class _CachedState:
    """The protection as of one state of one domain controller, whose highestCommittedUSN grows with every write."""

    state: tuple[object, ...]
    checked_at: float
    changes: tuple[int, int]
    """The gateway's own changes of protection that this process knew of then."""
    protection: ProtectionState


_cached_states: WeakKeyDictionary[Client, _CachedState] = WeakKeyDictionary()
"""Exact when checked against the domain controller's state, as every write does."""

MAX_SHOWN_AGE = 2.0
"""How many seconds old a *shown* `protected` may be. Writes never rely on a cached state."""


def protection_state(client: Client, *, max_age: float = 0) -> ProtectionState:
    """The state now, or at most `max_age` seconds ago."""
    known = _cached_states.get(client)
    changes, now = known_protection_changes(client), monotonic()
    if known is not None and known.changes == changes and now - known.checked_at < max_age:
        return known.protection
    root = client.read("", ("dsServiceName", "highestCommittedUSN", "vendorName"))
    accounts = bind_accounts(client)
    by_sign_in = (frozenset(accounts), token_sids(client))  # a write in another domain does not change the USN here
    state = (root.text("dsServiceName"), root.text("highestCommittedUSN"), *by_sign_in)
    if known is not None and known.state == state:
        protection = known.protection
    else:
        protection = _read_state(client, accounts, has_index=not is_samba_root_dse(root))
    _cached_states[client] = _CachedState(state, now, changes, protection)
    return protection


def may_change_protection(write: Write, kind: str) -> bool:
    """Whether a write to an object of this kind may change which other objects are protected.

    Groups protect others, by membership and by name. Accounts and contacts have no members.
    """
    if isinstance(write, Modify) and not write.deleted:
        return any(step.attribute.lower() == "member" for step in write.modifications)
    return not isinstance(write, Add) and kind not in _WITHOUT_MEMBERS


def drop_contradicted_state(client: Client, entry: Entry, *, protected: bool) -> None:
    """Drop the cached state if it contradicts what was just found out about an entry, so that nobody is shown it."""
    known = _cached_states.get(client)
    if known is not None and known.protection.is_protected(entry) != protected:
        _cached_states.pop(client, None)


def has_protection_marks(entry: Entry) -> bool:
    """Whether an entry's own marks protect it.

    adminCount stays when an account leaves an administrative group, and is set up to an hour after it joins one: its
    presence protects, but its absence proves nothing.
    """
    flags, control = entry.number("systemFlags"), entry.number("userAccountControl")
    is_the_domains_own = bool(flags & _UNDELETABLE or control & _DOMAIN_ACCOUNT_BITS)
    return is_the_domains_own or entry.boolean("isCriticalSystemObject") or entry.integer("adminCount") == 1


@lru_cache(maxsize=64)
def administrative_groups(domain_sid: bytes) -> frozenset[bytes]:
    """The SIDs of the built-in administrative groups."""
    return _BUILTIN_SIDS | {_sid_in_domain(domain_sid, rid) for rid in PROTECTED_DOMAIN_RIDS}


@lru_cache(maxsize=64)
def administrative_accounts(domain_sid: bytes) -> frozenset[bytes]:
    """The SIDs of the built-in Administrator and of krbtgt."""
    return frozenset(_sid_in_domain(domain_sid, rid) for rid in PROTECTED_ACCOUNT_RIDS)


def is_administrative_somewhere(sid: bytes) -> bool:
    """Whether it is the SID of a built-in administrative group of any domain in the forest."""
    return sid in _BUILTIN_SIDS or (
        sid.startswith(_DOMAIN_SID_PREFIX) and int.from_bytes(sid[-4:], "little") in PROTECTED_DOMAIN_RIDS
    )


def _read_state(client: Client, accounts: Iterable[bytes], *, has_index: bool) -> ProtectionState:
    containers = critical_containers(client)
    wanted = sorted(administrative_groups(containers.domain_sid).union(domain_owners(client)))
    names: set[str] = set()
    sids: set[bytes] = set(wanted)
    found = list(client.find_any((Equals("objectSid", sid) for sid in wanted), ("objectSid", "member")))
    groups_in = group_finder(client, ("objectSid", "member"), has_index=has_index)
    fresh = _names_in(found)  # including accounts, which have no members
    for sid in sids.difference(*(each.values("objectSid") for each in found)):
        # No filter finds a group that cannot be read, but its SID still resolves to its name.
        if (hidden := client.find(f"<SID={sid_to_text(sid)}>", ())) is not None:
            fresh.add(hidden.dn)
    while fresh:
        names |= fresh
        groups = groups_in(fresh)
        sids.update(*(group.values("objectSid") for group in groups))
        fresh = _names_in(groups) - names
    return ProtectionState(
        names=frozenset(names),
        sids=frozenset(sids),
        individual_sids=administrative_accounts(containers.domain_sid).union(accounts, groups_of_bind_accounts(client)),
        containers=containers,
    )


def _names_in(groups: Iterable[Entry]) -> set[str]:
    """The names of groups and of their members."""
    return {name for group in groups for name in (group.dn, *group.texts("member"))}


def _sid_in_domain(domain_sid: bytes, relative_id: int) -> bytes:
    """A SID of a domain; the second byte is the number of its parts ([MS-DTYP] 2.4.2)."""
    return bytes([domain_sid[0], domain_sid[1] + 1]) + domain_sid[2:] + struct.pack("<I", relative_id)


_BUILTIN_SIDS = frozenset(_sid_in_domain(text_to_sid(BUILTIN_DOMAIN_SID), rid) for rid in PROTECTED_BUILTIN_RIDS)
_DOMAIN_SID_PREFIX = text_to_sid("S-1-5-21-0-0-0-0")[:12]
