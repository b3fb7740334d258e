"""Waiting for an event, generously: a busy machine takes its time."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
