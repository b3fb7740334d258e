"""The groups above an object: those it belongs to and every group one of these is nested in, as they are now.

They are followed level by level through `memberOf`. LDAP_MATCHING_RULE_IN_CHAIN takes a hundred times as long on Samba,
and tokenGroups knows neither distribution groups nor, on Samba, the groups of a group.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from active_directory import MANGLED, Client, DistinguishedName, Entry, Equals, Filter
from directory.lookup.kept import kept_by_client

NESTING_ATTRIBUTES = ("objectGUID", "objectSid", "objectClass", "groupType", "memberOf")
"""What a group must have been read with to be placed among others."""

ABOVE_ATTRIBUTES = ("objectSid", "memberOf", "primaryGroupID")
"""What an object must have been read with to be followed to its groups."""

_NAMES_IN_ONE_SEARCH = 100
_MOST_REMEMBERED = 10_000

Key = str | bytes
"""How a group is named: by its distinguished name or by its SID."""


class Ancestor(NamedTuple):
    """A group above an object, and the distinguished names of the groups on one of the shortest ways to it."""

    group: Entry
    way: tuple[str, ...]


class UnreadableGroup(NamedTuple):
    """A group above an object that the gateway's account may not read: nobody can say what is above that.

    `elsewhere`: it is a group of another domain, which this domain's controllers cannot show.
    """

    key: Key
    way: tuple[str, ...]
    elsewhere: bool


def groups_above(client: Client, entry: Entry) -> Iterator[Ancestor]:
    """The groups an entry, read with ABOVE_ATTRIBUTES, belongs to, and all above these: each once, nearest first.

    Without those that cannot be read, which `iter_ancestors` tells of.
    """
    return (step for step in iter_ancestors(client, entry) if isinstance(step, Ancestor))


def iter_ancestors(client: Client, entry: Entry) -> Iterator[Ancestor | UnreadableGroup]:
    """The same, with the groups that cannot be read.

    What is above a group seldom changes: where it was found before, it is asked for in the same search, which then is
    the only one. That a group is above another is said by what was just read, never by what is remembered.
    """
    groups = _Groups(client)
    level: dict[Key, tuple[str, ...]] = dict.fromkeys(group_keys(entry), ())
    reached: set[Key] = set()
    while level:
        reached |= level.keys()
        for name in groups.read(level):
            if name not in reached:
                level[name] = ()
        following: dict[Key, tuple[str, ...]] = {}
        for key, way in level.items():
            above = groups.found.get(key)
            if above is None:
                if (missing := _missing(client, key, way)) is not None:
                    yield missing
                continue
            if isinstance(key, bytes) and above.dn in reached:
                continue  # it was reached by its name
            reached.add(above.dn)
            yield Ancestor(above, way)
            for name in above.texts("memberOf"):
                if name not in reached:
                    following.setdefault(name, (*way, above.dn))
        level = following


def doubtful_groups(client: Client, keys: Iterable[Key]) -> set[Key]:
    """Those of the groups named that cannot be read or are below one that cannot be, by any of many objects' keys.

    Of what is above an object in one of them only `iter_ancestors` tells more.
    """
    groups = _Groups(client)
    above: dict[Key, tuple[str, ...]] = {}
    level = set(keys)
    while level:
        groups.read(level)
        for key in level:
            above[key] = tuple(groups.found[key].texts("memberOf")) if key in groups.found else ()
        level = {name for key in level for name in above[key] if name not in above}
    doubtful = {key for key in above if key not in groups.found and not is_deleted(client, key)}
    while below := {key for key in above.keys() - doubtful if not doubtful.isdisjoint(above[key])}:
        doubtful |= below
    return doubtful


def group_keys(entry: Entry) -> list[Key]:
    """The groups that an entry, read with ABOVE_ATTRIBUTES, belongs to itself."""
    sid = primary_group_of(entry)
    return [*entry.texts("memberOf"), *(() if sid is None else (sid,))]


def primary_group_of(entry: Entry) -> bytes | None:
    """The SID of the primary group of an account, which is in the account's own domain ([MS-ADA3] 2.120).

    memberOf does not show it. None for what has none.
    """
    sids, number = entry.values("objectSid"), entry.integer("primaryGroupID")
    return sids[0][:-4] + struct.pack("<I", number) if sids and number is not None else None


def is_deleted(client: Client, key: Key) -> bool:
    """Whether a name is a deleted object's: with the recycle bin Samba goes on showing such groups in `memberOf`."""
    if isinstance(key, bytes) or MANGLED not in key:
        return False
    return DistinguishedName.parse(key).parent == DistinguishedName.parse(
        f"CN=Deleted Objects,{client.default_naming_context}"
    )


class _Groups:
    """Groups by their names and SIDs, read when they are needed, and with them those that were above them before."""

    def __init__(self, client: Client) -> None:
        self.found: dict[Key, Entry] = {}
        self._client = client
        self._memory = _memory_of(client)

    def read(self, keys: Iterable[Key]) -> list[str]:
        """Read those not found yet; gives the names of groups that were named here in another spelling."""
        missing = [key for key in keys if key not in self.found]
        asked = _with_those_above(missing, self._memory) if missing else {}
        spelled_otherwise = []
        for group in self._client.find_any(map(_is_named, asked), NESTING_ATTRIBUTES):
            if not _is_readable(group):
                continue
            found: tuple[Key, ...] = (group.dn, *group.values("objectSid"))
            self.found |= dict.fromkeys(found, group)
            if len(self._memory) >= _MOST_REMEMBERED:
                self._memory.clear()
            self._memory |= dict.fromkeys(found, tuple(group.texts("memberOf")))
            if asked.keys().isdisjoint(found):
                spelled_otherwise.append(group.dn)
        return spelled_otherwise


def _is_named(key: Key) -> Filter:
    return Equals("objectSid" if isinstance(key, bytes) else "distinguishedName", key)


def _is_readable(group: Entry) -> bool:
    """Whether an entry says which group it is: a directory leaves out what may not be read ([MS-ADTS] 3.1.1.4.4)."""
    return "objectGUID" in group and "objectSid" in group


def _missing(client: Client, key: Key, way: tuple[str, ...]) -> UnreadableGroup | None:
    """What to think of a group that a search did not find.

    None for a deleted one, and for one that was found by another spelling.
    """
    if is_deleted(client, key):
        return None
    if isinstance(key, str):
        if not _is_of_domain(client, key):
            return UnreadableGroup(key, way, elsewhere=True)
        group = client.find(key, ("objectGUID", "objectSid"))
        if group is not None and _is_readable(group):
            return None
    return UnreadableGroup(key, way, elsewhere=False)


def _is_of_domain(client: Client, name: str) -> bool:
    """Whether the name is one of this domain's, and not of another's, whose name may end in the same way."""
    return DistinguishedName.parse(name).domain == DistinguishedName.parse(client.default_naming_context)


def _with_those_above(keys: Iterable[Key], memory: Mapping[Key, tuple[str, ...]]) -> dict[Key, None]:
    """The keys, and as far as one more search can hold it what was above them when it was last read."""
    asked = dict.fromkeys(keys)
    most = max(len(asked), _NAMES_IN_ONE_SEARCH)
    waiting = list(asked)
    for key in waiting:
        for name in memory.get(key, ()):
            if name not in asked and len(asked) < most:
                asked[name] = None
                waiting.append(name)
    return asked


@kept_by_client
def _memory_of(_client: Client) -> dict[Key, tuple[str, ...]]:
    """The names of the groups directly above a group when it was last read."""
    return {}
