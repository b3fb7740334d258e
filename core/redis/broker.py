"""Celery's broker: sending tasks, and the transport over Redis.

Tasks are sent by name, since their modules are in layers above the callers.

The transport works around a fault of kombu 5.7 that ends a worker which has lost its broker. kombu closes a lost
connection that has unacknowledged tasks, and still lets these tasks acknowledge on it when they end. Both look up the
server's address on a connection that has none any more. That raises AttributeError, at which a worker does not
reconnect as it does at connection errors: it exits.
"""

from typing import Any

from celery import current_app
from kombu.exceptions import OperationalError
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as kombu_redis
from redis import ConnectionError
from redis.exceptions import RedisError


class BrokerUnavailable(Exception):
    """The broker did not accept the task; no worker will run it."""


def send_task(name: str, *arguments: str, **options: Any) -> None:
    """Send a task to the workers, with Celery's options. Raises BrokerUnavailable."""
    try:
        current_app.send_task(name, args=list(arguments), **options)
    except (OperationalError, RedisError, OSError) as error:
        raise BrokerUnavailable(str(error)) from error


class _RaisesWhenClosed:
    """A channel that raises a connection error, at which the worker reconnects, once its connection is closed."""

    connection: Any

    def _connparams(self, asynchronous: bool = False) -> Any:
        if self.connection is None or self.connection.client is None:
            raise ConnectionError("this connection to the broker was closed")
        return super()._connparams(asynchronous)  # type: ignore[misc]


class RedisTransport(kombu_redis.Transport):
    """A single Redis server, over TCP, TLS or a Unix socket."""

    class Channel(_RaisesWhenClosed, kombu_redis.Channel):
        """See `_RaisesWhenClosed`."""


class SentinelTransport(kombu_redis.SentinelTransport):
    """The primary that the Sentinels name."""

    class Channel(_RaisesWhenClosed, kombu_redis.SentinelChannel):
        """See `_RaisesWhenClosed`."""


def register_transports() -> None:
    """Make Celery use these transports for Redis URLs in this process."""
    own = f"{__name__}:"
    for scheme, transport in (("redis", RedisTransport), ("rediss", RedisTransport), ("sentinel", SentinelTransport)):
        TRANSPORT_ALIASES[scheme] = own + transport.__name__
