"""Signs of life of the workers, in Redis: whether anybody is there to take up what is queued."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import time
from typing import Any, Final

import structlog
from celery import bootsteps
from django.conf import settings
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

logger = structlog.get_logger(__name__)

EVERY: Final = 10.0
"""Seconds between two signs."""
ALIVE: Final = timedelta(seconds=30)
"""How long a sign holds: one may be late, or lost."""

_SIGNS: Final = "gateway:workers"
"""A sorted set: the names of the workers by the time of their last signs."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that is there, by the name that Celery gives it."""

    name: str
    seen_at: datetime


@lru_cache(maxsize=1)
def _redis(url: str) -> Redis:
    return Redis.from_url(
        url, socket_connect_timeout=1, socket_timeout=1, retry=Retry(NoBackoff(), 1), decode_responses=True
    )


def find_workers() -> list[Worker]:
    """The workers that have given a sign of life lately, by name; raises RedisError."""
    since = time() - ALIVE.total_seconds()
    signs: Any = _redis(settings.REDIS_URL).zrange(_SIGNS, since, "+inf", byscore=True, withscores=True)
    return sorted((Worker(name, datetime.fromtimestamp(at, UTC)) for name, at in signs), key=lambda item: item.name)


def give_sign(name: str) -> None:
    """A worker of this name is there now. Those of yesterday are forgotten. Raises RedisError."""
    now = time()
    with _redis(settings.REDIS_URL).pipeline() as signs:
        signs.zadd(_SIGNS, {name: now})
        signs.zremrangebyscore(_SIGNS, "-inf", now - ALIVE.total_seconds())
        signs.execute()


def take_sign_back(name: str) -> None:
    """The worker of this name ends. Raises RedisError."""
    _redis(settings.REDIS_URL).zrem(_SIGNS, name)


class Heartbeats(bootsteps.StartStopStep):
    """Lets a worker give signs from when it takes tasks until it ends or loses its broker."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._timer: Any = None

    def start(self, consumer: Any) -> None:
        self._try(give_sign, consumer.hostname)
        self._timer = consumer.timer.call_repeatedly(EVERY, self._try, (give_sign, consumer.hostname))

    def stop(self, consumer: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._try(take_sign_back, consumer.hostname)

    def _try(self, step: Any, name: str) -> None:
        try:
            step(name)
        except (RedisError, OSError) as error:
            logger.warning("no sign of life could be given", reason=str(error))
