"""The members that groups name, with their objectGUIDs, which are remembered while a group names the same members.

Samba takes 7 µs for a value with its objectGUID, and 2 µs for the name alone. So of large groups the names are read
each time, and their objectGUIDs only if the names or the group's uSNChanged differ from those of the last time. The
latter alone would not do: it stays when a member is renamed or deleted.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from struct import iter_unpack
from typing import Final, NamedTuple

from active_directory import Client, Entry, is_samba, linked_object

_MANY = 25
"""A group with so many members is worth remembering."""
_MAX_OCTETS: Final = 8 * 1024 * 1024
"""Of one directory, half a million objectGUIDs. The groups that were read least recently make room."""
_ATTRIBUTES: Final = ("objectGUID", "uSNChanged", "member")


class _Members(NamedTuple):
    """What a group named, and the objectGUIDs in the order of the names."""

    state: tuple[str | None, bytes, bytes]
    """The domain controller, which has a uSNChanged of its own, that number, and a digest of the names."""
    guids: bytes


class _Memory:
    """What is remembered of one directory, by the group's objectGUID."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: OrderedDict[bytes, _Members] = OrderedDict()
        self._octets = 0

    def __contains__(self, group: bytes) -> bool:
        return group in self._members

    def recall(self, group: Entry, names: bytes) -> bytes | None:
        """The objectGUIDs of the group's members, in the order of their names; None if they are not certain."""
        with self._lock:
            known = self._members.get(group.guid.bytes_le)
            if known is not None:
                self._members.move_to_end(group.guid.bytes_le)
        return None if known is None or known.state != _state(group, names) else known.guids

    def remember(self, group: Entry, guids: bytes, names: bytes) -> None:
        """Remember the members of a group, if they are many."""
        new = _Members(_state(group, names), guids) if len(guids) >= 16 * _MANY else None
        with self._lock:
            last = self._members.pop(group.guid.bytes_le, None)
            self._octets -= len(last.guids) if last else 0
            if new is not None:
                self._members[group.guid.bytes_le] = new
                self._octets += len(new.guids)
            while self._octets > _MAX_OCTETS:
                self._octets -= len(self._members.popitem(last=False)[1].guids)


def _state(group: Entry, names: bytes) -> tuple[str | None, bytes, bytes]:
    return group.server, b"".join(group.values("uSNChanged")), hashlib.sha256(names).digest()


def unpacked(guids: bytes) -> Iterator[bytes]:
    """The objectGUIDs that were joined."""
    return map(itemgetter(0), iter_unpack("16s", guids))


def read_members(client: Client, groups: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """The objectGUIDs and the names of the members of each group that has any; each joined, names with NUL.

    Groups are given by their objectGUIDs. Members include those that the gateway's account may not read, and those of
    other domains.
    """
    memory: _Memory = client.kept.setdefault(_Memory, _Memory())
    lists: list[tuple[bytes, bytes]] = []
    known: list[bytes] = []
    unknown: list[bytes] = []
    is_slow = is_samba(client)
    for group in groups:
        (known if is_slow and group in memory else unknown).append(group)
    for holder in client.read_each(known, _ATTRIBUTES, of_domain=True):
        names = b"\0".join(holder.values("member"))
        if (guids := memory.recall(holder, names)) is None:
            unknown += holder.values("objectGUID")
        else:
            lists.append((guids, names))
    for holder in client.read_each(unknown, _ATTRIBUTES, of_domain=True, extended=True):
        found = [linked_object(value) for value in holder.values("member")]
        guids, names = b"".join(guid for guid, _ in found), "\0".join(name for _, name in found).encode()
        if found:
            lists.append((guids, names))
        if is_slow:
            memory.remember(holder, guids, names)
    return lists
