"""Writes that were not answered in time: their records stay open, for every host, until the answer is there.

A thread waits on the connection that carried them. Meanwhile it tells the log again and again that somebody waits
(`audit.log.keep_open`), so that no settler takes what the directory does not show yet for a write that was not made.
When the process ends, or the connection is lost, the settler finds the outcome (`directory.outcomes.attribution`).
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Final
from uuid import UUID

import structlog
from django.db import DatabaseError, InterfaceError, connection

from active_directory import Client, LateAnswers, LdapError, StillUnderWay, Write
from audit import log
from audit.models import OperationRecord

_logger = structlog.stdlib.get_logger(__name__)

Close = Callable[[Client, OperationRecord, LdapError | None, str], None]
"""Closes the record of a write by its answer, which came from this domain controller."""


@dataclass(slots=True)
class _Late:
    """A write on its way. Its answer goes to whoever waits for it here, else into the log."""

    record: OperationRecord
    is_guarded: bool
    has_waiter: bool = False
    answer: tuple[LdapError | None, str] | None = None
    answered: threading.Event = field(default_factory=threading.Event)


class LateWrites:
    """Those of this process."""

    MOST: Final = 64
    """Connections that are waited on at a time; a further one is given up."""
    PATIENCE: Final = 3600.0
    """Seconds after which a connection is given up that still owes an answer."""
    EVERY: Final = 10.0
    """Seconds between two signs that somebody still waits: a third of the settler's lease."""

    def __init__(self, close: Close) -> None:
        self._close = close
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Begin empty, as in a forked child: what the parent waits for is the parent's."""
        self._lock = threading.Lock()
        self._awaited: dict[UUID, _Late] = {}
        self._threads = 0

    def follow(self, client: Client, writes: Sequence[tuple[OperationRecord, Write]], answers: LateAnswers) -> None:
        """Wait for the answers of writes that went over one connection, in their order."""
        late = [_Late(record, write.guarded) for record, write in writes]
        with self._lock:
            is_full = self._threads >= self.MOST
            if not is_full:
                self._threads += 1
                self._awaited |= {each.record.id: each for each in late}
        if is_full:
            _logger.warning("too many writes are late: their connection is given up", writes=len(late))
            answers.give_up()
            return
        _logger.info("writes are not answered yet", writes=len(late), server=answers.server)
        threading.Thread(target=self._run, args=(client, late, answers), name="late-writes", daemon=True).start()

    def is_awaited(self, record_id: UUID) -> bool:
        """Whether the answer to a record's write may still come, here."""
        with self._lock:
            return record_id in self._awaited

    def wait(self, record_id: UUID, seconds: float) -> tuple[LdapError | None, str] | None:
        """The answer and who gave it, for a caller who closes the record; None if it does not come in time."""
        with self._lock:
            late = self._awaited.get(record_id)
            if late is None:
                return None
            late.has_waiter = True
        late.answered.wait(seconds)
        with self._lock:
            late.has_waiter = False
            return late.answer

    def _run(self, client: Client, late: Sequence[_Late], answers: LateAnswers) -> None:
        deadline = monotonic() + self.PATIENCE
        try:
            for place, each in enumerate(late):
                error = self._await(late[place:], answers, deadline)
                self._end(client, each, error, answers.server)
        finally:
            with self._lock:
                self._threads -= 1
                for each in late:
                    self._awaited.pop(each.record.id, None)
            connection.close()

    def _await(self, left: Sequence[_Late], answers: LateAnswers, deadline: float) -> LdapError | None:
        """What comes of the first of those that are left."""
        while True:
            try:
                return answers.next(self.EVERY, guarded=left[0].is_guarded)
            except StillUnderWay as unanswered:
                if monotonic() >= deadline or not self._keep_open(left):
                    answers.give_up()
                    return unanswered

    def _keep_open(self, left: Sequence[_Late]) -> bool:
        """Whether any of the records is still open; all of these are left alone by settlers for a while."""
        try:
            return log.keep_open([each.record.id for each in left]) > 0
        except (DatabaseError, InterfaceError) as error:
            _logger.warning("the log does not hear that a write is awaited", error=str(error))
            return True
        finally:
            connection.close()  # seldom needed, so not kept

    def _end(self, client: Client, each: _Late, error: LdapError | None, server: str) -> None:
        with self._lock:
            self._awaited.pop(each.record.id, None)
            each.answer = error, server
            each.answered.set()
            if each.has_waiter:
                return
        self._close(client, each.record, error, server)
