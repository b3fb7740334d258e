"""What Python compiles once: by one of the test processes, or for an installation that is made of the same files."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path

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


def compiled_file(source: Path) -> Path | None:
    """Where Python keeps what it has compiled of a file, which is valid for a link to that file, too."""
    if source.suffix != ".py":
        return None
    kept = Path(cache_from_source(os.fspath(source)))
    return kept if kept.is_file() else None
