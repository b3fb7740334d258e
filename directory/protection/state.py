"""The protected objects as of one state of one domain controller, found from the owners of the domain downwards.

This serves many objects at once. For a single object `rules` follows its groups upwards; both must agree.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from time import monotonic

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

    names: frozenset[bytes]
    """Distinguished names as the directory sends them: `memberOf` of their members has the same spelling."""
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
        if not self.names.isdisjoint(entry.values("memberOf")):
            return True
        if primary_group_sid(entry) in self.sids:
            return True
        return entry.dn.encode() in self.names or self.containers.contains(entry.dn)


@dataclass(frozen=True, slots=True)
class DomainState:
    """The state of one domain controller, whose highestCommittedUSN grows with every write, and who is signed in there.

    While two states are equal, reads from that domain controller have the same answers.
    """

    controller: str | None
    usn: str | None
    accounts: frozenset[bytes]
    """The SIDs of bind accounts, and those in the client's token: a write in another domain does not change the USN."""
    token: frozenset[bytes]
    server: str | None = field(compare=False)
    is_samba: bool = field(compare=False)
    read_at: float = field(compare=False)
    changes: tuple[int, int] = field(compare=False)
    """The gateway's own changes of protection that this process knew of then."""

    @property
    def fingerprint(self) -> str:
        """The same for equal states, for other processes to compare."""
        known = self.controller, self.usn, sorted(self.accounts), sorted(self.token)
        return sha256(repr(known).encode()).hexdigest()


def domain_state(client: Client) -> DomainState:
    """The state now: whatever is read from the same domain controller afterwards is of this state or a later one."""
    changes, now = known_protection_changes(client), monotonic()
    root = client.read("", ("dsServiceName", "highestCommittedUSN", "vendorName"))
    return DomainState(
        controller=root.text("dsServiceName"),
        usn=root.text("highestCommittedUSN"),
        accounts=frozenset(bind_accounts(client)),
        token=token_sids(client),
        server=root.server,
        is_samba=is_samba_root_dse(root),
        read_at=now,
        changes=changes,
    )


MAX_SHOWN_AGE = 2.0
"""How many seconds old a *shown* `protected` may be. Writes never rely on a cached state."""


def protection_state(client: Client, *, max_age: float = 0, state: DomainState | None = None) -> ProtectionState:
    """The protected objects now, at most `max_age` seconds ago, or as of a state that was just read."""
    known = _known_state(client)
    is_told = known is not None and known[0].changes == known_protection_changes(client)
    if known is not None and is_told and monotonic() - known[0].read_at < max_age:
        return known[1]
    state = state or domain_state(client)
    protection = known[1] if known is not None and known[0] == state else _read_state(client, state)
    client.kept[DomainState] = state, protection
    return protection


def _known_state(client: Client) -> tuple[DomainState, ProtectionState] | None:
    """What was last found: exact when compared with the domain controller's state, as every write does."""
    known: tuple[DomainState, ProtectionState] | None = client.kept.get(DomainState)
    return known


def may_change_protection(write: Write, kind: str) -> bool:
    """Whether a write to an object of this kind may change which other objects are protected.

    Groups protect others, by membership and by name. Accounts and contacts have no members.
    """
    if isinstance(write, Modify) and not write.deleted:
        return any(step.attribute.lower() == "member" for step in write.modifications)
    return not isinstance(write, Add) and kind not in _WITHOUT_MEMBERS


def drop_contradicted_state(client: Client, entry: Entry, *, protected: bool) -> None:
    """Drop the cached state if it contradicts what was just found out about an entry, so that nobody is shown it."""
    known = _known_state(client)
    if known is not None and known[1].is_protected(entry) != protected:
        client.kept.pop(DomainState, None)


def has_protection_marks(entry: Entry) -> bool:
    """Whether an entry's own marks protect it.

    adminCount stays when an account leaves an administrative group, and is set up to an hour after it joins one: its
    presence protects, but its absence proves nothing.
    """
    if entry.number("userAccountControl") & _DOMAIN_ACCOUNT_BITS:
        return True
    if not any(map(entry.values, ("systemFlags", "isCriticalSystemObject", "adminCount"))):  # as with most objects
        return False
    is_undeletable = bool(entry.number("systemFlags") & _UNDELETABLE)
    return is_undeletable or entry.boolean("isCriticalSystemObject") or entry.integer("adminCount") == 1


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


def _read_state(client: Client, state: DomainState) -> ProtectionState:
    containers = critical_containers(client)
    wanted = sorted(administrative_groups(containers.domain_sid).union(domain_owners(client)))
    names: set[str] = set()
    sids: set[bytes] = set(wanted)
    found = list(client.find_any((Equals("objectSid", sid) for sid in wanted), ("objectSid", "member")))
    groups_in = group_finder(client, ("objectSid", "member"), has_index=not state.is_samba)
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
        names=frozenset(name.encode() for name in names),
        sids=frozenset(sids),
        individual_sids=administrative_accounts(containers.domain_sid).union(
            state.accounts, groups_of_bind_accounts(client)
        ),
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
