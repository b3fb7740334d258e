"""Which domain controller of a directory every process on every host uses: the one that took the latest write.

It is kept in Redis for `Directory:StickySeconds`, by the clock of Redis alone. While Redis is away each process goes by
what it heard last; then others may be asked a domain controller that has not got the latest write yet.
"""

from collections.abc import Sequence
from functools import lru_cache
from time import monotonic
from typing import Final
from uuid import UUID

from django.conf import settings

from active_directory import ONE_SERVER, Agreement
from core.redis.quick_client import QuickRedis, RedisAway, Script

# 1 when no other server has taken a write for so long; 0 when one has, or when Redis has not known for so long.
# A replica that was promoted may lack what its primary was told last, and so may a server that was started anew. Either
# has another identifier of replication than whoever noted since when the marks are complete: then they are from now on.
_CLAIM: Final = Script("""
local now = tonumber(redis.call('TIME')[1])
local info = redis.pcall('INFO', 'replication')
local own = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or '0'
local noted, since = string.match(redis.call('GET', KEYS[2]) or '', '^(%x+) (%d+)$')
since = noted == own and tonumber(since) or now
redis.call('SET', KEYS[2], own .. ' ' .. since)
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('SET', KEYS[3], 1, 'EX', ARGV[2])
if now - since <= tonumber(ARGV[2]) then return 0 end
for i = 4, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
return 1
""")

# The same look without claiming anything.
_LOOK: Final = Script("""
local now = tonumber(redis.call('TIME')[1])
local info = redis.pcall('INFO', 'replication')
local own = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or '0'
local noted, since = string.match(redis.call('GET', KEYS[1]) or '', '^(%x+) (%d+)$')
if noted ~= own or now - tonumber(since) <= tonumber(ARGV[1]) then return 0 end
for i = 2, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
return 1
""")


def agreement_of(connection_id: UUID, servers: Sequence[str]) -> Agreement:
    """The agreement on one of a connection's servers; nothing is asked where there is but one."""
    seconds = settings.CONFIGURATION.Directory.StickySeconds
    if len(servers) < 2 or not seconds:
        return ONE_SERVER
    return _Shared(f"gateway:directory:{connection_id}", servers, seconds)


class _Shared(Agreement):
    """See `Agreement`."""

    def __init__(self, key: str, servers: Sequence[str], seconds: int) -> None:
        self._latest, self._since = f"{key}:latest", f"{key}:complete-since"
        self._marks = {server: f"{key}:wrote:{server}" for server in servers}
        self._seconds = seconds
        self._until = 0.0
        self._is_untold = False

    def server(self) -> str | None:
        remembered = self.heard if monotonic() < self._until else None
        try:
            found = None if self._is_untold else _redis(settings.REDIS_URL).ask("GET", self._latest)
        except RedisAway:
            found = None
        if found is None:  # nobody has written lately, or Redis does not know of it
            return remembered
        server = str(found, "utf-8", "replace")
        if server != remembered:
            self.heard, self._until = server, monotonic() + self._seconds
        return server

    def claim(self, server: str) -> bool:
        self.heard, self._until = server, monotonic() + self._seconds
        keys = (self._latest, self._since, self._marks[server], *self._marks_of_others(server))
        try:
            is_alone = bool(_redis(settings.REDIS_URL).run(_CLAIM, keys, (server, str(self._seconds))) == 1)
        except RedisAway:
            self._is_untold = True
            return False
        self._is_untold = False
        return is_alone

    def is_alone(self, server: str) -> bool:
        keys = (self._since, *self._marks_of_others(server))
        try:
            return bool(_redis(settings.REDIS_URL).run(_LOOK, keys, (str(self._seconds),)) == 1)
        except RedisAway:
            return False

    def _marks_of_others(self, server: str) -> list[str]:
        return [mark for other, mark in self._marks.items() if other != server]


@lru_cache(maxsize=1)
def _redis(url: str) -> QuickRedis:
    return QuickRedis(url, without="hosts may use different domain controllers of one directory")
