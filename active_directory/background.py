"""Work that is done off the callers' way, or beside it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

_Found = TypeVar("_Found")


def run_in_background(find: Callable[[], _Found], name: str) -> Callable[[], _Found]:
    """Begin to find something in a thread of its own; what is given back waits for it, and raises what it raised.

    For what takes much longer than starting a thread (0.1 ms), while there is something else to wait for. Nobody needs
    to ask for what was found. It belongs to the caller's trace.
    """
    future: Future[_Found] = Future()

    def work() -> None:
        try:
            future.set_result(find())
        except BaseException as error:  # noqa: BLE001 - it is raised to whoever asks
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
    return future.result


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
