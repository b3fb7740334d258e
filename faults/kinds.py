"""The kinds of faults, and the plan of a campaign: which come when, all of it chosen by the seed."""

import math
import random
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from faults import slow_clients
from faults.servers import WEB_PROCESSES, WORKER_PROCESSES, Servers, Service
from lab.commands import redis_answers
from lab.samba.database import busy_with_a_write


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


class NotBack(RuntimeError):
    """A killed process was not started again in time."""


def _kill_one(service: Service, processes: int, fault: Fault) -> None:
    """SIGKILL to one of the processes that do the work; over when there are as many again."""
    children: list[int] = []

    def are_there() -> bool:
        children[:] = sorted(service.children)
        return len(children) >= processes

    _wait_for(are_there, service.name, fault)
    killed = children[int(fault.choice * processes)]
    service.kill_child(killed)
    _wait_for(lambda: are_there() and killed not in children, service.name, fault)
    service.note_child_is_back()


def _kill_all(service: Service, processes: int, fault: Fault) -> None:
    killed = service.pid
    service.kill()
    _wait_for(lambda: service.pid not in (0, killed) and len(service.children) >= processes, service.name, fault)


def _wait_for(condition: Callable[[], bool], name: str, fault: Fault) -> None:
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > fault.patience:
            raise NotBack(f"{name} was not back within {fault.patience:g} s")
        time.sleep(0.1)


def _kill_web_process(servers: Servers, fault: Fault) -> None:
    _kill_one(servers.web, WEB_PROCESSES, fault)


def _kill_web(servers: Servers, fault: Fault) -> None:
    _kill_all(servers.web, WEB_PROCESSES, fault)


def _kill_worker_process(servers: Servers, fault: Fault) -> None:
    _kill_one(servers.worker, WORKER_PROCESSES, fault)


def _kill_worker(servers: Servers, fault: Fault) -> None:
    _kill_all(servers.worker, WORKER_PROCESSES, fault)


def _pause_domain_controller(servers: Servers, fault: Fault) -> None:
    controller = servers.domain.controller
    controller.pause()
    try:
        time.sleep(fault.seconds)
    finally:
        controller.resume()


def _keep_busy(servers: Servers, fault: Fault) -> None:
    with busy_with_a_write(servers.domain):
        time.sleep(fault.seconds)


@contextmanager
def _proxy_restored(servers: Servers, seconds: float) -> Iterator[None]:
    try:
        yield
        time.sleep(seconds)
    finally:
        servers.proxy.restore()


def _cut_before_writes(servers: Servers, fault: Fault) -> None:
    with _proxy_restored(servers, fault.seconds):
        servers.proxy.cut()


def _cut_after_writes(servers: Servers, fault: Fault) -> None:
    with _proxy_restored(servers, fault.seconds):
        servers.proxy.lose_answer()


def _drop_connections(servers: Servers, _: Fault) -> None:
    servers.proxy.drop_connections()


def _swallow_answers(servers: Servers, fault: Fault) -> None:
    """The client waits in vain although the domain controller has done its work; then the connections are lost."""
    with _proxy_restored(servers, fault.seconds):
        servers.proxy.swallow_answers()
    servers.proxy.drop_connections()


def _press_slowly(servers: Servers, fault: Fault) -> None:
    servers.web.wait_until_ready()  # its processes may be there again and not listen yet
    slow_clients.press(servers.base_url, fault.seconds)


def _flush_redis(servers: Servers, _: Fault) -> None:
    _redis(servers, b"FLUSHALL")


def _restart_redis(servers: Servers, fault: Fault) -> None:
    servers.redis.restart(fault.seconds)
    _wait_for(lambda: redis_answers(servers.redis_socket), "redis", fault)


def _kill_redis(servers: Servers, fault: Fault) -> None:
    killed = servers.redis.pid
    servers.redis.kill()
    _wait_for(lambda: servers.redis.pid not in (0, killed) and redis_answers(servers.redis_socket), "redis", fault)


def _fill_redis(servers: Servers, fault: Fault) -> None:
    """It answers whatever would write with an error, as one does whose memory is full."""
    _redis(servers, b"CONFIG SET maxmemory 1")
    try:
        _redis(servers, b"CLIENT KILL TYPE normal SKIPME yes")
        time.sleep(fault.seconds)
    finally:
        _redis(servers, b"CONFIG SET maxmemory 0")


def _redis(servers: Servers, command: bytes) -> None:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        connection.connect(str(servers.redis_socket))
        connection.sendall(command + b"\r\n")
        connection.recv(64)


def _crash_postgresql(servers: Servers, fault: Fault) -> None:
    assert servers.database is not None
    servers.database.crash()
    time.sleep(fault.seconds)
    servers.database.start()


def _kill_database_connections(servers: Servers, _: Fault) -> None:
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


def _lock_sqlite(servers: Servers, fault: Fault) -> None:
    """Another writer holds the database: what waits for it too long is refused."""
    connection = sqlite3.connect(servers.database_file, isolation_level=None, timeout=30)
    try:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(fault.seconds)
        connection.execute("ROLLBACK")
    finally:
        connection.close()


BUSY = "domain controller busy with a write"
"""What others write meanwhile it takes and makes in the end, however long nothing is to be seen of it."""
_POSTGRESQL, _SQLITE = frozenset({"postgresql"}), frozenset({"sqlite"})
_AT_ONCE = (0.0, 0.0)

KINDS = (
    Kind("SIGKILL of a web process", "web", 5, _AT_ONCE, _kill_web_process),
    Kind("SIGKILL of the web server", "web", 2, _AT_ONCE, _kill_web),
    Kind("slow clients", "web", 2, (3, 25), _press_slowly, target="others held up by slow clients"),
    Kind("SIGKILL of a worker process", "worker", 5, _AT_ONCE, _kill_worker_process),
    Kind("SIGKILL of the worker", "worker", 3, _AT_ONCE, _kill_worker),
    Kind("domain controller paused", "directory", 4, (1, 8), _pause_domain_controller),
    Kind(BUSY, "directory's database", 1, (60, 60), _keep_busy),
    Kind("directory cut before a write", "directory", 4, (0.2, 4), _cut_before_writes),
    Kind("directory cut after a write", "directory", 4, (0.1, 2), _cut_after_writes),
    Kind("directory's connections dropped", "directory", 3, _AT_ONCE, _drop_connections),
    Kind("directory's answers swallowed", "directory", 2, (1, 8), _swallow_answers),
    Kind("Redis FLUSHALL", "redis", 2, _AT_ONCE, _flush_redis),
    Kind("Redis restarted", "redis", 2, (0, 2), _restart_redis),
    Kind("SIGKILL of Redis", "redis", 2, _AT_ONCE, _kill_redis),
    Kind("Redis' memory full", "redis", 2, (0.5, 5), _fill_redis),
    Kind("PostgreSQL restarted (immediate)", "database", 3, (0, 1.5), _crash_postgresql, _POSTGRESQL),
    Kind("PostgreSQL connections killed", "database", 3, _AT_ONCE, _kill_database_connections, _POSTGRESQL),
    Kind("SQLite locked by another", "database", 6, (0.5, 8), _lock_sqlite, _SQLITE),
)


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

    fault: Fault
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
        except (NotBack, OSError, RuntimeError, psycopg.Error, sqlite3.Error) as error:
            complaint = f"{fault.kind.name}: {error}"
        finally:
            self._victims[fault.kind.victim].release()
        self.struck.append(Struck(fault, at, time.monotonic() - begun, complaint))
