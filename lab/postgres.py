"""PostgreSQL for tests, on a Unix socket, without the cost of surviving a crash of the machine.

A durable server keeps its commits when it is killed, but not when the machine crashes.
"""

import os
import pwd
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.processes import run
from lab.services import Service


class Postgres(Service):
    """One cluster in one directory; superuser ``gateway``, no password on the socket.

    ``options``, as ``name=value``, override the defaults. ``elsewhere`` is a command prefix, such as to run on a host.
    """

    def __init__(
        self,
        directory: Path,
        *,
        durable: bool = False,
        options: Sequence[str] = (),
        elsewhere: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.url = f"postgresql:///gateway?host={directory}&user=gateway"
        self._user = unprivileged_user() if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        self._before = [*elsewhere, *self._as_user()]
        settings = (
            *("listen_addresses=", f"unix_socket_directories={directory}", "fsync=off", "full_page_writes=off"),
            *(f"synchronous_commit={'on' if durable else 'off'}", "shared_buffers=32MB", "max_connections=100"),
            *options,
        )
        super().__init__(
            "PostgreSQL",
            self._program("postgres", "-D", str(self.data), *(word for each in settings for word in ("-c", each))),
            is_ready=self._is_answering,
            log_file=directory.with_suffix(".log"),
            directory=directory,
        )

    def create(self) -> None:
        """Create a database cluster."""
        self.directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.give_folder_to_user()
        self.run(
            "initdb", f"--pgdata={self.data}", "--username=gateway", "--auth=trust", "--encoding=UTF8", "--no-sync"
        )

    def give_folder_to_user(self) -> None:
        """Give the folder to the account that the server runs as."""
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)

    def start_and_wait(self, seconds: float = 180) -> None:
        """Start it (about 1.5 s), and create its cluster with the database `gateway` if there is none."""
        is_new = not self.data.exists()
        if is_new:
            self.create()
        super().start_and_wait(seconds)
        if is_new:
            self.create_database("gateway")

    def stop(self, request: int = signal.SIGINT) -> None:
        """Stop it without waiting for its clients (SIGINT), or as in a crash (SIGQUIT)."""
        super().stop(request)

    def create_database(self, name: str, *, like: str = "template1") -> None:
        """Add a database: empty, or a copy of another."""
        self.run("createdb", "-h", str(self.directory), "-U", "gateway", f"--template={like}", name)

    def run(self, program: str, *arguments: str) -> str:
        """Run one of PostgreSQL's programs and return its output; raises RuntimeError."""
        return run(self._program(program, *arguments), directory=self.directory).strip()

    def _program(self, program: str, *arguments: str) -> list[str]:
        return [*self._before, str(newest_binaries() / program), *arguments]

    def _as_user(self) -> tuple[str, ...]:
        if self._user is None:
            return ()
        return ("setpriv", f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups")

    def _is_answering(self) -> bool:
        ready: list[str | Path] = [newest_binaries() / "pg_isready", "-q", "-h", self.directory]
        return subprocess.run(ready, check=False).returncode == 0


def newest_binaries() -> Path:
    """The folder with the programs of the newest installed version."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: int(re.sub(r"\D", "", path.parts[-3]) or 0),
    )
    if not found:
        raise RuntimeError("PostgreSQL is not installed (Debian: postgresql); `make test` installs it")
    return found[-1].parent


def unprivileged_user() -> pwd.struct_passwd:
    """An account for servers that refuse to run as root."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
