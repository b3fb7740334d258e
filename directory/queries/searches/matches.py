"""The order of a search's matches, and snapshots: the matches on later pages, kept in Redis.

A snapshot holds objectGUIDs in order, no records, and is only a cache. When it is gone (Redis is away or was emptied,
or another snapshot needed the room), the search finds its matches again and goes on behind the last one. The only
values it keeps are those sorted by, encrypted.
"""

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

from django.conf import settings

from active_directory import FILETIME_NEVER, AttributeType, Entry, Schema, Syntax, ValueType, decode, value_type
from core.paging import CURSOR_LIFE
from core.redis.clients import QuickRedis, RedisUnavailable, Script
from core.secrets.encryption import UndecryptableSecret, decrypt, encrypt
from directory.shapes.record import readable_name

Value = int | str | None

_NUMBERS = frozenset({Syntax.INTEGER, Syntax.LARGE_INTEGER})
_MAX_SORT_LENGTH = 256
"""Characters of a value that order it: a position must fit into a cursor, and photographs can be sorted by, too."""


class Match(NamedTuple):
    """A match reduced to its position in the order; `value` is None when it has nothing to sort by."""

    value: Value
    guid: bytes


@dataclass(frozen=True, slots=True)
class Order:
    """By an attribute's first value, ignoring case; then by objectGUID. Missing values come last in either direction.

    "Never" counts as missing: accountExpires has it as the smallest number and as the greatest.
    """

    attribute: AttributeType | None = None
    descending: bool = False

    @classmethod
    def of(cls, sort: str | None, schema: Schema, *, confidential: bool) -> "Order":
        """The order that `?sort=` asks for; raises AttributeUnknown or AttributeNotReadable."""
        if sort is None:
            return cls()
        name = readable_name(schema, sort.removeprefix("-"), parameter="sort", confidential=confidential)
        return cls(schema.attribute(name), sort.startswith("-"))

    @property
    def needs(self) -> tuple[str, ...]:
        """The attributes that `match` looks at."""
        return ("objectGUID",) if self.attribute is None else ("objectGUID", self.attribute.name)

    def match(self, entry: Entry) -> Match:
        guid = entry.values("objectGUID")[0]
        if self.attribute is None or not (values := entry.values(self.attribute.name)):
            return Match(None, guid)
        if self.attribute.syntax in _NUMBERS:
            number = int(values[0])
            is_never = number in FILETIME_NEVER and value_type(self.attribute) is ValueType.TIME
            return Match(None if is_never else number, guid)
        return Match(decode(self.attribute, values[:1])[0].casefold()[:_MAX_SORT_LENGTH], guid)

    def sorted(self, matches: Iterable[Match]) -> list[Match]:
        """The matches in order."""
        if self.attribute is None:
            return sorted(matches, key=attrgetter("guid"))
        present: list[Match] = []
        missing: list[Match] = []
        for match in matches:
            (missing if match.value is None else present).append(match)
        for some in (present, missing):
            some.sort(key=attrgetter("guid"))
        present.sort(key=attrgetter("value"), reverse=self.descending)
        return present + missing

    def after(self, matches: Iterable[Match], last: Match) -> list[Match]:
        """The matches in order behind `last`, which may itself be gone."""
        ordered = self.sorted({*matches, last})
        return ordered[ordered.index(last) + 1 :]


MAX_SNAPSHOT_OCTETS = 64 * 1024 * 1024
"""Of all snapshots together, some four million objectGUIDs. The least recently used ones make room."""
_INDEX = "gateway:matches:index"
_LIFE = str(int(CURSOR_LIFE.total_seconds()))

# The index is a sorted set of <id>:<octets> by the time of last use.
_NOTE_USE: Final = Script("""
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('EXPIRE', KEYS[2] .. ':ends', ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
local total = 0
for _, member in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, -1)) do
    local id, octets = string.match(member, '^(.*):(%d+)$')
    total = total + octets
    if total > tonumber(ARGV[3]) then
        redis.call('ZREM', KEYS[1], member)
        redis.call('DEL', 'gateway:matches:' .. id, 'gateway:matches:' .. id .. ':ends')
    end
end
""")


class Snapshot(NamedTuple):
    """The name of a snapshot (`<id>:<octets>`, empty when there is none) and how many matches it holds."""

    name: str
    length: int

    @property
    def key(self) -> str:
        """The Redis key of the objectGUIDs. With `:ends` appended, that of the sort values at the end of each page."""
        return f"gateway:matches:{self.name.partition(':')[0]}"

    def note_use(self) -> None:
        """Mark it as used now, so that other snapshots make room before it does; raises RedisUnavailable."""
        _redis(settings.REDIS_URL).run(_NOTE_USE, (_INDEX, self.key), (self.name, _LIFE, str(MAX_SNAPSHOT_OCTETS)))


class Excerpt(NamedTuple):
    """One page of a snapshot, and its last match."""

    guids: list[bytes]
    last: Match


@lru_cache(maxsize=1)
def _redis(url: str) -> QuickRedis:
    return QuickRedis(url, without="searches find their pages anew")


def keep_snapshot(matches: Sequence[Match], page_size: int) -> Snapshot:
    """Keep the matches of later pages, which must all have this size."""
    guids = b"".join(map(attrgetter("guid"), matches))
    values = [match.value for match in matches[page_size - 1 :: page_size]]
    ends = encrypt(json.dumps(values, separators=(",", ":"))) if any(value is not None for value in values) else ""
    snapshot = Snapshot(f"{secrets.token_hex(8)}:{len(guids) + len(ends)}", len(matches))
    redis = _redis(settings.REDIS_URL)
    try:
        redis.execute("SET", snapshot.key, guids, "EX", _LIFE)
        if ends:
            redis.execute("SET", f"{snapshot.key}:ends", ends, "EX", _LIFE)
        snapshot.note_use()
    except RedisUnavailable:
        return Snapshot("", len(matches))
    return snapshot


def read_snapshot(snapshot: Snapshot, offset: int, page_size: int) -> Excerpt | None:
    """A page of a snapshot; None when the snapshot is gone."""
    if not snapshot.name:
        return None
    size, redis = min(page_size, snapshot.length - offset), _redis(settings.REDIS_URL)
    try:
        packed = redis.execute("GETRANGE", snapshot.key, str(16 * offset), str(16 * (offset + size) - 1))
        sealed = redis.execute("GET", f"{snapshot.key}:ends")
        if size <= 0 or len(packed) < 16 * size:
            return None
        snapshot.note_use()
        ends: list[Value] = json.loads(decrypt(sealed.decode("ascii"))) if sealed else []
    except (RedisUnavailable, UndecryptableSecret, UnicodeDecodeError):
        return None
    guids = [packed[place : place + 16] for place in range(0, len(packed), 16)]
    # The last page may be shorter. Nothing follows it, so it needs no end.
    page = offset // page_size
    return Excerpt(guids, Match(ends[page] if page < len(ends) else None, guids[-1]))
