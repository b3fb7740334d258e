"""Reads of single objects that wait on the event loop at the same moment go to the server as one search.

For four objects in one search Samba takes 0.4 times as long as for each by itself (docs/performance.md). So one search
is under way at a time, and the next is for all who came meanwhile. A search holds only reads that began before it was
sent, so nobody gets an older state than by a search of their own.
"""

import os
from asyncio import AbstractEventLoop, TimerHandle, get_running_loop
from collections.abc import Callable
from functools import partial
from itertools import islice
from time import monotonic, perf_counter
from typing import Final

import ldap
from ldap.controls import RequestControlTuples

from active_directory.codecs import guid_to_text
from active_directory.connections import measurements
from active_directory.connections.connection import BROKEN, Connection, deadline_of
from active_directory.connections.measurements import note_asked
from active_directory.connections.pool import Pool
from active_directory.entry import Entry
from active_directory.errors import LdapError
from active_directory.event_loop import Done, WouldBlock, is_on_loop, wait_for
from active_directory.filters import ANYTHING, AnyGuid
from active_directory.streaming import (
    DOMAIN_SCOPE,
    answers_are_compiled,
    compiled_answer,
    hide_deleted,
    time_limit,
)

Names = tuple[str, ...]
_Wanted = dict[bytes, list[Done[Entry | None]]]

_ANYTHING: Final = str(ANYTHING)
_CONTROLS: Final = RequestControlTuples([DOMAIN_SCOPE])
_ANSWER_SECONDS: Final = 0.2
"""How long to wait for an answer on the loop. Whoever has waited so long has a thread wait."""
_AT_ONCE: Final = 50
_CONNECTION_SECONDS: Final = 30.0
"""How long to stay with one of several servers: the first may be back. Also, the pause after a failure to connect."""


class CoalescedReads:
    """Reads objects below a base, on a connection of its own; `links` are those of `Query`."""

    def __init__(self, pool: Pool, links: Callable[[], frozenset[str]]) -> None:
        self._settings = pool.settings
        self._limit = time_limit(self._settings.operation_seconds)
        self._pool = pool
        self._links = links
        self._loop: AbstractEventLoop | None = None
        self._connection: Connection | None = None
        self._connected_at = 0.0
        self._is_connecting = False
        self._is_closed = False
        self._waiting: dict[Names, _Wanted] = {}
        self._under_way: _Search | None = None

    def read(self, guid: bytes, names: Names) -> Entry | None:
        """The entry of an object; None off the loop or if it was not found so, and has to be read by itself.

        Raises WouldBlock while it has no connection to the server that is preferred now.
        """
        if not is_on_loop():
            return None
        loop = get_running_loop()
        if self._loop is not loop:
            self._reset(loop)
        connection = self._connection
        if connection is None:
            self._connect_soon()
            raise WouldBlock
        if len(self._settings.urls) > 1:
            preferred = self._pool.preferred_server()
            is_old = monotonic() - self._connected_at > _CONNECTION_SECONDS
            if connection is not self._connection or preferred not in (None, connection.url) or is_old:
                self._drop(connection)
                raise WouldBlock
        if self._under_way is not None and self._under_way.is_late:
            raise WouldBlock
        entry: Entry | None = wait_for(partial(self._enqueue, guid, names))
        if entry is not None:
            note_asked(entry.server)
        return entry

    def close(self) -> None:
        """Close the connection, from any thread, and open no other."""
        self._is_closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._drop(self._connection))

    def _enqueue(self, guid: bytes, names: Names, done: Done[Entry | None]) -> None:
        if not self._waiting and self._under_way is None and self._loop is not None:
            self._loop.call_soon(self._send)  # with all that this turn of the loop brings
        self._waiting.setdefault(names, {}).setdefault(guid, []).append(done)

    def _send(self) -> None:
        connection = self._connection
        if not self._waiting or self._under_way is not None or connection is None or self._loop is None:
            return
        names, queue = next(iter(self._waiting.items()))
        wanted = queue if len(queue) <= _AT_ONCE else dict(islice(queue.items(), _AT_ONCE))
        self._waiting[names] = {guid: done for guid, done in queue.items() if guid not in wanted}
        if not self._waiting[names]:
            del self._waiting[names]
        self._under_way = search = _Search(connection, names, wanted, self._links())
        try:
            search.send(self._settings.base_dn, self._limit)
        except ldap.LDAPError:
            self._drop(connection)
        else:
            search.timer = self._loop.call_later(_ANSWER_SECONDS, self._note_late, search)

    def _readable(self) -> None:
        search, connection = self._under_way, self._connection
        if search is None or connection is None:  # nothing was asked: the server has closed the connection
            self._drop(connection)
            return
        try:
            found = search.receive()
        except BROKEN:
            self._drop(connection)
            return
        if found is None:
            return
        if search.timer is not None:
            search.timer.cancel()
        self._under_way = None
        self._send()  # first of all, so that the server has something to do
        if not search.is_late:
            for guid, waiting in search.wanted.items():
                entry = found.get(guid)
                for done in waiting:
                    done(entry)

    def _note_late(self, search: "_Search") -> None:
        """Let threads wait instead; give the connection up if the answer does not come in time at all."""
        if self._under_way is not search or self._loop is None:
            return
        if search.is_late:
            self._drop(search.connection)
            return
        self._give_up_waiting()
        search.is_late = True
        search.timer = self._loop.call_later(self._settings.operation_seconds, self._note_late, search)

    def _give_up_waiting(self) -> None:
        waiting = [*self._waiting.values()]
        if self._under_way is not None and not self._under_way.is_late:
            waiting.append(self._under_way.wanted)
        self._waiting = {}
        if self._loop is not None and not self._loop.is_closed():
            for done in (done for wanted in waiting for some in wanted.values() for done in some):
                self._loop.call_soon(done, None)

    def _connect_soon(self) -> None:
        if not (self._is_connecting or self._is_closed) and self._loop is not None:
            self._is_connecting = True
            self._task = self._loop.create_task(self._connect(self._loop))

    async def _connect(self, loop: AbstractEventLoop) -> None:
        if not answers_are_compiled():  # python-ldap cannot look for an answer without waiting
            return
        connection = None
        try:
            connection = await loop.run_in_executor(None, self._pool.acquire, deadline_of(self._settings))
        except LdapError:
            return
        finally:
            if connection is None:
                loop.call_later(_CONNECTION_SECONDS, setattr, self, "_is_connecting", False)
        if self._is_closed:
            self._pool.discard(connection)
            return
        os.set_blocking(connection.descriptor, False)  # the server may stop within a message
        self._connection, self._connected_at, self._is_connecting = connection, monotonic(), False
        loop.add_reader(connection.descriptor, self._readable)

    def _drop(self, connection: Connection | None) -> None:
        """Close a connection, unless that has been done; those who wait for it have a thread wait."""
        if connection is None or connection is not self._connection:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(connection.descriptor)
        if self._under_way is not None and self._under_way.timer is not None:
            self._under_way.timer.cancel()
        self._give_up_waiting()
        self._connection = self._under_way = None
        self._pool.discard(connection)

    def _reset(self, loop: AbstractEventLoop) -> None:
        """Begin anew on another loop."""
        self._drop(self._connection)
        self._loop, self._is_connecting = loop, False


class _Search:
    """A search for several objects."""

    timer: TimerHandle | None = None
    is_late = False

    def __init__(self, connection: Connection, names: Names, wanted: _Wanted, links: frozenset[str]) -> None:
        self.connection = connection
        self.wanted = wanted
        self._asked = frozenset(names)
        self._names = names
        self._links = links
        self._began = perf_counter()
        self._message = 0

    def send(self, base: str, limit: int) -> None:
        """Send it with a time limit in seconds; raises python-ldap's exceptions."""
        if len(self.wanted) == 1:
            (guid,) = self.wanted
            asked = f"<GUID={guid_to_text(guid)}>", ldap.SCOPE_BASE, _ANYTHING, self._names, 0, None
        else:
            asked = base, ldap.SCOPE_SUBTREE, str(AnyGuid(tuple(self.wanted))), self._names, 0, _CONTROLS
        # Past python-ldap's own lock and log, which take as long as all the rest here.
        self._message = self.connection.ldap._l.search_ext(*asked, None, limit, 0)

    def receive(self) -> dict[bytes, Entry] | None:
        """The entries found, by objectGUID, without those that have to be read in parts; None before they are here.

        Raises python-ldap's exceptions if the connection is broken.
        """
        try:
            answer = compiled_answer(self.connection.ldap, self._message, 0.0, whole=True)
            if answer is None:
                return None
            rows = list(answer[0])
        except BROKEN:
            raise
        except ldap.LDAPError:  # such as that there is no such object
            rows = []
        measurements.listener.used(self.connection.url, "read", perf_counter() - self._began)
        found = {}
        for dn, values in rows:
            if dn is not None and values.keys() <= self._asked and "objectGUID" in values:
                hide_deleted(values, self._links)
                found[values["objectGUID"][0]] = Entry(dn, values, self._asked, server=self.connection.url)
        return found
