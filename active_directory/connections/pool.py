"""The connections of one process to one directory: bounded, reused, failing over between servers.

What is sent over them, and whether a failed operation may be repeated, is the client's decision.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter

import ldap

from active_directory.connections import measurements
from active_directory.connections.attempts import BROKEN, Attempts, ConnectionSilent
from active_directory.connections.connection import Connection, open_connection
from active_directory.connections.measurements import connecting
from active_directory.connections.preferred_controller import ONE_SERVER, Agreement
from active_directory.connections.servers_asked import note_asked
from active_directory.connections.settings import ServerSettings
from active_directory.errors import BadCredentials, LdapError, TlsError, Unavailable, error_from

Opener = Callable[[str, ServerSettings, float], Connection]

PENALTY_SECONDS = 15.0  # how long a server that failed is asked last
CREDENTIALS_SECONDS = 30.0  # how long refused credentials are not tried again: a domain locks accounts out
HEALTH_SECONDS = 2.0  # for a server to answer a health check, or to take connections back


class Pool:
    """Connections are opened on demand, the last one used is the next one handed out.

    The server is the one that all processes have agreed on, without an agreement the first; another one serves when it
    fails.
    """

    def __init__(
        self, settings: ServerSettings, opener: Opener = open_connection, agreement: Agreement = ONE_SERVER
    ) -> None:
        self._settings = settings
        self._opener = opener
        self._agreement = agreement
        self._reset()
        _POOLS.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0  # for a connection; nobody is told of one that comes back while nobody is
        self._idle: list[Connection] = []
        self._open = 0
        self._closed = False
        self._penalties: dict[str, float] = {}
        self._credentials_refused = 0.0, ""
        self._connecting = threading.Lock()

    def acquire(self, deadline: float, *, new: bool = False, server: str | None = None) -> Connection:
        """A working connection, the caller's until `release` or `discard`; ``Unavailable`` if there is none in time.

        A ``new`` one takes the place of the one used least lately where there is no other place for it. With a
        ``server`` it is to that one or none.
        """
        began = perf_counter()
        try:
            return self._acquire(deadline, new=new, server=server)
        finally:
            measurements.listener.waited(perf_counter() - began)

    def _acquire(self, deadline: float, *, new: bool, server: str | None) -> Connection:
        wanted = server or self._agreed_server()
        with self._lock:
            while not self._idle and self._open >= self._settings.pool_size:
                self._wait(deadline)
            fitting = [] if new else [idle for idle in self._idle if wanted in (None, idle.url)]
            connection: Connection | None = None
            if fitting:
                connection = fitting[-1]
                self._idle.remove(connection)
            elif self._open >= self._settings.pool_size:
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

    def _agreed_server(self) -> str | None:
        """The server that all use at the moment, unless it has just failed here."""
        if len(self._settings.urls) == 1:
            return None
        agreed = self._agreement.server()
        has_failed = agreed is not None and self._penalties.get(agreed, 0) > time.monotonic()
        return agreed if agreed in self._settings.urls and not has_failed else None

    def release(self, connection: Connection) -> None:
        """Take back a connection in order."""
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
        """Take back a connection that must not be used again; with a failed server its idle ones go too."""
        self._give_up(connection, server_failed=server_failed)
        connection.abort()

    def part_with(self, connection: Connection) -> None:
        """Let a connection go that somebody else waits on: its place is free, and its server is slow.

        The idle ones to that server are closed: they would be as slow.
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
        """The servers: the one wanted or agreed on, those in good standing as configured, and those that failed."""
        first, now = wanted or self._agreed_server(), time.monotonic()
        return sorted(self._settings.urls, key=lambda url: (url != first, self._penalties.get(url, 0) > now))

    def close(self) -> None:
        """Close what is idle now and what is in use when it comes back."""
        with self._lock:
            self._closed = True
            closing = self._idle.copy()
            self._idle.clear()
            self._open -= len(closing)
        for connection in closing:
            connection.close()

    def after_fork(self) -> None:
        """In the child: start empty. The parent's connections stay the parent's."""
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
        if not connection.abandoned and time.monotonic() - connection.last_used < self._settings.idle_seconds:
            return True
        connection.abandoned = False
        try:  # a firewall may have dropped it without telling; and libldap skips what is left of an abandoned search
            connection.ldap.search_ext_s("", ldap.SCOPE_BASE, attrlist=["1.1"], timeout=HEALTH_SECONDS)
        except ldap.LDAPError:
            return False
        return True

    def _prefer_first_server(self, connection: Connection) -> Connection:
        """Exchange a connection to a later server when an earlier one may be back; one attempt per penalty."""
        now = time.monotonic()
        for url in self._settings.urls:
            if url == connection.url:
                return connection
            with self._lock:
                if self._penalties.get(url, 0) > now:
                    continue
                self._penalties[url] = now + PENALTY_SECONDS  # others go on meanwhile
            try:
                preferred = self._opener(url, self._settings, HEALTH_SECONDS)
            except LdapError:
                continue
            self._penalties.pop(url, None)
            connection.close()
            return preferred
        return connection

    def _connect(self, deadline: float, urls: Sequence[str]) -> Connection:
        """Open a connection, one at a time: many threads with a wrong password would lock the account out."""
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
            seconds = min(self._settings.connect_seconds, deadline - time.monotonic())
            if seconds <= 0:
                break
            try:
                with connecting(url):
                    connection = self._opener(url, self._settings, seconds)
            except BadCredentials as error:
                self._credentials_refused = time.monotonic() + CREDENTIALS_SECONDS, error.message
                raise
            except Unavailable as error:
                self._penalties[url] = time.monotonic() + PENALTY_SECONDS
                # An untrusted certificate is somebody's to mend; that a server is down may be known already.
                problem = error if problem is None or isinstance(error, TlsError) else problem
            else:
                self._penalties.pop(url, None)
                return connection
        raise problem or Unavailable("No domain controller answers in time")


class Borrowed:
    """The block for which a connection is lent, in a loop that ends when a block does.

    A silent or broken connection ends the block without an error, as long as there is another attempt; other errors of
    python-ldap become this layer's own.

    No generator makes it a context manager: that takes as long as finding the connection, with every read.
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
        # A refusal leaves a connection in order, and a search given up has told the server to stop.
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
