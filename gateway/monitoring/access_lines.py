"""The line that the log has of every request. In a server a thread of its own forms and writes them, many at once.

Forming a line and writing it takes as long as a tenth of a read. Lines wait a moment for the others; nothing is lost
when the process ends as it should, and one that is killed loses that moment. When lines come faster than they are
written, requests write their own, as they do where no thread was started.
"""

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from multiprocessing.util import Finalize
from typing import Any, Final

from gateway.monitoring.logs import write_lines

_LOGGER: Final = "gateway.access"
_level = logging.getLogger(_LOGGER)

Line = Mapping[str, Any]


class AccessLines:
    """Lines on their way to the log."""

    DELAY: Final = 0.2
    """Seconds that a line waits at most."""
    CAPACITY: Final = 10_000

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Begin without lines or a thread, as in a forked child: what was waiting is the parent's to write."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._writing = threading.Lock()
        self._waiting: list[tuple[bool, Line]] = []
        self._is_served = False

    def start(self) -> None:
        """Have a thread write from now on, until the process ends."""
        if not self._is_served:
            self._is_served = True
            threading.Thread(target=self._run, name="access-lines", daemon=True).start()
            # A child made by multiprocessing, as a server's processes are, runs finalizers of its own, and no atexit.
            Finalize(None, self.flush, exitpriority=5)

    def add(self, line: Line, *, is_unimportant: bool = False) -> None:
        """Note a request that was answered now; what is unimportant is for debugging only."""
        if not _level.isEnabledFor(logging.DEBUG if is_unimportant else logging.INFO):
            return
        stamped = {"timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"), **line}
        with self._lock:
            if self._is_served and len(self._waiting) < self.CAPACITY:
                self._waiting.append((is_unimportant, stamped))
                if len(self._waiting) == 1:
                    self._changed.notify()
                return
        _write([(is_unimportant, stamped)])

    def flush(self) -> None:
        """Write what is waiting, from the calling thread."""
        with self._writing:
            with self._changed:
                lines, self._waiting = self._waiting, []
            if lines:
                _write(lines)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
            threading.Event().wait(self.DELAY)
            self.flush()


def _write(lines: Sequence[tuple[bool, Line]]) -> None:
    write_lines(
        _LOGGER,
        (("debug" if is_unimportant else "info", {**line, "event": "request"}) for is_unimportant, line in lines),
    )


access_lines: Final = AccessLines()
"""Those of this process."""

os.register_at_fork(after_in_child=access_lines._reset)
