"""How often a read is tried, for how long, and when another connection is tried because this one is silent.

A domain controller serves a connection's requests one after another, and those of many connections in one process:
Samba's prefork model has a few processes, and while one searches, everybody whose connection belongs to it waits. A new
connection is taken by a process that is free. So a read that hears nothing for a moment moves to a new connection.
"""

import time

import ldap

from active_directory.connections.settings import ServerSettings
from active_directory.errors import error_from

# What says that the connection, not the request, is the problem.
BROKEN = (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.TIMEOUT, ldap.UNAVAILABLE, ldap.BUSY, ldap.DECODING_ERROR)
_READ_ATTEMPTS = 3

SILENT_SECONDS = 0.2
"""After so long without an answer a read moves to a new connection, which takes 15 ms: a read takes one or two."""
_SLOW_SECONDS = 5.0


class ConnectionSilent(Exception):
    """Nothing has come yet of what was asked for: the connection may be waiting for somebody else's search."""


class Pace:
    """Whether a server as a whole is slow, so that reads gain nothing by moving to another connection."""

    def __init__(self) -> None:
        self._slow_until = 0.0

    def note_slow(self) -> None:
        """Even a new connection was silent."""
        self._slow_until = time.monotonic() + _SLOW_SECONDS

    @property
    def is_slow(self) -> bool:
        return time.monotonic() < self._slow_until


class Attempts:
    """The tries that one read has, each on a connection of its own; a ``patient`` one never moves from a silent one."""

    def __init__(self, settings: ServerSettings, pace: Pace, *, patient: bool = False) -> None:
        self.deadline = deadline_of(settings)
        self.needs_new = False
        """Whether the next one is on a connection that nobody has used yet."""
        self.is_last = False
        """Whether there is no other one, for some of the answer was passed on."""
        self._operation_seconds = settings.operation_seconds
        self._pace = pace
        self._may_move = not patient and not pace.is_slow
        self._began = 0.0
        self._left = _READ_ATTEMPTS

    @property
    def seconds(self) -> float:
        """For how long one answer may be waited for now."""
        return min(self._operation_seconds, max(0.1, self.deadline - time.monotonic()))

    @property
    def first_seconds(self) -> float | None:
        """For how long the first message is waited for before `ConnectionSilent`; None: as long as for any."""
        return SILENT_SECONDS if self._may_move else None

    def move(self) -> None:
        """Take note of a silent connection: the next one is new, and waited for."""
        self.needs_new, self._may_move = True, False
        self._began = time.monotonic()

    def note_answer(self) -> None:
        """Take note of the first message."""
        if self.needs_new and time.monotonic() - self._began > SILENT_SECONDS:
            self._pace.note_slow()
        self.needs_new = False

    def count(self, error: ldap.LDAPError) -> None:
        """Take note of one that failed; raises this layer's error when there is no other."""
        self._left -= 1
        if self.is_last or not self._left or time.monotonic() >= self.deadline:
            raise error_from(error) from error


def deadline_of(settings: ServerSettings) -> float:
    """Until when an operation that begins now is tried."""
    return time.monotonic() + settings.connect_seconds + settings.operation_seconds
