"""Celery's transport over Redis, mended where it ends a worker that has lost its broker.

kombu closes a lost connection while tasks of it are not acknowledged, and lets tasks acknowledge on it that end later.
Both look up the server's address at a connection that has none any more, and the AttributeError that comes of it is
none of the errors at which a worker connects anew: it ends (kombu 5.7).
"""

from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as kombu_redis
from redis import ConnectionError


class _Closed:
    """A channel that says so when its connection was closed."""

    connection: Any

    def _connparams(self, asynchronous: bool = False) -> Any:
        if self.connection is None or self.connection.client is None:
            raise ConnectionError("this connection to the broker was closed")
        return super()._connparams(asynchronous)  # type: ignore[misc]


class RedisTransport(kombu_redis.Transport):
    """One Redis, by TCP, TLS or a Unix socket."""

    class Channel(_Closed, kombu_redis.Channel):
        """See `_Closed`."""


class SentinelTransport(kombu_redis.SentinelTransport):
    """The primary that Sentinels name."""

    class Channel(_Closed, kombu_redis.SentinelChannel):
        """See `_Closed`."""


def register() -> None:
    """Let Celery use these for the URLs of Redis, in this process."""
    own = f"{__name__}:"
    for scheme, transport in (("redis", RedisTransport), ("rediss", RedisTransport), ("sentinel", SentinelTransport)):
        TRANSPORT_ALIASES[scheme] = own + transport.__name__
