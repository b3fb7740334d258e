"""The pooled LDAP client that this process has for each stored connection, and values cached as long as the client.

Only how to reach a directory is cached here: `keys` checks at each request whether the caller may use a connection.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, wraps
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.utils import timezone

from active_directory import (
    ONE_SERVER,
    Client,
    Opener,
    PreferredController,
    ProtocolError,
    ServerSettings,
    open_connection,
    sid_to_text,
)
from core.redis.clients import QuickRedis, RedisUnavailable, Script
from directory.models import DirectoryConnection

REVISION_SECONDS = 1.0
"""How long a process relies on a connection's revision before it reads it again."""


@dataclass(slots=True)
class _CachedClient:
    client: Client
    revision: int
    read_at: float


_clients: dict[UUID, _CachedClient] = {}
_lock = threading.Lock()


def get_client(connection_id: UUID) -> Client:
    """The client of a connection: one per process and revision; raises DirectoryConnection.DoesNotExist."""
    known = _clients.get(connection_id)
    if known is not None and monotonic() - known.read_at < REVISION_SECONDS:
        return known.client
    row = DirectoryConnection.objects.get(pk=connection_id)
    with _lock:
        known = _clients.get(connection_id)
        if known is None or known.revision != row.revision:
            if known is not None:
                known.client.close()
            client = Client(server_settings(row), _opener_of(row), preferred_controller_of(row.pk, row.urls))
            known = _clients[connection_id] = _CachedClient(client, row.revision, 0)
        known.read_at = monotonic()
    return known.client


_opener_of: Callable[[DirectoryConnection], Opener] = lambda _: open_connection  # noqa: E731 - exchanged as a whole


def use_opener(opener_of: Callable[[DirectoryConnection], Opener]) -> None:
    """Set how clients made from now on open LDAP connections; called once in each process, as it starts.

    `directory.queries.bind_attempts` provides it, and stands above this module.
    """
    global _opener_of  # noqa: PLW0603 - one for the process
    _opener_of = opener_of


def load_schemas_soon() -> None:
    """Begin to read the schemas of the enabled connections, so that the first requests of a new process wait less."""
    threading.Thread(target=_load_schemas, name="schemas", daemon=True).start()


def _load_schemas() -> None:
    with closing(connection), suppress(DatabaseError):  # the first request that needs a schema reads it then
        for id in DirectoryConnection.objects.filter(enabled=True).values_list("pk", flat=True):
            with suppress(DirectoryConnection.DoesNotExist):
                get_client(id).load_schema_soon()


def server_settings(row: DirectoryConnection) -> ServerSettings:
    """The LDAP layer's settings for a connection."""
    limits = settings.CONFIGURATION.Directory
    return ServerSettings(
        urls=tuple(row.urls),
        base_dn=row.base_dn,
        bind_dn=row.bind_dn,
        # The password was sealed for other servers: without one, nothing is sent to these.
        bind_password=row.bind_password if row.is_bind_password_sealed else "",
        other_passwords=tuple(other_passwords(row)) if row.is_bind_password_sealed else (),
        ca_certificate=row.ca_certificate or None,
        start_tls=row.start_tls,
        connect_seconds=limits.ConnectSeconds,
        operation_seconds=limits.OperationSeconds,
        pool_size=limits.PoolSize,
    )


_known_connections: tuple[tuple[DirectoryConnection, ...], float] | None = None
"""The connections, and until when they are used."""


def known_connections() -> tuple[DirectoryConnection, ...]:
    """All connections, enabled or not, as they were at most REVISION_SECONDS ago.

    Only with their names, their bind names, and the SIDs of the accounts that the bind names were found to stand for.
    """
    global _known_connections  # noqa: PLW0603 - one for the process
    known = _known_connections
    if known is None or monotonic() >= known[1]:
        until = monotonic() + REVISION_SECONDS
        columns = ("name", "bind_dn", "bind_account", "bind_account_learnt_for")
        known = _known_connections = tuple(DirectoryConnection.objects.order_by("name").only(*columns)), until
    return known[0]


def forget_known_connections() -> None:
    """Make the next call of `known_connections` read them again."""
    global _known_connections  # noqa: PLW0603 - one for the process
    _known_connections = None


def learn_bind_account(row: DirectoryConnection, account: str) -> None:
    """Keep the SID of the account that a bind name stands for, which stays the same when the account is renamed."""
    if (row.bind_account, row.bind_account_learnt_for) != (account, row.bind_dn):
        # Not if somebody has changed the bind name since: the SID belongs to the old one.
        unchanged = DirectoryConnection.objects.filter(pk=row.pk, bind_dn=row.bind_dn)
        unchanged.update(bind_account=account, bind_account_learnt_for=row.bind_dn)
        forget_known_connections()


def count_protection_change() -> None:
    """Make the cached protection state of every process outdated.

    The change counts for all connections, because several may lead to the same domain. Their rows are locked in one
    order, so that two changes cannot deadlock, until the caller's transaction ends.
    """
    with transaction.atomic(savepoint=False):
        every = list(DirectoryConnection.objects.select_for_update().order_by("pk").values_list("pk", flat=True))
        DirectoryConnection.objects.filter(pk__in=every).update(protection_changes=F("protection_changes") + 1)


def connection_id_of(client: Client) -> UUID | None:
    """The id of the connection that a client belongs to; None for a client that `get_client` did not make."""
    with _lock:
        return next((id for id, known in _clients.items() if known.client is client), None)


PREVIOUS_PASSWORD_LIFE = timedelta(hours=1)
"""How long after a rotation some domain controller may still know only the previous password."""


def other_passwords(row: DirectoryConnection) -> Iterator[str]:
    """Other passwords the account may have: while it is being changed, and until every server knows the new one."""
    if row.pending_bind_password:
        yield row.pending_bind_password
    if row.previous_bind_password and row.rotated_at and timezone.now() - row.rotated_at < PREVIOUS_PASSWORD_LIFE:
        yield row.previous_bind_password


_Value = TypeVar("_Value")


def cached_per_client(find: Callable[[Client], _Value]) -> Callable[[Client], _Value]:
    """Cache a function's value for each client. If several threads call it at once, the first value counts."""

    @wraps(find)
    def get(client: Client) -> _Value:
        if find not in client.kept:
            client.kept.setdefault(find, find(client))
        known: _Value = client.kept[find]
        return known

    return get


@cached_per_client
def domain_sid(client: Client) -> str:
    """The SID of the client's domain; it never changes."""
    values = client.read(client.default_naming_context, ("objectSid",)).values("objectSid")
    if not values:
        raise ProtocolError("The domain's own SID cannot be read", attribute="objectSid")
    return sid_to_text(values[0])


_PROTECTION_CHANGES: Final = "changes of protection"


def known_protection_changes(client: Client) -> tuple[int, int]:
    """How many changes of protection the gateway has made: those of all processes, as far as known, and of this one.

    `directory.protection.state` shows no state from before the last of them. This process counts its own changes at
    once, and those of others when the next request brings their number.
    """
    known: tuple[int, int] = client.kept.get(_PROTECTION_CHANGES, (0, 0))
    return known


def note_protection_changes(client: Client, changes: int) -> None:
    """Note how many changes of protection all processes have made, so that no older state is shown."""
    if changes and changes > known_protection_changes(client)[0]:
        with _lock:
            heard, made_here = known_protection_changes(client)
            client.kept[_PROTECTION_CHANGES] = max(changes, heard), made_here


def note_own_protection_change(client: Client) -> None:
    """Note a change that this process has just made, before other processes hear of it."""
    with _lock:
        heard, made_here = known_protection_changes(client)
        client.kept[_PROTECTION_CHANGES] = heard, made_here + 1


# Returns 1 when no other server has taken a write within the period (ARGV[1]), and 0 when one has, or when Redis has
# not kept complete marks for that long. With ARGV[2], that server has just taken a write. A promoted replica may lack
# the last marks of its primary, and a restarted Redis all of them; in both, the replication id differs from the one
# stored with the time since when the marks are complete, and that time starts over with the next write.
_IS_ALONE: Final = Script("""
local now = tonumber(redis.call('TIME')[1])
local info = redis.pcall('INFO', 'replication')
local own = type(info) == 'string' and string.match(info, 'master_replid:(%x+)') or '0'
local noted, since = string.match(redis.call('GET', KEYS[1]) or '', '^(%x+) (%d+)$')
since = noted == own and tonumber(since) or now
if ARGV[2] then
    redis.call('SET', KEYS[1], own .. ' ' .. since)
    redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[1])
    redis.call('SET', KEYS[3], 1, 'EX', ARGV[1])
end
if now - since <= tonumber(ARGV[1]) then return 0 end
for i = 4, #KEYS do
    if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
return 1
""")


def preferred_controller_of(connection_id: UUID, servers: Sequence[str]) -> PreferredController:
    """How processes agree on one of a connection's servers; with a single server there is nothing to agree on."""
    seconds = settings.CONFIGURATION.Directory.StickySeconds
    if len(servers) < 2 or not seconds:
        return ONE_SERVER
    return _SharedPreferredController(f"gateway:directory:{connection_id}", servers, seconds)


class _SharedPreferredController(PreferredController):
    """The domain controller that all processes on all hosts prefer: the one that took the latest write.

    Redis keeps it for `Directory:StickySeconds`, by its own clock. While Redis is away each process uses the server it
    heard of last, so that some may ask a domain controller that lacks the latest write.
    """

    def __init__(self, key: str, servers: Sequence[str], seconds: int) -> None:
        self._latest, self._since = f"{key}:latest", f"{key}:complete-since"
        self._marks = {server: f"{key}:wrote:{server}" for server in servers}
        self._seconds = seconds
        self._until = 0.0
        self._is_untold = False

    def server(self) -> str | None:
        remembered = self.last_known if monotonic() < self._until else None
        try:
            found = None if self._is_untold else _redis(settings.REDIS_URL).execute("GET", self._latest)
        except RedisUnavailable:
            found = None
        if found is None:  # no recent write, or Redis does not know of it
            return remembered
        server = str(found, "utf-8", "replace")
        if server != remembered:
            self.last_known, self._until = server, monotonic() + self._seconds
        return server

    def claim(self, server: str) -> bool:
        self.last_known, self._until = server, monotonic() + self._seconds
        try:
            is_only_writer = self._look(server, server)
        except RedisUnavailable:
            self._is_untold = True
            return False
        self._is_untold = False
        return is_only_writer

    def is_only_writer(self, server: str) -> bool:
        try:
            return self._look(server)
        except RedisUnavailable:
            return False

    def _look(self, server: str, *claimed: str) -> bool:
        others = (mark for other, mark in self._marks.items() if other != server)
        keys = (self._since, self._latest, self._marks[server], *others)
        return bool(_redis(settings.REDIS_URL).run(_IS_ALONE, keys, (str(self._seconds), *claimed)) == 1)


@lru_cache(maxsize=1)
def _redis(url: str) -> QuickRedis:
    return QuickRedis(url, without="hosts may use different domain controllers of one directory")
