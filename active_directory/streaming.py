"""A search on one connection: entries as they arrive, pages where the server insists, ranged attributes made whole.

Choosing the connection and repeating a search is the client's.
"""

import enum
import re
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from uuid import UUID

import ldap
from ldap.controls import LDAPControl, RequestControl, ResponseControl
from ldap.controls.libldap import SimplePagedResultsControl

from active_directory.answers import Rows, Values, next_answer
from active_directory.connections.attempts import ConnectionSilent
from active_directory.connections.connection import Connection, LdapObject
from active_directory.dn import MANGLED, guid_reference
from active_directory.entry import Entry
from active_directory.errors import InvalidValue, LimitExceeded, ProtocolError
from active_directory.filters.tree import ANYTHING

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


@dataclass(frozen=True)
class Query:
    """A search ready to be sent."""

    base: str
    scope: Scope
    filter: str
    attributes: Sequence[str]
    controls: tuple[RequestControl, ...]
    limit: int | None
    seconds: float | None
    operation_seconds: float
    links: frozenset[str]
    """The attributes among whose values `hide_deleted` looks."""
    first_seconds: float | None = None
    """For how long the first message is waited for before `ConnectionSilent`; None: as long as for any."""
    whole: bool = False
    """Whether the answer is small enough to be taken at once: entry by entry takes a fifth longer."""


def reference(ref: UUID | str) -> str:
    """What to send for an objectGUID or a distinguished name."""
    if isinstance(ref, UUID):
        return guid_reference(ref)
    if _UNSENDABLE.search(ref):
        raise InvalidValue("This is not a distinguished name")
    return ref


def names_to_ask(attributes: Iterable[str] | None, *, descriptor: bool) -> list[str]:
    """The attributes to send: None for all that are not computed (RFC 4511 4.5.1.8)."""
    names = ["*"] if attributes is None else list(attributes) or ["1.1"]
    return [*names, "nTSecurityDescriptor"] if descriptor else names


def reading_controls(*, deleted: bool, descriptor: bool, identities: bool = False) -> list[RequestControl]:
    """The controls that make the server show more than it usually does."""
    controls = []
    if deleted:
        controls += [SHOW_DELETED, SHOW_DEACTIVATED_LINKS]
    if descriptor:
        controls.append(SD_FLAGS)
    if identities:
        controls.append(EXTENDED_NAMES)
    return controls


def stream(connection: Connection, query: Query) -> Generator[Entry, None, None]:
    """The entries one by one; whoever stops early makes the server stop too."""
    if query.limit is not None and query.limit <= 0:
        return
    began = time.monotonic()
    deadline = None if query.seconds is None else began + query.seconds + GRACE_SECONDS
    seen: set[str] = set()
    count = 0
    try:
        with closing(_rows(connection, query, deadline)) as rows:
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
        limit = time_limit(query.operation_seconds) if query.seconds is None else query.seconds
        if time.monotonic() - began < limit / 2:
            raise
        raise LimitExceeded("The time for this search is over", result_code=3) from None
    else:
        return
    # Windows: the server returns no more than MaxPageSize rows unless they are asked for in pages.
    with closing(_pages(connection, query, deadline)) as pages:
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


def first_answer(
    link: LdapObject, message: int, seconds: float, first_seconds: float | None, *, whole: bool = True
) -> tuple[Rows, list[ResponseControl] | None]:
    """What comes first of an answer (`next_answer`); `ConnectionSilent` if nothing has after ``first_seconds``."""
    if first_seconds is None or first_seconds >= seconds:
        return next_answer(link, message, seconds, whole=whole)
    try:
        return next_answer(link, message, first_seconds, whole=whole)
    except ldap.TIMEOUT:
        raise ConnectionSilent from None


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


def answer_each(connection: Connection, queries: Iterator[Query]) -> Generator[list[Entry], None, None]:
    """The entries of each of many small searches; the next ones are on their way while one's entries are worked on.

    Each answer is taken whole: entry by entry, asking for the next one costs as much as reading it.
    """
    under_way: deque[tuple[int, Query]] = deque()
    try:
        while True:
            while len(under_way) < _READ_AHEAD and (query := next(queries, None)) is not None:
                under_way.append((_send(connection, query, None), query))
            if not under_way:
                return
            message, query = under_way.popleft()
            yield list(_receive(connection, message, query, None, whole=True))
    finally:
        for message, _ in under_way:
            _abandon(connection, message)


def _rows(
    connection: Connection, query: Query, deadline: float | None, page: SimplePagedResultsControl | None = None
) -> Generator[Entry, None, None]:
    """The rows of one request; the cookie in ``page`` becomes the one for the next."""
    return _receive(connection, _send(connection, query, deadline, page), query, deadline, page)


def _send(
    connection: Connection, query: Query, deadline: float | None, page: SimplePagedResultsControl | None = None
) -> int:
    message: int = connection.ldap.search_ext(
        query.base,
        query.scope,
        query.filter,
        query.attributes,
        serverctrls=[*query.controls, *([page] if page else [])],
        timeout=time_limit(query.operation_seconds if deadline is None else deadline - time.monotonic()),
        sizelimit=0 if page or query.limit is None else query.limit,
    )
    return message


def _receive(
    connection: Connection,
    message: int,
    query: Query,
    deadline: float | None,
    page: SimplePagedResultsControl | None = None,
    *,
    whole: bool = False,
) -> Generator[Entry, None, None]:
    link = connection.ldap
    asked = frozenset(query.attributes)
    under_way = True
    first_seconds = query.first_seconds
    try:
        while under_way:
            rows, answered = _next_answer(link, message, query, deadline, first_seconds, whole=whole)
            whole = whole or query.whole  # by itself the first tells in time that the server has answered
            first_seconds = None
            under_way = answered is None
            for dn, values in rows:
                if dn is not None:  # None is a referral to another naming context
                    is_as_asked = values.keys() <= asked  # and so no attribute is there in part
                    if not is_as_asked:
                        complete_ranges(link, dn, values, query.controls, query.operation_seconds)
                    hide_deleted(values, query.links)
                    yield Entry(dn, values, asked if is_as_asked else frozenset(), server=connection.url)
        if page is not None:
            cookies = [control.cookie for control in answered or () if control.controlType == page.controlType]
            page.cookie = cookies[0] if cookies else ""
    except ldap.LDAPError:
        under_way = False
        raise
    finally:
        if under_way:
            _abandon(connection, message)


def _abandon(connection: Connection, message: int) -> None:
    connection.abandoned = True
    with suppress(ldap.LDAPError):  # the pool will notice a broken connection
        connection.ldap.abandon(message)


def _next_answer(
    link: LdapObject,
    message: int,
    query: Query,
    deadline: float | None,
    first_seconds: float | None,
    *,
    whole: bool,
) -> tuple[Rows, list[ResponseControl] | None]:
    left = query.operation_seconds if deadline is None else deadline - time.monotonic()
    if left <= 0:
        raise LimitExceeded("The time for this search is over", result_code=3)
    try:
        seconds = min(left, query.operation_seconds)
        return first_answer(link, message, seconds, first_seconds, whole=whole)
    except ldap.TIMEOUT:
        if left < query.operation_seconds:
            raise LimitExceeded("The time for this search is over", result_code=3) from None
        raise


def _pages(connection: Connection, query: Query, deadline: float | None) -> Generator[Entry, None, None]:
    """All rows, page by page; a cookie is bound to its connection."""
    cookie: bytes | str = ""
    while True:
        page = SimplePagedResultsControl(True, size=PAGE_SIZE, cookie=cookie)
        yield from _rows(connection, query, deadline, page)
        if not page.cookie:
            return
        cookie = page.cookie


def _range_end(name: str) -> int | None:
    """The last index of ``attr;range=0-1499``; None when the range reaches the end (``*``)."""
    _, _, span = name.lower().partition(";range=")
    _, _, end = span.partition("-")
    return int(end) if end.isdigit() else None
