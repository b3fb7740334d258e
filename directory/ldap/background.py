"""Work that is done off the callers' way, by one thread at a time."""

import threading
from collections.abc import Callable


class Background:
    """Starts a thread unless one is at it. A forked child has none of its parent's and starts its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Have the work begun, or leave it to the thread that is doing it already."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=work, name=self._name, daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the thread that is at it, if there is one."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
