"""PostgreSQL on two hosts: one that takes writes, one that follows it, and an address that is the first one's.

A commit is answered when both have it, so that nothing is lost when the follower is promoted in place of a lost one.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from lab.cluster.network import NETWORK, Host, require_done
from lab.postgres import newest_binaries, unprivileged_user
from lab.processes import log_tail, start_process, stop_process

ADDRESS = f"{NETWORK}.20"
"""Where clients find the one that takes writes."""
URL = (
    f"postgresql://gateway@{ADDRESS}/gateway"
    # A host that is gone says nothing: the system itself would wait for it for a quarter of an hour.
    "?connect_timeout=3&tcp_user_timeout=5000&keepalives_idle=5&keepalives_interval=2&keepalives_count=2"
)
_PATIENCE = 120.0
_OPTIONS = (
    *("listen_addresses=*", "wal_level=replica", "hot_standby=on", "max_wal_senders=6", "max_connections=80"),
    *("shared_buffers=32MB", "fsync=off", "full_page_writes=off", "wal_keep_size=32", "max_wal_size=96MB"),
    *("min_wal_size=32MB", "wal_sender_timeout=5s", "wal_receiver_timeout=5s", "tcp_user_timeout=5000"),
)


class Server:
    """One PostgreSQL on a host; its data lies in a folder that may be a disk of its own."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.folder = folder
        self.log_file = folder.with_suffix(".log")
        self._data = folder / "data"
        self._binaries = newest_binaries()
        self._user = unprivileged_user()
        self._process: subprocess.Popen[bytes] | None = None
        os.chown(folder, self._user.pw_uid, self._user.pw_gid)

    def create(self) -> None:
        """A new cluster of databases."""
        self._run("initdb", f"--pgdata={self._data}", "--username=gateway", "--auth=trust", "--encoding=UTF8")
        rules = f"host all all {NETWORK}.0/24 trust\nhost replication all {NETWORK}.0/24 trust\n"
        with (self._data / "pg_hba.conf").open("a") as file:
            file.write(rules)

    def follow(self, leader: Host) -> None:
        """Become a copy of the one that takes writes, and follow it."""
        shutil.rmtree(self._data, ignore_errors=True)
        self._run("pg_basebackup", f"--pgdata={self._data}", "--host", leader.address, "--username=gateway",
                  "--write-recovery-conf", "--checkpoint=fast")  # fmt: skip

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = [word for option in (*_OPTIONS, f"unix_socket_directories={self.folder}") for word in ("-c", option)]
        with self.log_file.open("ab") as log:
            self._process = start_process(
                self.host.command(*self._as_user(), self._binaries / "postgres", "-D", self._data, *options), output=log
            )
        deadline = time.monotonic() + _PATIENCE
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{log_tail(self.log_file)}")
            time.sleep(0.1)

    def answers(self) -> bool:
        """Whether it takes connections."""
        command = [str(self._binaries / "pg_isready"), "-q", "-h", str(self.folder)]
        return subprocess.run(command, check=False).returncode == 0

    @property
    def is_running(self) -> bool:
        """Whether its first process lives."""
        return self._process is not None and self._process.poll() is None

    def promote(self) -> None:
        """Take writes from now on."""
        self._run("pg_ctl", "promote", "-D", str(self._data), "--wait")

    def wait_for_copies(self, *, wanted: bool) -> None:
        """Answer commits only when a copy has them, or do not wait for one any more."""
        self.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if wanted else ''}'")
        self.sql("SELECT pg_reload_conf()")

    def sql(self, statement: str) -> str:
        """Run a statement on the host itself, and return what it says."""
        words = ("psql", "-h", str(self.folder), "-U", "gateway", "-d", "postgres", "-Atqc", statement)
        return self._run(*words)

    def create_database(self, name: str) -> None:
        self._run("createdb", "-h", str(self.folder), "-U", "gateway", name)

    def end(self, request: int = signal.SIGINT) -> None:
        """End it; with SIGQUIT as a crash does."""
        if self._process is not None:
            stop_process(self._process, request=request)
            self._process = None

    def _as_user(self) -> tuple[str, ...]:
        return ("setpriv", f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups")

    def _run(self, program: str, *arguments: str) -> str:
        command = self.host.command(*self._as_user(), self._binaries / program, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        require_done(done, f"{program} failed")
        return done.stdout.strip()


class Pair:
    """The two, and who of them takes writes."""

    def __init__(self, leader: Server, follower: Server) -> None:
        self.leader, self.follower = leader, follower

    def start(self) -> None:
        """Both of them, the second one a copy of the first, with an empty database `gateway`."""
        self.leader.create()
        self.leader.start()
        self.leader.host.take_address(ADDRESS)
        self.leader.create_database("gateway")
        self._copy()

    def replace_leader(self) -> None:
        """Crash the one that takes writes and have the other one do it; the first becomes its copy."""
        self._require_follower()
        lost, new = self.leader, self.follower
        lost.end(signal.SIGQUIT)
        lost.host.give_address_up(ADDRESS)
        new.promote()
        new.wait_for_copies(wanted=False)
        new.host.take_address(ADDRESS)
        self.leader, self.follower = new, lost
        self._copy()

    def restart_follower(self) -> None:
        """Crash it and start it again: commits wait for it meanwhile."""
        self._require_follower()
        self.follower.end(signal.SIGQUIT)
        self.follower.start()

    def bring_back(self) -> None:
        """Start those that ended by themselves, as a supervisor would."""
        if not self.leader.is_running:
            self.leader.start()
        self._require_follower()

    def stop(self) -> None:
        for server in (self.follower, self.leader):
            server.end(signal.SIGQUIT)

    def _require_follower(self) -> None:
        """A copy that could not be made, or ended by itself, is made anew: without one nobody could be promoted."""
        if not self.follower.is_running:
            self._copy()

    def _copy(self) -> None:
        """Have the second one follow the first; tried again, as whoever looks after the two would do."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self.follower.follow(self.leader.host)
                self.follower.start()
            except RuntimeError:
                self.follower.end(signal.SIGQUIT)
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                self.leader.wait_for_copies(wanted=True)
                return
