"""The directory as the rest of the gateway sees it: reads, searches and writes as values.

Reads are repeated on another connection when one turns out to be broken; writes are sent exactly once.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any
from uuid import UUID

from active_directory.coalesced_reads import CoalescedReads
from active_directory.connections import connection
from active_directory.connections.connection import (
    Attempts,
    BindResult,
    Pace,
    ServerSettings,
    deadline_of,
    open_connection,
)
from active_directory.connections.pool import ONE_SERVER, Borrowed, Opener, Pool, PreferredController
from active_directory.entry import Entry
from active_directory.errors import (
    LdapError,
    NotFound,
    ProtocolError,
    Unavailable,
    VersionConflict,
)
from active_directory.filters import ANYTHING, And, AnyGuid, Filter, Not, Or
from active_directory.schema import SCHEMA_ATTRIBUTES, SCHEMA_FILTER, CurrentSchema, Schema
from active_directory.streaming import Query, Request, Scope, answer_each, stream
from active_directory.writes import (
    ATTRIBUTES_TO_REWORD,
    Add,
    Modify,
    Pipeline,
    Write,
    Written,
    has_finished_writing,
    is_refused_for_recycle_bin,
    names_by_dn,
    reword_for_samba,
)

_LINKS = frozenset({"member", "memberOf"})
"""Links that are known before the schema has been read, which takes a search itself."""
_APART = 2
"""Connections per process for searches that keep a server busy; few of them run at a time."""
_CONDITIONS_PER_SEARCH = 100
_GUIDS_PER_SEARCH = 50  # five times as fast as one by one; longer filters gain nothing


class Client:
    """One directory. It opens connections on first use, is safe to share between threads and survives a fork."""

    def __init__(
        self,
        settings: ServerSettings,
        opener: Opener = open_connection,
        preferred_controller: PreferredController = ONE_SERVER,
    ) -> None:
        self.settings = settings
        self.opener = opener
        self.preferred_controller = preferred_controller
        self.kept: dict[object, Any] = {}  # what others keep of this directory, each under a key of its own
        self._server: str | None = None
        self._pool = Pool(settings, opener, preferred_controller)
        self._pool_apart = Pool(replace(settings, pool_size=_APART), opener, preferred_controller)
        self._pace = Pace()
        self._coalesced_reads = CoalescedReads(Pool(settings, opener, preferred_controller), self._links)
        self._pipelines = threading.BoundedSemaphore(max(1, settings.pool_size // 2))
        self._schema = CurrentSchema(self._load_schema, settings.schema_seconds)

    def __repr__(self) -> str:
        return f"Client({self.settings!r})"

    def at(self, server: str | None) -> "Client":
        """This client restricted to one server, given by its URL; itself if the directory has no such server.

        What was read from a server must be checked and written there: the others receive it later, by replication.
        """
        if server in (None, self._server) or server not in self.settings.urls or len(self.settings.urls) == 1:
            return self
        one = copy(self)
        one._server, one.kept = server, {}  # another server may hold another state
        return one

    def choose_server(self) -> str:
        """The URL of the server to use now; raises ``Unavailable`` if none answers."""
        if self._server is not None:
            return self._server
        if len(self.settings.urls) == 1:
            return self.settings.urls[0]
        connection = self._pool.acquire(deadline_of(self.settings))
        self._pool.release(connection)
        return connection.url

    def claim(self) -> bool:
        """Before a write, make this client's server (`at`) the one that all processes prefer.

        Returns True if certainly no other server has recently taken a write that this one may lack.
        """
        return self._server is None or self.preferred_controller.claim(self._server)

    @property
    def schema(self) -> Schema:
        """The directory's schema, read at first use and then every ``schema_seconds`` in the background."""
        return self._schema.get()

    def load_schema_soon(self) -> None:
        """Start reading the schema in the background unless it has been read, so that its first user waits less."""
        self._schema.load_soon()

    def refresh_schema(self) -> Schema:
        """Read the schema now, as a name that it lacks may be new; return the present one if that fails."""
        try:
            return self._schema.load_now()
        except Unavailable:
            if self._schema.present is None:
                raise
            return self._schema.present

    def root_dse(self) -> Entry:
        """What the server says about itself ([MS-ADTS] 3.1.1.3.2)."""
        return self.read("", ("*", "+"))

    @cached_property
    def default_naming_context(self) -> str:
        """The domain's naming context, of which ``base_dn`` may be a part."""
        return self._naming_context("defaultNamingContext")

    @cached_property
    def configuration_naming_context(self) -> str:
        """The forest's configuration naming context."""
        return self._naming_context("configurationNamingContext")

    @cached_property
    def schema_naming_context(self) -> str:
        """The forest's schema naming context."""
        return self._naming_context("schemaNamingContext")

    @cached_property
    def naming_contexts(self) -> tuple[str, ...]:
        """All naming contexts that the server holds, the domain's first."""
        names = self.read("", ("namingContexts",)).texts("namingContexts")
        return tuple(dict.fromkeys((self.default_naming_context, *names)))

    def read(
        self,
        ref: UUID | str,
        attributes: Sequence[str] | None = None,
        *,
        deleted: bool = False,
        descriptor: bool = False,
        identities: bool = False,
        coalesce: bool = False,
    ) -> Entry:
        """Read an object by objectGUID or distinguished name. Raises ``NotFound``.

        ``attributes`` None reads all that are not constructed. ``deleted`` also finds deleted objects; ``descriptor``
        adds nTSecurityDescriptor with owner, group and DACL; ``identities`` adds the objectGUIDs of the objects that
        values name. Values returned in ranges are fetched completely. ``coalesce`` lets all who wait on the event loop
        share a search for ``attributes``, objectGUID among them and none that are computed for base searches only.
        """
        if coalesce and isinstance(ref, UUID) and attributes is not None and self._server is None:
            entry = self._coalesced_reads.read(ref.bytes_le, tuple(attributes))
            if entry is not None:
                return entry
        query = Query(
            ref,
            Scope.BASE,
            attributes=attributes,
            links=self._links(deleted=deleted),
            deleted=deleted,
            descriptor=descriptor,
            schema=self.schema if identities else None,
        )
        entries = self._read_whole(query)
        if not entries:
            raise NotFound("There is no such object", result_code=32)
        return entries[0]

    def find(
        self,
        ref: UUID | str,
        attributes: Sequence[str] | None = None,
        *,
        deleted: bool = False,
        descriptor: bool = False,
        identities: bool = False,
    ) -> Entry | None:
        """Like `read`, but None when there is no such object."""
        with suppress(NotFound):
            return self.read(ref, attributes, deleted=deleted, descriptor=descriptor, identities=identities)
        return None

    def _read_whole(self, query: Query) -> list[Entry]:
        attempts = Attempts(self.settings, self._pace)
        while True:
            with Borrowed(self._pool, attempts, "read", self._server) as connection:
                request = Request(connection, query, attempts.seconds, attempts.first_seconds)
                entries = list(request.entries(whole=True))
                attempts.note_answer()
                return entries

    def read_many(
        self,
        guids: Iterable[UUID],
        attributes: Sequence[str] | None = None,
        *,
        deleted: bool = False,
        of_domain: bool = False,
    ) -> dict[UUID, Entry]:
        """Read the objects that exist, by objectGUID; see `read_each`."""
        wanted = {guid.bytes_le: guid for guid in guids}
        found = self.read_each(wanted, attributes, deleted=deleted, of_domain=of_domain)
        return {wanted[entry.values("objectGUID")[0]]: entry for entry in found}

    def read_each(
        self,
        guids: Iterable[bytes],
        attributes: Sequence[str] | None = None,
        *,
        deleted: bool = False,
        of_domain: bool = False,
        within: Filter = ANYTHING,
        extended: bool = False,
    ) -> Iterator[Entry]:
        """Read the objects with these objectGUIDs that exist and are ``within`` a filter, each once, in no order.

        ``extended`` leaves values that name objects as `linked_object` reads them. It searches every naming context
        that the server holds, or with ``of_domain`` only the domain's. It sends the searches ahead in parts, so that
        the server works while the caller does. It holds a connection until the iterator ends or is closed; if the
        connection breaks, it reads the remaining parts on another one.
        """
        names = None if attributes is None else dict.fromkeys((*attributes, "objectGUID"))
        links = self._links(deleted=deleted)
        missing = dict.fromkeys(guids)
        if not missing:
            return

        def asked(part: list[bytes]) -> Filter:
            # Negated twice, for Samba would read the whole index of a term, such as that of all users, beside these.
            return AnyGuid(part) if within == ANYTHING else And(AnyGuid(part), Not(Not(within)))

        attempts = Attempts(self.settings, self._pace)
        for base in (self.default_naming_context,) if of_domain else self.naming_contexts:
            wanted = list(missing)
            parts = [wanted[start : start + _GUIDS_PER_SEARCH] for start in range(0, len(wanted), _GUIDS_PER_SEARCH)]
            while parts:
                queries = (  # lazily, so that the next filter is built while the server works
                    Query(base, Scope.SUBTREE, asked(part), names, links=links, deleted=deleted, extended=extended)
                    for part in parts.copy()
                )
                try:
                    with Borrowed(self._pool, attempts, "read", self._server) as connection:
                        for entries in answer_each(connection, queries, attempts):
                            attempts.note_answer()
                            del parts[0]
                            for entry in entries:
                                missing.pop(entry.values("objectGUID")[0], None)
                                yield entry
                except NotFound:  # the account may not see this naming context
                    break

    def search(
        self,
        base: UUID | str,
        scope: Scope,
        filter: Filter = ANYTHING,
        attributes: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        deleted: bool = False,
        descriptor: bool = False,
        identities: bool = False,
        seconds: float | None = None,
        patient: bool = False,
        apart: bool = False,
        whole: bool = False,
    ) -> Iterator[Entry]:
        """Yield at most ``limit`` matching objects as they arrive, in constant memory, or read at once as a ``whole``.

        It holds a connection until the iterator ends or is closed. Raises ``NotFound`` if the base does not exist,
        ``FilterError``, and ``LimitExceeded`` after the time limit that the server is told: ``seconds``, or slightly
        less than the time for one answer. A ``patient`` search may take long, so it does not move to another connection
        when this one is silent. A search that keeps the server busy goes ``apart``, on connections used for nothing
        else.
        """
        query = Query(
            *(base, scope, filter, attributes),
            links=self._links(deleted=deleted),
            deleted=deleted,
            descriptor=descriptor,
            schema=self.schema if identities else None,
            limit=limit,
            seconds=seconds,
            whole=whole,
        )
        attempts = Attempts(self.settings, self._pace, patient=patient or apart)
        return self._searching(self._pool_apart if apart else self._pool, query, attempts)

    def search_in_parts(
        self, base: UUID | str, scope: Scope, filter: Filter, attributes: Sequence[str]
    ) -> Iterator[Entry]:
        """Identify the matching objects by one search, then read them in parts, in no order.

        Samba reads all matches of a search before it sends the first, and admits no write meanwhile. What cannot be
        identified comes as it was found, and what became unreadable in between as it is read by itself.
        """
        missing: dict[bytes, None] = {}
        for entry in self.search(base, scope, filter, ("objectGUID",), patient=True):
            if guid := next(iter(entry.values("objectGUID")), None):
                missing[guid] = None
            else:
                yield entry
        for entry in self.read_each(list(missing), attributes):
            del missing[entry.values("objectGUID")[0]]
            yield entry
        for guid in missing:
            if (left := self.find(UUID(bytes_le=guid), attributes)) is not None:
                yield left

    def search_domain(
        self, filter: Filter, attributes: Sequence[str] | None = None, *, patient: bool = False
    ) -> Iterator[Entry]:
        """Search the domain's naming context; see `search`."""
        return self.search(self.default_naming_context, Scope.SUBTREE, filter, attributes, patient=patient)

    def find_any(
        self, conditions: Iterable[Filter], attributes: Sequence[str] | None = None, *, within: Filter | None = None
    ) -> Iterator[Entry]:
        """Search the domain for objects that meet any of many conditions and, if given, ``within``.

        It searches in parts, so an object that meets conditions of several parts comes several times.
        """
        waiting = iter(conditions)
        while some := tuple(islice(waiting, _CONDITIONS_PER_SEARCH)):
            yield from self.search_domain(Or(*some) if within is None else And(within, Or(*some)), attributes)

    def write(self, write: Write) -> str:
        """Send one write, once, and return the host name of the server that took it.

        ``Unavailable`` means that nothing was sent, ``OutcomeUnknown`` that the connection was lost before the answer,
        and ``StillUnderWay`` that the answer can still be waited for.
        """
        try:
            return self._write(write)
        except LdapError as refusal:
            if not isinstance(write, Modify) or not is_refused_for_recycle_bin(write, refusal):
                raise
        # No repetition of a write: the server refused the first one and changed nothing, and this one differs.
        return self._write(reword_for_samba(write, self.read(write.dn, ATTRIBUTES_TO_REWORD, deleted=True)))

    def _write(self, write: Write) -> str:
        with self._sending([write]) as pipeline:
            (written,) = pipeline.run()
        error = written.error
        if isinstance(error, NotFound) and names_by_dn(write):  # its DN was read a moment ago: somebody renamed it
            error = VersionConflict(error.message, hex_code=error.hex_code, result_code=error.result_code)
        if error is not None:
            raise error
        return written.server

    def write_many(self, writes: Iterable[Add | Modify]) -> Iterator[Written]:
        """Send adds and modifies of different objects on one connection, several at a time; yield results in order.

        It takes a write from ``writes`` only when it can send it, so that the caller can prepare the next ones while
        the directory works. Writes that are not answered in time get ``StillUnderWay``, all on this connection, which
        then sends no more. If the connection is lost, writes that were sent get ``OutcomeUnknown`` and the others
        ``Unavailable``. The server may carry them out in any order. Raises ``Unavailable`` before it takes the first.
        """
        if not writes:
            return
        # Preparing the next writes needs another connection: pipelines must not take them all, or they would deadlock.
        if not self._pipelines.acquire(timeout=max(0.0, deadline_of(self.settings) - time.monotonic())):
            raise Unavailable("Too many others write to the directory")
        try:
            with self._sending(writes) as pipeline:
                yield from pipeline.run()
        finally:
            self._pipelines.release()

    @contextmanager
    def _sending(self, writes: Iterable[Write]) -> Iterator[Pipeline]:
        connection = self._pool.acquire(deadline_of(self.settings), server=self._server)
        pipeline = Pipeline(connection, iter(writes), self.settings.operation_seconds)
        is_over = False
        try:
            yield pipeline
            is_over = True
        finally:
            if pipeline.is_late:
                self._pool.hand_over(connection)
            elif pipeline.has_failed or not is_over:
                self._pool.discard(connection, server_failed=pipeline.has_failed)
            else:
                self._pool.release(connection)

    def authenticate(self, bind_name: str, password: str) -> BindResult:
        """Check a person's name (DN or userPrincipalName) and password by a bind on a connection of its own."""
        return connection.authenticate(self.settings, self._pool.order(), bind_name, password)

    def close(self) -> None:
        """Close all connections; those in use when they are released."""
        self._pool.close()
        self._pool_apart.close()
        self._coalesced_reads.close()

    def _searching(self, pool: Pool, query: Query, attempts: Attempts) -> Iterator[Entry]:
        while True:
            with Borrowed(pool, attempts, "search", self._server) as connection:
                for entry in stream(connection, query, self.settings.operation_seconds, attempts.first_seconds):
                    if not attempts.is_last:
                        attempts.note_answer()
                        attempts.is_last = True  # another attempt would yield entries twice
                    yield entry
                attempts.note_answer()
                return

    def has_finished_writing(self, at: UUID | str) -> bool:
        """Whether the server has finished the write of an object that it was at; see `writes.has_finished_writing`."""
        return has_finished_writing(self._pool, deadline_of(self.settings), self._server, at)

    def _load_schema(self) -> Schema:
        entries = self.search(self.schema_naming_context, Scope.ONE_LEVEL, SCHEMA_FILTER, SCHEMA_ATTRIBUTES)
        schema = Schema.from_entries(entries)
        if not schema.attributes:
            raise ProtocolError("The directory's schema cannot be read")
        return schema

    def _naming_context(self, name: str) -> str:
        value = self.read("", (name,)).text(name)
        if value is None:
            raise ProtocolError(f"The server's rootDSE has no {name}", attribute=name)
        return value

    def _links(self, *, deleted: bool = False) -> frozenset[str]:
        """The linked attributes from whose values deleted objects are to be hidden."""
        if deleted:
            return frozenset()
        schema = self._schema.present
        return _LINKS if schema is None else schema.linked_attributes
