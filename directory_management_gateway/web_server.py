"""granian, but for how a reload (SIGHUP) goes: an old process ends when its successor answers, and not after a time.

granian itself gives each new process a fixed time. On a busy machine none of them would be ready when the last old one
ends, and connections would be refused. A successor that does not get ready, because a setting is wrong now, changes
nothing: the old process goes on.

This is in no app of the gateway, so that the first process, which only watches over the others, stays small.
"""

import time
from pathlib import Path
from typing import Any, Final

from granian import cli
from granian.log import logger
from granian.server.mp import MPServer

READY_WITHIN: Final = 60.0
"""Seconds that a new process may take until it listens."""

_LISTEN = "0A"  # the state in /proc/net/tcp (proc(5); TCP_LISTEN in the kernel's tcp_states.h)


class RollingServer(MPServer):
    """One process after the other: for each of them there is always one that answers."""

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
            old.join(self.workers_kill_timeout)
            if old.is_alive():
                logger.warning("Killing an old process that did not end in time")
                old.kill()
                old.join()
        self._metrics.incr_spawn(len(workers))


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
