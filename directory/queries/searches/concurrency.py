"""Turns of searches that look at many objects, so that they leave domain controllers and threads to the others.

Those of one credential go one after another, in all processes together: the turn is a lease in Redis, which ends by
itself when its process is killed. So do all expensive ones in one directory, which rests after each for as long as it
was at work. For Samba lets no write in while a search runs: one search after another would keep all writes waiting,
and with each the other clients of the process that it waits in.

In one process few are run at a time, and few wait, as each has a thread. Without Redis only the limits of the process
hold.
"""

import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache

import structlog
from django.conf import settings
from redis import RedisError
from redis.commands.core import Script

from core.call import Call
from core.errors import RateLimited
from core.redis.clients import redis_client
from core.text.messages import message

logger = structlog.get_logger(__name__)

_PLACES = 5
"""Searches that run or wait in one process, of its eight threads."""
_PLACES_OF_ONE = 4
"""Those of one credential among them."""
_AT_ONCE = 2
"""Those that run."""
_PASSES = 2
"""Searches of the directory that are made in one turn, at most."""
_SLACK_SECONDS = 5.0
"""For everything but the searches themselves: the lease of a turn that is held for longer ends."""
_PAUSE_SECONDS = (0.003, 0.02)
"""Between two looks at whether it is the search's turn: growing from the first to the second."""
_TIMEOUT = 0.5

_QUICK_SECONDS = 0.1
"""A search that took no longer lets the next one in at once."""
_LONGEST_REST_SECONDS = 1.0

# All of the keys, or none.
_TAKE = """
for _, key in ipairs(KEYS) do
    if redis.call('EXISTS', key) == 1 then
        return 0
    end
end
for _, key in ipairs(KEYS) do
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 1
"""
_REST = """
for _, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[1] then
        redis.call('PEXPIRE', key, ARGV[2])
    end
end
"""

_lock = threading.Lock()
_present: Counter[str] = Counter()
_running = threading.BoundedSemaphore(_AT_ONCE)


@contextmanager
def turn(call: Call, *, expensive: bool) -> Iterator[Callable[[], None]]:
    """Wait for the caller's turn and hold it; raises RateLimited when it does not come in time.

    What it gives lets the next search of the caller in early: once the directory has answered, and what is left to do
    is this process's own.
    """
    deadline = time.monotonic() + settings.CONFIGURATION.Searches.WaitSeconds
    names = [f"credential:{call.credential.unique_id}"]
    if expensive and call.directory is not None:
        names.append(f"directory:{call.directory.id}")
    with _place(call.credential.unique_id), ExitStack() as lease:
        lease.enter_context(_lease(names, deadline, rests=expensive))
        if not _running.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise _refusal()
        try:
            yield lease.close
        finally:
            _running.release()


def _refusal() -> RateLimited:
    wait = math.ceil(settings.CONFIGURATION.Searches.ExpensiveSeconds)
    return RateLimited(retry_after=wait, why=message("Large searches go one after another, and others are under way"))


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
def _lease(names: Iterable[str], deadline: float, *, rests: bool) -> Iterator[None]:
    limits = settings.CONFIGURATION.Searches
    keys, token = [f"gateway:search:turn:{name}" for name in names], secrets.token_hex(8)
    seconds = limits.ExpensiveSeconds if rests else settings.CONFIGURATION.Directory.OperationSeconds
    life = _PASSES * seconds + limits.WaitSeconds + _SLACK_SECONDS
    take, rest = _scripts(settings.REDIS_URL)
    pause, longest = _PAUSE_SECONDS
    try:
        while not take(keys=keys, args=[token, _milliseconds(life)]):
            if time.monotonic() >= deadline:
                raise _refusal()
            time.sleep(pause)
            pause = min(longest, 2 * pause)
    except RedisError as error:
        logger.warning("turns of expensive searches are kept by each process: Redis does not answer", error=str(error))
    began = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - began
        pause = min(_LONGEST_REST_SECONDS, took) if rests and took > _QUICK_SECONDS else 0.0
        try:
            rest(keys=keys, args=[token, _milliseconds(pause)])
        except RedisError:
            logger.warning("the turn of an expensive search ends with its lease: Redis does not answer")


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


@lru_cache(maxsize=1)
def _scripts(url: str) -> tuple[Script, Script]:
    """What takes leases and what ends them after a rest."""
    redis = redis_client(url, seconds=_TIMEOUT, tries=2)
    return redis.register_script(_TAKE), redis.register_script(_REST)
