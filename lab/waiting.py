"""Waiting for an event, generously: a busy machine takes its time."""

import time
from collections.abc import Callable


class NotInTime(RuntimeError):
    """What was waited for did not come; the message says what."""


def wait_until(
    holds: Callable[[], object],
    seconds: float = 120,
    complaint: str | Callable[[], str] = "what was waited for did not happen",
) -> None:
    """Return as soon as it holds; raise NotInTime with the complaint after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise NotInTime(complaint if isinstance(complaint, str) else complaint())
        time.sleep(0.05)
