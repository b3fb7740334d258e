"""Turns of expensive searches, so that they do not keep domain controllers and the gateway's threads from the others.

Those of one credential go one after another, in all processes together: the turn is a lease in Redis, which ends by
itself when its process is killed. In one process they are few at a time, those that wait for their turn included, as
each has a thread. Without Redis only the limits of the process hold.
"""

import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import structlog
from django.conf import settings
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.commands.core import Script
from redis.retry import Retry

from gateway.core.call import Call
from gateway.core.errors import RateLimited

logger = structlog.get_logger(__name__)

_PLACES = 3
"""Expensive searches in one process, of its eight threads, at a time: one is run, the others wait."""
_PLACES_OF_ONE = 2
"""Those of one credential among them."""
_PASSES = 2
"""Searches of the directory that are made in one turn, at most."""
_SLACK_SECONDS = 5.0
"""For everything but the searches themselves: a turn that is held for longer ends."""
_PAUSE_SECONDS = 0.05
_TIMEOUT = 0.5

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
end
"""

_lock = threading.Lock()
_present: Counter[str] = Counter()
_running = threading.BoundedSemaphore(1)


@contextmanager
def turn(call: Call) -> Iterator[None]:
    """Wait for the caller's turn and hold it; raises RateLimited when it does not come in time."""
    limits = settings.CONFIGURATION.Searches
    deadline = time.monotonic() + limits.WaitSeconds
    credential = call.credential.id
    with _place(credential), _lease(credential, deadline, seconds=limits.ExpensiveSeconds):
        if not _running.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise _refusal()
        try:
            yield
        finally:
            _running.release()


def _refusal() -> RateLimited:
    wait = math.ceil(settings.CONFIGURATION.Searches.ExpensiveSeconds)
    return RateLimited(retry_after=wait, why="Expensive searches go one after another, and others are under way")


@contextmanager
def _place(credential: str) -> Iterator[None]:
    with _lock:
        if _present[credential] >= _PLACES_OF_ONE or _present.total() >= _PLACES:
            raise _refusal()
        _present[credential] += 1
    try:
        yield
    finally:
        with _lock:
            _present[credential] -= 1
            if not _present[credential]:
                del _present[credential]


@contextmanager
def _lease(credential: str, deadline: float, *, seconds: float) -> Iterator[None]:
    key, token = f"gateway:search:turn:{credential}", secrets.token_hex(8)
    life = round((_PASSES * seconds + settings.CONFIGURATION.Searches.WaitSeconds + _SLACK_SECONDS) * 1000)
    redis, release = _store(settings.REDIS_URL)
    try:
        while not redis.set(key, token, nx=True, px=life):
            if time.monotonic() >= deadline:
                raise _refusal()
            time.sleep(_PAUSE_SECONDS)
    except RedisError as error:
        logger.warning("turns of expensive searches are kept by each process: Redis does not answer", error=str(error))
    try:
        yield
    finally:
        try:
            release(keys=[key], args=[token])
        except RedisError:
            logger.warning("the turn of an expensive search ends with its lease: Redis does not answer")


@lru_cache(maxsize=1)
def _store(url: str) -> tuple[Redis, Script]:
    redis = Redis.from_url(url, socket_connect_timeout=_TIMEOUT, socket_timeout=_TIMEOUT, retry=Retry(NoBackoff(), 1))
    return redis, redis.register_script(_RELEASE)
