"""The line that the log has of every request. In a server a thread of its own forms and writes them, many at once.

Forming a line and writing it takes as long as a tenth of a read. When lines come faster than they are written, requests
write their own, as they do where no thread was started.
"""

import logging
from datetime import UTC, datetime
from typing import Final

from core.background_writer import BackgroundWriter
from gateway.monitoring.logs import Event, write_lines

_LOGGER: Final = "gateway.access"
_level = logging.getLogger(_LOGGER)


class AccessLines:
    """Lines on their way to the log."""

    def __init__(self) -> None:
        self.writer = BackgroundWriter[tuple[str, Event]]("access-lines", _write, delay=0.2, capacity=10_000)
        self._is_served = False

    def start(self) -> None:
        """Have a thread write from now on, until the process ends."""
        self._is_served = True

    def add(self, line: Event, *, is_unimportant: bool = False) -> None:
        """Note a request that was answered now; what is unimportant is for debugging only."""
        level = "debug" if is_unimportant else "info"
        if not _level.isEnabledFor(logging.DEBUG if is_unimportant else logging.INFO):
            return
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        levelled = level, {"timestamp": at, **line, "event": "request"}
        if not (self._is_served and self.writer.add(levelled)):
            _write([levelled])


def _write(lines: list[tuple[str, Event]]) -> bool:
    write_lines(_LOGGER, lines)
    return True


access_lines: Final = AccessLines()
"""Those of this process."""
