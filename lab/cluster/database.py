"""PostgreSQL on two hosts, a primary and its standby, with an address that moves with the primary.

A commit is confirmed when both have it, so that nothing is lost when the standby is promoted.
"""

import shutil
import signal
from pathlib import Path

from lab.cluster.network import NETWORK, Host
from lab.postgres import Postgres
from lab.waiting import retry

ADDRESS = f"{NETWORK}.20"
"""The address at which clients find the primary."""
URL = (
    f"postgresql://gateway@{ADDRESS}/gateway"
    # A host without power closes nothing: by default the kernel would wait for it for a quarter of an hour.
    "?connect_timeout=3&tcp_user_timeout=5000&keepalives_idle=5&keepalives_interval=2&keepalives_count=2"
)
_COPY_SECONDS = 120.0
_OPTIONS = (
    *("listen_addresses=*", "wal_level=replica", "hot_standby=on", "max_wal_senders=6", "max_connections=120"),
    *("wal_keep_size=32", "max_wal_size=96MB", "min_wal_size=32MB"),
    *("wal_sender_timeout=5s", "wal_receiver_timeout=5s", "tcp_user_timeout=5000"),
)


class Server(Postgres):
    """A PostgreSQL server on a host. Its folder may be a disk of its own."""

    def __init__(self, host: Host, folder: Path) -> None:
        super().__init__(folder, durable=True, options=_OPTIONS, elsewhere=host.command())
        self.host = host

    def create(self) -> None:
        """Create a database cluster that trusts the whole network."""
        super().create()
        rules = f"host all all {NETWORK}.0/24 trust\nhost replication all {NETWORK}.0/24 trust\n"
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write(rules)

    def copy_from(self, primary: Host) -> None:
        """Become a standby with a copy of the primary."""
        self.give_folder_to_user()
        shutil.rmtree(self.data, ignore_errors=True)
        self.run("pg_basebackup", f"--pgdata={self.data}", "--host", primary.address, "--username=gateway",
                 "--write-recovery-conf", "--checkpoint=fast")  # fmt: skip

    def set_synchronous_commit(self, *, enabled: bool) -> None:
        """Confirm commits only after a standby has them, or without waiting for one."""
        self._execute(f"ALTER SYSTEM SET synchronous_standby_names = '{'*' if enabled else ''}'")
        self._execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Become the primary."""
        self.run("pg_ctl", "promote", "-D", str(self.data), "--wait")

    def _execute(self, statement: str) -> None:
        self.run("psql", "-h", str(self.directory), "-U", "gateway", "-d", "postgres", "-Atqc", statement)


class Pair:
    """A primary and its standby."""

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary, self.standby = primary, standby

    def start(self) -> None:
        """Start the primary with an empty database `gateway`, and the standby as its copy."""
        self.primary.start_and_wait()
        self.primary.host.add_address(ADDRESS)
        self._copy()

    def fail_over(self) -> None:
        """Crash the primary and promote the standby; the old primary becomes the new standby."""
        self._ensure_standby()
        old, new = self.primary, self.standby
        old.stop(signal.SIGQUIT)
        old.host.remove_address(ADDRESS)
        new.promote()
        new.set_synchronous_commit(enabled=False)
        new.host.add_address(ADDRESS)
        self.primary, self.standby = new, old
        self._copy()

    def restart_standby(self) -> None:
        """Crash the standby and start it again; commits wait for it meanwhile."""
        self._ensure_standby()
        self.standby.stop(signal.SIGQUIT)
        self.standby.start_and_wait()

    def restart_ended(self) -> None:
        """Restart servers that have ended, as a supervisor would."""
        if not self.primary.is_running:
            self.primary.stop()
            self.primary.start_and_wait()
        self._ensure_standby()

    def stop(self) -> None:
        for server in (self.standby, self.primary):
            server.stop(signal.SIGQUIT)

    def _ensure_standby(self) -> None:
        """Make the standby anew if it has ended or was never made: without it there is no fail-over."""
        if not self.standby.is_running:
            self._copy()

    def _copy(self) -> None:
        """Make the standby a copy of the primary; retried, as an administrator would."""
        retry(self._try_to_copy, _COPY_SECONDS)
        self.primary.set_synchronous_commit(enabled=True)

    def _try_to_copy(self) -> None:
        self.standby.stop(signal.SIGQUIT)
        self.standby.copy_from(self.primary.host)
        self.standby.start_and_wait()
