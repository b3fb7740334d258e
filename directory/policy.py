"""Which objects are protected: administrators of the domain and what the domain itself rests on (contract section 2).

Decided by what the directory computes (SIDs, nested membership, flags), never by a name: names can be chosen.
A group that the gateway's account may not read could be an administrative one, so it protects whatever is below it.
Whether a caller may write a protected object is the pipeline's business.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from time import monotonic
from uuid import UUID
from weakref import WeakKeyDictionary

from directory.ancestry import (
    Key,
    Unreadable,
    doubtful_groups,
    group_keys,
    groups_above,
    is_deleted,
    primary_group_of,
    ways_up,
)
from directory.ldap import Client, DistinguishedName, Entry, Scope
from directory.ldap.codecs import sid_to_text, text_to_sid
from directory.ldap.filters import And, Equals, Filter, Or
from directory.ldap.flags import (
    BUILTIN_DOMAIN_SID,
    PROTECTED_ACCOUNT_RIDS,
    PROTECTED_BUILTIN_RIDS,
    PROTECTED_DOMAIN_RIDS,
    SystemFlags,
    UserAccountControl,
)
from directory.read_ahead import current_look
from directory.shapes.record import PROTECTION_ATTRIBUTES

_NAMES_IN_ONE_FILTER = 100
_CONTROLLER_BITS = UserAccountControl.SERVER_TRUST_ACCOUNT | UserAccountControl.PARTIAL_SECRETS_ACCOUNT
_IMMOVABLE = SystemFlags.DISALLOW_DELETE
# wellKnownObjects of the domain ([MS-ADTS] 6.1.1.4), which tells containers whatever they are called.
_GOVERNING = (
    "AB1D30F3768811D1ADED00C04FD8D5CD",  # GUID_SYSTEMS_CONTAINER_W
    "A361B2FFFFD211D1AA4B00C04FD7D83A",  # GUID_DOMAIN_CONTROLLERS_CONTAINER_W
)
_FOR_EVERYBODY = (
    "A9D1CA15768811D1ADED00C04FD8D5CD",  # GUID_USERS_CONTAINER_W
    "AA312825768811D1ADED00C04FD8D5CD",  # GUID_COMPUTERS_CONTAINER_W
    "22B70C67D56E4EFB91E9300FCA3DC1AA",  # GUID_FOREIGNSECURITYPRINCIPALS_CONTAINER_W
    "AB8153B7768811D1ADED00C04FD8D5CD",  # GUID_LOSTANDFOUND_CONTAINER_W
)


@dataclass(frozen=True, slots=True)
class AdministrativeGroups:
    """The built-in administrative groups and every group nested in one of them, however deep.

    Members of one that cannot be read, or whose `memberOf` cannot be, are among the names: they may be groups.
    """

    names: frozenset[str]
    """Distinguished names as the directory spells them, in `memberOf` of their members too."""
    sids: frozenset[bytes]
    domain_sid: bytes
    configuration: str
    """The forest's configuration, in lower case: whoever writes there governs every domain."""

    def protect(self, entry: Entry) -> bool:
        """Whether the entry is protected by what it belongs to, or by its own marks."""
        if is_protected_by_itself(entry):
            return True
        sids = entry.values("objectSid")
        if sids and (sids[0] in self.sids or sids[0] in _account_sids(self.domain_sid)):
            return True
        groups = entry.values("memberOf")
        if groups and any(name.decode("utf-8", "replace") in self.names for name in groups):
            return True
        if primary_group_of(entry) in self.sids:
            return True
        return entry.dn in self.names or entry.dn.lower().endswith(self.configuration)


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
        self._domain_sids: WeakKeyDictionary[Client, bytes] = WeakKeyDictionary()

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
            groups = _read_administrative_groups(client, self.domain_sid(client))
        with self._lock:
            self._known[client] = _Known(state, now, groups)
        return groups

    def compare(self, client: Client, entry: Entry, *, protected: bool) -> None:
        """Forget what is kept when it says otherwise of an entry than was just found, so that nobody is shown it."""
        with self._lock:
            known = self._known.get(client)
            if known is not None and known.groups.protect(entry) != protected:
                del self._known[client]

    def domain_sid(self, client: Client) -> bytes:
        """The domain's SID, which never changes."""
        with self._lock:
            known = self._domain_sids.get(client)
        if known is None:
            known = client.read(client.default_naming_context, ("objectSid",)).values("objectSid")[0]
            with self._lock:
                self._domain_sids[client] = known
        return known


_cache = _Cache()

SHOWN_AGE = 2.0
"""How many seconds old the groups may be that a *shown* `protected` comes from. A write never relies on it."""


def administrative_groups(client: Client, *, max_age: float = 0) -> AdministrativeGroups:
    """The administrative groups as they are now, or were at most `max_age` seconds ago, or since a look began."""
    look = current_look()
    return _cache.get(client, max_age if look is None else max(max_age, look.age))


def is_protected(client: Client, entry: Entry, *, max_age: float = 0) -> bool:
    """Whether an entry, read with PROTECTION_ATTRIBUTES, is protected."""
    if max_age:
        return administrative_groups(client, max_age=max_age).protect(entry)
    if current_look() is not None:
        return bool(protected_among(client, [entry]))
    protected = _is_protected_now(client, entry)
    _cache.compare(client, entry, protected=protected)
    return protected


def _is_protected_now(client: Client, entry: Entry) -> bool:
    """The same for a single entry, from its own groups upwards instead of from the administrative groups down.

    Every write of the domain, a sign-in too, makes what is known of all groups old; reading them anew takes nine times
    as long as the one or two searches that lead from an account to the end of its groups.
    """
    domain_sid = _cache.domain_sid(client)
    wanted = _administrative_sids(domain_sid)
    sids = entry.values("objectSid")
    if is_protected_by_itself(entry) or entry.dn.lower().endswith(client.configuration_naming_context.lower()):
        return True
    if sids and (sids[0] in wanted or sids[0] in _account_sids(domain_sid)):
        return True
    return _is_protected_by_groups(client, entry, wanted)


def _is_protected_by_groups(client: Client, entry: Entry, wanted: frozenset[bytes]) -> bool:
    is_doubtful = False
    for step in ways_up(client, entry):
        if not isinstance(step, Unreadable):
            if not wanted.isdisjoint(step.group.values("objectSid")):
                return True
        elif step.elsewhere:
            is_doubtful = True
        else:
            return True
    if "objectSid" not in entry:
        return is_doubtful
    if computed := _token_groups(client, entry):
        return any(_is_administrative_somewhere(sid) for sid in computed)
    return is_doubtful or administrative_groups(client).protect(entry)


def _token_groups(client: Client, entry: Entry) -> list[bytes]:
    """The SIDs of all security groups above, as the domain controller computes them whatever the gateway may read.

    So they also tell of groups of other domains, and of those above one whose `memberOf` cannot be read. Samba computes
    them for accounts only; none of a search but of a single object ([MS-ADTS] 3.1.1.4.5.19).
    """
    found = client.find(entry.guid, ("tokenGroups",))
    return [] if found is None else found.values("tokenGroups")


def protected_among(client: Client, entries: Iterable[Entry]) -> set[UUID]:
    """The objectGUIDs of those entries, read with PROTECTION_ATTRIBUTES, that are protected."""
    groups = administrative_groups(client)
    protected: set[UUID] = set()
    others: list[Entry] = []
    for entry in entries:
        if groups.protect(entry):
            protected.add(entry.guid)
        else:
            others.append(entry)
    doubtful = _doubtful_groups(client, {key for entry in others for key in group_keys(entry)})
    in_doubt = (entry for entry in others if not doubtful.isdisjoint(group_keys(entry)))
    return protected | {entry.guid for entry in in_doubt if _is_protected_now(client, entry)}


def _doubtful_groups(client: Client, keys: Collection[Key]) -> set[Key]:
    """Those of the groups that cannot be read or are below one that cannot be; each is asked about once in a look."""
    look = current_look()
    known: dict[Key, bool] = {} if look is None else look.keep((_doubtful_groups, client), dict)
    if fresh := [key for key in keys if key not in known]:
        doubtful = doubtful_groups(client, fresh)
        known.update((key, key in doubtful) for key in fresh)
    return {key for key in keys if known[key]}


def is_protected_by_itself(entry: Entry) -> bool:
    """Whether an entry's own marks protect it.

    adminCount stays when somebody leaves an administrative group, and is not set on joining until the domain controller
    gets to it (hourly): it protects, but its absence says nothing.
    """
    return (
        entry.boolean("isCriticalSystemObject")
        or entry.integer("adminCount") == 1
        or bool((entry.integer("systemFlags") or 0) & _IMMOVABLE.value)
        or bool((entry.integer("userAccountControl") or 0) & _CONTROLLER_BITS.value)
    )


def holds_protected(client: Client, dn: str) -> bool:
    """Whether the object of this name or anything below it, however deep, is protected."""
    if dn.lower().endswith(client.configuration_naming_context.lower()):
        return True
    return find_protected_below(client, dn) is not None


def protects_its_content(client: Client, container: Entry) -> bool:
    """Whether what is put into a container, read with PROTECTION_ATTRIBUTES, governs the domain or the forest.

    So it is in the forest's configuration, below the domain's System container (policies, AdminSDHolder, password
    settings, trusts) and among the domain controllers; and in a container that is protected by its own marks, but for
    those that carry them only because they cannot be deleted and are there for everybody's objects.
    """
    if container.dn.lower().endswith(client.configuration_naming_context.lower()):
        return True
    root = client.default_naming_context
    found = (value.split(":", 3) for value in client.read(root, ("wellKnownObjects",)).texts("wellKnownObjects"))
    well_known = {guid: dn for _, _, guid, dn in found}
    place = DistinguishedName.parse(container.dn)
    if any(place.is_within(DistinguishedName.parse(well_known[guid])) for guid in _GOVERNING if guid in well_known):
        return True
    for_everybody = {root, *(well_known[guid] for guid in _FOR_EVERYBODY if guid in well_known)}
    return is_protected_by_itself(container) and not any(
        place == DistinguishedName.parse(name) for name in for_everybody
    )


def find_protected_below(client: Client, dn: str) -> Entry | None:
    """One protected object of those that are this one or below it, if there is any.

    All are looked at, and one that cannot be read counts as protected: no filter finds those ([MS-ADTS] 3.1.1.3.1.3.1).
    """
    groups = administrative_groups(client)
    keys: set[Key] = set()
    for entry in client.search(dn, Scope.SUBTREE, attributes=PROTECTION_ATTRIBUTES):
        if "objectGUID" not in entry or groups.protect(entry):
            return entry
        keys.update(group_keys(entry))
    doubtful = _doubtful_groups(client, keys)
    if not doubtful:
        return None
    rows = client.search(dn, Scope.SUBTREE, attributes=PROTECTION_ATTRIBUTES)
    in_doubt = [entry for entry in rows if not doubtful.isdisjoint(group_keys(entry))]
    return next((entry for entry in in_doubt if _is_protected_now(client, entry)), None)


def path_to_administrators(client: Client, entry: Entry) -> list[str]:
    """The groups by which an entry, read with PROTECTION_ATTRIBUTES, belongs to a built-in administrative group.

    From the entry's own group to the administrative one, one of the shortest ways; empty when there is none.
    """
    wanted = _administrative_sids(_cache.domain_sid(client))
    for group, way in groups_above(client, entry):
        if not wanted.isdisjoint(group.values("objectSid")):
            return [*way, group.dn]
    return []


def path_to_unreadable_group(client: Client, entry: Entry) -> list[str]:
    """The same to the nearest group that the gateway's account may not read, which may be called by its SID."""
    for step in ways_up(client, entry):
        if isinstance(step, Unreadable):
            return [*step.way, step.key if isinstance(step.key, str) else sid_to_text(step.key)]
    return []


def is_administrative_group(client: Client, entry: Entry) -> bool:
    """Whether an entry is one of the built-in administrative groups itself."""
    return not _administrative_sids(_cache.domain_sid(client)).isdisjoint(entry.values("objectSid"))


def is_administrative_account(client: Client, entry: Entry) -> bool:
    """Whether an entry is the built-in administrator or the account of the Kerberos keys (krbtgt)."""
    return not _account_sids(_cache.domain_sid(client)).isdisjoint(entry.values("objectSid"))


def _administrative_sids(domain_sid: bytes) -> frozenset[bytes]:
    """The SIDs of the built-in administrative groups themselves."""
    return _BUILTIN_SIDS | {_child(domain_sid, rid) for rid in PROTECTED_DOMAIN_RIDS}


def _is_administrative_somewhere(sid: bytes) -> bool:
    """Whether it is the SID of a built-in administrative group of whichever domain of the forest."""
    return sid in _BUILTIN_SIDS or (sid.startswith(_OF_A_DOMAIN) and _relative_id(sid) in PROTECTED_DOMAIN_RIDS)


def _read_administrative_groups(client: Client, domain_sid: bytes) -> AdministrativeGroups:
    wanted = sorted(_administrative_sids(domain_sid))
    names: set[str] = set()
    sids: set[bytes] = set(wanted)
    groups = _search_any(client, [Equals("objectSid", sid) for sid in wanted])
    level = {group.dn: group.texts("member") for group in groups}
    for sid in sids.difference(*(group.values("objectSid") for group in groups)):
        # No filter finds a group that cannot be read, but its name may be had.
        if (hidden := client.find(f"<SID={sid_to_text(sid)}>", ())) is not None:
            level[hidden.dn] = []
    while level:
        names.update(level)
        groups = _search_any(client, [Equals("memberOf", name) for name in level])
        sids.update(*(group.values("objectSid") for group in groups))
        inner = {group.dn: group.texts("member") for group in groups}
        listed = {name for members in level.values() for name in members if name not in inner}
        inner |= {name: [] for name in _not_seen_as_members(client, listed)}
        level = {name: members for name, members in inner.items() if name not in names}
    return AdministrativeGroups(
        names=frozenset(names),
        sids=frozenset(sids),
        domain_sid=domain_sid,
        configuration=client.configuration_naming_context.lower(),
    )


def _search_any(client: Client, conditions: Sequence[Filter]) -> list[Entry]:
    """The groups that fulfil one of the conditions. (Samba has an index for their class, but none for memberOf.)"""
    is_group, attributes = Equals("objectClass", "group"), ("objectSid", "member")
    return [
        group
        for some in _chunks(conditions)
        for group in client.search(client.default_naming_context, Scope.SUBTREE, And(is_group, Or(*some)), attributes)
    ]


def _not_seen_as_members(client: Client, names: Iterable[str]) -> set[str]:
    """Those of the members of groups whose `memberOf` cannot be read, or nothing at all."""
    alive = {name for name in names if not is_deleted(client, name)}
    seen = {
        entry.dn
        for some in _chunks([Equals("distinguishedName", name) for name in alive])
        for entry in client.search(client.default_naming_context, Scope.SUBTREE, Or(*some), ("memberOf",))
        if "memberOf" in entry
    }
    return alive - seen


def _chunks(filters: Sequence[Filter]) -> Iterator[Sequence[Filter]]:
    for start in range(0, len(filters), _NAMES_IN_ONE_FILTER):
        yield filters[start : start + _NAMES_IN_ONE_FILTER]


def _child(domain_sid: bytes, relative_id: int) -> bytes:
    """The SID of an account of a domain ([MS-DTYP] 2.4.2: the count of parts is its second byte)."""
    return bytes([domain_sid[0], domain_sid[1] + 1]) + domain_sid[2:] + struct.pack("<I", relative_id)


def _relative_id(sid: bytes) -> int:
    relative_id: int = struct.unpack("<I", sid[-4:])[0]
    return relative_id


@lru_cache(maxsize=64)
def _account_sids(domain_sid: bytes) -> frozenset[bytes]:
    """The built-in administrator and the key of all tickets."""
    return frozenset(_child(domain_sid, rid) for rid in PROTECTED_ACCOUNT_RIDS)


_BUILTIN_SIDS = frozenset(_child(text_to_sid(BUILTIN_DOMAIN_SID), rid) for rid in PROTECTED_BUILTIN_RIDS)
_OF_A_DOMAIN = text_to_sid("S-1-5-21-0-0-0-0")[:12]
