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
from uuid import UUID

from active_directory.connections import authentication
from active_directory.connections.attempts import Attempts, Pace, deadline_of
from active_directory.connections.authentication import BindResult
from active_directory.connections.connection import open_connection
from active_directory.connections.pool import Borrowed, Opener, Pool
from active_directory.connections.preferred_controller import ONE_SERVER, Agreement
from active_directory.connections.settings import ServerSettings
from active_directory.current_schema import CurrentSchema
from active_directory.entry import Entry
from active_directory.errors import (
    LdapError,
    NotFound,
    ProtocolError,
    Unavailable,
    VersionConflict,
)
from active_directory.filters.tree import ANYTHING, And, AnyGuid, Filter, Or
from active_directory.schema import SCHEMA_ATTRIBUTES, SCHEMA_FILTER, Schema
from active_directory.streaming import Query, Request, Scope, answer_each, stream
from active_directory.writes.changes import Add, Modify, Write, names_by_dn
from active_directory.writes.pipeline import Pipeline, Written
from active_directory.writes.probe import has_finished_writing
from active_directory.writes.reanimation import READ_TO_REWORD, is_refused_for_recycle_bin, reworded

_LINKS = frozenset({"member", "memberOf"})
"""What is known to be a link as long as the schema was not read: reading it is a search itself."""
_APART = 2
"""Connections of a process for searches that keep a server busy; it runs few of them at a time."""
_CONDITIONS_PER_SEARCH = 100
_GUIDS_PER_SEARCH = 50  # 5 times faster than one by one; longer filters gain nothing


class Client:
    """One directory. Opens nothing until it is used; may be shared by threads and survives a fork."""

    def __init__(
        self, settings: ServerSettings, opener: Opener = open_connection, agreement: Agreement = ONE_SERVER
    ) -> None:
        self.settings = settings
        self.opener = opener
        self.agreement = agreement
        self._server: str | None = None
        self._pool = Pool(settings, opener, agreement)
        self._pool_apart = Pool(replace(settings, pool_size=_APART), opener, agreement)
        self._pace = Pace()
        self._pipelines = threading.BoundedSemaphore(max(1, settings.pool_size // 2))
        self._schema = CurrentSchema(self._load_schema, settings.schema_seconds)

    def __repr__(self) -> str:
        return f"Client({self.settings!r})"

    def at(self, server: str | None) -> "Client":
        """This client with one server (its URL) for everything; itself when it is none of the directory's servers.

        What was read at one server is judged, written and looked up there: the others hear of it later.
        """
        if server in (None, self._server) or server not in self.settings.urls or len(self.settings.urls) == 1:
            return self
        one = copy(self)
        one._server = server
        return one

    def choose_server(self) -> str:
        """The URL of the server that is used now; raises ``Unavailable`` when none can be."""
        if self._server is not None:
            return self._server
        if len(self.settings.urls) == 1:
            return self.settings.urls[0]
        connection = self._pool.acquire(deadline_of(self.settings))
        self._pool.release(connection)
        return connection.url

    def claim(self) -> bool:
        """Make the one server of this client (`at`) that of all processes, before a write.

        Whether for certain no other server has taken a write lately, which this one may not have.
        """
        return self._server is None or self.agreement.claim(self._server)

    @property
    def schema(self) -> Schema:
        """The directory's schema, read at first use and again every ``schema_seconds``, which nobody waits for."""
        return self._schema.get()

    def load_schema_soon(self) -> None:
        """Begin to read the schema, if it was not read before, so that the first to need it waits less."""
        self._schema.load_soon()

    def refresh_schema(self) -> Schema:
        """Read the schema now, after a name was missing from it that may be new; the present one if that fails."""
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
        """The domain's own naming context, which ``base_dn`` may be a part of."""
        return self._naming_context("defaultNamingContext")

    @cached_property
    def configuration_naming_context(self) -> str:
        """The forest's configuration."""
        return self._naming_context("configurationNamingContext")

    @cached_property
    def schema_naming_context(self) -> str:
        """The forest's schema."""
        return self._naming_context("schemaNamingContext")

    @cached_property
    def naming_contexts(self) -> tuple[str, ...]:
        """What the server holds, the domain's own naming context before the forest's and those of applications."""
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
    ) -> Entry:
        """One object by objectGUID or distinguished name; ``NotFound`` when there is none.

        ``attributes`` None reads all that are not computed. ``deleted`` finds deleted objects too; ``descriptor`` adds
        nTSecurityDescriptor with owner, group and DACL; ``identities`` the objectGUIDs of the objects that values name.
        Attributes returned in ranges are fetched whole.
        """
        query = Query(
            ref,
            Scope.BASE,
            attributes=attributes,
            links=self._links(deleted=deleted),
            deleted=deleted,
            descriptor=descriptor,
            schema=self.schema if identities else None,
        )
        attempts = Attempts(self.settings, self._pace)
        while True:
            with Borrowed(self._pool, attempts, "read", self._server) as connection:
                request = Request(connection, query, attempts.seconds, attempts.first_seconds)
                entry = next(request.entries(whole=True), None)
                attempts.note_answer()
                if entry is None:
                    raise NotFound("There is no such object", result_code=32)
                return entry

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

    def read_many(
        self,
        guids: Iterable[UUID],
        attributes: Sequence[str] | None = None,
        *,
        deleted: bool = False,
        of_domain: bool = False,
    ) -> dict[UUID, Entry]:
        """Those of the objects that exist, by objectGUID; see `read_each`."""
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
    ) -> Iterator[Entry]:
        """Those of the objects with these objectGUIDs that exist, each once, in no order.

        From every naming context that the server holds, or ``of_domain`` from the domain's own. They are asked for in
        parts, and the next parts are on their way while one's entries are worked on. A connection is held until the
        iterator ends or is closed; when it breaks, the parts not answered are read on another one.
        """
        names = None if attributes is None else dict.fromkeys((*attributes, "objectGUID"))
        links = self._links(deleted=deleted)
        missing = dict.fromkeys(guids)
        if not missing:
            return
        attempts = Attempts(self.settings, self._pace)
        for base in (self.default_naming_context,) if of_domain else self.naming_contexts:
            wanted = list(missing)
            parts = [wanted[start : start + _GUIDS_PER_SEARCH] for start in range(0, len(wanted), _GUIDS_PER_SEARCH)]
            while parts:
                queries = (  # made while the server is at work on those before
                    Query(base, Scope.SUBTREE, AnyGuid(part), names, links=links, deleted=deleted)
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
                except NotFound:  # nothing of this context may be seen
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
        seconds: float | None = None,
        patient: bool = False,
        apart: bool = False,
        whole: bool = False,
    ) -> Iterator[Entry]:
        """The matching objects as they arrive, in constant memory or taken as a ``whole``; at most ``limit`` of them.

        A connection is held until the iterator ends or is closed. Raises ``NotFound`` for a base that does not exist,
        ``FilterError``, and ``LimitExceeded`` when the time limit told to the server is over: ``seconds``, or less than
        one answer is waited for. A server that does not keep to it is given up a little later. A ``patient`` search may
        take long by itself, so that its connection's silence says nothing. One that keeps the server busy goes
        ``apart``, over a connection that serves nothing else.
        """
        links = self._links(deleted=deleted)
        query = Query(
            *(base, scope, filter, attributes),
            links=links,
            deleted=deleted,
            descriptor=descriptor,
            limit=limit,
            seconds=seconds,
            whole=whole,
        )
        attempts = Attempts(self.settings, self._pace, patient=patient or apart)
        return self._searching(self._pool_apart if apart else self._pool, query, attempts)

    def search_domain(self, filter: Filter, attributes: Sequence[str] | None = None) -> Iterator[Entry]:
        """The matching objects of the domain's own naming context, as `search` finds them."""
        return self.search(self.default_naming_context, Scope.SUBTREE, filter, attributes)

    def find_any(
        self, conditions: Iterable[Filter], attributes: Sequence[str] | None = None, *, within: Filter | None = None
    ) -> Iterator[Entry]:
        """The objects of the domain that fulfil one of many conditions, and ``within`` if given.

        They are asked for in parts: what fulfils conditions of several parts comes several times.
        """
        waiting = iter(conditions)
        while some := tuple(islice(waiting, _CONDITIONS_PER_SEARCH)):
            any_of = Or(*some)
            yield from self.search_domain(any_of if within is None else And(within, any_of), attributes)

    def write(self, write: Write) -> str:
        """Carry out one write and return the server that took it.

        It is sent once: ``Unavailable`` means that nothing was sent, ``OutcomeUnknown`` that the connection was lost
        before the answer, and ``StillUnderWay`` that the answer can still be waited for.
        """
        try:
            return self._write(write)
        except LdapError as refusal:
            if not isinstance(write, Modify) or not is_refused_for_recycle_bin(write, refusal):
                raise
        # Refused, so nothing was changed: this is another request, not the same one again.
        return self._write(reworded(write, self.read(write.dn, READ_TO_REWORD, deleted=True)))

    def _write(self, write: Write) -> str:
        with self._sending([write]) as pipeline:
            (written,) = pipeline.run()
        error = written.error
        if isinstance(error, NotFound) and names_by_dn(write):  # resolved a moment ago, so it was renamed since
            error = VersionConflict(error.message, hex_code=error.hex_code, result_code=error.result_code)
        if error is not None:
            raise error
        return written.server

    def write_many(self, writes: Iterable[Add | Modify]) -> Iterator[Written]:
        """Carry out adds and modifies of different objects on one connection, several on their way at a time.

        Yields what came of each, in their order. A write is taken from ``writes`` only when it can be sent, so that the
        next ones may be made ready while the directory is at work; what is sent is answered, or given up, within the
        time for one answer. Those that are not answered in time get ``StillUnderWay``, all on one connection, which
        sends nothing more. After a lost connection those on their way get ``OutcomeUnknown`` and those never sent
        ``Unavailable``. Which of them a server carries out first is its own affair. Raises ``Unavailable`` before any
        is taken.
        """
        if not writes:
            return
        # Who makes the next writes ready needs a connection besides: pipelines must leave some to the others.
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
                self._pool.part_with(connection)
            elif pipeline.has_failed or not is_over:
                self._pool.discard(connection, server_failed=pipeline.has_failed)
            else:
                self._pool.release(connection)

    def authenticate(self, bind_name: str, password: str) -> BindResult:
        """Whether a person's name (distinguished or userPrincipalName) and password are right; not over the pool."""
        return authentication.authenticate(self.settings, self._pool.order(), bind_name, password)

    def close(self) -> None:
        """Close the connections; those in use when they come back."""
        self._pool.close()
        self._pool_apart.close()

    def _searching(self, pool: Pool, query: Query, attempts: Attempts) -> Iterator[Entry]:
        while True:
            with Borrowed(pool, attempts, "search", self._server) as connection:
                for entry in stream(connection, query, self.settings.operation_seconds, attempts.first_seconds):
                    if not attempts.is_last:
                        attempts.note_answer()
                        attempts.is_last = True  # nobody gets an entry twice
                    yield entry
                attempts.note_answer()
                return

    def has_finished_writing(self, at: UUID | str) -> bool:
        """Whether the server has finished what it had begun to write at an object; see `writes.probe`."""
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

    def _links(self, *, deleted: bool) -> frozenset[str]:
        """Among whose values those that name deleted objects are hidden; none where these are asked for."""
        if deleted:
            return frozenset()
        schema = self._schema.present
        return _LINKS if schema is None else schema.linked
