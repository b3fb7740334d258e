"""granian with another reload (SIGHUP): an old process ends when its successor listens, and not after a fixed time.

With a fixed time, on a busy machine no new process might be ready when the last old one ends, and connections would be
refused. If a successor does not become ready, because of a wrong setting, the old process simply continues. The reload
does not wait for the requests of old processes, either.

This module imports no app of the gateway, so that the parent process, which only supervises, stays small.
"""

import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final

from granian import cli
from granian.log import logger
from granian.server.mp import MPServer

READY_SECONDS: Final = 60.0
"""How long a new process may take until it listens."""

DRAIN_SECONDS: Final = 310.0
"""How long an old process may take for its current requests: the proxy waits for 300 seconds (deploy/nginx)."""

_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp (proc(5), the kernel's tcp_states.h)


class RollingServer(MPServer):
    """Replaces one process after the other, so that each has a successor that answers before it ends."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._draining: list[Any] = []

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        if not delay:  # not a reload: these processes have crashed
            super()._respawn_workers(workers, spawn_target, target_loader)
            return
        for index in workers:
            old: Any = self.wrks[index]
            new: Any = self._spawn_worker(idx=index, target=spawn_target, callback_loader=target_loader)
            new.interrupt_by_parent = True  # a failed start must not count as a crash
            new.start()
            if not _becomes_ready(new):
                logger.error("A new process does not get ready; the old ones go on. Its reason is above.")
                new.kill()
                return
            new.interrupt_by_parent = False
            self.wrks[index] = new
            old.terminate()
            self._draining.append(old)
            Thread(target=self._wait_for, args=(old, DRAIN_SECONDS), daemon=True).start()
        self._metrics.incr_spawn(len(workers))

    def _stop_workers(self) -> None:
        """Stop all processes, including those that a reload has already told to end."""
        deadline = time.monotonic() + (self.workers_kill_timeout or 0)
        super()._stop_workers()  # type: ignore[no-untyped-call]
        for old in tuple(self._draining):
            self._wait_for(old, max(0.001, deadline - time.monotonic()))

    def _wait_for(self, old: Any, seconds: float) -> None:
        old.join(seconds)
        if old.is_alive():
            logger.warning("Killing an old process that did not end in time")
            old.kill()
            old.join()
        with suppress(ValueError):  # a reload and a shutdown may both wait for it
            self._draining.remove(old)


def _becomes_ready(worker: Any) -> bool:
    deadline = time.monotonic() + READY_SECONDS
    while worker.is_alive() and time.monotonic() < deadline:
        if is_listening(worker.inner.pid):
            return True
        time.sleep(0.05)
    return False


def is_listening(pid: int) -> bool:
    """Whether a process listens on a TCP socket; granian's processes do once they have loaded the application."""
    try:
        own = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
        for table in ("tcp", "tcp6"):
            lines = Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]
            for fields in (line.split() for line in lines):
                if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in own:
                    return True
    except OSError:  # the process has just ended, or closed a file
        pass
    return False


if __name__ == "__main__":
    cli.Server = RollingServer  # type: ignore[attr-defined]  # granian's command line uses this name
    cli.entrypoint()  # type: ignore[no-untyped-call]
