"""A search on one connection: entries as they arrive, pages where the server insists, ranged attributes made whole.

Choosing the connection and repeating a search is the client's.
"""

import enum
import re
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from uuid import UUID

import ldap
from ldap.controls import LDAPControl, RequestControl, ResponseControl
from ldap.controls.libldap import SimplePagedResultsControl

from active_directory.answers import Rows, Values, next_answer
from active_directory.connections.attempts import Attempts, ConnectionSilent
from active_directory.connections.connection import Connection, LdapObject
from active_directory.dn import MANGLED, guid_reference
from active_directory.entry import NO_IDENTITIES, Entry
from active_directory.errors import InvalidValue, LimitExceeded, ProtocolError
from active_directory.filters.tree import ANYTHING, Filter
from active_directory.references import plain_name, take_identities
from active_directory.schema import Schema

_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")  # python-ldap cannot pass NUL and lone surrogates on

PAGE_SIZE = 500  # of at most 1000 by default (MaxPageSize, [MS-ADTS] 3.1.1.3.4.6)
# Only the first part of a result can be cut off by MaxPageSize; beyond this many rows the server has no such limit.
_REMEMBERED_ROWS = 20_000
_ANSWER_SECONDS = 1.0
"""How much longer than the server's own time limit its answer is waited for. Samba looks at a search given up, or at a
connection that was closed, only when it is done with it.
"""
GRACE_SECONDS = 2.0
"""How long a search that was given ``seconds`` of its own is waited for beyond them: the second that the server is
told more, since Samba may count up to one too few, and that of the answer.
"""
# Searches on their way at a time: the server works on the next while an answer is worked on here.
_READ_AHEAD = 4

SHOW_DELETED = LDAPControl("1.2.840.113556.1.4.417", True)  # [MS-ADTS] 3.1.1.3.4.1.14
# LDAP_SERVER_SHOW_DEACTIVATED_LINK_OID ([MS-ADTS] 3.1.1.3.4.1): what a deleted object was linked to. Windows hides it
# without the control; Samba shows it and does not know the control, which so must not be critical.
SHOW_DEACTIVATED_LINKS = LDAPControl("1.2.840.113556.1.4.2065", False)
# [MS-ADTS] 3.1.1.3.4.1.5, with objectGUIDs as text (1): each name comes with the identity of the object it means.
EXTENDED_NAMES = LDAPControl("1.2.840.113556.1.4.529", True, encodedControlValue=b"\x30\x03\x02\x01\x01")
# [MS-ADTS] 3.1.1.3.4.1.11: owner, group and DACL (7); the SACL would need a privilege of its own.
SD_FLAGS = LDAPControl("1.2.840.113556.1.4.801", True, encodedControlValue=b"\x30\x03\x02\x01\x07")


# The name of a deleted object ([MS-ADTS] 3.1.1.5.5.1). In a living one's, two backslashes stand for one.
_DELETED = MANGLED.encode()
_IS_DELETED = re.compile(rb"(?<!\\)(?:\\\\)*" + re.escape(_DELETED) + rb"[-0-9a-fA-F]{36},CN=Deleted Objects,")


class Scope(enum.IntEnum):
    """How deep a search goes."""

    BASE = ldap.SCOPE_BASE
    ONE_LEVEL = ldap.SCOPE_ONELEVEL
    SUBTREE = ldap.SCOPE_SUBTREE


class Query:
    """A search ready to be sent.

    ``attributes`` None asks for all that are not computed (RFC 4511 4.5.1.8). ``links`` are those among whose values
    `hide_deleted` looks. With a ``schema``, values come with the identities of the objects that they name. ``seconds``
    is a time limit of its own, ``whole`` says that the answer is small enough to be taken at once: entry by entry takes
    a fifth longer.
    """

    def __init__(
        self,
        base: UUID | str,
        scope: Scope,
        filter: Filter = ANYTHING,
        attributes: Iterable[str] | None = None,
        *,
        links: frozenset[str],
        deleted: bool = False,
        descriptor: bool = False,
        schema: Schema | None = None,
        limit: int | None = None,
        seconds: float | None = None,
        whole: bool = False,
    ) -> None:
        self.base = reference(base)
        self.scope = scope
        self.filter = str(filter)
        self.attributes = ["*"] if attributes is None else list(attributes) or ["1.1"]
        self.controls: list[RequestControl] = []
        self.links = links
        self.schema = schema
        self.limit = limit
        self.seconds = seconds
        self.whole = whole
        if deleted:
            self.controls += [SHOW_DELETED, SHOW_DEACTIVATED_LINKS]
        if descriptor:
            self.controls.append(SD_FLAGS)
            self.attributes.append("nTSecurityDescriptor")
        if schema is not None:
            self.controls.append(EXTENDED_NAMES)


def reference(ref: UUID | str) -> str:
    """What to send for an objectGUID or a distinguished name."""
    if isinstance(ref, UUID):
        return guid_reference(ref)
    if _UNSENDABLE.search(ref):
        raise InvalidValue("This is not a distinguished name")
    return ref


def stream(
    connection: Connection, query: Query, patience: float, first_seconds: float | None
) -> Generator[Entry, None, None]:
    """The entries one by one; whoever stops early makes the server stop too. See `Request`."""
    if query.limit is not None and query.limit <= 0:
        return
    began = time.monotonic()
    deadline = None if query.seconds is None else began + query.seconds + GRACE_SECONDS
    seen: set[str] = set()
    count = 0
    try:
        with closing(Request(connection, query, patience, first_seconds, deadline=deadline).entries()) as rows:
            for entry in rows:
                count += 1
                if count <= _REMEMBERED_ROWS:
                    seen.add(entry.dn)
                yield entry
                if count == query.limit:
                    return
    except ldap.SIZELIMIT_EXCEEDED:
        if count > _REMEMBERED_ROWS:
            raise
    except ldap.OPERATIONS_ERROR:
        # Samba's answer, more often than result 3, to a search whose time is over.
        limit = time_limit(patience) if query.seconds is None else query.seconds
        if time.monotonic() - began < limit / 2:
            raise
        raise LimitExceeded("The time for this search is over", result_code=3) from None
    else:
        return
    # Windows: the server returns no more than MaxPageSize rows unless they are asked for in pages.
    with closing(_pages(connection, query, patience, deadline)) as pages:
        for entry in pages:
            if entry.dn in seen:
                continue
            count += 1
            yield entry
            if count == query.limit:
                return


def time_limit(seconds: float) -> int:
    """The time limit to tell the server (RFC 4511 4.5.1.5) when its answer is waited for so long: whole seconds.

    Samba counts from the beginning of the second in which a request arrives (``ldb``'s ``starttime``): a limit of 1
    is over after anything from nothing to a second, so 2 is the least that lets a quick answer through.
    """
    return max(2, round(seconds - _ANSWER_SECONDS))


def complete_ranges(
    link: LdapObject, dn: str, values: Values, controls: Sequence[RequestControl], seconds: float
) -> None:
    """Fetch the rest of attributes returned in part, such as ``member;range=0-1499`` ([MS-ADTS] 3.1.1.3.1.3.3)."""
    if ";" not in "".join(values):
        return
    for first in [name for name in values if ";range=" in name.lower()]:
        attribute, _, _ = first.partition(";")
        collected = values.pop(first)
        end = _range_end(first)
        while end is not None:
            wanted = f"{attribute};range={end + 1}-*"
            message = link.search_ext(
                *(dn, ldap.SCOPE_BASE, str(ANYTHING), [wanted]),
                serverctrls=list(controls),
                timeout=time_limit(seconds),
            )
            rows, _ = next_answer(link, message, seconds, whole=True)
            more: Values = next((part for row_dn, part in rows if row_dn is not None), {})
            name = next((part for part in more if part.lower().startswith(f"{attribute.lower()};range=")), "")
            if not name or not more[name]:
                break  # values were removed meanwhile: what was collected is all there is
            collected += more[name]
            following = _range_end(name)
            if following is not None and following <= end:
                raise ProtocolError("The directory repeats a range of values", attribute=attribute)
            end = following
        values[attribute] = collected


def hide_deleted(values: Values, links: frozenset[str]) -> None:
    """Take links to deleted objects out of these attributes, in place: with the recycle bin Samba shows them.

    Windows does not, unless deactivated links are asked for ([MS-ADTS] 3.1.1.3.4.1).
    """
    if links.isdisjoint(values):
        return
    for name in links.intersection(values):
        if _DELETED in b"".join(values[name]):  # looking into each by itself takes three times as long
            values[name] = [value for value in values[name] if not _IS_DELETED.search(value)]
            if not values[name]:
                del values[name]


class Request:
    """A query sent on a connection: one message after another is waited for ``patience`` seconds.

    The first one for ``first_seconds``, before `ConnectionSilent`; None: as long as any. All of them until the
    ``deadline``. With a ``page`` it is a part of the answer, and the cookie in it becomes the one for the next.
    """

    def __init__(
        self,
        connection: Connection,
        query: Query,
        patience: float,
        first_seconds: float | None,
        *,
        deadline: float | None = None,
        page: SimplePagedResultsControl | None = None,
    ) -> None:
        self._connection = connection
        self._query = query
        self._patience = patience
        self._first_seconds = first_seconds
        self._deadline = deadline
        self._page = page
        self._message: int = connection.ldap.search_ext(
            query.base,
            query.scope,
            query.filter,
            query.attributes,
            serverctrls=[*query.controls, *([page] if page else [])],
            timeout=time_limit(self._left),
            sizelimit=0 if page or query.limit is None else query.limit,
        )

    def entries(self, *, whole: bool = False) -> Generator[Entry, None, None]:
        """The entries of the answer, which is taken at once where it is ``whole``."""
        query, page = self._query, self._page
        asked = frozenset(query.attributes)
        under_way = True
        try:
            while under_way:
                rows, answered = self._next_answer(whole=whole)
                whole = whole or query.whole  # by itself the first tells in time that the server has answered
                under_way = answered is None
                for dn, values in rows:
                    if dn is not None:  # None is a referral to another naming context
                        yield self._entry(dn, values, asked)
            if page is not None:
                cookies = [control.cookie for control in answered or () if control.controlType == page.controlType]
                page.cookie = cookies[0] if cookies else ""
        except ldap.LDAPError:
            under_way = False
            raise
        finally:
            if under_way:
                self.abandon()

    def abandon(self) -> None:
        """Make the server stop; what it has sent by then may still come in."""
        self._connection.abandoned = True
        with suppress(ldap.LDAPError):  # the pool will notice a broken connection
            self._connection.ldap.abandon(self._message)

    def _entry(self, dn: str, values: Values, asked: frozenset[str]) -> Entry:
        query, identities = self._query, NO_IDENTITIES
        if query.schema is not None:
            dn = plain_name(dn)
        is_as_asked = values.keys() <= asked  # and so no attribute is there in part
        if not is_as_asked:
            complete_ranges(self._connection.ldap, dn, values, query.controls, self._patience)
        if query.schema is not None:
            identities = take_identities(values, query.schema)
        hide_deleted(values, query.links)
        return Entry(dn, values, asked if is_as_asked else frozenset(), identities, self._connection.url)

    @property
    def _left(self) -> float:
        return self._patience if self._deadline is None else self._deadline - time.monotonic()

    def _next_answer(self, *, whole: bool) -> tuple[Rows, list[ResponseControl] | None]:
        left, first_seconds = self._left, self._first_seconds
        self._first_seconds = None
        if left <= 0:
            raise LimitExceeded("The time for this search is over", result_code=3)
        patience = min(left, self._patience)
        seconds = patience if first_seconds is None else min(first_seconds, patience)
        try:
            return next_answer(self._connection.ldap, self._message, seconds, whole=whole)
        except ldap.TIMEOUT:
            if seconds < patience:
                raise ConnectionSilent from None
            if left < self._patience:
                raise LimitExceeded("The time for this search is over", result_code=3) from None
            raise


def answer_each(
    connection: Connection, queries: Iterator[Query], attempts: Attempts
) -> Generator[list[Entry], None, None]:
    """The entries of each of many small searches; the next ones are on their way while one's entries are worked on.

    Each answer is taken whole: entry by entry, asking for the next one costs as much as reading it.
    """
    under_way: deque[Request] = deque()
    try:
        while True:
            while len(under_way) < _READ_AHEAD and (query := next(queries, None)) is not None:
                under_way.append(Request(connection, query, attempts.seconds, attempts.first_seconds))
            if not under_way:
                return
            yield list(under_way.popleft().entries(whole=True))
    finally:
        for request in under_way:
            request.abandon()


def _pages(
    connection: Connection, query: Query, patience: float, deadline: float | None
) -> Generator[Entry, None, None]:
    """All rows, page by page; a cookie is bound to its connection."""
    cookie: bytes | str = ""
    while True:
        page = SimplePagedResultsControl(True, size=PAGE_SIZE, cookie=cookie)
        yield from Request(connection, query, patience, None, deadline=deadline, page=page).entries()
        if not page.cookie:
            return
        cookie = page.cookie


def _range_end(name: str) -> int | None:
    """The last index of ``attr;range=0-1499``; None when the range reaches the end (``*``)."""
    _, _, span = name.lower().partition(";range=")
    _, _, end = span.partition("-")
    return int(end) if end.isdigit() else None
