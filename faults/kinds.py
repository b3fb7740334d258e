"""The kinds of faults, and the plan of a campaign: which come when, all of it chosen by the seed."""

import math
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from redis import Redis, RedisError

from faults import slow_clients
from faults.servers import Servers
from lab.gateway import WORKER_PROCESSES
from lab.redis import redis_answers
from lab.samba.database import busy_with_a_write
from lab.services import Service
from lab.waiting import wait_until

WEB_PROCESSES = 2


@dataclass(frozen=True)
class Kind:
    """`strike` does it to the servers and returns when it is over; `seconds` are the bounds of how long it lasts.

    Two faults of one `victim` never overlap, those of different ones do. What goes wrong meanwhile misses the `target`.
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
    """One fault of the plan: so long after the one before, for so long; `choice` picks one of several victims.

    `patience` is how many seconds a killed process may take to be there again.
    """

    kind: Kind
    pause: float
    seconds: float
    choice: float
    patience: float


Strike = Callable[[Any, Fault], None]


def lasting(change: Callable[[Any], AbstractContextManager[object]]) -> Strike:
    """A change of the servers that goes on for the fault's time."""

    def strike(servers: Any, fault: Fault) -> None:
        with change(servers):
            time.sleep(fault.seconds)

    return strike


def wait_until_back(is_back: Callable[[], bool], name: str, fault: Fault) -> None:
    """Raises NotInTime."""
    wait_until(is_back, fault.patience, f"{name} was not back within {fault.patience:g} s")


def _one_killed(service_of: Callable[[Servers], Service], processes: int) -> Strike:
    """SIGKILL to one of the processes that do the work; over when there are as many again."""

    def strike(servers: Servers, fault: Fault) -> None:
        service, children = service_of(servers), set[int]()

        def are_there() -> bool:
            nonlocal children
            children = service.children
            return len(children) >= processes

        wait_until_back(are_there, service.name, fault)
        killed = sorted(children)[int(fault.choice * processes)]
        service.kill_child(killed)
        wait_until_back(lambda: are_there() and killed not in children, service.name, fault)
        service.note_child_is_back()

    return strike


def _all_killed(service_of: Callable[[Servers], Service], is_back: Callable[[Servers], bool]) -> Strike:
    def strike(servers: Servers, fault: Fault) -> None:
        service = service_of(servers)
        killed = service.pid
        service.kill()
        wait_until_back(lambda: service.pid not in (0, killed) and is_back(servers), service.name, fault)

    return strike


@contextmanager
def _restored(servers: Servers, misbehave: Callable[[], None]) -> Iterator[None]:
    """The proxy misbehaves until the block ends."""
    misbehave()
    try:
        yield
    finally:
        servers.proxy.restore()


@contextmanager
def _answers_swallowed(servers: Servers) -> Iterator[None]:
    """The client waits in vain although the domain controller has done its work; then the connections are lost."""
    with _restored(servers, servers.proxy.swallow_answers):
        yield
    servers.proxy.drop_connections()


def _press_slowly(servers: Servers, fault: Fault) -> None:
    servers.web.wait_until_ready()  # its processes may be there again and not listen yet
    slow_clients.press(servers.base_url, fault.seconds)


def _redis_is_back(servers: Servers) -> bool:
    return redis_answers(servers.stores.redis.socket_file)


def _restart_redis(servers: Servers, fault: Fault) -> None:
    servers.stores.redis.restart(fault.seconds)
    wait_until_back(lambda: _redis_is_back(servers), "redis", fault)


def _ask_redis(servers: Servers, *commands: str) -> None:
    with suppress(RedisError), closing(Redis.from_url(servers.stores.redis.url, socket_timeout=2)) as redis:
        for command in commands:
            redis.execute_command(command)  # type: ignore[no-untyped-call]


@contextmanager
def _redis_full(servers: Servers) -> Iterator[None]:
    """It answers whatever would write with an error, as one does whose memory is full."""
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
    """End the connection of every client to PostgreSQL."""
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


@contextmanager
def _sqlite_locked(servers: Servers) -> Iterator[None]:
    """Another writer holds the database: what waits for it too long is refused."""
    with closing(sqlite3.connect(servers.stores.file, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


BUSY = "domain controller busy with a write"
"""What others write meanwhile it takes and makes in the end, however long nothing is to be seen of it."""
_POSTGRESQL, _SQLITE = frozenset({"postgresql"}), frozenset({"sqlite"})
_AT_ONCE = (0.0, 0.0)


def _web(servers: Servers) -> Service:
    return servers.web


def _worker(servers: Servers) -> Service:
    return servers.worker


KINDS = (
    Kind("SIGKILL of a web process", "web", 5, _AT_ONCE, _one_killed(_web, WEB_PROCESSES)),
    Kind("SIGKILL of the web server", "web", 2, _AT_ONCE,
         _all_killed(_web, lambda servers: len(servers.web.children) >= WEB_PROCESSES)),
    Kind("slow clients", "web", 2, (3, 25), _press_slowly, target="others held up by slow clients"),
    Kind("SIGKILL of a worker process", "worker", 5, _AT_ONCE, _one_killed(_worker, WORKER_PROCESSES)),
    Kind("SIGKILL of the worker", "worker", 3, _AT_ONCE,
         _all_killed(_worker, lambda servers: len(servers.worker.children) >= WORKER_PROCESSES)),
    Kind("domain controller paused", "directory", 4, (1, 8),
         lasting(lambda servers: servers.domains[0].controller.paused())),
    Kind(BUSY, "directory's database", 1, (60, 60), lasting(lambda servers: busy_with_a_write(servers.domains[0]))),
    Kind("directory cut before a write", "directory", 4, (0.2, 4),
         lasting(lambda servers: _restored(servers, servers.proxy.cut))),
    Kind("directory cut after a write", "directory", 4, (0.1, 2),
         lasting(lambda servers: _restored(servers, servers.proxy.lose_answer))),
    Kind("directory's connections dropped", "directory", 3, _AT_ONCE,
         lambda servers, _: servers.proxy.drop_connections()),
    Kind("directory's answers swallowed", "directory", 2, (1, 8), lasting(_answers_swallowed)),
    Kind("Redis FLUSHALL", "redis", 2, _AT_ONCE, lambda servers, _: _ask_redis(servers, "FLUSHALL")),
    Kind("Redis restarted", "redis", 2, (0, 2), _restart_redis),
    Kind("SIGKILL of Redis", "redis", 2, _AT_ONCE, _all_killed(lambda servers: servers.stores.redis, _redis_is_back)),
    Kind("Redis' memory full", "redis", 2, (0.5, 5), lasting(_redis_full)),
    Kind("PostgreSQL restarted (immediate)", "database", 3, (0, 1.5), _crash_postgresql, _POSTGRESQL),
    Kind("PostgreSQL connections killed", "database", 3, _AT_ONCE, kill_database_connections, _POSTGRESQL),
    Kind("SQLite locked by another", "database", 6, (0.5, 8), lasting(_sqlite_locked), _SQLITE),
)  # fmt: skip


def kinds_on(database: str) -> list[Kind]:
    """Those that one host can have with this database."""
    return [kind for kind in KINDS if database in kind.databases]


def plan(
    choices: random.Random,
    *,
    kinds: Sequence[Kind],
    count: int,
    pace: float,
    patience: float,
    longest: float = math.inf,
) -> list[Fault]:
    """So many faults at random times, `pace` seconds apart on average; each kind once before any comes twice.

    None lasts longer than the `longest`, in seconds.
    """
    chosen = choices.sample(kinds, min(count, len(kinds)))
    chosen += choices.choices(kinds, [kind.weight for kind in kinds], k=count - len(chosen))
    choices.shuffle(chosen)
    return [
        Fault(
            kind,
            choices.expovariate(1 / pace),
            min(choices.uniform(*kind.seconds), longest),
            choices.random(),
            patience,
        )
        for kind in chosen
    ]


@dataclass(frozen=True)
class Struck:
    """What came of a fault: when it began, the seconds until it was over, and what was wrong with the recovery."""

    name: str
    target: str
    choice: float
    at: float
    seconds: float
    complaint: str | None


class Striker(threading.Thread):
    """Carries the plan out."""

    def __init__(self, servers: Any, faults: Sequence[Fault]) -> None:
        super().__init__(name="striker", daemon=True)
        self.struck: list[Struck] = []
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
        self.struck.append(Struck(fault.kind.name, fault.kind.target, fault.choice, at, seconds, complaint))
