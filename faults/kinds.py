"""The kinds of faults on a single host, and what every kind of fault is made of. `campaign` chooses among them."""

import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, suppress
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


def wait_until_back(service: Service, fault: Fault, is_back: Callable[[], bool] | None = None) -> None:
    """Wait until a server has recovered, by default until it is ready; raises TimedOut."""
    wait_until(is_back or service.is_ready, fault.patience, f"{service.name} was not back within {fault.patience:g} s")


def restart(service: Service, fault: Fault) -> None:
    """Stop a server orderly, and start it some seconds later."""
    service.restart(fault.seconds)
    wait_until_back(service, fault)


def _one_killed(service_of: Callable[[Servers], Service], processes: int) -> Strike:
    """Send SIGKILL to one of the worker processes, and wait until it is replaced."""

    def strike(servers: Servers, fault: Fault) -> None:
        service = service_of(servers)
        wait_until_back(service, fault, lambda: len(service.children) >= processes)
        killed = sorted(service.children)[int(fault.choice * processes)]
        service.kill_child(killed)
        wait_until_back(service, fault, lambda: len(service.children - {killed}) >= processes)
        service.note_child_is_back()

    return strike


def _all_killed(service_of: Callable[[Servers], Service], is_back: Callable[[Service], bool]) -> Strike:
    def strike(servers: Servers, fault: Fault) -> None:
        service = service_of(servers)
        killed = service.pid
        service.kill()
        wait_until_back(service, fault, lambda: service.pid not in (0, killed) and is_back(service))

    return strike


def _misbehaving_proxy(misbehave: Callable[[FaultyProxy], None]) -> Strike:
    """Let the proxy misbehave for a while, and then close the connections, some of which wait in vain."""

    def strike(servers: Servers, fault: Fault) -> None:
        misbehave(servers.proxy)
        time.sleep(fault.seconds)
        servers.proxy.restore()
        servers.proxy.drop_connections()

    return strike


def _press_slowly(servers: Servers, fault: Fault) -> None:
    servers.web.wait_until_ready()  # replaced processes may not listen yet
    slow_clients.run_slow_clients(servers.base_url, fault.seconds)


def _ask_redis(servers: Servers, command: str) -> None:
    with suppress(RedisError), closing(Redis.from_url(servers.stores.redis.url, socket_timeout=2)) as redis:
        redis.execute_command(command)  # type: ignore[no-untyped-call]


def _fill_redis(servers: Servers, fault: Fault) -> None:
    """Make Redis refuse all writes for a while, as if its memory were full."""
    _ask_redis(servers, "CONFIG SET maxmemory 1")
    _ask_redis(servers, "CLIENT KILL TYPE normal SKIPME yes")
    time.sleep(fault.seconds)
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


def _lock_sqlite(servers: Servers, fault: Fault) -> None:
    """Lock the database as another writer would, so that those who wait too long are refused."""
    with closing(sqlite3.connect(servers.stores.file, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(fault.seconds)


BUSY = "domain controller busy with a write"
"""It accepts the writes of others and makes them in the end, though they stay invisible for long."""

_AT_ONCE = (0.0, 0.0)
_web, _worker, _redis = attrgetter("web"), attrgetter("worker"), attrgetter("stores.redis")
_ON_BOTH: Sequence[Kind] = (
    Kind("SIGKILL of a web process", "web", 5, _AT_ONCE, _one_killed(_web, WEB_PROCESSES)),
    Kind("SIGKILL of the web server", "web", 2, _AT_ONCE,
         _all_killed(_web, lambda web: len(web.children) >= WEB_PROCESSES)),
    Kind("slow clients", "web", 2, (3, 25), _press_slowly, "others held up by slow clients"),
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
    Kind("Redis restarted", "redis", 2, (0, 2), lambda servers, fault: restart(servers.stores.redis, fault)),
    Kind("SIGKILL of Redis", "redis", 2, _AT_ONCE, _all_killed(_redis, lambda redis: redis.is_ready())),
    Kind("Redis' memory full", "redis", 2, (0.5, 5), _fill_redis),
)  # fmt: skip
KINDS = {
    "postgresql": (
        *_ON_BOTH,
        Kind("PostgreSQL restarted (immediate)", "database", 3, (0, 1.5), _crash_postgresql),
        Kind("PostgreSQL connections killed", "database", 3, _AT_ONCE, kill_database_connections),
    ),
    "sqlite": (*_ON_BOTH, Kind("SQLite locked by another", "database", 6, (0.5, 8), _lock_sqlite)),
}
"""The kinds on a single host, by its database."""
