"""Runs several services: with one log, restarts after a crash, and an orderly end."""

import contextlib
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

from lab.services import Service

POLL_INTERVAL = 0.2


class Stopped(Exception):
    """The person at the terminal, or the system, has requested the end."""


class Console:
    """Standard output for all services. A closed terminal is not an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def is_gone(self) -> bool:
        """Whether nobody reads any more, since the terminal or the pipe was closed."""
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)
        return bool(watched.poll(0))

    def say(self, text: str) -> None:
        """Print a line."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            print(text, flush=True)

    def copy(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Print a process' output until it ends, with a prefix for each line."""
        for line in process.stdout or ():
            if text := line.decode(errors="replace").rstrip():
                self.say(f"{name:<8}| {text}")


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
        self._console.say(f"{self.name} ended (exit status {status}), again in {delay:g} s")

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
        # The kernel signals a hang-up only to the session leader, which may not pass it on (make does not).
        while not self._console.is_gone():
            for service in self._services:
                service.supervise()
            time.sleep(POLL_INTERVAL)
        raise Stopped

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise Stopped
