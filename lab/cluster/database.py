"""PostgreSQL on two hosts: one that takes writes, one that follows it, and an address that is the first one's.

A commit is answered when both have it, so that nothing is lost when the follower is promoted in place of a lost one.
"""

import shutil
import signal
import time
from pathlib import Path

from lab.cluster.network import NETWORK, Host
from lab.postgres import Postgres

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
    *("wal_keep_size=32", "max_wal_size=96MB", "min_wal_size=32MB"),
    *("wal_sender_timeout=5s", "wal_receiver_timeout=5s", "tcp_user_timeout=5000"),
)


class Server(Postgres):
    """One PostgreSQL on a host; its data lies in a folder that may be a disk of its own."""

    def __init__(self, host: Host, folder: Path) -> None:
        super().__init__(folder, durable=True, options=_OPTIONS, elsewhere=host.command())
        self.host = host

    def create(self) -> None:
        """Make a new cluster of databases that lets everybody of the network in."""
        super().create()
        rules = f"host all all {NETWORK}.0/24 trust\nhost replication all {NETWORK}.0/24 trust\n"
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write(rules)

    def follow(self, leader: Host) -> None:
        """Become a copy of the one that takes writes, and follow it."""
        self.give_folder_to_user()
        shutil.rmtree(self.data, ignore_errors=True)
        self.run("pg_basebackup", f"--pgdata={self.data}", "--host", leader.address, "--username=gateway",
                 "--write-recovery-conf", "--checkpoint=fast")  # fmt: skip

    def wait_for_copies(self, *, wanted: bool) -> None:
        """Answer commits only when a copy has them, or do not wait for one any more."""
        self._execute(f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if wanted else ''}'")
        self._execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Take writes from now on."""
        self.run("pg_ctl", "promote", "-D", str(self.data), "--wait")

    def _execute(self, statement: str) -> None:
        self.run("psql", "-h", str(self.directory), "-U", "gateway", "-d", "postgres", "-Atqc", statement)


class Pair:
    """The two, and who of them takes writes."""

    def __init__(self, leader: Server, follower: Server) -> None:
        self.leader, self.follower = leader, follower

    def start(self) -> None:
        """Both of them, the second one a copy of the first, with an empty database `gateway`."""
        self.leader.start_and_wait()
        self.leader.host.take_address(ADDRESS)
        self._copy()

    def replace_leader(self) -> None:
        """Crash the one that takes writes and have the other one do it; the first becomes its copy."""
        self._require_follower()
        lost, new = self.leader, self.follower
        lost.stop(signal.SIGQUIT)
        lost.host.give_address_up(ADDRESS)
        new.promote()
        new.wait_for_copies(wanted=False)
        new.host.take_address(ADDRESS)
        self.leader, self.follower = new, lost
        self._copy()

    def restart_follower(self) -> None:
        """Crash it and start it again: commits wait for it meanwhile."""
        self._require_follower()
        self.follower.stop(signal.SIGQUIT)
        self.follower.start_and_wait()

    def bring_back(self) -> None:
        """Start those that ended by themselves, as a supervisor would."""
        if not self.leader.is_running:
            self.leader.stop()
            self.leader.start_and_wait()
        self._require_follower()

    def stop(self) -> None:
        for server in (self.follower, self.leader):
            server.stop(signal.SIGQUIT)

    def _require_follower(self) -> None:
        """A copy that could not be made, or ended by itself, is made anew: without one nobody could be promoted."""
        if not self.follower.is_running:
            self._copy()

    def _copy(self) -> None:
        """Have the second one follow the first; tried again, as whoever looks after the two would do."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            self.follower.stop(signal.SIGQUIT)
            try:
                self.follower.follow(self.leader.host)
                self.follower.start_and_wait()
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                self.leader.wait_for_copies(wanted=True)
                return
