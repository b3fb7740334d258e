"""What waits in memory until a thread of its own writes it: records of reads, and outcomes that come late."""

import os
import threading
import time
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class BackgroundWriter(Generic[_Item]):
    """A bounded queue and the thread that empties it, in order.

    `write` gets at most `batch` items and says whether it could write them; if not, it is asked again `retry` seconds
    later. Items wait `delay` seconds for others to be written with them. The thread starts with the first item, so
    never before a fork. A process that ends as it should writes what is waiting; one that is killed loses it.
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
    ) -> None:
        self._name = name
        self._write = write
        self.delay = delay
        self.batch = batch
        self.capacity = capacity
        self.retry = retry
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Begin empty, as in a forked child: what was waiting is the parent's to write."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._writing = threading.Lock()
        self._waiting: list[_Item] = []
        self._thread: threading.Thread | None = None
        self.refused = 0
        """Items for which there was no room. Whoever tells of them sets it back."""

    def add(self, item: _Item) -> bool:
        """Let an item wait; False where there is no room for it."""
        with self._lock:  # entering the condition itself takes thrice as long
            if len(self._waiting) >= self.capacity:
                self.refused += 1
                return False
            self._waiting.append(item)
            if self._thread is None or not self._thread.is_alive():  # an error nobody thought of may have ended it
                self._start()
            if len(self._waiting) in (1, self.batch):
                self._changed.notify()
            return True

    def flush(self) -> bool:
        """Write what is waiting, from the calling thread; False if that is not possible now."""
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
        if self._thread is None:  # after the fork: a child of multiprocessing runs finalizers of its own, and no atexit
            Finalize(None, self.flush, exitpriority=10)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                self._changed.wait_for(lambda: len(self._waiting) >= self.batch, timeout=self.delay)
            if not self.flush():
                time.sleep(self.retry)
