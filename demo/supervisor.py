"""Runs several services: with one log, restarts after a crash, and an orderly end."""

import contextlib
import itertools
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from lab.commands import PROJECT
from lab.processes import start_process, stop_process
from lab.services import Service

COLOURS = ("36", "33", "32", "35", "34")
POLL_INTERVAL = 0.2


class Stopped(Exception):
    """The person at the terminal, or the system, has requested the end."""


class Console:
    """Standard output for all services, with a prefix for each line. A closed terminal is not an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._colours: dict[str, str] = {}
        self._next_colour = itertools.cycle(COLOURS)

    def line(self, name: str, text: str) -> None:
        """Print one line of a service's log."""
        prefix = f"{name:<8}|"
        if self._colour:
            if name not in self._colours:
                self._colours[name] = next(self._next_colour)
            prefix = f"\x1b[{self._colours[name]}m{prefix}\x1b[0m"
        self.say(f"{prefix} {text}")

    def is_gone(self) -> bool:
        """Whether nobody reads any more, since the terminal or the pipe was closed."""
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)
        return bool(watched.poll(0))

    def say(self, text: str = "") -> None:
        """Print a line without a prefix."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            print(text, flush=True)

    def copy(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Print a process' output until it ends."""
        for line in process.stdout or ():
            if text := line.decode(errors="replace").rstrip():
                self.line(name, text)


class ShownService(Service):
    """A service whose output is on the console.

    A service that logs much writes there itself (`has_own_output`), since copying takes 40 to 135 µs per line. The
    lines of all others are prefixed with the service's name.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        console: Console,
        *,
        environment: Mapping[str, str],
        is_ready: Callable[[], bool],
        has_own_output: bool = False,
    ) -> None:
        super().__init__(name, command, is_ready=is_ready, log_file=Path(os.devnull), environment=environment)
        self._console = console
        self._has_own_output = has_own_output

    def _launch(self) -> subprocess.Popen[bytes]:
        if self._has_own_output:
            return self._run(sys.stdout.fileno())
        process = self._run(subprocess.PIPE)
        threading.Thread(target=self._console.copy, args=(self.name, process), daemon=True).start()
        return process

    def _note_unexpected_end(self, status: int, delay: float) -> None:
        self._console.line(self.name, f"ended (exit status {status}), again in {delay:g} s")

    def _failure(self) -> str:
        return f"{self.name} did not start; the reason is above"


class Supervisor:
    """Starts services one after the other, keeps them running, and stops them in the opposite order.

    Everything runs in the calling thread, which must be the main one, since that receives signals.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._services: list[Service] = []
        self._stopping = False

    def __enter__(self) -> "Supervisor":
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._request_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup(1), to outlive the terminal
            signal.signal(signal.SIGHUP, self._request_stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True  # ignore further signals, since the end is under way
        if self._services:
            self._console.say("Stopping …")
            for service in reversed(self._services):
                service.stop()
            self._console.say("Stopped.")

    def start(self, service: Service) -> None:
        """Start a service for the first time and wait until it is ready; raises RuntimeError."""
        self._services.append(service)
        service.start_and_wait(120)

    def watch(self) -> None:
        """Restart services that end, until a signal raises `Stopped`."""
        while True:
            # The kernel signals a hang-up only to the session leader, which may not pass it on (make does not).
            if self._console.is_gone():
                self._stopping = True
                raise Stopped
            for service in self._services:
                service.supervise()
            time.sleep(POLL_INTERVAL)

    def run_once(self, name: str, command: Sequence[str], *, environment: Mapping[str, str]) -> None:
        """Run a command to its end, with its output among the logs; raises RuntimeError when it fails."""
        process = start_process(command, environment=environment, directory=PROJECT, output=subprocess.PIPE)
        try:
            self._console.copy(name, process)
            status = process.wait()
        finally:
            stop_process(process)
        if status != 0:
            raise RuntimeError(f"{name} failed (exit status {status})")

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise Stopped
