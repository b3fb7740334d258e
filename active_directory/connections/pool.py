"""The connections of one process to one directory: a bounded pool that fails over between servers.

The client decides what to send and whether to repeat a failed operation.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter

import ldap

from active_directory.connections import measurements
from active_directory.connections.connection import (
    BROKEN,
    Attempts,
    Connection,
    ConnectionSilent,
    ServerSettings,
    open_connection,
)
from active_directory.connections.measurements import connecting, note_asked
from active_directory.errors import BadCredentials, LdapError, TlsError, Unavailable, error_from
from active_directory.event_loop import require_thread

Opener = Callable[[str, ServerSettings, float], Connection]

PENALTY_SECONDS = 15.0  # for which a server that failed is tried last
CREDENTIALS_SECONDS = 30.0  # for which refused credentials are not tried again, or the domain would lock the account
HEALTH_SECONDS = 2.0  # for a health check, and for connecting to a server that may be back


class PreferredController:
    """The domain controller that all processes of the gateway use, so that each sees what another has just written.

    Replicating a write to the other domain controllers takes seconds. Whoever makes a client implements how processes
    share the preference. Servers are named by URL. No method raises if the service behind it does not answer.

    This class itself is for a directory with a single server.
    """

    last_known: str | None = None
    """The last answer of `server`."""

    def server(self) -> str | None:
        """The server that took the latest write, while others may lack it; None if any will do."""
        return None

    def claim(self, server: str) -> bool:
        """Tell all processes that this server takes writes now; True if certainly no other has taken one recently."""
        return True

    def is_only_writer(self, server: str) -> bool:
        """Whether certainly no other server has recently taken a write. Changes nothing."""
        return True


ONE_SERVER = PreferredController()


class Pool:
    """Opens connections on demand and hands out the one used last.

    They go to the domain controller that all processes prefer, or else to the first server; to another if it fails.
    """

    def __init__(
        self,
        settings: ServerSettings,
        opener: Opener = open_connection,
        preferred_controller: PreferredController = ONE_SERVER,
    ) -> None:
        self.settings = settings
        self._opener = opener
        self._preferred_controller = preferred_controller
        self._reset()
        _POOLS.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0  # threads: without any, `release` need not notify
        self._idle: list[Connection] = []
        self._open = 0
        self._closed = False
        self._penalties: dict[str, float] = {}
        self._credentials_refused = 0.0, ""
        self._connecting = threading.Lock()

    def acquire(self, deadline: float, *, new: bool = False, server: str | None = None) -> Connection:
        """Lend a working connection until `release` or `discard`. Raises ``Unavailable`` if there is none in time.

        ``new`` asks for a new connection, which replaces the least recently used one if the pool is full. ``server``
        allows only that one.
        """
        require_thread()
        began = perf_counter()
        try:
            return self._acquire(deadline, new=new, server=server)
        finally:
            measurements.listener.waited(perf_counter() - began)

    def _acquire(self, deadline: float, *, new: bool, server: str | None) -> Connection:
        wanted = server or self.preferred_server()
        with self._lock:
            while not self._idle and self._open >= self.settings.pool_size:
                self._wait(deadline)
            fitting = [] if new else [idle for idle in self._idle if wanted in (None, idle.url)]
            connection: Connection | None = None
            if fitting:
                connection = fitting[-1]
                self._idle.remove(connection)
            elif self._open >= self.settings.pool_size:
                connection, new = self._idle.pop(0), True
            else:
                self._open += 1
        try:
            if connection is not None and (new or not self._is_usable(connection)):
                connection.abort()
                connection = None
            if connection is None:
                return self._connect(deadline, (server,) if server else self.order(wanted))
            return connection if wanted else self._prefer_first_server(connection)
        except BaseException:
            self._forget()
            raise

    def _wait(self, deadline: float) -> None:
        self._waiting += 1
        try:
            if not self._changed.wait(deadline - time.monotonic()):
                raise Unavailable("All connections to the directory are in use")
        finally:
            self._waiting -= 1

    def preferred_server(self) -> str | None:
        """The server that all processes prefer at the moment, unless it has just failed here."""
        if len(self.settings.urls) == 1:
            return None
        agreed = self._preferred_controller.server()
        has_failed = agreed is not None and self._penalties.get(agreed, 0) > time.monotonic()
        return agreed if agreed in self.settings.urls and not has_failed else None

    def release(self, connection: Connection) -> None:
        """Take back a connection that works."""
        connection.last_used = time.monotonic()
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                if self._waiting:
                    self._changed.notify()
                return
        connection.close()
        self._forget()

    def discard(self, connection: Connection, *, server_failed: bool = False) -> None:
        """Close a connection that must not be used again, and with `server_failed` the idle ones to its server."""
        self._give_up(connection, server_failed=server_failed)
        connection.abort()

    def hand_over(self, connection: Connection) -> None:
        """Remove a connection that somebody else goes on waiting on, without closing it.

        Its server is slow, so the idle connections to it are closed.
        """
        self._give_up(connection, server_failed=True)

    def _give_up(self, connection: Connection, *, server_failed: bool) -> None:
        stale: list[Connection] = []
        with self._lock:
            if server_failed:
                self._penalties[connection.url] = time.monotonic() + PENALTY_SECONDS
                stale = [idle for idle in self._idle if idle.url == connection.url]
                self._idle = [idle for idle in self._idle if idle.url != connection.url]
            self._open -= len(stale) + 1
            self._changed.notify_all()
        for idle in stale:
            idle.abort()

    def order(self, wanted: str | None = None) -> list[str]:
        """The servers in the order to try: the one wanted or preferred, the others as configured, then failed ones."""
        first, now = wanted or self.preferred_server(), time.monotonic()
        return sorted(self.settings.urls, key=lambda url: (url != first, self._penalties.get(url, 0) > now))

    def close(self) -> None:
        """Close idle connections now, and those in use when they are released."""
        with self._lock:
            self._closed = True
            closing = self._idle.copy()
            self._idle.clear()
            self._open -= len(closing)
        for connection in closing:
            connection.close()

    def after_fork(self) -> None:
        """In a forked child: drop the parent's connections and start empty."""
        for connection in self._idle:
            connection.detach()
        self._reset()

    def _forget(self) -> None:
        with self._lock:
            self._open -= 1
            self._changed.notify()

    def _is_usable(self, connection: Connection) -> bool:
        if connection.has_unexpected_input() and not connection.abandoned:
            return False
        if not connection.abandoned and time.monotonic() - connection.last_used < self.settings.idle_seconds:
            return True
        connection.abandoned = False
        try:  # a firewall may have dropped it silently; this also makes libldap skip the rest of an abandoned search
            connection.ldap.search_ext_s("", ldap.SCOPE_BASE, attrlist=["1.1"], timeout=HEALTH_SECONDS)
        except ldap.LDAPError:
            return False
        return True

    def _prefer_first_server(self, connection: Connection) -> Connection:
        """Replace a connection to a later server if an earlier one is back, which is tried once per penalty."""
        now = time.monotonic()
        for url in self.settings.urls:
            if url == connection.url:
                return connection
            with self._lock:
                if self._penalties.get(url, 0) > now:
                    continue
                self._penalties[url] = now + PENALTY_SECONDS  # so that other threads do not try, too
            try:
                preferred = self._opener(url, self.settings, HEALTH_SECONDS)
            except LdapError:
                continue
            self._penalties.pop(url, None)
            connection.close()
            return preferred
        return connection

    def _connect(self, deadline: float, urls: Sequence[str]) -> Connection:
        """Open a connection. One thread at a time: many with a wrong password would lock the account out."""
        if not self._connecting.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Unavailable("No domain controller answers in time")
        try:
            refused_until, message = self._credentials_refused
            if time.monotonic() < refused_until:
                raise BadCredentials(message, result_code=49)
            return self._connect_to_any(deadline, urls)
        finally:
            self._connecting.release()

    def _connect_to_any(self, deadline: float, urls: Sequence[str]) -> Connection:
        problem: Unavailable | None = None
        for url in urls:
            seconds = min(self.settings.connect_seconds, deadline - time.monotonic())
            if seconds <= 0:
                break
            try:
                with connecting(url):
                    connection = self._opener(url, self.settings, seconds)
            except BadCredentials as error:
                self._credentials_refused = time.monotonic() + CREDENTIALS_SECONDS, error.message
                raise
            except Unavailable as error:
                self._penalties[url] = time.monotonic() + PENALTY_SECONDS
                # Report an untrusted certificate, which somebody has to fix, rather than a server that is down.
                problem = error if problem is None or isinstance(error, TlsError) else problem
            else:
                self._penalties.pop(url, None)
                return connection
        raise problem or Unavailable("No domain controller answers in time")


class Borrowed:
    """Lends a connection for a block inside a loop of attempts.

    If the connection is silent or broken, the block ends without an error as long as another attempt is left. Other
    python-ldap exceptions become this layer's.

    It is a class because a generator-based context manager would take as long as getting the connection.
    """

    __slots__ = ("_attempts", "_began", "_connection", "_kind", "_pool", "_server")

    def __init__(self, pool: Pool, attempts: Attempts, kind: str, server: str | None) -> None:
        self._pool = pool
        self._attempts = attempts
        self._kind = kind
        self._server = server

    def __enter__(self) -> Connection:
        attempts = self._attempts
        self._connection = self._pool.acquire(attempts.deadline, new=attempts.needs_new, server=self._server)
        self._began = perf_counter()
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        connection, listener = self._connection, measurements.listener
        if isinstance(error, BROKEN):
            listener.failed(connection.url, self._kind, type(error).__name__)
            self._pool.discard(connection, server_failed=True)
            self._attempts.count(error)
            return True
        # An error answer leaves the connection usable, and so does an abandoned search (GeneratorExit).
        if error is None or isinstance(error, (ldap.LDAPError, GeneratorExit, LdapError)):
            listener.used(connection.url, self._kind, perf_counter() - self._began)
            note_asked(connection.url)
            self._pool.release(connection)
            if isinstance(error, ldap.LDAPError):
                raise error_from(error) from error
            return False
        self._pool.discard(connection)
        if isinstance(error, ConnectionSilent):
            self._attempts.move()
            return True
        return False


_POOLS: "weakref.WeakSet[Pool]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for pool in list(_POOLS):
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
