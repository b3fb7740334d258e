"""Signs of life of the workers, in Redis: whether anybody is there to take up what is queued."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import monotonic, sleep
from typing import Any, Final

import structlog
from celery import bootsteps
from django.conf import settings
from redis import ConnectionError, Redis, RedisError

from core.database.shared_clock import now
from core.redis.clients import find_primary, redis_client
from core.redis.urls import sentinels_of
from gateway.monitoring.schedule import TimedStep

logger = structlog.get_logger(__name__)

_WATCH_EVERY: Final = 5.0
"""Seconds between two looks at where the primary is."""
_PAUSE: Final = 1.0
"""Seconds before a worker connects again to a Redis that answers with errors."""
EVERY: Final = 10.0
"""Seconds between two signs."""
ALIVE: Final = timedelta(seconds=30)
"""How long a sign holds: one may be late, or lost."""
MISSED_FOR: Final = timedelta(hours=1)
"""For how long a worker is missed that gave signs and did not say that it ends."""

_SIGNS: Final = "gateway:workers"
"""A sorted set: the names of the workers by the time of their last signs."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that is there, by the name that Celery gives it."""

    name: str
    seen_at: datetime


@lru_cache(maxsize=1)
def _redis(url: str) -> Redis:
    return redis_client(url, seconds=1, tries=2, decode_responses=True)


def find_workers() -> list[Worker]:
    """The workers that have given a sign of life lately, by name; raises RedisError."""
    return _find_signs((now() - ALIVE).timestamp(), "+inf")


def find_lost_workers() -> list[Worker]:
    """The workers whose last sign is too old and who did not say that they end, by name; raises RedisError."""
    return _find_signs((now() - MISSED_FOR).timestamp(), f"({(now() - ALIVE).timestamp()}")


def _find_signs(since: float, until: str) -> list[Worker]:
    signs: Any = _redis(settings.REDIS_URL).zrange(_SIGNS, since, until, byscore=True, withscores=True)
    return sorted((Worker(name, datetime.fromtimestamp(at, UTC)) for name, at in signs), key=lambda item: item.name)


def give_sign(name: str) -> None:
    """A worker of this name is there now, by the hosts' shared clock. Raises RedisError."""
    at = now()
    with _redis(settings.REDIS_URL).pipeline() as signs:
        signs.zadd(_SIGNS, {name: at.timestamp()})
        signs.zremrangebyscore(_SIGNS, "-inf", (at - MISSED_FOR).timestamp())
        signs.execute()


def take_sign_back(name: str) -> None:
    """The worker of this name ends. Raises RedisError."""
    _redis(settings.REDIS_URL).zrem(_SIGNS, name)


class Heartbeats(TimedStep):
    """Lets a worker give signs from when it takes tasks until it ends or loses its broker."""

    def start(self, consumer: Any) -> None:
        self._try(give_sign, consumer.hostname)
        self.repeat(consumer, EVERY, self._try, give_sign, consumer.hostname)

    def stop(self, consumer: Any) -> None:
        super().stop(consumer)
        self._try(take_sign_back, consumer.hostname)

    def _try(self, step: Any, name: str) -> None:
        try:
            step(name)
        except (RedisError, OSError) as error:
            logger.warning("no sign of life could be given", reason=str(error))


class PrimaryWatch(TimedStep):
    """Lets a worker follow a fail-over of Redis that closed no connection of its own.

    A primary that hangs or is cut off ends nothing: the worker would wait there for tasks that all others send to the
    promoted one, for minutes, until it misses the answers to its own questions. Does nothing where the broker has no
    Sentinels.
    """

    _primary: tuple[str, int] | None = None

    def start(self, consumer: Any) -> None:
        """The consumer has just connected, so the primary of now is its own: it could not connect to one that is
        given up.
        """
        self._primary = find_primary(settings.REDIS_URL)
        if sentinels_of(settings.REDIS_URL):
            self.repeat(consumer, _WATCH_EVERY, self._look)

    def _look(self) -> None:
        """Raises Redis' ConnectionError, at which the worker connects anew."""
        found = find_primary(settings.REDIS_URL)
        if found is not None and self._primary is not None and found != self._primary:
            logger.warning("another Redis is the primary now", host=found[0], port=found[1])
            raise ConnectionError("another Redis is the primary now")
        self._primary = self._primary or found


class Pause(bootsteps.StartStopStep):
    """Lets a worker wait before it connects again to a Redis that answers with errors.

    To one that does not answer it connects less and less often. To one whose memory is full, or that takes no writes,
    the connection succeeds and what comes after it fails, several times a second and with a dozen lines in its log.
    """

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._stopped_at = 0.0

    def stop(self, consumer: Any) -> None:
        """After each loss of the broker, and at the end."""
        stopped_at = monotonic()
        goes_on = consumer.blueprint.state == bootsteps.RUN  # type: ignore[attr-defined]
        if goes_on and stopped_at - self._stopped_at < 2 * _PAUSE:
            sleep(_PAUSE)
        self._stopped_at = monotonic()
