"""Redis clients by URL. Behind Sentinels they look up the primary again whenever they have lost a connection.

The gateway makes every client here, so each one follows a fail-over. None retries for long: a request must not wait for
Redis, so `QuickRedis` sends one command at a time, and gives up soon.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha1
from sys import maxsize
from threading import Lock, local
from time import monotonic
from typing import Any

import structlog
from redis import ConnectionError as ConnectionLost
from redis import ConnectionPool, Redis, RedisError
from redis.backoff import NoBackoff
from redis.connection import ConnectionInterface
from redis.exceptions import NoScriptError
from redis.retry import Retry
from redis.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from active_directory import is_on_loop
from core.redis.on_loop import RedisOnLoop, packed
from core.redis.urls import Sentinels, sentinels_of, tls_of

logger = structlog.get_logger(__name__)

TIMEOUT = 0.5
"""Seconds. A Redis that does not answer must not hold up the request for long."""
PAUSE = 1.0
"""Seconds without another attempt after a failure: not every request must pay the timeout while Redis is away."""
SENTINEL_SECONDS = 0.5
"""How long to wait for one Sentinel before asking the next. The one that answered is asked first from then on."""


def redis_client(
    url: str, *, seconds: float, connect_seconds: float | None = None, tries: int = 1, **options: Any
) -> Redis:
    """A client that waits `seconds` for an answer and `connect_seconds`, by default as long, for a connection.

    It sends a command `tries` times if the connection is lost. Other options are redis-py's.
    """
    pool = connection_pool(
        url,
        socket_connect_timeout=seconds if connect_seconds is None else connect_seconds,
        socket_timeout=seconds,
        retry=Retry(NoBackoff(), tries - 1),
        **options,
    )
    return Redis.from_pool(pool)


def connection_pool(url: str, **options: Any) -> ConnectionPool:
    """A pool of connections with redis-py's options."""
    sentinels = sentinels_of(url)
    if sentinels is None:
        return ConnectionPool.from_url(url, **options)
    kind = _TlsConnection if "ssl" in sentinels.server else _Connection
    return SentinelConnectionPool(  # type: ignore[no-untyped-call]
        sentinels.service,
        _manager(sentinels),
        db=sentinels.database,
        connection_class=kind,
        **sentinels.server,
        **options,
    )


class _Connection(SentinelManagedConnection):
    """Closes when an answer does not come in time, as redis-py's other connections do.

    redis-py's own connection behind Sentinels stays open, and the next command would take the late answer for its own.
    """

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        return super().read_response(*arguments, **{"disconnect_on_error": True, **options})


class _TlsConnection(_Connection, SentinelManagedSSLConnection):
    """The same with TLS."""


class CachePool:
    """The `pool_class` of Django's cache, which uses nothing of it but `from_url`."""

    from_url = staticmethod(connection_pool)


def sentinel_options(sentinels: Sentinels) -> dict[str, Any]:
    """Options for connections to the Sentinels."""
    return {
        "socket_connect_timeout": SENTINEL_SECONDS,
        "socket_timeout": SENTINEL_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        **sentinels.sentinel,
    }


def broker_options_from(url: str) -> dict[str, Any]:
    """Celery's `broker_transport_options` for this URL."""
    sentinels = sentinels_of(url)
    if sentinels is None:
        return {}
    return {"master_name": sentinels.service, "sentinel_kwargs": sentinel_options(sentinels)}


def broker_tls_from(url: str) -> dict[str, Any] | None:
    """Celery's `broker_use_ssl` for a URL of Sentinels; None for others, whose scheme says it."""
    sentinels = sentinels_of(url)
    if sentinels is None or "ssl" not in sentinels.server:
        return None
    return {"ssl_cert_reqs": "required", **tls_of(sentinels.server)}


def find_primary(url: str) -> tuple[str, int] | None:
    """The primary's host and port according to the Sentinels; None if none of them knows, or for other URLs."""
    sentinels = sentinels_of(url)
    if sentinels is None:
        return None
    with _manager(sentinels) as manager:
        try:
            found: tuple[str, int] = manager.discover_master(sentinels.service)
        except MasterNotFoundError:
            return None
    return found


class _ThreadSafeSentinel(Sentinel):
    """Can be used by several threads at once.

    redis-py moves the Sentinel that answered to the front of a list: two threads that do so at once put one Sentinel
    there twice and lose another.
    """

    def discover_master(self, service_name: str) -> tuple[str, int]:
        own = copy(self)
        own.sentinels = list(self.sentinels)
        found: tuple[str, int] = Sentinel.discover_master(own, service_name)  # type: ignore[no-untyped-call]
        self.sentinels = own.sentinels
        return found


def _manager(sentinels: Sentinels) -> Sentinel:
    return _ThreadSafeSentinel(sentinels.addresses, sentinel_kwargs=sentinel_options(sentinels))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class SentinelView:
    """What one Sentinel says about the primary, or the `error` that keeps it from answering."""

    address: str
    primary: str = ""
    replicas: int = 0
    others: int = 0
    quorum: int = 0
    error: str | None = None


def ask_sentinels(url: str) -> list[SentinelView]:
    """Ask each Sentinel in the URL about the primary; empty for a URL without Sentinels."""
    sentinels = sentinels_of(url)
    if sentinels is None:
        return []
    with _manager(sentinels) as manager:
        return [
            _ask(client, f"{host}:{port}", sentinels.service)
            for client, (host, port) in zip(manager.sentinels, sentinels.addresses, strict=True)
        ]


def _ask(client: Redis, address: str, service: str) -> SentinelView:
    try:
        known: Any = client.sentinel_masters()
    except (RedisError, OSError) as error:
        return SentinelView(address, error=str(error) or type(error).__name__)
    state = known.get(service)
    if state is None:
        return SentinelView(address, error=f"knows no {service!r}")
    return SentinelView(
        address,
        f"{state['ip']}:{state['port']}",
        state["num-slaves"],
        state["num-other-sentinels"],
        state["quorum"],
        "does not reach the primary" if state["is_sdown"] else None,
    )


class RedisUnavailable(Exception):
    """Redis does not answer. The command may have been carried out if the connection was lost after it was sent."""


@dataclass(frozen=True)
class Script:
    """A Lua script for Redis."""

    text: str

    @cached_property
    def sha(self) -> str:
        """The digest by which Redis knows a script that it has loaded."""
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def command(self, keys: Sequence[str], arguments: Sequence[str]) -> bytes:
        """The command that runs it once it is loaded, as it is sent."""
        return packed("EVALSHA", self.sha, f"{len(keys)}", *keys, *arguments)


class QuickRedis:
    """This process's connections to Redis, one per thread, which pause for a second after a failure.

    Taking one out of a pool and checking it cost more than counting (0.09 ms against 0.03). `without` says in the log
    what is missing while Redis is away.
    """

    def __init__(self, url: str, *, without: str) -> None:
        self._pool = connection_pool(  # which never gets a connection back, and counts all that it has ever made
            url,
            socket_connect_timeout=TIMEOUT,
            socket_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
            max_connections=maxsize,
        )
        self._on_loop = RedisOnLoop(self._pool.make_connection)
        self._without = without
        self._own = local()
        self._lock = Lock()
        self._pause_ends = 0.0

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[str]) -> Any:
        """Run a script and return its result. Raises RedisUnavailable."""
        words = (f"{len(keys)}", *keys, *arguments)
        try:
            return self.execute("EVALSHA", script.sha, *words)
        except NoScriptError:  # Redis was restarted, or this is the script's first use
            return self.execute("EVAL", script.text, *words)

    def begin(self, command: bytes) -> Callable[[], Any]:
        """Send a packed command from the event loop; return a function that waits for the answer.

        Both raise WouldBlock. Raises RedisUnavailable.
        """
        self._require_no_pause()
        return self._on_loop.begin(command)

    def execute(self, *command: str | bytes) -> Any:
        """Send a command and return the answer. Raises RedisUnavailable."""
        self._require_no_pause()
        if is_on_loop():
            return self._on_loop.begin(packed(*command))()
        try:
            connection = getattr(self._own, "connection", None)
            if connection is None:
                connection = self._own.connection = self._pool.make_connection()
            try:
                return _answer(connection, command)
            except ConnectionLost:  # redis-py closes it and opens another one: Redis may have been restarted
                return _answer(connection, command)
        except NoScriptError:
            raise
        except RedisError as error:
            self._pause(error)
            raise RedisUnavailable from error

    def _require_no_pause(self) -> None:
        if monotonic() < self._pause_ends:
            raise RedisUnavailable

    def _pause(self, error: RedisError) -> None:
        with self._lock:
            if monotonic() < self._pause_ends:  # another thread has noticed and logged it
                return
            self._pause_ends = monotonic() + PAUSE
        logger.warning(f"{self._without}: Redis does not answer", error=str(error))


def _answer(connection: ConnectionInterface, command: Sequence[str | bytes]) -> Any:
    # Does nothing while it is connected; otherwise asks the Sentinels, if any, where the primary is now.
    connection.connect()  # type: ignore[no-untyped-call]
    connection.send_command(*command, check_health=False)  # type: ignore[no-untyped-call]
    return connection.read_response()
