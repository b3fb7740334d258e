"""The files in which each process counts, and which processes belong together: those of one server or one worker.

They lie in memory (`GATEWAY_METRICS_DIR`): a process that writes to a mapped file is ended where the disk is full.

A folder is named for the process that started the others, and for the namespace in which its number counts: containers
may share the place, and in each of them the first process has the number 1. Whoever counts in a folder holds a lock on
it (flock(2)), which ends with the process however it ends and is seen by other containers too. Process numbers are
given out again, so folders that nobody holds are removed: old files would be taken for those of a new process.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from django.conf import settings

_OF_WEB, _OF_WORKER = "web", "worker"
_NAMESPACE: Final = str(Path("/proc/self/ns/pid").stat().st_ino)  # namespaces(7)
_is_chosen = False


def use_for_web() -> None:
    """Count in the folder of this process' server, its parent, or in one of its own where the parent is none of ours.

    Commands that systemd starts have root's first process for a parent, which never ends: nor would what they leave.
    """
    parent = os.getppid()
    _use(_OF_WEB, parent if _is_ours(parent) else os.getpid())


def use_for_worker() -> None:
    """Count in a folder for this worker and the processes that it will start."""
    _use(_OF_WORKER, os.getpid())


def is_chosen() -> bool:
    """Whether this process, or the one that it was forked from, has chosen."""
    return _is_chosen


def of_this_process() -> Path:
    """Where this process counts."""
    return Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])


def of_workers() -> list[Path]:
    """The folders of the workers that count in the same place."""
    return [folder for folder in settings.METRICS_DIR.glob(f"{_OF_WORKER}-*") if _is_held(folder)]


def has_numbers_of_here(folder: Path) -> bool:
    """Whether its processes have the same numbers here, and are to be found in /proc."""
    return folder.name.split("-")[1] == _NAMESPACE


def _use(kind: str, process: int) -> None:
    root: Path = settings.METRICS_DIR
    for other in root.iterdir():
        with _taken(other) as is_nobodys:
            if is_nobodys:
                shutil.rmtree(other, ignore_errors=True)
    mine = root / f"{kind}-{_NAMESPACE}-{process}"
    _hold(mine)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(mine)  # read when prometheus_client is imported
    global _is_chosen  # noqa: PLW0603 - and for the processes forked from this one
    _is_chosen = True


def _hold(folder: Path) -> None:
    """Make it, and hold it until the last of this process and those forked from it has ended."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            held = os.open(folder, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_SH)
            if folder.exists() and os.path.samestat(os.fstat(held), folder.stat()):
                return
            os.close(held)  # somebody who starts as well has removed it before it was held


def _is_held(folder: Path) -> bool:
    with _taken(folder) as is_nobodys:
        return not is_nobodys


@contextmanager
def _taken(folder: Path) -> Iterator[bool]:
    """Whether nobody held it. Nobody else can take or hold it within.

    What cannot be found out, because it is another account's, is taken for held.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _locked_alone(descriptor)
    finally:
        os.close(descriptor)


def _locked_alone(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_ours(process: int) -> bool:
    """Whether it is one of this account, which may be the first one: that of a container is the server itself.

    0 is the parent of that one, and of what an engine starts besides: a process outside of the container.
    """
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return process != 0
