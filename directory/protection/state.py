"""Who is protected, as of one state of one domain controller: found from those who hold the domain downwards.

For many objects at once. Of a single one `rules` finds it from the object upwards; both ways agree.
"""

import struct
from collections.abc import Callable, Iterable
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
    And,
    Client,
    Entry,
    Equals,
    Modify,
    Present,
    SystemFlags,
    UserAccountControl,
    Write,
    says_samba,
    sid_to_text,
    text_to_sid,
)
from directory.groups.ancestry import is_deleted, primary_group_of
from directory.lookup.protection_changes import changes_heard_of
from directory.protection.bind_accounts import bind_accounts, groups_of_bind_accounts, sids_signed_in_with
from directory.protection.domain_control import domain_owners
from directory.protection.domain_infrastructure import Places, places_of
from directory.shapes.kinds import ACCOUNT_KINDS, Kind

_IS_GROUP = Equals("objectClass", "group")
# As plain integers: an IntFlag makes an object of each result, and they are looked at for each record of a search.
_DOMAINS_OWN = (
    UserAccountControl.SERVER_TRUST_ACCOUNT
    | UserAccountControl.PARTIAL_SECRETS_ACCOUNT
    | UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT
).value
_IMMOVABLE = SystemFlags.DISALLOW_DELETE.value
_HOLDS_NOBODY = frozenset({*ACCOUNT_KINDS, Kind.CONTACT})


@dataclass(frozen=True, slots=True)
class ProtectionState:
    """The groups whose members are protected: the built-in administrative ones, those that hold the domain by access
    control, and every group nested in one of them, however deep.

    Members of one that cannot be read, or whose `memberOf` cannot be, are among the names: they may be groups.
    """

    names: frozenset[str]
    """Distinguished names as the directory spells them, in `memberOf` of their members too."""
    sids: frozenset[bytes]
    by_themselves: frozenset[bytes]
    """The SIDs of those protected whose members are not for that: accounts, and groups that give the gateway rights."""
    places: Places

    def is_protected(self, entry: Entry) -> bool:
        """Whether the entry is protected by what it is, by what it belongs to, or by its own marks."""
        if is_protected_by_itself(entry):
            return True
        sids = entry.values("objectSid")
        if sids and (sids[0] in self.sids or sids[0] in self.by_themselves):
            return True
        groups = entry.values("memberOf")
        if groups and any(name.decode("utf-8", "replace") in self.names for name in groups):
            return True
        if primary_group_of(entry) in self.sids:
            return True
        return entry.dn in self.names or self.places.contains(entry.dn)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known as of one state of one domain controller, whose number grows with every write it makes."""

    state: tuple[object, ...]
    checked_at: float
    changes: tuple[int, int]
    """The changes of it by the gateway itself that were heard of by then."""
    protection: ProtectionState


_known: WeakKeyDictionary[Client, _Known] = WeakKeyDictionary()
"""What is kept is exact when it is checked against the domain controller's state, as every write does."""

SHOWN_AGE = 2.0
"""How many seconds old the state may be that a *shown* `protected` comes from. A write never relies on it."""


def protection_state(client: Client, *, max_age: float = 0) -> ProtectionState:
    """The state as it is now, or was at most `max_age` seconds ago."""
    known = _known.get(client)
    changes, now = changes_heard_of(client), monotonic()
    if known is not None and known.changes == changes and now - known.checked_at < max_age:
        return known.protection
    root = client.read("", ("dsServiceName", "highestCommittedUSN", "vendorName"))
    accounts = bind_accounts(client)
    by_sign_in = (frozenset(accounts), sids_signed_in_with(client))  # of other domains no write here tells
    state = (root.text("dsServiceName"), root.text("highestCommittedUSN"), *by_sign_in)
    if known is not None and known.state == state:
        protection = known.protection
    else:
        protection = _read(client, accounts, has_index=not says_samba(root))
    _known[client] = _Known(state, now, changes, protection)
    return protection


def may_change_protection(write: Write, kind: str) -> bool:
    """Whether a write to an object of this kind may change which others are protected.

    Others are by the groups they are in, which are known by name too. What is an account or a contact holds nobody.
    """
    if isinstance(write, Modify) and not write.deleted:
        return any(step.attribute.lower() == "member" for step in write.modifications)
    return not isinstance(write, Add) and kind not in _HOLDS_NOBODY


def compare_with_state(client: Client, entry: Entry, *, protected: bool) -> None:
    """Take note of whether an entry was just found to be protected: a state that says otherwise is shown no more."""
    known = _known.get(client)
    if known is not None and known.protection.is_protected(entry) != protected:
        _known.pop(client, None)


def is_protected_by_itself(entry: Entry) -> bool:
    """Whether an entry's own marks protect it.

    adminCount stays when somebody leaves an administrative group, and is not set on joining until the domain controller
    gets to it (hourly): it protects, but its absence says nothing.
    """
    flags, control = entry.number("systemFlags"), entry.number("userAccountControl")
    is_the_domains_own = bool(flags & _IMMOVABLE or control & _DOMAINS_OWN)
    return is_the_domains_own or entry.boolean("isCriticalSystemObject") or entry.integer("adminCount") == 1


@lru_cache(maxsize=64)
def administrative_groups(domain_sid: bytes) -> frozenset[bytes]:
    """The SIDs of the built-in administrative groups themselves."""
    return _BUILTIN_SIDS | {_child(domain_sid, rid) for rid in PROTECTED_DOMAIN_RIDS}


@lru_cache(maxsize=64)
def administrative_accounts(domain_sid: bytes) -> frozenset[bytes]:
    """The SIDs of the built-in administrator and the key of all tickets."""
    return frozenset(_child(domain_sid, rid) for rid in PROTECTED_ACCOUNT_RIDS)


def is_administrative_somewhere(sid: bytes) -> bool:
    """Whether it is the SID of a built-in administrative group of whichever domain of the forest."""
    return sid in _BUILTIN_SIDS or (
        sid.startswith(_OF_A_DOMAIN) and int.from_bytes(sid[-4:], "little") in PROTECTED_DOMAIN_RIDS
    )


def _read(client: Client, accounts: Iterable[bytes], *, has_index: bool) -> ProtectionState:
    places = places_of(client)
    wanted = sorted(administrative_groups(places.domain_sid).union(domain_owners(client)))
    names: set[str] = set()
    sids: set[bytes] = set(wanted)
    found = list(client.find_any((Equals("objectSid", sid) for sid in wanted), ("objectSid", "member")))
    groups_in = _groups_in(client, has_index=has_index)
    level = {each.dn: each.texts("member") for each in found}  # accounts too, which nobody is a member of
    for sid in sids.difference(*(each.values("objectSid") for each in found)):
        # No filter finds a group that cannot be read, but its name may be had.
        if (hidden := client.find(f"<SID={sid_to_text(sid)}>", ())) is not None:
            level[hidden.dn] = []
    while level:
        names.update(level)
        groups = groups_in(level)
        sids.update(*(group.values("objectSid") for group in groups))
        inner = {group.dn: group.texts("member") for group in groups}
        listed = {name for members in level.values() for name in members if name not in inner}
        inner |= {name: [] for name in _not_seen_as_members(client, listed)}
        level = {name: members for name, members in inner.items() if name not in names}
    return ProtectionState(
        names=frozenset(names),
        sids=frozenset(sids),
        by_themselves=administrative_accounts(places.domain_sid).union(accounts, groups_of_bind_accounts(client)),
        places=places,
    )


def _groups_in(client: Client, *, has_index: bool) -> Callable[[Iterable[str]], list[Entry]]:
    """What finds the groups that are members of groups by their names, with their own members.

    Active Directory has an index for memberOf. Samba compares each group with each name, and takes an eighth of the
    time to tell what all groups are in: which of them are meant is then found here, and read by objectGUID, which no
    new name changes meanwhile.
    """
    attributes = ("objectSid", "member")
    if has_index:
        return lambda names: list(
            client.find_any((Equals("memberOf", name) for name in names), attributes, within=_IS_GROUP)
        )
    inside: dict[str, list[bytes]] = {}
    is_in_some = And(_IS_GROUP, Present("memberOf"))
    for group in client.search_domain(is_in_some, ("objectGUID", "memberOf")):
        for name in group.texts("memberOf"):
            inside.setdefault(name, []).extend(group.values("objectGUID"))

    def find(names: Iterable[str]) -> list[Entry]:
        found = {guid for name in names for guid in inside.get(name, ())}
        return list(client.find_any((Equals("objectGUID", guid) for guid in found), attributes))

    return find


def _not_seen_as_members(client: Client, names: Iterable[str]) -> set[str]:
    """Those of the members of groups whose `memberOf` cannot be read, or nothing at all."""
    alive = {name for name in names if not is_deleted(client, name)}
    named = (Equals("distinguishedName", name) for name in alive)
    seen = {entry.dn for entry in client.find_any(named, ("memberOf",)) if "memberOf" in entry}
    return alive - seen


def _child(domain_sid: bytes, relative_id: int) -> bytes:
    """The SID of an account of a domain ([MS-DTYP] 2.4.2: the count of parts is its second byte)."""
    return bytes([domain_sid[0], domain_sid[1] + 1]) + domain_sid[2:] + struct.pack("<I", relative_id)


_BUILTIN_SIDS = frozenset(_child(text_to_sid(BUILTIN_DOMAIN_SID), rid) for rid in PROTECTED_BUILTIN_RIDS)
_OF_A_DOMAIN = text_to_sid("S-1-5-21-0-0-0-0")[:12]
