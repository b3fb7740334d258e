"""granian, but for how a reload (SIGHUP) goes: an old process ends when its successor answers, and not after a time.

granian itself gives each new process a fixed time. On a busy machine none of them would be ready when the last old one
ends, and connections would be refused. A successor that does not get ready, because a setting is wrong now, changes
nothing: the old process goes on. Nor does an old process hold the next one up while it still answers.

This is in no app of the gateway, so that the first process, which only watches over the others, stays small.
"""

import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final

from granian import cli
from granian.log import logger
from granian.server.mp import MPServer

READY_WITHIN: Final = 60.0
"""Seconds that a new process may take until it listens."""

ENDS_WITHIN: Final = 310.0
"""Seconds that an old process may take for what it is answering: a proxy in front waits for 300 (deploy/nginx)."""

_LISTEN = "0A"  # the state in /proc/net/tcp (proc(5); TCP_LISTEN in the kernel's tcp_states.h)


class RollingServer(MPServer):
    """One process after the other: for each of them there is always one that answers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._leaving: list[Any] = []

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        if not delay:  # those that were lost: nobody waits for them to end
            super()._respawn_workers(workers, spawn_target, target_loader)
            return
        for place in workers:
            old: Any = self.wrks[place]
            new: Any = self._spawn_worker(idx=place, target=spawn_target, callback_loader=target_loader)
            new.interrupt_by_parent = True  # until it is ready its end is no crash of this place
            new.start()
            if not _gets_ready(new):
                logger.error("A new process does not get ready; the old ones go on. Its reason is above.")
                new.kill()
                return
            new.interrupt_by_parent = False
            self.wrks[place] = new
            old.terminate()
            self._leaving.append(old)
            Thread(target=self._wait_for, args=(old, ENDS_WITHIN), daemon=True).start()
        self._metrics.incr_spawn(len(workers))

    def _stop_workers(self) -> None:
        """End all processes, those too that a reload has told to end already."""
        deadline = time.monotonic() + (self.workers_kill_timeout or 0)
        super()._stop_workers()  # type: ignore[no-untyped-call]
        for old in tuple(self._leaving):
            self._wait_for(old, max(0.001, deadline - time.monotonic()))

    def _wait_for(self, old: Any, seconds: float) -> None:
        old.join(seconds)
        if old.is_alive():
            logger.warning("Killing an old process that did not end in time")
            old.kill()
            old.join()
        with suppress(ValueError):  # both a reload and the end of the server wait for it
            self._leaving.remove(old)


def _gets_ready(worker: Any) -> bool:
    deadline = time.monotonic() + READY_WITHIN
    while worker.is_alive() and time.monotonic() < deadline:
        if is_listening(worker.inner.pid):
            return True
        time.sleep(0.05)
    return False


def is_listening(pid: int) -> bool:
    """Whether a process has a TCP socket that listens; granian's open theirs when the application is loaded."""
    try:
        own = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
        for table in ("tcp", "tcp6"):
            lines = Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]
            for fields in (line.split() for line in lines):
                if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in own:
                    return True
    except OSError:  # it has just ended, or closed one
        pass
    return False


if __name__ == "__main__":
    cli.Server = RollingServer  # type: ignore[attr-defined]  # where granian's command line looks for it
    cli.entrypoint()  # type: ignore[no-untyped-call]
