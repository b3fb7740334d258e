"""What is still to come of a paged search, kept in Redis for its next pages: identifiers in order, no records.

Only a cache. When a snapshot is gone (Redis is away or was emptied, another one needed the room) the search finds its
matches anew and goes on behind the last one. Of what was found only the values sorted by are kept, and encrypted.
"""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import structlog
from django.conf import settings
from redis import RedisError
from redis.commands.core import Script

from core.paging import CURSOR_LIFE
from core.redis.clients import redis_client
from core.secrets.encryption import UndecryptableSecret, decrypt, encrypt
from directory.queries.searches.order import Match, Value

logger = structlog.get_logger(__name__)

MOST_OCTETS = 64 * 1024 * 1024
"""Of all snapshots together: some four million identifiers. The ones used least lately make room."""
_OBJECTS_PER_PART = 1000
_TIMEOUT = 0.5
"""Seconds. A snapshot saves some work, and is not worth waiting for."""
_PAUSE = 5.0
"""Seconds without a further attempt after Redis has failed."""
_INDEX = "gateway:search:index"
_LIFE = int(CURSOR_LIFE.total_seconds())

# The index holds <id>:<octets> by the moment of last use.
_TIDY = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2] - ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
local total = 0
for _, member in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
    local id, octets = string.match(member, '^(.*):(%d+)$')
    total = total + octets
    if total > tonumber(ARGV[4]) then
        redis.call('ZREM', KEYS[1], member)
        redis.call('DEL', 'gateway:search:' .. id)
    end
end
"""

_Answer = TypeVar("_Answer")


class Snapshot(NamedTuple):
    """The name of a snapshot (`<id>:<octets>`, empty when there is none) and how many matches it was made of."""

    name: str
    left: int


class Excerpt(NamedTuple):
    """One page's part of a snapshot, and the place of its last match."""

    guids: list[bytes]
    last: Match


class _Store:
    """The connection to Redis of this process, and whether it is worth trying."""

    def __init__(self, url: str) -> None:
        self._redis = redis_client(url, seconds=_TIMEOUT, tries=2)
        self._tidy: Script = self._redis.register_script(_TIDY)
        self._pause_ends = 0.0

    def write(self, parts: Mapping[str, bytes | str]) -> str:
        """Keep the parts; the name to find them by, empty when Redis does not take them."""
        id = secrets.token_hex(8)
        name = f"{id}:{sum(len(part) for part in parts.values())}"

        def write() -> str:
            with self._redis.pipeline(transaction=False) as pipeline:
                pipeline.hset(f"gateway:search:{id}", mapping=dict[Any, Any](parts))
                pipeline.expire(f"gateway:search:{id}", _LIFE)
                pipeline.execute()
            self._use(name)
            return name

        return self._try(write) or ""

    def read(self, name: str, fields: Sequence[str]) -> list[bytes | None]:
        """Those fields, None for what is not there."""
        key = f"gateway:search:{name.partition(':')[0]}"

        def read() -> list[bytes | None]:
            found: list[bytes | None] = self._redis.hmget(key, list(fields))  # type: ignore[assignment]
            if found[0] is not None:
                self._redis.expire(key, _LIFE)
                self._use(name)
            return found

        return self._try(read) or [None for _ in fields]

    def _use(self, name: str) -> None:
        self._tidy(keys=[_INDEX], args=[name, int(time.time()), _LIFE, MOST_OCTETS])

    def _is_paused(self) -> bool:
        return time.monotonic() < self._pause_ends

    def _try(self, ask: Callable[[], _Answer]) -> _Answer | None:
        """What Redis answers; None where it does not, and for a while after."""
        if self._is_paused():
            return None
        try:
            return ask()
        except RedisError as error:
            if not self._is_paused():
                logger.warning("searches find their pages anew: Redis does not answer", error=str(error))
            self._pause_ends = time.monotonic() + _PAUSE
            return None


@lru_cache(maxsize=1)
def _store(url: str) -> _Store:
    return _Store(url)


def _pages_per_part(page_size: int) -> int:
    """Each page lies in one part."""
    return max(1, _OBJECTS_PER_PART // page_size)


def keep(matches: Sequence[Match], page_size: int) -> Snapshot:
    """Keep the matches still to come, for pages of this size."""
    per_part = page_size * _pages_per_part(page_size)
    parts: dict[str, bytes | str] = {}
    for number, start in enumerate(range(0, len(matches), per_part)):
        part = matches[start : start + per_part]
        parts[f"guids {number}"] = b"".join(match.guid for match in part)
        ends = [match.value for match in part[page_size - 1 :: page_size]]
        if any(value is not None for value in ends):
            parts[f"ends {number}"] = encrypt(json.dumps(ends, separators=(",", ":")))
    return Snapshot(_store(settings.REDIS_URL).write(parts), len(matches))


def find(snapshot: Snapshot, offset: int, page_size: int) -> Excerpt | None:
    """A page of a snapshot; None when it is not there any more."""
    if not snapshot.name:
        return None
    number, page = divmod(offset // page_size, _pages_per_part(page_size))
    packed, sealed = _store(settings.REDIS_URL).read(snapshot.name, [f"guids {number}", f"ends {number}"])
    if packed is None:
        return None
    start = page * page_size * 16
    own = packed[start : start + page_size * 16]
    guids = [own[position : position + 16] for position in range(0, len(own), 16)]
    if len(guids) < min(page_size, snapshot.left - offset) or not guids:
        return None
    try:
        ends: list[Value] = json.loads(decrypt(sealed.decode("ascii"))) if sealed else []
    except (UndecryptableSecret, UnicodeDecodeError):
        return None
    # The last page of all may be shorter; nothing comes after it, so its end is not needed.
    return Excerpt(guids, Match(ends[page] if page < len(ends) else None, guids[-1]))
