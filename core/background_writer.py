"""A queue in memory that one thread writes to the database: records of reads, and outcomes that come late."""

import os
import threading
import time
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Generic, TypeVar

import structlog

_logger = structlog.stdlib.get_logger(__name__)
_Item = TypeVar("_Item")


class BackgroundWriter(Generic[_Item]):
    """A bounded queue and the thread that empties it, in order.

    `write` gets at most `batch` items and returns whether it could write them; if not, it is called again after `retry`
    seconds. Items wait `delay` seconds for others to be written with them. The thread starts with the first item, so
    never before a fork. A process that exits in order writes what is waiting; one that is killed loses it. A queue
    whose items go to another one `ends_before` it.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[list[_Item]], bool],
        *,
        delay: float = 0.0,
        batch: int = 500,
        capacity: int = 20_000,
        retry: float = 1.0,
        ends_before: int = 0,
    ) -> None:
        self._name = name
        self._write = write
        self.delay = delay
        self.batch = batch
        self.capacity = capacity
        self.retry = retry
        self.ends_before = ends_before
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start empty, as a forked child must: the parent writes what was waiting."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._writing = threading.Lock()
        self._waiting: list[_Item] = []
        self._thread: threading.Thread | None = None
        self.refused = 0
        """Items refused because the queue was full. Whoever reports the number resets it."""

    def add(self, item: _Item) -> bool:
        """Queue an item; False if the queue is full."""
        with self._lock:  # entering the condition itself takes three times as long
            waiting = len(self._waiting)
            if waiting >= self.capacity:
                self.refused += 1
                return False
            self._waiting.append(item)
            if self._thread is None:
                self._start()
            if not waiting or waiting + 1 == self.batch:
                self._changed.notify()
            return True

    def flush(self) -> bool:
        """Write everything that waits, in the calling thread; False if `write` cannot now."""
        with self._writing:
            while True:
                with self._lock:
                    batch = self._waiting[: self.batch]
                if not batch:
                    return True
                if not self._write(batch):
                    return False
                with self._lock:
                    del self._waiting[: len(batch)]

    def _start(self) -> None:
        # Not atexit, which children of multiprocessing skip; and after the fork, where finalizers are cleared.
        Finalize(None, self.flush, exitpriority=10 + self.ends_before)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                self._changed.wait_for(lambda: len(self._waiting) >= self.batch, timeout=self.delay)
            try:
                is_written = self.flush()
            except Exception:  # what is queued later must still be written
                _logger.exception("a queue could not be written", queue=self._name)
                is_written = False
            if not is_written:
                time.sleep(self.retry)
