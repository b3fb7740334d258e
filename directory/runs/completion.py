"""How the request that waits for a run hears at once that it is over: a word through Redis, in either order.

Only a hint. Whether a run is over is told by its state in the database, which is looked at besides, seldom.
"""

import time
from functools import lru_cache
from uuid import UUID

import structlog
from django.conf import settings
from redis import Redis, RedisError

from core.redis.clients import redis_client

logger = structlog.get_logger(__name__)

_LIFE_SECONDS = 60
"""Of a word that nobody waits for."""
LONGEST_WAIT = 1.0
"""Seconds of one wait: then the waiter looks at the database."""
_ANSWER_SECONDS = 0.5
_WITHOUT_REDIS_SECONDS = 0.1


def announce(run_id: UUID) -> None:
    """Say that a run is over."""
    try:
        with _redis(settings.REDIS_URL, _ANSWER_SECONDS).pipeline(transaction=False) as pipeline:
            pipeline.rpush(_key(run_id), b"over")
            pipeline.expire(_key(run_id), _LIFE_SECONDS)
            pipeline.execute()
    except RedisError as error:
        logger.warning("who waits for the run looks for itself: Redis does not answer", error=str(error))


def await_announcement(run_id: UUID, seconds: float) -> None:
    """Wait until a run is said to be over, at most for so long and LONGEST_WAIT; a moment where Redis is away."""
    try:
        _redis(settings.REDIS_URL, LONGEST_WAIT + _ANSWER_SECONDS).blpop([_key(run_id)], min(seconds, LONGEST_WAIT))
    except RedisError:
        time.sleep(min(seconds, _WITHOUT_REDIS_SECONDS))


def _key(run_id: UUID) -> str:
    return f"gateway:run:{run_id}:over"


@lru_cache(maxsize=2)
def _redis(url: str, seconds: float) -> Redis:
    return redis_client(url, seconds=seconds, connect_seconds=_ANSWER_SECONDS, tries=2)
