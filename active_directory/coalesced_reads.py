"""Reads of single objects that wait at the same moment go to the server as one search.

For four objects in one search Samba takes 0.4 times as long as for each by itself (docs/performance.md). So one search
of a process is under way at a time; whoever comes meanwhile waits for it, and the first of them then searches for all.
A search holds only reads that began before it was sent, so nobody gets an older state than by a search of their own.
"""

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final
from uuid import UUID

from active_directory.connections.measurements import note_asked
from active_directory.entry import Entry
from active_directory.filters import AnyGuid
from active_directory.streaming import DOMAIN_SCOPE, Query, Scope

Names = tuple[str, ...]

_TURN_SECONDS: Final = 0.005
"""How long to wait for the search under way before sending another one: a distant or busy server takes longer, and
then several at once gain more.
"""
_ANSWER_SECONDS: Final = 0.2
"""How long to wait for a search that somebody else has sent."""
_AT_ONCE: Final = 50


class _Read:
    """One read that waits. `woken` is released when it is done, or next to send a search for those that wait."""

    __slots__ = ("entry", "guid", "is_done", "is_next", "woken")

    def __init__(self, guid: bytes) -> None:
        self.guid = guid
        self.entry: Entry | None = None
        self.is_done = self.is_next = False
        self.woken = threading.Lock()  # an Event takes five times as long
        self.woken.acquire()

    def wake(self) -> None:
        """Let it go on; the caller holds the lock of all reads."""
        if self.woken.locked():
            self.woken.release()


class CoalescedReads:
    """Reads objects below a base; `search` sends a query, and `links` are those of `Query`."""

    def __init__(self, base: str, search: Callable[[Query], list[Entry]], links: Callable[[], frozenset[str]]) -> None:
        self._base = base
        self._search = search
        self._links = links
        self.after_fork()
        _ALL.add(self)

    def after_fork(self) -> None:
        """Start empty, as a forked child must, which has none of the threads that wait."""
        self._lock = threading.Lock()
        self._waiting: dict[Names, list[_Read]] = {}  # by the attributes that they ask for
        self._under_way = 0

    def read(self, guid: bytes, names: Names) -> Entry | None:
        """The entry of an object; None if it was not found so, and has to be read by itself.

        Raises what the search raises, to the one who sends it.
        """
        mine = _Read(guid)
        with self._lock:
            self._waiting.setdefault(names, []).append(mine)
            batch = [] if self._under_way else self._take(names)
        if not batch:
            mine.woken.acquire(timeout=_TURN_SECONDS)
        if not (batch or mine.is_done):
            with self._lock:
                batch = self._take(names) if mine in self._waiting.get(names, ()) else []
        if batch:
            self._answer(batch, names)
        elif not mine.is_done:  # somebody else has sent it
            mine.woken.acquire(timeout=_ANSWER_SECONDS)
        if mine.entry is not None:
            note_asked(mine.entry.server)
        return mine.entry

    def _answer(self, batch: list[_Read], names: Names) -> None:
        found: dict[bytes, Entry] = {}
        guids = list(dict.fromkeys(read.guid for read in batch))
        if len(guids) == 1:
            query = Query(UUID(bytes_le=guids[0]), Scope.BASE, attributes=names, links=self._links())
        else:
            query = Query(self._base, Scope.SUBTREE, AnyGuid(guids), names, links=self._links())
            query.controls.append(DOMAIN_SCOPE)
        try:
            found = {entry.values("objectGUID")[0]: entry for entry in self._search(query) if "objectGUID" in entry}
        finally:
            self._finish(batch, found)

    def _take(self, names: Names) -> list[_Read]:
        """Begin a search for the first of those that wait for these attributes."""
        queue = self._waiting.pop(names)
        if len(queue) > _AT_ONCE:
            self._waiting[names] = queue[_AT_ONCE:]
        taken = queue[:_AT_ONCE]
        self._under_way += 1 - sum(read.is_next for read in taken)
        for read in taken:
            read.is_next = False
        return taken

    def _finish(self, batch: list[_Read], found: dict[bytes, Entry]) -> None:
        with self._lock:
            self._under_way -= 1
            if self._waiting and not self._under_way:  # first of all, so that the server has something to do
                following = next(iter(self._waiting.values()))[0]
                following.is_next, self._under_way = True, 1
                following.wake()
            for read in batch:
                read.entry, read.is_done = found.get(read.guid), True
                read.wake()


_ALL: "weakref.WeakSet[CoalescedReads]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for each in list(_ALL):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
