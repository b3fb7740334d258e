"""Runs work in threads of its own, whether callers wait for it or not."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

from active_directory.event_loop import require_thread

_Result = TypeVar("_Result")


def run_in_background(function: Callable[[], _Result], name: str) -> Callable[[], _Result]:
    """Start a function in a thread; return a function that waits for its result or raises its exception.

    For calls that take much longer than starting a thread (0.1 ms). Nobody has to ask for the result. The thread
    inherits context variables, such as the caller's trace.
    """
    require_thread()
    future: Future[_Result] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised again to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=copy_context().run, args=(work,), name=name, daemon=True).start()
    return future.result


class Background:
    """Does work in at most one thread. A forked child, which has none of its parent's threads, starts its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Start the work unless the thread is still running."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=work, name=self._name, daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for the running thread, if any."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
