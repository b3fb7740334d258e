"""The folders for the metrics files of processes, one for each server or worker with its child processes.

They are in memory (`GATEWAY_METRICS_DIR`), since a full disk kills a process that writes to a mapped file.

A folder is named after the parent process and its PID namespace: containers may share the directory, and the first
process of each has PID 1. A process that uses a folder holds a lock on it (flock(2)), which the kernel releases however
the process ends, and which other containers see. PIDs are reused, so unused folders are removed: a new process would
continue their files.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings

_WEB, _WORKER = "web", "worker"
_NAMESPACE = str(Path("/proc/self/ns/pid").stat().st_ino)  # namespaces(7)
_is_chosen = False


def use_for_web() -> None:
    """Use the folder of this process' parent, the server, or its own folder if another account runs the parent.

    The parent of commands that systemd starts is process 1 of root, which never ends, and so neither would the folder.
    """
    parent = os.getppid()
    _use(_WEB, parent if _is_ours(parent) else os.getpid())


def use_for_worker() -> None:
    """Use a folder for this worker and its child processes."""
    _use(_WORKER, os.getpid())


def is_chosen() -> bool:
    """Whether this process, or the one that it was forked from, has chosen a folder."""
    return _is_chosen


def own_folder() -> Path:
    """The folder that this process uses."""
    return Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])


def worker_folders() -> list[Path]:
    """The folders of the workers that share our metrics directory."""
    return [folder for folder in settings.METRICS_DIR.glob(f"{_WORKER}-*") if _is_held(folder)]


def is_in_our_pid_namespace(folder: Path) -> bool:
    """Whether the PIDs of its processes are valid here, so that /proc shows them."""
    return folder.name.split("-")[1] == _NAMESPACE


def _use(kind: str, process: int) -> None:
    root: Path = settings.METRICS_DIR
    for other in root.iterdir():
        with _try_lock(other) as is_unused:
            if is_unused:
                shutil.rmtree(other, ignore_errors=True)
    mine = root / f"{kind}-{_NAMESPACE}-{process}"
    _hold(mine)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(mine)  # read when prometheus_client is imported
    global _is_chosen  # noqa: PLW0603 - processes forked from this one inherit it
    _is_chosen = True


def _hold(folder: Path) -> None:
    """Create the folder, and hold its lock until this process and all those forked from it have ended."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            held = os.open(folder, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_SH)
            if folder.exists() and os.path.samestat(os.fstat(held), folder.stat()):
                return
            os.close(held)  # another process that is starting removed it before we had the lock


def _is_held(folder: Path) -> bool:
    with _try_lock(folder) as is_unused:
        return not is_unused


@contextmanager
def _try_lock(folder: Path) -> Iterator[bool]:
    """Yield whether the folder is unused; if so, nobody can begin to use it within the block.

    A folder of another account counts as used.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield False
        return
    is_unused = False
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_unused = True
    try:
        yield is_unused
    finally:
        os.close(descriptor)


def _is_ours(process: int) -> bool:
    """Whether a process belongs to this account. PID 1 may: in a container it is the server itself.

    PID 0 stands for a parent outside the container, which the server and commands run by the engine have.
    """
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return process != 0
