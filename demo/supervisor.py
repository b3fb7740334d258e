"""Runs several services under one roof: one log, restart after a crash, an orderly end; it knows none of them."""

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
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from lab.processes import start_process, stop_process

COLOURS = ("36", "33", "32", "35", "34")
# A killed service is back within 10 s even when it is killed again and again.
DELAYS = (0.5, 1.0, 2.0, 4.0)
STEADY_AFTER = 30.0
POLL_INTERVAL = 0.2


class Stopped(Exception):
    """The person at the terminal, or the system, asked for the end."""


class ServiceError(RuntimeError):
    """A service did not start the first time; nothing is gained by trying on."""


@dataclass
class Service:
    """What to run and how to tell that it is ready.

    One that logs much writes to the log itself (`has_own_output`): copying costs 40 to 135 µs a line. The lines of all
    others get the service's name in front.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    is_ready: Callable[[], bool]
    directory: Path
    patience: float = 120
    has_own_output: bool = False
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0
    failures: int = 0
    restart_at: float | None = None
    reader: threading.Thread | None = field(default=None, repr=False)


class Console:
    """Standard output shared by all services, a prefix before each line; a terminal that went away is no error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._colours: dict[str, str] = {}
        self._next_colour = itertools.cycle(COLOURS)

    def line(self, name: str, text: str) -> None:
        """Print one line of a service's log."""
        with self._lock:
            prefix = f"{name:<8}|"
            if self._colour:
                if name not in self._colours:
                    self._colours[name] = next(self._next_colour)
                colour = self._colours[name]
                prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
            with contextlib.suppress(OSError, ValueError):
                print(prefix, text, flush=True)

    def is_gone(self) -> bool:
        """Whether nobody can read any more: the terminal hung up, or the reader of a pipe ended."""
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)
        return bool(watched.poll(0))

    def say(self, text: str = "") -> None:
        """Print a line of the supervisor's own."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            print(text, flush=True)


class Supervisor:
    """Starts services one after the other, keeps them running, and stops them in the opposite order.

    Everything happens in the thread that called, which must be the main one, since it receives the signals.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._services: list[Service] = []
        self._stopping = False

    def __enter__(self) -> "Supervisor":
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._request_stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup(1) asks to outlive the terminal
            signal.signal(signal.SIGHUP, self._request_stop)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True  # from here on further signals change nothing: the end is under way
        if self._services:
            self._console.say("Stopping …")
        for service in reversed(self._services):
            if service.process is not None:
                stop_process(service.process)
            if service.reader is not None:
                service.reader.join(1)
        if self._services:
            self._console.say("Stopped.")

    def start(self, service: Service) -> None:
        """Start a service for the first time and wait until it is ready."""
        self._services.append(service)
        self._launch(service)
        deadline = time.monotonic() + service.patience
        while not service.is_ready():
            if service.process is not None and service.process.poll() is not None:
                raise ServiceError(f"{service.name} ended while starting (exit status {service.process.returncode})")
            if time.monotonic() > deadline:
                raise ServiceError(f"{service.name} did not answer within {service.patience:.0f} s")
            time.sleep(POLL_INTERVAL)

    def watch(self) -> None:
        """Restart what ends, until `Stopped` is raised by a signal."""
        while True:
            # A hang-up is signalled to the session's leader alone, which need not pass it on (make does not).
            if self._console.is_gone():
                self._stopping = True
                raise Stopped
            now = time.monotonic()
            for service in self._services:
                self._look_after(service, now)
            time.sleep(POLL_INTERVAL)

    def run_once(self, name: str, command: Sequence[str], *, environment: Mapping[str, str], directory: Path) -> None:
        """Run a command to its end, with its output among the logs; a failure is a `ServiceError`."""
        process = start_process(command, environment=environment, directory=directory, output=subprocess.PIPE)
        try:
            self._copy_output(name, process)
            status = process.wait()
        finally:
            stop_process(process)
        if status != 0:
            raise ServiceError(f"{name} failed (exit status {status})")

    def _look_after(self, service: Service, now: float) -> None:
        if service.restart_at is not None:
            if now >= service.restart_at:
                self._launch(service)
        elif service.process is not None and service.process.poll() is not None:
            steady = now - service.started_at > STEADY_AFTER
            service.failures = 0 if steady else service.failures
            delay = DELAYS[min(service.failures, len(DELAYS) - 1)]
            service.failures += 1
            service.restart_at = now + delay
            self._console.line(service.name, f"ended (exit status {service.process.returncode}), again in {delay:g} s")
            # Its children may have outlived it and hold its port.
            stop_process(service.process)

    def _launch(self, service: Service) -> None:
        service.restart_at = None
        service.started_at = time.monotonic()
        output = sys.stdout.fileno() if service.has_own_output else subprocess.PIPE
        service.process = start_process(
            service.command, environment=service.environment, directory=service.directory, output=output
        )
        if service.has_own_output:
            return
        service.reader = threading.Thread(target=self._copy_output, args=(service.name, service.process), daemon=True)
        service.reader.start()

    def _copy_output(self, name: str, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is None:
            return
        for line in process.stdout:
            if text := line.decode(errors="replace").rstrip():
                self._console.line(name, text)

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise Stopped
