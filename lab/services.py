"""A server: one process with its children. It is started, waited for, broken, and started again when it ends."""

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
from lab.processes import Output, log_tail, read_processes, signal_group, start_process, stop_process
from lab.waiting import wait_until

DELAYS = (0.5, 1.0, 2.0, 4.0)
"""Seconds until one that ended is started again, by how often it has: it is back within 10 s whatever happens."""
STEADY_AFTER = 30.0
"""Seconds after which an end counts as the first one again."""


class Service:
    """A server process. What it says goes to `log_file`, after what it said before."""

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
        self.ended_alone: list[str] = []
        """Each end that nobody had brought about, with what it said last."""
        self._environment = environment
        self._directory = directory
        self._changed = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._said_before = 0
        self._started_at = 0.0
        self._failures = 0
        self._restart_at: float | None = None
        self._is_looked_after = False
        self._is_killed = False
        self._lacks_child = False

    @property
    def pid(self) -> int:
        """The id of the first process, from which all others descend; 0 while there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else 0

    @property
    def is_running(self) -> bool:
        """Whether its first process lives."""
        return self.pid != 0

    @property
    def children(self) -> set[int]:
        """The processes that do the work: those that its first process started and that run the same program."""
        parent = self.pid
        found = read_processes() if parent else {}
        return {pid for pid, process in found.items() if process.parent == parent and not _is_tracker(pid)}

    @property
    def said(self) -> str:
        """What it has said since it was started last."""
        with self.log_file.open("rb") as log:
            log.seek(self._said_before)
            return log.read().decode(errors="replace")

    def start(self) -> None:
        """Start it now."""
        with self._changed:
            self._clear()
            self._restart_at = None
            self._is_killed = self._lacks_child = False
            self._started_at = time.monotonic()
            self._process = self._launch()

    def wait_until_ready(self, seconds: float = 300) -> None:
        """Raise RuntimeError with the end of its log if it is not ready in time, or has ended for good."""

        def is_over() -> bool:
            return self.is_ready() or not (self.is_running or self._is_looked_after)

        wait_until(is_over, seconds, self._failure)
        if not self.is_running and not self._is_looked_after:
            raise RuntimeError(self._failure())

    def start_and_wait(self, seconds: float = 300) -> None:
        """Start it unless it runs, and wait until it is ready. One that ended by itself is a RuntimeError."""
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
        """End it for good, with its children; without a word if it does not run."""
        with self._changed:
            self._clear(request)

    def restart(self, pause: float = 0) -> None:
        """End it in order and start it again after a pause."""
        with self._changed:
            self.stop()
            time.sleep(pause)
            self.start()

    def crash(self, pause: float) -> None:
        """Kill every process of it, and start it again after a pause."""
        with self._changed:
            self.kill()
            self.stop()
            time.sleep(pause)
            self.start()

    def kill(self) -> None:
        """SIGKILL to every process of it, in the middle of whatever they do."""
        with self._changed:
            self._is_killed = True
            if self._process is not None and self.is_running:
                signal_group(self._process, signal.SIGKILL)
                self._process.wait()

    def kill_child(self, pid: int) -> None:
        """SIGKILL to one of its processes. Until another one is there (`note_child_is_back`) it may give up as a whole.

        Granian ends when a process is lost within 5.5 s of its start, and Celery when one is lost before it has begun:
        both leave it to their supervisor to start them again.
        """
        self._lacks_child = True
        os.kill(pid, signal.SIGKILL)

    def note_child_is_back(self) -> None:
        """Its processes are as many again: what ends it from now on is something else."""
        self._lacks_child = False

    def pause(self) -> None:
        """Freeze it: its connections stay open, and nothing answers."""
        if self._process is not None:
            signal_group(self._process, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._process is not None:
            signal_group(self._process, signal.SIGCONT)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Frozen until the block ends; nobody starts or stops it meanwhile."""
        with self._changed:
            self.pause()
            try:
                yield
            finally:
                self.resume()

    def look_after(self) -> None:
        """Start it again some time after it ended, later when that happens often. To be called every now and then."""
        with self._changed:
            self._is_looked_after = True
            now = time.monotonic()
            if self._restart_at is not None:
                if now >= self._restart_at:
                    self.start()
            elif self._process is not None and self._process.poll() is not None:
                self._failures = 0 if now - self._started_at > STEADY_AFTER else self._failures
                delay = DELAYS[min(self._failures, len(DELAYS) - 1)]
                self._restart_at = now + delay
                self._failures += 1
                if not self._is_killed and not self._lacks_child:
                    self._note_end(self._process.returncode, delay)
                stop_process(self._process)  # its children may have outlived it and hold its port

    def _launch(self) -> subprocess.Popen[bytes]:
        with self.log_file.open("ab") as log:
            self._said_before = log.tell()
            return self._run(log)

    def _run(self, output: Output) -> subprocess.Popen[bytes]:
        return start_process(self.command, environment=self._environment, directory=self._directory, output=output)

    def _note_end(self, status: int, _delay: float) -> None:
        """Remember that it ended by itself and will be started again."""
        self.ended_alone.append(f"{self.name} ended with {status}: {log_tail(self.log_file, lines=1)}")

    def _clear(self, request: int = signal.SIGTERM) -> None:
        if self._process is not None:
            stop_process(self._process, request=request)
        self._process = None

    def _failure(self) -> str:
        return f"{self.name} did not start. Its log ends with:\n{log_tail(self.log_file)}"


def watch(services: Sequence[Service], ended: threading.Event) -> None:
    """Look after services in a thread of its own until the event is set."""

    def go_on() -> None:
        while not ended.wait(0.1):
            for service in services:
                service.look_after()

    threading.Thread(target=go_on, daemon=True).start()


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
    """Whether a process is one of Python's multiprocessing that only keeps account of shared resources."""
    with contextlib.suppress(OSError):
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
