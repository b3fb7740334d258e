"""Outcomes that the database could not take when they were known: kept in memory and written when it is back.

A settler would have to find them in the directory, where a later change may have covered them by then. What is kept
here is lost with its process; then the settler is all there is.
"""

import os
import threading
from collections.abc import Callable, Iterable
from multiprocessing.util import Finalize
from typing import Final, Generic, TypeVar

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError, connection

_logger = structlog.stdlib.get_logger(__name__)
_Outcome = TypeVar("_Outcome")


class LateOutcomes(Generic[_Outcome]):
    """What waits for the database, and a thread that tries again while there is something.

    `write` closes the records of some outcomes in one transaction. Those that are closed by somebody else meanwhile it
    leaves alone, so trying too often does no harm.
    """

    RETRY: Final = 0.5
    CAPACITY: Final = 20_000

    def __init__(self, write: Callable[[list[_Outcome]], object]) -> None:
        self._write = write
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Begin empty, as in a forked child: what was waiting is the parent's to write."""
        self._changed = threading.Condition()
        self._waiting: list[_Outcome] = []
        self._thread: threading.Thread | None = None

    def keep(self, outcomes: Iterable[_Outcome]) -> None:
        """Take over what could not be written; beyond `CAPACITY` it is left to the settler."""
        with self._changed:
            room = self.CAPACITY - len(self._waiting)
            self._waiting += list(outcomes)[:room]
            if self._thread is None or not self._thread.is_alive():  # an error nobody thought of may have ended it
                self._start()
            self._changed.notify()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="late-outcomes", daemon=True)
        self._thread.start()
        # Registered after the fork: a child made by multiprocessing runs finalizers of its own, and no atexit.
        Finalize(None, self.flush, exitpriority=10)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
            written = self.flush()
            connection.close()  # seldom needed, so not kept
            if not written:
                threading.Event().wait(self.RETRY)

    def flush(self) -> bool:
        """Write what is waiting, from the calling thread; False if the database is still away."""
        with self._changed:
            batch = list(self._waiting)
        if not batch:
            return True
        try:
            self._write(batch)
        except (OperationalError, InterfaceError):
            return False
        except DatabaseError:  # the database is there and does not take them: trying again would not help
            _logger.exception("outcomes are left to the settler", records=len(batch))
        else:
            _logger.info("outcomes written late", records=len(batch))
        with self._changed:
            del self._waiting[: len(batch)]
        return True
