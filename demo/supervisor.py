"""Runs several services: restarts after a crash, and an orderly end."""

import contextlib
import select
import signal
import subprocess
import sys
import time
from types import FrameType

from lab.services import Service

POLL_INTERVAL = 0.2


class Stopped(Exception):
    """The person at the terminal, or the system, has requested the end."""


def say(text: str) -> None:
    """Print a line. A closed terminal is not an error."""
    with contextlib.suppress(OSError, ValueError):
        print(text, flush=True)


def _is_reader_gone() -> bool:
    """Whether nobody reads standard output any more, since the terminal or the pipe was closed."""
    watched = select.poll()
    watched.register(sys.stdout.fileno(), 0)
    return bool(watched.poll(0))


class ShownService(Service):
    """A service that writes to standard output. It does so itself: copying would take 40 to 135 µs per line."""

    def _launch(self) -> subprocess.Popen[bytes]:
        return self._run(sys.stdout.fileno())

    def _failure(self) -> str:
        return f"{self.name} did not start; the reason is above"


class Supervisor:
    """Starts services one after the other, keeps them running, and stops them in the opposite order.

    Everything runs in the calling thread, which must be the main one, since that receives signals.
    """

    def __init__(self) -> None:
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
            say("Stopping …")
            for service in reversed(self._services):
                service.stop()
            say("Stopped.")

    def start(self, service: Service) -> None:
        """Start a service for the first time and wait until it is ready; raises RuntimeError."""
        self._services.append(service)
        service.start_and_wait(120)

    def watch(self) -> None:
        """Restart services that end, until a signal raises `Stopped`."""
        # The kernel signals a hang-up only to the session leader, which may not pass it on (make does not).
        while not _is_reader_gone():
            for service in self._services:
                service.supervise()
                while service.unexpected_ends:
                    say(f"{service.unexpected_ends.pop()} (it is started again)")
            time.sleep(POLL_INTERVAL)
        raise Stopped

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise Stopped
