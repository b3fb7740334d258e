"""Clients of Redis by its URL. Behind Sentinels they ask these for the primary, anew whenever a connection was lost.

Every client of the gateway's is made here, so each follows a fail-over. None repeats anything by itself for long: who
serves a request must not wait for Redis.
"""

from copy import copy
from dataclasses import dataclass
from typing import Any, Final

from redis import ConnectionPool, Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import (
    MasterNotFoundError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from core.redis.urls import Sentinels, sentinels_of, tls_of

SENTINEL_SECONDS: Final = 0.5
"""How long one Sentinel is waited for before the next one is asked; the one that answered is asked first from then."""


def redis_client(
    url: str, *, seconds: float, connect_seconds: float | None = None, tries: int = 1, **options: Any
) -> Redis:
    """A client that waits so long for an answer, and for a connection (as long unless told otherwise).

    A command whose connection was lost is sent `tries` times. Further options are the library's.
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
    """A pool of connections with these options of the library's."""
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
    """Closed when an answer does not come in time, as any other of the library's.

    Its own one behind Sentinels stays open then, and the next command would be given that answer for its own.
    """

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        return super().read_response(*arguments, **{"disconnect_on_error": True, **options})


class _TlsConnection(_Connection, SentinelManagedSSLConnection):
    """The same with TLS."""


class Pools:
    """`pool_class` of Django's cache, which calls `from_url` and nothing else."""

    from_url = staticmethod(connection_pool)


def sentinel_options(sentinels: Sentinels) -> dict[str, Any]:
    """Options of the connections to Sentinels."""
    return {
        "socket_connect_timeout": SENTINEL_SECONDS,
        "socket_timeout": SENTINEL_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        **sentinels.sentinel,
    }


def broker_options_from(url: str) -> dict[str, Any]:
    """What of the URL Celery wants as options of the broker's transport."""
    sentinels = sentinels_of(url)
    if sentinels is None:
        return {}
    return {"master_name": sentinels.service, "sentinel_kwargs": sentinel_options(sentinels)}


def broker_tls_from(url: str) -> dict[str, Any] | None:
    """What of a URL of Sentinels Celery wants as `broker_use_ssl`; a server's own URL says it by itself."""
    sentinels = sentinels_of(url)
    if sentinels is None or "ssl" not in sentinels.server:
        return None
    return {"ssl_cert_reqs": "required", **tls_of(sentinels.server)}


def find_primary(url: str) -> tuple[str, int] | None:
    """The address that the Sentinels of this URL give for the primary; None where none of them does now, or for a URL
    without Sentinels.
    """
    sentinels = sentinels_of(url)
    if sentinels is None:
        return None
    with _manager(sentinels) as manager:
        try:
            found: tuple[str, int] = manager.discover_master(sentinels.service)
        except MasterNotFoundError:
            return None
    return found


class _Manager(Sentinel):
    """Asked by several threads at once. The library's own moves the Sentinel that answered to the front of its list;
    threads that do so to the same list put one Sentinel there twice and lose another.
    """

    def discover_master(self, service_name: str) -> tuple[str, int]:
        own = copy(self)
        own.sentinels = list(self.sentinels)
        found: tuple[str, int] = Sentinel.discover_master(own, service_name)  # type: ignore[no-untyped-call]
        self.sentinels = own.sentinels
        return found


def _manager(sentinels: Sentinels) -> Sentinel:
    return _Manager(sentinels.addresses, sentinel_kwargs=sentinel_options(sentinels))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class SentinelView:
    """What one Sentinel says of the primary, or why it says nothing (`wrong`)."""

    address: str
    primary: str = ""
    replicas: int = 0
    others: int = 0
    quorum: int = 0
    wrong: str | None = None


def ask_sentinels(url: str) -> list[SentinelView]:
    """What each Sentinel of the URL says; empty for a URL without Sentinels."""
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
        return SentinelView(address, wrong=str(error) or type(error).__name__)
    state = known.get(service)
    if state is None:
        return SentinelView(address, wrong=f"knows no {service!r}")
    return SentinelView(
        address,
        f"{state['ip']}:{state['port']}",
        state["num-slaves"],
        state["num-other-sentinels"],
        state["quorum"],
        "does not reach the primary" if state["is_sdown"] else None,
    )
