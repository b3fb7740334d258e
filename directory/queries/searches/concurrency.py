"""Turns for searches that look at many objects, so that they leave domain controllers and threads to other requests.

The searches of one credential run one after another across all processes: a turn is a lease in Redis, which expires
when its process is killed. The expensive searches of one directory take turns too, and after each one the directory
rests for as long as it was busy. Samba admits no write while a search runs, so that searches without a pause would
block all writes, and the threads that wait for them.

Each process runs few searches at a time and lets few wait, because each one occupies a thread. Without Redis only
these limits apply.
"""

import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Final

from django.conf import settings

from active_directory import require_thread
from core.background_writer import BackgroundWriter
from core.call import Call
from core.errors import RateLimited
from core.redis.clients import QuickRedis, RedisUnavailable, Script
from core.text.messages import message

_SLOTS = 5
"""Searches that run or wait in one process, which has eight threads."""
_SLOTS_PER_CREDENTIAL = 4
"""How many of these one credential may occupy."""
_RUNNING_SLOTS = 2
"""How many of these run at the same time."""
_SEARCHES_PER_TURN = 2
"""LDAP searches made in one turn, at most."""
_SLACK_SECONDS = 5.0
"""Added to a turn's lease for all work besides the LDAP searches."""
_PAUSE_SECONDS = (0.003, 0.02)
"""Between two attempts to take the turn; it doubles from the first value up to the second."""

_QUICK_SECONDS = 0.1
"""After a search that took no longer, the next one begins at once."""
_LONGEST_REST_SECONDS = 1.0

# Takes all of the keys or none, so that two searches cannot hold one each and wait for one another.
_TAKE_TURN: Final = Script("""
for _, key in ipairs(KEYS) do
    if redis.call('EXISTS', key) == 1 then
        return 0
    end
end
for _, key in ipairs(KEYS) do
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 1
""")
# Compares the token, so that a turn which outlived its lease does not shorten the lease of the next one. A rest of 0 ms
# deletes the key at once.
_REST_AFTER_TURN: Final = Script("""
for _, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[1] then
        redis.call('PEXPIRE', key, ARGV[2])
    end
end
""")

_lock = threading.Lock()
_slots_in_use: Counter[str] = Counter()
_running = threading.BoundedSemaphore(_RUNNING_SLOTS)


@contextmanager
def search_turn(call: Call, *, expensive: bool) -> Iterator[None]:
    """Wait for the caller's turn and hold it; raises RateLimited when it does not come in time."""
    require_thread()
    deadline = time.monotonic() + settings.CONFIGURATION.Searches.WaitSeconds
    names = [f"credential:{call.credential.unique_id}"]
    if expensive and call.directory is not None:
        names.append(f"directory:{call.directory.id}")
    with _slot(call.credential.unique_id), _lease(names, deadline, rests=expensive):
        if not _running.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise _refusal()
        try:
            yield
        finally:
            _running.release()


def _refusal() -> RateLimited:
    wait = math.ceil(settings.CONFIGURATION.Searches.ExpensiveSeconds)
    return RateLimited(retry_after=wait, why=message("Large searches go one after another, and others are under way"))


@contextmanager
def _slot(credential: str) -> Iterator[None]:
    with _lock:
        if _slots_in_use[credential] >= _SLOTS_PER_CREDENTIAL or _slots_in_use.total() >= _SLOTS:
            raise _refusal()
        _slots_in_use[credential] += 1
    try:
        yield
    finally:
        with _lock:
            _slots_in_use[credential] -= 1
            if not _slots_in_use[credential]:
                del _slots_in_use[credential]


@contextmanager
def _lease(names: Sequence[str], deadline: float, *, rests: bool) -> Iterator[None]:
    limits = settings.CONFIGURATION.Searches
    keys, token = [f"gateway:search:turn:{name}" for name in names], secrets.token_hex(8)
    seconds = limits.ExpensiveSeconds if rests else settings.CONFIGURATION.Directory.OperationSeconds
    # Longer than any turn can last: if the lease expired during one, another search would begin beside it.
    life = _SEARCHES_PER_TURN * seconds + limits.WaitSeconds + _SLACK_SECONDS
    redis = _redis(settings.REDIS_URL)
    pause, longest = _PAUSE_SECONDS
    with suppress(RedisUnavailable):
        while not redis.run(_TAKE_TURN, keys, (token, _milliseconds(life))):
            if time.monotonic() >= deadline:
                raise _refusal()
            time.sleep(pause)
            pause = min(longest, 2 * pause)
    began = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - began
        rest = min(_LONGEST_REST_SECONDS, took) if rests and took > _QUICK_SECONDS else 0.0
        if not _end_turns([(keys, token, rest)]):
            _late_ends.add((keys, token, 0.0))


_Turn = tuple[Sequence[str], str, float]
"""Its keys, its token, and the seconds of rest after it."""


def _end_turns(turns: Sequence[_Turn]) -> bool:
    """False while Redis is away."""
    try:
        for keys, token, rest in turns:
            _redis(settings.REDIS_URL).run(_REST_AFTER_TURN, keys, (token, _milliseconds(rest)))
    except RedisUnavailable:
        return False
    return True


_late_ends: Final[BackgroundWriter[_Turn]] = BackgroundWriter("turns-to-end", _end_turns)
"""Turns whose end Redis did not hear: until their leases end, nobody else would search with the same credential."""


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))


@lru_cache(maxsize=1)
def _redis(url: str) -> QuickRedis:
    return QuickRedis(url, without="turns of searches are kept by each process")
