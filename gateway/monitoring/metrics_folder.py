"""The files in which each process counts, and which processes belong together: those of one server or one worker.

A folder is named for the process that started the others. Process numbers are given out again, so folders of ended
processes are removed: old files would be taken for those of a new process.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from django.conf import settings

_OF_WORKER: Final = "worker-"
_chosen = False


def use_for_web() -> None:
    """Count in the folder of this process' server, its parent, or in one of its own where the parent is none of ours.

    Commands that systemd starts have root's first process for a parent, which never ends: nor would what they leave.
    """
    parent = os.getppid()
    _use(str(parent if _is_ours(parent) else os.getpid()))


def use_for_worker() -> None:
    """Count in a folder for this worker and the processes that it will start."""
    _use(f"{_OF_WORKER}{os.getpid()}")


def is_chosen() -> bool:
    """Whether this process, or the one that it was forked from, has chosen."""
    return _chosen


def of_this_process() -> Path:
    """Where this process counts."""
    return Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])


def of_workers() -> list[Path]:
    """The folders of the workers on this host."""
    return [path for path in _root().glob(f"{_OF_WORKER}*") if _is_alive(path)]


def _use(name: str) -> None:
    mine = _root() / name
    mine.mkdir(parents=True, exist_ok=True)
    for other in _root().iterdir():
        if other.name.removeprefix(_OF_WORKER).isdigit() and not _is_alive(other):
            shutil.rmtree(other, ignore_errors=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(mine)  # read when prometheus_client is imported
    global _chosen  # noqa: PLW0603 - once in each process
    _chosen = True


def _root() -> Path:
    root: Path = settings.DATA_DIR / "metrics"
    return root


def _is_alive(folder: Path) -> bool:
    """Whether its process is there; /proc may hide those of other accounts (systemd's ProtectProc)."""
    try:
        os.kill(int(folder.name.removeprefix(_OF_WORKER)), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
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
