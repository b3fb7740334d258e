"""A PostgreSQL of the tests' own, on a Unix socket, as fast as a database that nobody will miss may be.

A durable one keeps what it committed when it is killed, as long as the machine itself does not go down.
"""

import os
import pwd
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.processes import log_tail, start_process, stop_process


class Postgres:
    """One cluster in one directory; superuser ``gateway``, no password on the socket.

    ``options``, as ``name=value``, overrule what is set here.
    """

    def __init__(self, directory: Path, *, durable: bool = False, options: Sequence[str] = ()) -> None:
        self.directory = directory
        self.log_file = directory / "server.log"
        self._commit = "on" if durable else "off"
        self._options = options
        self._binaries = newest_binaries()
        # PostgreSQL refuses to run as root.
        self._user = unprivileged_user() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Create the cluster if it is not there, start the server and wait for it (about 1.5 s)."""
        data = self.directory / "data"
        is_new = not data.exists()
        if is_new:
            self.directory.mkdir(parents=True, mode=0o700)
            if self._user is not None:
                os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
            self._run(
                "initdb", f"--pgdata={data}", "--username=gateway", "--auth=trust", "--encoding=UTF8", "--no-sync"
            )
        with self.log_file.open("ab") as log:
            self._process = start_process(
                [
                    *(self._binaries / "postgres", "-D", data, "-k", self.directory, "-c", "listen_addresses="),
                    *("-c", "fsync=off", "-c", f"synchronous_commit={self._commit}", "-c", "full_page_writes=off"),
                    *("-c", "shared_buffers=32MB", "-c", "max_connections=60"),
                    *(word for option in self._options for word in ("-c", option)),
                ],
                output=log,
                user=self._user,
                directory=self.directory,
            )
        deadline = time.monotonic() + 180
        ready: list[str | Path] = [self._binaries / "pg_isready", "-q", "-h", self.directory]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"PostgreSQL did not start:\n{log_tail(self.log_file)}")
            time.sleep(0.05)
        if is_new:
            self.create_database("gateway")

    def create_database(self, name: str, *, like: str = "template1") -> None:
        """One more database: empty, or a copy of another."""
        self._run("createdb", "-h", str(self.directory), "-U", "gateway", f"--template={like}", name)

    @property
    def process_id(self) -> int:
        """The first of the server's processes, from which all others descend."""
        if self._process is None:
            raise RuntimeError("PostgreSQL does not run")
        return self._process.pid

    def stop(self) -> None:
        """End the server without waiting for its clients."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """End the server in immediate mode, as a crash does: what was not committed is lost, at once."""
        self._end(signal.SIGQUIT)

    def _end(self, request: int) -> None:
        if self._process is not None:
            stop_process(self._process, request=request)
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        user: dict[str, Any] = (
            {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if self._user else {}
        )
        done = subprocess.run(
            [self._binaries / program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            **user,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}")


def newest_binaries() -> Path:
    """Where the programs of the newest version are that is installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: int(re.sub(r"\D", "", path.parts[-3]) or 0),
    )
    if not found:
        raise RuntimeError("PostgreSQL is not installed (Debian: postgresql); `make test` installs it")
    return found[-1].parent


def unprivileged_user() -> pwd.struct_passwd:
    """Whom a server runs as that refuses to be root: any account will do."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
