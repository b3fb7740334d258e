"""The threads of a campaign."""

import threading


class Worker(threading.Thread):
    """A thread that works until it is told to end."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop as soon as possible."""
        self._ended.set()
