"""The groups above an object: those it belongs to and every group one of these is nested in, as they are now.

They are followed level by level through `memberOf`. LDAP_MATCHING_RULE_IN_CHAIN takes a hundred times as long on Samba,
and tokenGroups knows neither distribution groups nor, on Samba, the groups of a group.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from directory.ldap import Client, Entry, Equals, Or, Scope

NESTING_ATTRIBUTES = ("objectGUID", "objectSid", "objectClass", "groupType", "memberOf")
"""What a group must have been read with to be placed among others."""

ABOVE_ATTRIBUTES = ("objectSid", "memberOf", "primaryGroupID")
"""What an object must have been read with to be followed to its groups."""

_NAMES_IN_ONE_FILTER = 100
_MOST_REMEMBERED = 10_000

_Key = str | bytes
"""How a group is named: by its distinguished name or by its SID."""


class Above(NamedTuple):
    """A group above an object, and the distinguished names of the groups on one of the shortest ways to it."""

    group: Entry
    way: tuple[str, ...]


def groups_above(client: Client, entry: Entry) -> Iterator[Above]:
    """The groups an entry, read with ABOVE_ATTRIBUTES, belongs to, and all above these: each once, nearest first.

    What is above a group seldom changes: where it was found before, it is asked for in the same search, which then is
    the only one. That a group is above another is said by what was just read, never by what is remembered.
    """
    memory = _memory_of(client)
    found: dict[_Key, Entry] = {}
    level: dict[_Key, tuple[str, ...]] = dict.fromkeys(entry.texts("memberOf"), ())
    if (sid := primary_group_of(entry)) is not None:
        level[sid] = ()
    reached: set[_Key] = set()
    while level:
        reached |= level.keys()
        if missing := [key for key in level if key not in found]:
            asked = _with_those_above(missing, memory)
            for group in _read(client, asked):
                keys = _keys_of(group)
                found |= dict.fromkeys(keys, group)
                _remember(memory, keys, group.texts("memberOf"))
                if asked.keys().isdisjoint(keys) and group.dn not in reached:
                    level[group.dn] = ()  # where it was named it was spelled in another way
        following: dict[_Key, tuple[str, ...]] = {}
        for key, way in level.items():
            above = found.get(key)
            if above is None or (isinstance(key, bytes) and above.dn in reached):
                continue  # it is gone, or was reached by its name
            reached.add(above.dn)
            yield Above(above, way)
            for name in above.texts("memberOf"):
                if name not in reached:
                    following.setdefault(name, (*way, above.dn))
        level = following


def primary_group_of(entry: Entry) -> bytes | None:
    """The SID of the primary group of an account, which is in the account's own domain ([MS-ADA3] 2.120).

    memberOf does not show it. None for what has none.
    """
    sids, number = entry.values("objectSid"), entry.integer("primaryGroupID")
    return sids[0][:-4] + struct.pack("<I", number) if sids and number is not None else None


def _keys_of(group: Entry) -> tuple[_Key, ...]:
    return (group.dn, *group.values("objectSid"))


def _with_those_above(keys: Iterable[_Key], memory: Mapping[_Key, tuple[str, ...]]) -> dict[_Key, None]:
    """The keys, and as far as one more search can hold it what was above them when it was last read."""
    asked = dict.fromkeys(keys)
    most = max(len(asked), _NAMES_IN_ONE_FILTER)
    waiting = list(asked)
    for key in waiting:
        for name in memory.get(key, ()):
            if name not in asked and len(asked) < most:
                asked[name] = None
                waiting.append(name)
    return asked


def _read(client: Client, keys: Iterable[_Key]) -> Iterator[Entry]:
    conditions = [Equals("objectSid" if isinstance(key, bytes) else "distinguishedName", key) for key in keys]
    for start in range(0, len(conditions), _NAMES_IN_ONE_FILTER):
        some = Or(*conditions[start : start + _NAMES_IN_ONE_FILTER])
        yield from client.search(client.default_naming_context, Scope.SUBTREE, some, NESTING_ATTRIBUTES)


_lock = Lock()
_memories: WeakKeyDictionary[Client, dict[_Key, tuple[str, ...]]] = WeakKeyDictionary()


def _memory_of(client: Client) -> dict[_Key, tuple[str, ...]]:
    """The names of the groups directly above a group when it was last read."""
    with _lock:
        return _memories.setdefault(client, {})


def _remember(memory: dict[_Key, tuple[str, ...]], keys: Iterable[_Key], above: Iterable[str]) -> None:
    if len(memory) >= _MOST_REMEMBERED:
        memory.clear()
    memory.update(dict.fromkeys(keys, tuple(above)))
