"""Servers, each a process with its children: start, wait, break, and restart when they end."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.commands import PROJECT
from lab.processes import Output, children_of, log_tail, signal_group, start_process, stop_process
from lab.waiting import wait_until

RESTART_DELAYS = (0.5, 1.0, 2.0, 4.0)
"""Seconds before a server that ended is restarted, by the number of ends: it is back within 10 s."""

STABLE_SECONDS = 30.0
"""After this many seconds of running, an end counts as the first one again."""


class Service:
    """A server process. Its output is appended to `log_file`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        is_ready: Callable[[], bool],
        log_file: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path = PROJECT,
    ) -> None:
        self.name = name
        self.command = command
        self.is_ready = is_ready
        self.log_file = log_file
        self.unexpected_ends: list[str] = []
        """Each end that nobody caused, with the last line of output."""
        self._environment = environment
        self._directory = directory
        self._changed = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._log_offset = 0
        self._started_at = 0.0
        self._failures = 0
        self._restart_at: float | None = None
        self._is_supervised = False
        self._is_killed = False
        self._lacks_child = False

    @property
    def pid(self) -> int:
        """The PID of the first process, from which all others descend; 0 while there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else 0

    @property
    def is_running(self) -> bool:
        """Whether its first process is alive."""
        return self.pid != 0

    @property
    def children(self) -> set[int]:
        """The PIDs of the worker processes that its first process has started."""
        parent = self.pid
        found = children_of(parent) if parent else set()
        return {pid for pid in found if not _is_tracker(pid)}

    @property
    def output(self) -> str:
        """Its output since the last start."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode(errors="replace")

    def start(self) -> None:
        """Start it."""
        with self._changed:
            self._clear()
            self._is_killed = self._lacks_child = False
            self._started_at = time.monotonic()
            self._process = self._launch()

    def wait_until_ready(self, seconds: float = 300) -> None:
        """Wait; raises RuntimeError with the end of its log if it is not ready in time, or has ended for good."""

        def is_over() -> bool:
            return self.is_ready() or not (self.is_running or self._is_supervised)

        wait_until(is_over, seconds, self._failure)
        if not self.is_running and not self._is_supervised:
            raise RuntimeError(self._failure())

    def start_and_wait(self, seconds: float = 300) -> None:
        """Start it unless it runs, and wait until it is ready; raises RuntimeError if it had ended by itself."""
        if self.is_running:
            return
        if self._process is not None and not self._is_killed:
            status = self._process.returncode
            self.stop()
            raise RuntimeError(f"{self.name} ended by itself ({status}):\n{log_tail(self.log_file)}")
        self.start()
        try:
            self.wait_until_ready(seconds)
        except BaseException:
            self.stop()
            raise

    def stop(self, request: int = signal.SIGTERM) -> None:
        """Stop it for good, with its children, if it runs."""
        with self._changed:
            self._clear(request)

    def restart(self, pause: float = 0) -> None:
        """Stop it orderly and start it again after a pause."""
        with self._changed:
            self.stop()
            time.sleep(pause)
            self.start()

    def crash(self, pause: float) -> None:
        """Kill all its processes, and start it again after a pause."""
        with self._changed:
            self.kill()
            self.stop()
            time.sleep(pause)
            self.start()

    def kill(self) -> None:
        """Send SIGKILL to all its processes."""
        with self._changed:
            self._is_killed = True
            if self._process is not None and self.is_running:
                signal_group(self._process, signal.SIGKILL)
                self._process.wait()

    def kill_child(self, pid: int) -> None:
        """Send SIGKILL to one of its processes. Until that is replaced (`note_child_is_back`) the whole server may end.

        Granian ends if it loses a process within 5.5 s of its start, and Celery if it loses one before it is ready;
        both rely on their supervisor for the restart.
        """
        self._lacks_child = True
        os.kill(pid, signal.SIGKILL)

    def note_child_is_back(self) -> None:
        """Note that the killed process was replaced, so that an end from now on is unexpected."""
        self._lacks_child = False

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open, and nothing answers."""
        if self._process is not None:
            signal_group(self._process, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._process is not None:
            signal_group(self._process, signal.SIGCONT)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Freeze it until the block ends; nobody starts or stops it meanwhile."""
        with self._changed:
            self.pause()
            try:
                yield
            finally:
                self.resume()

    def supervise(self) -> bool:
        """Restart it after it ended, with a delay that grows with each end; false once it was stopped for good.

        Call this periodically.
        """
        with self._changed:
            self._is_supervised = True
            now = time.monotonic()
            if self._restart_at is not None:
                if now >= self._restart_at:
                    self.start()
            elif self._process is not None and self._process.poll() is not None:
                self._failures = 0 if now - self._started_at > STABLE_SECONDS else self._failures
                self._restart_at = now + RESTART_DELAYS[min(self._failures, len(RESTART_DELAYS) - 1)]
                self._failures += 1
                if not self._is_killed and not self._lacks_child:
                    last = log_tail(self.log_file, lines=1)
                    self.unexpected_ends.append(f"{self.name} ended with {self._process.returncode}: {last}")
                stop_process(self._process)  # its children may have outlived it and hold its port
            return self._process is not None

    def _launch(self) -> subprocess.Popen[bytes]:
        with self.log_file.open("ab") as log:
            self._log_offset = log.tell()
            return self._run(log)

    def _run(self, output: Output) -> subprocess.Popen[bytes]:
        return start_process(self.command, environment=self._environment, directory=self._directory, output=output)

    def _clear(self, request: int = signal.SIGTERM) -> None:
        if self._process is not None:
            stop_process(self._process, request=request)
        self._process = self._restart_at = None

    def _failure(self) -> str:
        return f"{self.name} did not start. Its log ends with:\n{log_tail(self.log_file)}"


def supervise_in_background(services: Sequence[Service]) -> None:
    """Supervise services in a thread until all of them are stopped."""

    def supervise_all() -> None:
        while sum(service.supervise() for service in services):
            time.sleep(0.1)

    threading.Thread(target=supervise_all, daemon=True).start()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_port_free(address: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _is_tracker(pid: int) -> bool:
    """Whether a process is the resource tracker of Python's multiprocessing, which does no work."""
    with contextlib.suppress(OSError):
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
