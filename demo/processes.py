"""Starting and ending child processes so that none outlives its parent; what is started is the caller's business."""

import contextlib
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

Output = int | IO[bytes]


def start_process(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    output: Output = subprocess.DEVNULL,
    user: pwd.struct_passwd | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` in a session of its own; the kernel kills it when the calling thread ends, whatever ends that.

    ``setpriv`` sets the death signal in the child (``PR_SET_PDEATHSIG``, prctl(2)): unlike ``preexec_fn`` that is safe
    with threads, and unlike ``atexit`` it holds when the parent is killed with SIGKILL. The signal follows the *thread*
    that forked, so callers start processes from a thread that lives as long as they do.
    """
    wrapper = ["setpriv", "--pdeathsig", "KILL"]
    if user is not None:
        wrapper += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return subprocess.Popen(
        [*wrapper, "--", *(str(word) for word in command)],
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def stop_process(process: subprocess.Popen[bytes], *, request: int = signal.SIGTERM, patience: float = 10) -> None:
    """Ask the process to end, wait up to ``patience`` seconds, then kill whatever is left of its process group."""
    deadline = time.monotonic() + patience
    if process.poll() is None:
        # A stopped process reacts to nothing but SIGKILL and SIGCONT.
        signal_group(process, signal.SIGCONT)
        process.send_signal(request)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    # The first process of a group often ends before its children, which still hold its ports.
    while process.poll() is not None and _group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    signal_group(process, signal.SIGKILL)
    process.wait()
    while _group_lives(process.pid):
        time.sleep(0.01)


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to every process of the child's group; none left is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _group_lives(group: int) -> bool:
    """Whether a process of the group runs; a zombie does not: the first process of a container may never reap it."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # proc(5): the name stands in parentheses and may contain anything; state, parent and group follow it.
            state, _, member_of = status.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if member_of == str(group) and state not in "ZX":
                return True
    return False


def log_tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log, for error messages."""
    if not path.exists():
        return "(no log was written)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
