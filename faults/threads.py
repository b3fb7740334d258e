"""The threads of a campaign."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Worker(threading.Thread):
    """A thread that works until it is told to end."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop as soon as possible."""
        self._ended.set()


@contextmanager
def working(*workers: Worker) -> Iterator[None]:
    """Have them work within the block."""
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.join(300)
