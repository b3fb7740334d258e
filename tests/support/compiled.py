"""What one of the test processes does before the others, such as compiling the tests."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from lab.domain import TEMPLATES


@contextmanager
def one_before_the_others(name: str) -> Iterator[None]:
    """Let the first process that comes here do it alone, then all the others at the same time."""
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    with (TEMPLATES / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield
