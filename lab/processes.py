"""Starts and stops child processes so that none outlives its parent."""

import contextlib
import functools
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

Output = int | IO[bytes]
_TICKS = os.sysconf("SC_CLK_TCK")


def start_process(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    output: Output = subprocess.DEVNULL,
    user: pwd.struct_passwd | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` in a new process group, which is killed when this process ends, for whatever reason."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        user=user.pw_uid if user else None,
        group=user.pw_gid if user else None,
        extra_groups=[] if user else None,
    )
    _tell_guardian(f"+{process.pid}")
    return process


def stop_process(process: subprocess.Popen[bytes], *, request: int = signal.SIGTERM, patience: float = 10) -> None:
    """Ask the process to end, wait up to ``patience`` seconds, then kill whatever is left of its process group."""
    deadline = time.monotonic()
    if process.poll() is None:
        deadline += patience
        # A stopped process reacts to nothing but SIGKILL and SIGCONT.
        signal_group(process, signal.SIGCONT)
        process.send_signal(request)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    # The first process of a group often ends before its children, which still hold its ports.
    while process.poll() is not None and _is_group_alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    signal_group(process, signal.SIGKILL)
    process.wait()
    while _is_group_alive(process.pid):
        time.sleep(0.01)
    _tell_guardian(f"-{process.pid}")


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    stdin: str = "",
) -> str:
    """Run a command to its end and return its output; raises RuntimeError with its error output."""
    words = [str(word) for word in command]
    try:
        completed = subprocess.run(
            words, env=environment, cwd=directory, input=stdin, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise RuntimeError(f"{error.filename} is not installed") from error
    if completed.returncode != 0:
        raise RuntimeError(f"{' '.join(words[:6])} failed:\n{(completed.stdout + completed.stderr).strip()[-3000:]}")
    return completed.stdout


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to every process of the child's group; none left is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def log_tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log, for error messages."""
    if not path.exists():
        return "(no log was written)"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


class Process(NamedTuple):
    """A process by proc(5). `seconds` is the processor time of the process and its ended children."""

    parent: int
    group: int
    seconds: float


def read_processes() -> dict[int, Process]:
    """All processes by PID, except zombies, which the first process of a container may never reap."""
    pids = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return {pid: process for pid in pids if (process := _read_process(pid))}


def children_of(parent: int) -> set[int]:
    """The PIDs of the processes that any thread of a process has started, except zombies."""
    found: set[int] = set()
    for thread in Path(f"/proc/{parent}/task").glob("[0-9]*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, thread.read_text().split()))
    return {pid for pid in found if _read_process(pid)}


def _read_process(pid: int) -> Process | None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        # The name is in parentheses and may contain anything; the fields after it begin with the state.
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        if state not in "ZX":
            return Process(int(fields[0]), int(fields[1]), sum(map(int, fields[10:14])) / _TICKS)
    return None


def _is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:  # not even a zombie: there is no need to look through all processes
        return False
    return any(process.group == group for process in read_processes().values())


def _tell_guardian(change: str) -> None:
    # If somebody has killed the guardian, only its protection is lost.
    with contextlib.suppress(BrokenPipeError):
        os.write(_guardian(), f"{change}\n".encode())


@functools.cache
def _guardian() -> int:
    """Start the guardian and return the pipe to it, which closes when this process ends."""
    guardian = subprocess.Popen(
        [sys.executable, "-I", str(Path(__file__).with_name("guardian.py"))],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    if guardian.stdin is None:
        raise RuntimeError("a pipe was asked for")
    pipe = os.dup(guardian.stdin.fileno())
    guardian.stdin.close()
    # It outlives this process, so nobody can wait for it.
    guardian.returncode = 0
    return pipe
