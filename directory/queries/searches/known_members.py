"""The members that groups name, with their objectGUIDs, which are remembered while a group names the same members.

Samba takes 7 µs for a value with its objectGUID, and 2 µs for the name alone. So of large groups the names are read
each time, and their objectGUIDs only if the names or the group's uSNChanged differ from those of the last time. The
latter alone would not do: it stays when a member is renamed or deleted.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

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

    def recall(self, group: Entry) -> list[bytes] | None:
        """The objectGUIDs of the group's members, in the order of their names; None if they are not certain."""
        with self._lock:
            known = self._members.get(group.guid.bytes_le)
            if known is not None:
                self._members.move_to_end(group.guid.bytes_le)
        if known is None or known.state != _state(group, group.values("member")):
            return None
        return [known.guids[at : at + 16] for at in range(0, len(known.guids), 16)]

    def remember(self, group: Entry, members: Sequence[tuple[bytes, str]]) -> None:
        """Remember the members of a group, if they are many."""
        state = _state(group, [name.encode() for _, name in members])
        new = _Members(state, b"".join(guid for guid, _ in members)) if len(members) >= _MANY else None
        with self._lock:
            last = self._members.pop(group.guid.bytes_le, None)
            self._octets -= len(last.guids) if last else 0
            if new is not None:
                self._members[group.guid.bytes_le] = new
                self._octets += len(new.guids)
            while self._octets > _MAX_OCTETS:
                self._octets -= len(self._members.popitem(last=False)[1].guids)


def _state(group: Entry, names: Sequence[bytes]) -> tuple[str | None, bytes, bytes]:
    return group.server, b"".join(group.values("uSNChanged")), hashlib.sha256(b"\0".join(names)).digest()


_memories: WeakKeyDictionary[Client, _Memory] = WeakKeyDictionary()


def read_members(client: Client, groups: Iterable[bytes]) -> dict[bytes, str]:
    """The names, by objectGUID, of the members of groups, which are given by theirs.

    They include members that the gateway's account may not read, and those of other domains.
    """
    memory = _memories.setdefault(client, _Memory())
    members: dict[bytes, str] = {}
    known: list[bytes] = []
    unknown: list[bytes] = []
    is_slow = is_samba(client)
    for group in groups:
        (known if is_slow and group in memory else unknown).append(group)
    for holder in client.read_each(known, _ATTRIBUTES, of_domain=True):
        if (guids := memory.recall(holder)) is None:
            unknown += holder.values("objectGUID")
        else:
            members.update(zip(guids, holder.texts("member"), strict=True))
    for holder in client.read_each(unknown, _ATTRIBUTES, of_domain=True, extended=True):
        found = [linked_object(value) for value in holder.values("member")]
        members.update(found)
        if is_slow:
            memory.remember(holder, found)
    return members
