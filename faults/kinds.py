"""The kinds of faults, and the plan of a campaign: which faults happen when, determined by the seed."""

import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import psycopg
from redis import Redis, RedisError

from faults import slow_clients
from faults.servers import Servers
from lab.gateway import WORKER_PROCESSES
from lab.proxy import FaultyProxy
from lab.samba.database import busy_with_a_write
from lab.services import Service
from lab.waiting import wait_until

WEB_PROCESSES = 2


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `strike` causes it and returns when it is over; `seconds` are the limits of its duration.

    Two faults of one `victim` never overlap; those of different victims do. A failed recovery misses the `target`.
    """

    name: str
    victim: str
    weight: int
    seconds: tuple[float, float]
    strike: Callable[[Any, "Fault"], None]
    databases: frozenset[str] = frozenset({"postgresql", "sqlite"})
    target: str = "killed processes not back in time"


@dataclass(frozen=True)
class Fault:
    """A fault of the plan, `pause` seconds after the one before, for `seconds`; `choice` picks one of several victims.

    `patience` is how long, in seconds, a killed process may take to be back.
    """

    kind: Kind
    pause: float
    seconds: float
    choice: float
    patience: float


Strike = Callable[[Any, Fault], None]


def lasting(change: Callable[[Any], AbstractContextManager[object]]) -> Strike:
    """Make a fault of a change that lasts for the fault's duration."""

    def strike(servers: Any, fault: Fault) -> None:
        with change(servers):
            time.sleep(fault.seconds)

    return strike


def wait_until_back(is_back: Callable[[], bool], name: str, fault: Fault) -> None:
    """Wait until a victim has recovered; raises TimedOut."""
    wait_until(is_back, fault.patience, f"{name} was not back within {fault.patience:g} s")


def _one_killed(service_of: Callable[[Servers], Service], processes: int) -> Strike:
    """Send SIGKILL to one of the worker processes, and wait until it is replaced."""

    def strike(servers: Servers, fault: Fault) -> None:
        service = service_of(servers)
        wait_until_back(lambda: len(service.children) >= processes, service.name, fault)
        killed = sorted(service.children)[int(fault.choice * processes)]
        service.kill_child(killed)
        wait_until_back(lambda: len(service.children - {killed}) >= processes, service.name, fault)
        service.note_child_is_back()

    return strike


def _all_killed(service_of: Callable[[Servers], Service], is_back: Callable[[Service], bool]) -> Strike:
    def strike(servers: Servers, fault: Fault) -> None:
        service = service_of(servers)
        killed = service.pid
        service.kill()
        wait_until_back(lambda: service.pid not in (0, killed) and is_back(service), service.name, fault)

    return strike


def _misbehaving_proxy(misbehave: Callable[[FaultyProxy], None]) -> Strike:
    """Let the proxy misbehave for a while, and then close the connections, some of which wait in vain."""

    @contextmanager
    def misbehaving(servers: Servers) -> Iterator[None]:
        misbehave(servers.proxy)
        try:
            yield
        finally:
            servers.proxy.restore()
            servers.proxy.drop_connections()

    return lasting(misbehaving)


def _press_slowly(servers: Servers, fault: Fault) -> None:
    servers.web.wait_until_ready()  # replaced processes may not listen yet
    slow_clients.run_slow_clients(servers.base_url, fault.seconds)


def _restart_redis(servers: Servers, fault: Fault) -> None:
    servers.stores.redis.restart(fault.seconds)
    wait_until_back(servers.stores.redis.is_ready, "redis", fault)


def _ask_redis(servers: Servers, command: str) -> None:
    with suppress(RedisError), closing(Redis.from_url(servers.stores.redis.url, socket_timeout=2)) as redis:
        redis.execute_command(command)  # type: ignore[no-untyped-call]


@contextmanager
def _redis_full(servers: Servers) -> Iterator[None]:
    """Make Redis refuse all writes, as if its memory were full."""
    _ask_redis(servers, "CONFIG SET maxmemory 1")
    try:
        _ask_redis(servers, "CLIENT KILL TYPE normal SKIPME yes")
        yield
    finally:
        _ask_redis(servers, "CONFIG SET maxmemory 0")


def _crash_postgresql(servers: Servers, fault: Fault) -> None:
    assert servers.stores.postgres is not None
    servers.stores.postgres.stop(signal.SIGQUIT)
    time.sleep(fault.seconds)
    servers.stores.postgres.start_and_wait()


def kill_database_connections(servers: Any, _: Fault) -> None:
    """Terminate all client connections to PostgreSQL."""
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


@contextmanager
def _sqlite_locked(servers: Servers) -> Iterator[None]:
    """Lock the database as another writer would, so that those who wait too long are refused."""
    with closing(sqlite3.connect(servers.stores.file, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


BUSY = "domain controller busy with a write"
"""It accepts the writes of others and makes them in the end, though they stay invisible for long."""

_POSTGRESQL, _SQLITE = frozenset({"postgresql"}), frozenset({"sqlite"})
_AT_ONCE = (0.0, 0.0)
_web, _worker, _redis = attrgetter("web"), attrgetter("worker"), attrgetter("stores.redis")
KINDS = (
    Kind("SIGKILL of a web process", "web", 5, _AT_ONCE, _one_killed(_web, WEB_PROCESSES)),
    Kind("SIGKILL of the web server", "web", 2, _AT_ONCE,
         _all_killed(_web, lambda web: len(web.children) >= WEB_PROCESSES)),
    Kind("slow clients", "web", 2, (3, 25), _press_slowly, target="others held up by slow clients"),
    Kind("SIGKILL of a worker process", "worker", 5, _AT_ONCE, _one_killed(_worker, WORKER_PROCESSES)),
    Kind("SIGKILL of the worker", "worker", 3, _AT_ONCE,
         _all_killed(_worker, lambda worker: len(worker.children) >= WORKER_PROCESSES)),
    Kind("domain controller paused", "directory", 4, (1, 8),
         lasting(lambda servers: servers.domains[0].controller.paused())),
    Kind(BUSY, "directory's database", 1, (60, 60), lasting(lambda servers: busy_with_a_write(servers.domains[0]))),
    Kind("directory cut before a write", "directory", 4, (0.2, 4), _misbehaving_proxy(FaultyProxy.cut)),
    Kind("directory cut after a write", "directory", 4, (0.1, 2), _misbehaving_proxy(FaultyProxy.lose_answer)),
    Kind("directory's connections dropped", "directory", 3, _AT_ONCE,
         lambda servers, _: servers.proxy.drop_connections()),
    Kind("directory's answers swallowed", "directory", 2, (1, 8), _misbehaving_proxy(FaultyProxy.swallow_answers)),
    Kind("Redis FLUSHALL", "redis", 2, _AT_ONCE, lambda servers, _: _ask_redis(servers, "FLUSHALL")),
    Kind("Redis restarted", "redis", 2, (0, 2), _restart_redis),
    Kind("SIGKILL of Redis", "redis", 2, _AT_ONCE, _all_killed(_redis, lambda redis: redis.is_ready())),
    Kind("Redis' memory full", "redis", 2, (0.5, 5), lasting(_redis_full)),
    Kind("PostgreSQL restarted (immediate)", "database", 3, (0, 1.5), _crash_postgresql, _POSTGRESQL),
    Kind("PostgreSQL connections killed", "database", 3, _AT_ONCE, kill_database_connections, _POSTGRESQL),
    Kind("SQLite locked by another", "database", 6, (0.5, 8), lasting(_sqlite_locked), _SQLITE),
)  # fmt: skip


def kinds_on(database: str) -> list[Kind]:
    """The kinds for a single host with this database."""
    return [kind for kind in KINDS if database in kind.databases]


def plan_faults(
    choices: random.Random,
    *,
    kinds: Sequence[Kind],
    count: int,
    pace: float,
    patience: float,
) -> list[Fault]:
    """Plan `count` faults at random times, `pace` seconds apart on average; each kind once before any comes twice."""
    chosen = choices.sample(kinds, min(count, len(kinds)))
    chosen += choices.choices(kinds, [kind.weight for kind in kinds], k=count - len(chosen))
    choices.shuffle(chosen)

    def planned(kind: Kind) -> Fault:
        pause, seconds = choices.expovariate(1 / pace), choices.uniform(*kind.seconds)
        return Fault(kind, pause, seconds, choices.random(), patience)

    return [planned(kind) for kind in chosen]


@dataclass(frozen=True)
class FaultResult:
    """The result of a fault: when it began, its seconds until recovery, and what was wrong with the recovery."""

    name: str
    target: str
    choice: float
    at: float
    seconds: float
    complaint: str | None


class FaultInjector(threading.Thread):
    """Executes the plan."""

    def __init__(self, servers: Any, faults: Sequence[Fault]) -> None:
        super().__init__(name="striker", daemon=True)
        self.struck: list[FaultResult] = []
        self._servers = servers
        self._faults = faults
        self._victims = {fault.kind.victim: threading.Lock() for fault in faults}

    def run(self) -> None:
        threads = []
        for fault in self._faults:
            time.sleep(fault.pause)
            self._victims[fault.kind.victim].acquire()
            threads.append(threading.Thread(target=self._strike, args=(fault,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _strike(self, fault: Fault) -> None:
        at, begun = time.time(), time.monotonic()
        complaint = None
        try:
            fault.kind.strike(self._servers, fault)
        except (OSError, RuntimeError, psycopg.Error, sqlite3.Error) as error:
            complaint = f"{fault.kind.name}: {error}"
        finally:
            self._victims[fault.kind.victim].release()
        seconds = time.monotonic() - begun
        self.struck.append(FaultResult(fault.kind.name, fault.kind.target, fault.choice, at, seconds, complaint))
