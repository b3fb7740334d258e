"""Waits for conditions, generously, since the machine may be busy."""

import time
from collections.abc import Callable


class TimedOut(RuntimeError):
    """A condition was not met in time; the message says which."""


def wait_until(
    condition: Callable[[], object],
    seconds: float = 120,
    failure: str | Callable[[], str] = "what was waited for did not happen",
) -> None:
    """Return as soon as the condition is true; raises TimedOut with the failure message after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimedOut(failure if isinstance(failure, str) else failure())
        time.sleep(0.05)


def retry(step: Callable[[], object], seconds: float) -> None:
    """Repeat a step until it no longer raises RuntimeError; raises that after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            step()
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return
