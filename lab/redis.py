"""A Redis of the tests' own, on a Unix socket, without persistence."""

import signal
import subprocess
import time
from pathlib import Path

from lab.clock import by_the_machines_clock
from lab.commands import redis_answers, redis_command
from lab.processes import signal_group, start_process, stop_process


class RedisServer:
    """One server on one Unix socket."""

    def __init__(self, socket_file: Path) -> None:
        self.url = f"unix://{socket_file}"
        self._socket_file = socket_file
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait for it."""
        self._process = start_process(by_the_machines_clock(redis_command(self._socket_file)))
        deadline = time.monotonic() + 120
        while not redis_answers(self._socket_file):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("Redis did not start; `make test` installs it")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server; what it held is gone."""
        if self._process is not None:
            stop_process(self._process)
            self._process = None

    def pause(self) -> None:
        """Freeze the server: connections stay open and nothing answers."""
        if self._process is not None:
            signal_group(self._process, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._process is not None:
            signal_group(self._process, signal.SIGCONT)
