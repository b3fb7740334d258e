"""Many writes on one connection, several on their way at a time. Whose connection it is, the client knows."""

import time
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import ldap

from active_directory.connections import measurements
from active_directory.connections.connection import Connection
from active_directory.errors import InvalidValue, LdapError, OutcomeUnknown, Unavailable, error_from
from active_directory.writes.changes import Write
from active_directory.writes.late import LateAnswers, StillUnderWay
from active_directory.writes.sending import send

_DEPTH = 32
"""Writes on their way: enough for the server never to wait for the next one."""


class Written(NamedTuple):
    """What came of one of many writes: the error, or None, and the server that answered."""

    position: int
    error: LdapError | None
    server: str


class _UnderWay(NamedTuple):
    """A write that was sent under a message id, or one that could not be (`error`)."""

    message: int
    guarded: bool
    sent_at: float
    error: LdapError | None = None


class Pipeline:
    """Some writes. Once the connection is lost, or an answer `is_late`, nothing more is sent."""

    def __init__(self, connection: Connection, writes: Iterator[Write], seconds: float) -> None:
        self.has_failed = False
        """Whether the server said that it cannot serve, or the connection to it was lost."""
        self._is_lost = False
        self._late: LateAnswers | None = None
        self._connection = connection
        self._writes = writes
        self._seconds = seconds
        self._under_way: deque[_UnderWay] = deque()
        self._answered_at = 0.0

    @property
    def is_late(self) -> bool:
        """Whether the connection still owes answers, which somebody waits for."""
        return self._late is not None

    def run(self) -> Iterator[Written]:
        """Send all and yield what came of each, in order."""
        numbers = count()
        while self._fill():
            yield Written(next(numbers), self._next_answer(), self._connection.server)
        for _ in self._writes:
            error = Unavailable("The connection was lost before this was sent")
            yield Written(next(numbers), error, self._connection.server)

    def _fill(self) -> bool:
        """Send until enough are on their way or none is left; whether any is on its way."""
        while not self._is_lost and not self.is_late and len(self._under_way) < _DEPTH:
            write = next(self._writes, None)
            if write is None:
                break
            self._under_way.append(self._send(write))
        return bool(self._under_way)

    def _send(self, write: Write) -> _UnderWay:
        sent_at = time.monotonic()
        try:
            return _UnderWay(send(self._connection.ldap, write), write.guarded, sent_at)
        except InvalidValue as refused:
            error: LdapError = refused
        except ldap.LDAPError as failure:
            error = self._error_from(failure, guarded=write.guarded)
        return _UnderWay(0, write.guarded, sent_at, error)

    def _next_answer(self) -> LdapError | None:
        sent = self._under_way.popleft()
        if sent.error is not None:
            return sent.error
        if self._is_lost:
            return OutcomeUnknown("The connection was lost before the directory answered")
        if self._late is not None:
            return StillUnderWay(self._late)
        try:
            # Zero would mean not to wait at all, but an answer may be there already.
            left = sent.sent_at + self._seconds - time.monotonic()
            self._connection.ldap.result3(sent.message, timeout=max(0.001, left))
        except ldap.TIMEOUT:
            measurements.listener.failed(self._connection.url, "write", "TIMEOUT")
            owed = (sent, *(each for each in self._under_way if each.error is None))
            self._late = LateAnswers(self._connection, [each.message for each in owed])
            return StillUnderWay(self._late)
        except ldap.LDAPError as failure:
            return self._error_from(failure, guarded=sent.guarded)
        now = time.monotonic()
        # Before, the server was at those that were sent earlier.
        measurements.listener.used(self._connection.url, "write", now - max(sent.sent_at, self._answered_at))
        self._answered_at = now
        return None

    def _error_from(self, failure: ldap.LDAPError, *, guarded: bool) -> LdapError:
        error = error_from(failure, guarded=guarded, writing=True)
        self._is_lost = isinstance(error, OutcomeUnknown)  # it may have left
        if isinstance(error, OutcomeUnknown | Unavailable):
            self.has_failed = True
            measurements.listener.failed(self._connection.url, "write", type(failure).__name__)
        return error
