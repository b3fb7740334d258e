"""Answers that did not come in time. A time-out is no loss: the connection is kept, and its answer waited for.

A domain controller that is busy with a write answers no other one, and shows the state from before to whoever reads. To
give the connection up would change nothing of what it does, and nobody would hear of it. Who waits, and for how long,
is the callers' affair.
"""

import time
from collections import deque
from collections.abc import Iterable

import ldap

from active_directory.connections.connection import Connection
from active_directory.errors import LdapError, OutcomeUnknown, error_from


class StillUnderWay(OutcomeUnknown):
    """A write was sent and is not answered yet. `answers` is what its connection still owes, to be waited for."""

    def __init__(self, answers: "LateAnswers") -> None:
        super().__init__("The directory has not answered yet")
        self.answers = answers


class LateAnswers:
    """The answers that a connection still owes, in the order of its writes. One thread waits for them.

    The connection serves nothing else any more: it is closed after the last of them, or when somebody gives them up.
    """

    def __init__(self, connection: Connection, messages: Iterable[int]) -> None:
        self._connection = connection
        self._messages = deque(messages)
        self.server = connection.server

    def next(self, seconds: float, *, guarded: bool = False) -> LdapError | None:
        """What came of the next write: its refusal, or None. Raises StillUnderWay when the time is over.

        OutcomeUnknown is the answer of all that are left once the connection was lost.
        """
        if not self._messages:
            return OutcomeUnknown("The connection was lost before the directory answered")
        try:
            self._connection.ldap.result3(self._messages[0], timeout=max(0.001, seconds))
        except ldap.TIMEOUT:
            raise StillUnderWay(self) from None
        except ldap.LDAPError as failure:
            error = error_from(failure, guarded=guarded, writing=True)
            if isinstance(error, OutcomeUnknown):
                self.give_up()
                return error
            self._answered()
            return error
        self._answered()
        return None

    def give_up(self) -> None:
        """Close the connection: what was not sent yet never will be."""
        self._messages.clear()
        self._connection.abort()

    def _answered(self) -> None:
        self._messages.popleft()
        if not self._messages:
            self._connection.last_used = time.monotonic()
            self._connection.close()
