"""The servers of a campaign: a domain behind a proxy, Redis, a database, web and worker; who dies is started again.

How they are broken is in `kinds`; what a client does meanwhile in `load`.
"""

import base64
import contextlib
import itertools
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from demo.supervisor import DELAYS, STEADY_AFTER
from faults.observed import Seen
from lab.clock import by_the_machines_clock
from lab.commands import PROJECT, manage_command, redis_answers, redis_command, web_command, worker_command
from lab.directory import Directory
from lab.domain import Domain, running_domain
from lab.postgres import Postgres
from lab.processes import log_tail, signal_group, start_process, stop_process
from lab.proxy import FaultyProxy

WEB_PROCESSES = WORKER_PROCESSES = 2
OPERATION_SECONDS = 6
"""Shorter than the longest pause of the domain controller, so that some answers are given up for lost."""
MODEL = "standard"
"""Samba's process model. With a process for each connection it answers readers while others wait to write, as Windows
does; pre-forked ones would all wait for the same write soon."""


class Service:
    """A server process that is started again as `demo.supervisor` does it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: dict[str, str],
        log_file: Path,
        is_ready: Callable[[], bool],
        directory: Path = PROJECT,
    ) -> None:
        self.name = name
        self._directory = directory
        self._command = command
        self._environment = environment
        self.log_file = log_file
        self.is_ready = is_ready
        self._changed = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._failures = 0
        self._restart_at: float | None = None
        self._is_killed = False
        self._lacks_child = False
        self.ended_alone: list[str] = []
        """Each end that nobody had brought about, with what it said last."""

    @property
    def pid(self) -> int:
        """Of the first process, 0 while there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else 0

    @property
    def children(self) -> set[int]:
        """The processes that do the work: those that its first process started and that run the same program."""
        return {pid for pid in _children_of(self.pid) if not _is_tracker(pid)} if self.pid else set()

    def start(self) -> None:
        """Start it now."""
        with self._changed, self.log_file.open("ab") as log:
            self._restart_at = None
            self._is_killed = self._lacks_child = False
            self._started_at = time.monotonic()
            self._process = start_process(
                self._command, environment=self._environment, directory=self._directory, output=log
            )

    def wait_until_ready(self, seconds: float = 300) -> None:
        """Raises RuntimeError with the end of its log."""
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start. Its log ends with:\n{log_tail(self.log_file)}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it for good."""
        with self._changed:
            if self._process is not None:
                stop_process(self._process)
            self._process = None

    def restart(self, pause: float) -> None:
        """End it in order and start it again after a pause."""
        with self._changed:
            self.stop()
            time.sleep(pause)
            self.start()

    def crash(self, pause: float) -> None:
        """SIGKILL to every process of it, and start it again after a pause."""
        with self._changed:
            self.kill()
            self.stop()
            time.sleep(pause)
            self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Frozen: its connections stay open, and nothing answers."""
        with self._changed:
            if self._process is not None:
                signal_group(self._process, signal.SIGSTOP)
            try:
                yield
            finally:
                if self._process is not None:
                    signal_group(self._process, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to every process of it."""
        with self._changed, contextlib.suppress(ProcessLookupError, PermissionError):
            self._is_killed = True
            if self.pid:
                os.killpg(self.pid, signal.SIGKILL)

    def kill_child(self, pid: int) -> None:
        """SIGKILL to one of its processes. Until another one is there (`note_child_is_back`) it may give up as a whole.

        Granian ends when a process is lost within 5.5 s of its start, and Celery when one is lost before it has begun:
        both leave it to their supervisor to start them again.
        """
        self._lacks_child = True
        os.kill(pid, signal.SIGKILL)

    def note_child_is_back(self) -> None:
        """Its processes are as many again: what ends it from now on is something else."""
        self._lacks_child = False

    def look_after(self) -> None:
        """Start it again some time after it ended, later when that happens often."""
        with self._changed:
            now = time.monotonic()
            if self._restart_at is not None:
                if now >= self._restart_at:
                    self.start()
            elif self._process is not None and self._process.poll() is not None:
                self._failures = 0 if now - self._started_at > STEADY_AFTER else self._failures
                self._restart_at = now + DELAYS[min(self._failures, len(DELAYS) - 1)]
                self._failures += 1
                if not self._is_killed and not self._lacks_child:
                    said = log_tail(self.log_file, lines=1)
                    self.ended_alone.append(f"{self.name} ended with {self._process.returncode}: {said}")
                stop_process(self._process)  # its children may have outlived it and hold its port


class Commands:
    """Commands of the gateway, run in its environment."""

    environment: dict[str, str]

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a management command of the gateway."""
        return self.run(manage_command(*arguments))

    def run(self, command: Sequence[str], *, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in the gateway's environment."""
        return subprocess.run(
            command, env=self.environment, cwd=PROJECT, input=given, capture_output=True, text=True, check=False
        )


class Servers(Commands):
    """Everything that runs during a campaign. `database` is None for SQLite, whose file is `database_file`."""

    def __init__(self, directory: Path, domain: Domain, proxy: FaultyProxy, database: Postgres | None) -> None:
        self.directory = directory
        self.domain = domain
        self.proxy = proxy
        self.database = database
        self.database_file = directory / "gateway.sqlite3"
        self.database_url = (
            f"sqlite:///{self.database_file}"
            if database is None
            else f"postgresql:///gateway?host={database.directory}&user=gateway"
        )
        port = free_port()
        self.base_url = f"http://127.0.0.1:{port}"
        self.redis_socket = directory / "redis.sock"
        self.environment = environment_of(directory, database_url=self.database_url, redis_socket=self.redis_socket)
        self.redis = self._service(
            "redis", by_the_machines_clock(redis_command(self.redis_socket)), lambda: redis_answers(self.redis_socket)
        )
        self.web = self._service("web", web_command(host="127.0.0.1", port=port), lambda: is_healthy(self.base_url))
        self.worker = self._service("worker", worker_command(), lambda: len(self.worker.children) == WORKER_PROCESSES)
        self.services = (self.redis, self.web, self.worker)
        self._ended = threading.Event()

    @property
    def directory_urls(self) -> list[str]:
        """The domain controller behind the proxy."""
        return [self.proxy.url]

    def wait_until_ready(self) -> None:
        """Until the web server answers."""
        self.web.wait_until_ready()

    def wait_until_even(self, _: Directory) -> None:
        """One domain controller always is."""

    def differences(self, _: Callable[[Directory], Mapping[str, Seen]]) -> dict[str, list[str]]:
        """One domain controller has none."""
        return {}

    def ended_alone(self) -> list[str]:
        """The processes that ended although nobody had killed them."""
        return [each for service in self.services for each in service.ended_alone]

    def start(self) -> None:
        """Start web and worker, wait for them, and watch over all from now on."""
        self.worker.start()
        self.web.start()
        self.web.wait_until_ready()
        self.worker.wait_until_ready()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End what was started here."""
        self._ended.set()
        for service in reversed(self.services):
            service.stop()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            for service in self.services:
                service.look_after()

    def _service(self, name: str, command: Sequence[str], is_ready: Callable[[], bool]) -> Service:
        return Service(
            name,
            command,
            environment=self.environment,
            log_file=self.directory / f"{name}.log",
            is_ready=is_ready,
        )


def environment_of(directory: Path, *, database_url: str, redis_socket: Path) -> dict[str, str]:
    """The settings of one gateway, with secrets of its own; what its processes keep is below the directory."""
    plenty = '{"Requests": 100000000, "WindowSeconds": 60}'
    return {
        **{name: value for name, value in os.environ.items() if "__" not in name and name != "GATEWAY_CONFIG"},
        "DJANGO_SETTINGS_MODULE": "gateway.settings",
        "DATABASE_URL": database_url,
        "REDIS_URL": f"unix://{redis_socket}",
        "GATEWAY_DATA_DIR": str(directory / "data"),
        "GATEWAY_ENVIRONMENT": "Development",
        "GATEWAY_LOG_LEVEL": "INFO",
        "GATEWAY_SECRET_KEY": secrets.token_urlsafe(32),
        "GATEWAY_ENCRYPTION_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "GATEWAY_LOG_KEYS": secrets.token_urlsafe(32),
        "Directory__OperationSeconds": str(OPERATION_SECONDS),
        "Runs__WaitSeconds": "10",
        # Limits stay on, with their counters in Redis; they are only never reached.
        "RateLimiting__Global": plenty,
        "RateLimiting__DirectorySearch": plenty,
        "RateLimiting__PasswordReset": plenty,
    }


@contextmanager
def running_servers(directory: Path, *, database: str) -> Iterator[Servers]:
    """Start domain, proxy, Redis and database; web and worker are the caller's to start, once there are keys."""
    with ExitStack() as stack:
        domain = stack.enter_context(running_domain(directory / "domain", model=MODEL))
        proxy = FaultyProxy(domain.controller.address, 636)
        stack.callback(proxy.close)
        postgres = None
        if database == "postgresql":
            postgres = Postgres(directory / "postgres", durable=True)
            postgres.start()
            stack.callback(postgres.stop)
        servers = Servers(directory, domain, proxy, postgres)
        stack.callback(servers.stop)
        servers.redis.start()
        servers.redis.wait_until_ready()
        migrated = servers.manage("migrate", "-v0")
        if migrated.returncode != 0:
            raise RuntimeError(f"the database could not be migrated:\n{migrated.stdout}{migrated.stderr}")
        yield servers


def is_healthy(base_url: str) -> bool:
    """Whether a web server answers there."""
    try:
        urllib.request.urlopen(f"{base_url}/health", timeout=2).close()  # noqa: S310 - our own, on loopback
    except OSError:
        return False
    return True


def _children_of(parent: int) -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # proc(5): the name stands in parentheses and may contain anything; state and parent follow it.
            state, parent_of = itertools.islice(status.read_text(errors="replace").rpartition(")")[2].split(), 2)
            if parent_of == str(parent) and state not in "ZX":
                found.add(int(status.parent.name))
    return found


def _is_tracker(pid: int) -> bool:
    """Whether a process is one of Python's multiprocessing that only keeps account of shared resources."""
    with contextlib.suppress(OSError):
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
