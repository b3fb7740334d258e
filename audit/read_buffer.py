"""Records of reads on their way to the database: half a second in memory, then written by one thread."""

import os
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.util import Finalize
from typing import Any, Final

import structlog
from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, connection, transaction

from audit.chain.seals import mac_of
from audit.models import OperationRecord
from core.database.prepared import PreparedInsert

_logger = structlog.stdlib.get_logger(__name__)
_insert: Final = PreparedInsert(OperationRecord)

Facts = Mapping[str, Any]
"""A record as its field names and values, without its code: thousands of reads a second are no model instances."""


class ReadBuffer:
    """A bounded queue with a writer thread.

    The thread starts with the first read of a process, so never before a fork. When the database is away the records
    wait; beyond `CAPACITY` further ones are counted, and the count is logged when the database is back.
    """

    DELAY: Final = 0.5
    BATCH: Final = 500
    CAPACITY: Final = 20_000
    RETRY: Final = 1.0

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Begin empty, as in a forked child: what was waiting is the parent's to write."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._writing = threading.Lock()
        self._waiting: list[Facts] = []
        self._lost = 0
        self._thread: threading.Thread | None = None

    def add(self, record: Facts) -> None:
        with self._lock:  # entering the condition itself takes thrice as long
            if len(self._waiting) >= self.CAPACITY:
                self._lost += 1
                return
            self._waiting.append(record)
            if self._thread is None:
                self._start()
            if len(self._waiting) in (1, self.BATCH):
                self._changed.notify()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="reads-to-log", daemon=True)
        self._thread.start()
        # Registered after the fork: a child made by multiprocessing runs finalizers of its own, and no atexit.
        Finalize(None, self.flush, exitpriority=10)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                self._changed.wait_for(lambda: len(self._waiting) >= self.BATCH, timeout=self.DELAY)
            if not self.flush():
                threading.Event().wait(self.RETRY)

    def flush(self) -> bool:
        """Write what is waiting, from the calling thread; False if the database is away."""
        with self._writing:
            while True:
                with self._changed:
                    batch, lost = self._waiting[: self.BATCH], self._lost
                if not batch:
                    return True
                try:
                    self._write([{**record, "mac": mac_of(record)} for record in batch])
                except (DatabaseError, InterfaceError) as error:
                    _logger.warning("reads cannot be recorded for now", waiting=len(self._waiting), error=str(error))
                    connection.close()
                    return False
                with self._changed:
                    del self._waiting[: len(batch)]
                    self._lost -= lost
                if lost:
                    _logger.error("reads were not recorded, the database was away for too long", reads=lost)

    @staticmethod
    def _write(batch: Sequence[Facts]) -> None:
        if not connection.in_atomic_block:  # the thread's connection lives long, so its age and health are checked here
            connection.close_if_unusable_or_obsolete()
        try:
            with transaction.atomic():
                _insert.execute(batch)
        except (DataError, IntegrityError):  # one record the database does not take must not hold up the others
            for record in batch:
                try:
                    with transaction.atomic():
                        _insert.execute([record])
                except (DataError, IntegrityError):
                    _logger.exception(
                        "a read cannot be recorded", operation=record["operation"], request_id=record["request_id"]
                    )


reads: Final = ReadBuffer()
"""The buffer of this process."""

os.register_at_fork(after_in_child=reads._reset)
