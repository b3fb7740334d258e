"""What workers do besides their tasks: enqueue sweeps, send heartbeats to Redis, and follow a fail-over of Redis.

Every worker enqueues the sweeps periodically, so no scheduler process is needed. `gateway.tasks` has the sweeps; any
number of them may run at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import monotonic, sleep
from typing import Any

import structlog
from celery import bootsteps
from django.conf import settings
from redis import ConnectionError, Redis, RedisError

from core.database.shared_clock import now
from core.redis.broker import BrokerUnavailable, send_task
from core.redis.clients import find_primary, redis_client
from core.redis.urls import sentinels_of

logger = structlog.get_logger(__name__)

_MAX_CLOCK_SKEW = 300
"""Seconds. Celery expires a task by the clock of the worker that receives it, which may be ahead of the sender's.
Kerberos tolerates no more than this by default ([MS-KILE])."""

_WATCH_SECONDS = 5.0
"""How often a worker asks the Sentinels for the primary."""

_RECONNECT_SECONDS = 1.0
"""How long a worker waits before it reconnects to a Redis that answers with errors."""

HEARTBEAT_SECONDS = 10.0
"""The interval of heartbeats."""

HEARTBEAT_LIFETIME = timedelta(seconds=30)
"""A worker counts as alive for this long after a heartbeat: one may be late or lost."""

LOST_WORKER_RETENTION = timedelta(hours=1)
"""How long a worker is reported as lost if its heartbeats end without a shutdown."""

_HEARTBEATS = "gateway:workers"
"""A sorted set: the names of the workers by the time of their last heartbeat."""


def _sweep_schedule() -> dict[str, int]:
    """The interval of each sweep in seconds. A function: Celery imports this module before the settings exist."""
    return {
        "gateway.tasks.sweep": 10,
        "gateway.tasks.take_up_scheduled": 2,
        "directory.tasks.sweep_runs": 10,
        "gateway.tasks.tell_people": 10,
        "gateway.tasks.check_people": 20,
        "gateway.tasks.seal_log": 2,
        "gateway.tasks.deliver_webhooks": 2,
        "gateway.tasks.keep_log_head": settings.CONFIGURATION.OperationsLog.HeadMinutes * 60,
    }


class TimedStep(bootsteps.StartStopStep):
    """A bootstep that repeats something while the worker is connected to the broker and takes tasks."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._timers: list[Any] = []

    def repeat(self, consumer: Any, seconds: float, function: Callable[..., None], *arguments: Any) -> None:
        """Call the function every `seconds` until the step stops."""
        self._timers.append(consumer.timer.call_repeatedly(seconds, function, arguments))

    def stop(self, consumer: Any) -> None:
        while self._timers:
            self._timers.pop().cancel()


class SweepStep(TimedStep):
    """Enqueues the sweeps periodically, and all of them at once after each connection to the broker."""

    def start(self, consumer: Any) -> None:
        for name, seconds in _sweep_schedule().items():
            self._enqueue(name, seconds)
            self.repeat(consumer, seconds, self._enqueue, name, seconds)

    def _enqueue(self, name: str, seconds: int) -> None:
        """Enqueue a sweep. It expires if it waits too long, so that sweeps do not pile up."""
        try:
            send_task(name, expires=seconds + _MAX_CLOCK_SKEW)
        except BrokerUnavailable as error:
            logger.warning("no sweep could be asked for", sweep=name, reason=str(error))


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker by its Celery name, and the time of its last heartbeat."""

    name: str
    seen_at: datetime


@lru_cache(maxsize=1)
def _redis(url: str) -> Redis:
    return redis_client(url, seconds=1, tries=2, decode_responses=True)


def find_workers() -> list[Worker]:
    """The workers with a recent heartbeat, sorted by name; raises RedisError."""
    return _find_by_heartbeat((now() - HEARTBEAT_LIFETIME).timestamp(), "+inf")


def find_lost_workers() -> list[Worker]:
    """The workers whose last heartbeat is too old and that did not shut down, sorted by name; raises RedisError."""
    return _find_by_heartbeat(
        (now() - LOST_WORKER_RETENTION).timestamp(), f"({(now() - HEARTBEAT_LIFETIME).timestamp()}"
    )


def _find_by_heartbeat(since: float, until: str) -> list[Worker]:
    signs: Any = _redis(settings.REDIS_URL).zrange(_HEARTBEATS, since, until, byscore=True, withscores=True)
    return sorted((Worker(name, datetime.fromtimestamp(at, UTC)) for name, at in signs), key=lambda item: item.name)


def send_heartbeat(name: str) -> None:
    """Record that the worker is alive now, by the shared clock; raises RedisError."""
    at = now()
    with _redis(settings.REDIS_URL).pipeline() as signs:
        signs.zadd(_HEARTBEATS, {name: at.timestamp()})
        signs.zremrangebyscore(_HEARTBEATS, "-inf", (at - LOST_WORKER_RETENTION).timestamp())
        signs.execute()


def remove_heartbeat(name: str) -> None:
    """Record that the worker shuts down; raises RedisError."""
    _redis(settings.REDIS_URL).zrem(_HEARTBEATS, name)


class Heartbeats(TimedStep):
    """Sends heartbeats while the worker takes tasks."""

    def start(self, consumer: Any) -> None:
        self._try(send_heartbeat, consumer.hostname)
        self.repeat(consumer, HEARTBEAT_SECONDS, self._try, send_heartbeat, consumer.hostname)

    def stop(self, consumer: Any) -> None:
        super().stop(consumer)
        self._try(remove_heartbeat, consumer.hostname)

    def _try(self, step: Any, name: str) -> None:
        try:
            step(name)
        except (RedisError, OSError) as error:
            logger.warning("no sign of life could be given", reason=str(error))


class PrimaryWatch(TimedStep):
    """Makes a worker follow a fail-over of Redis that did not close its connection.

    A primary that hangs or is cut off closes nothing: for minutes the worker would wait there for tasks that everybody
    else sends to the promoted one. Does nothing without Sentinels.
    """

    _primary: tuple[str, int] | None = None

    def start(self, consumer: Any) -> None:
        """Remember the current primary, to which the consumer has just connected."""
        self._primary = find_primary(settings.REDIS_URL)
        if sentinels_of(settings.REDIS_URL):
            self.repeat(consumer, _WATCH_SECONDS, self._check_primary)

    def _check_primary(self) -> None:
        """Raise Redis' ConnectionError if there is another primary now, so that the worker reconnects."""
        found = find_primary(settings.REDIS_URL)
        if found is not None and self._primary is not None and found != self._primary:
            logger.warning("another Redis is the primary now", host=found[0], port=found[1])
            raise ConnectionError("another Redis is the primary now")
        self._primary = self._primary or found


class ReconnectDelay(bootsteps.StartStopStep):
    """Delays the next connection to a Redis that answers with errors.

    Celery itself backs off from a Redis that refuses connections. If its memory is full, or it accepts no writes, the
    connection succeeds and the next command fails: several times a second, with a dozen log lines each.
    """

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._stopped_at = 0.0

    def stop(self, consumer: Any) -> None:
        """Celery calls this after each loss of the broker, and at shutdown."""
        stopped_at = monotonic()
        is_running = consumer.blueprint.state == bootsteps.RUN  # type: ignore[attr-defined]
        if is_running and stopped_at - self._stopped_at < 2 * _RECONNECT_SECONDS:
            sleep(_RECONNECT_SECONDS)
        self._stopped_at = monotonic()
