"""A search on one connection: entries as they arrive, pages if the server insists, ranges of values fetched whole.

The client chooses the connection and repeats a search.
"""

import enum
import re
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Final
from uuid import UUID

import _ldap
import ldap
from ldap.controls import DecodeControlTuples, LDAPControl, RequestControl, ResponseControl
from ldap.controls.libldap import SimplePagedResultsControl

from active_directory.connections.connection import Attempts, Connection, ConnectionSilent, LdapObject
from active_directory.dn import MANGLED, guid_reference, plain_name, take_identities
from active_directory.entry import NO_IDENTITIES, Entry
from active_directory.errors import InvalidValue, LimitExceeded, ProtocolError
from active_directory.filters import ANYTHING, Filter
from active_directory.schema import Schema

_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")  # python-ldap cannot send NUL and lone surrogates

PAGE_SIZE = 500  # the server's own limit is 1000 by default (MaxPageSize, [MS-ADTS] 3.1.1.3.4.6)
# A server that has returned this many rows has no MaxPageSize that could cut off the rest.
_REMEMBERED_ROWS = 20_000
_ANSWER_SECONDS = 1.0
"""How much longer than the server's own time limit to wait for its answer. Samba notices that a search was abandoned,
or its connection closed, only after it has finished the search.
"""
GRACE_SECONDS = 2.0
"""How much longer than its own ``seconds`` to wait for a search: one second that the server is given in addition, since
Samba may count up to one too few, and one for the answer.
"""
# Searches sent at a time, so that the server works on the next ones while this process handles an answer.
_READ_AHEAD = 4

SHOW_DELETED = LDAPControl("1.2.840.113556.1.4.417", True)  # [MS-ADTS] 3.1.1.3.4.1.14
# LDAP_SERVER_SHOW_DEACTIVATED_LINK_OID ([MS-ADTS] 3.1.1.3.4.1) shows what a deleted object was linked to. Samba always
# shows it and does not know the control, which therefore must not be critical.
SHOW_DEACTIVATED_LINKS = LDAPControl("1.2.840.113556.1.4.2065", False)
# [MS-ADTS] 3.1.1.3.4.1.5, in hexadecimal (0): each name comes with the GUID and SID of the object that it names.
EXTENDED_NAMES = LDAPControl("1.2.840.113556.1.4.529", True, encodedControlValue=b"\x30\x03\x02\x01\x00")
# [MS-ADTS] 3.1.1.3.4.1.2: no referrals to other naming contexts, which would be three messages more.
DOMAIN_SCOPE = LDAPControl("1.2.840.113556.1.4.1339", False)
# [MS-ADTS] 3.1.1.3.4.1.11: owner, group and DACL (7). The SACL would need the privilege SeSecurityPrivilege.
SD_FLAGS = LDAPControl("1.2.840.113556.1.4.801", True, encodedControlValue=b"\x30\x03\x02\x01\x07")


# The name of a deleted object ([MS-ADTS] 3.1.1.5.5.1). The look-behind skips an escaped backslash in another name.
_DELETED = MANGLED.encode()
_IS_DELETED = re.compile(rb"(?<!\\)(?:\\\\)*" + re.escape(_DELETED) + rb"[-0-9a-fA-F]{36},CN=Deleted Objects,")


# A small module in C decodes answers if it was compiled, otherwise python-ldap does, with the same result. python-ldap
# takes three times as long for a thousand people, since its time grows with the square of an entry's attributes
# (`_answers.c` says why). The module reaches into python-ldap's connection objects, and is not used if their layout is
# not the one that it knows.
try:
    from active_directory._answers import attach, receive

    attach(_ldap.__file__, type(ldap.initialize("ldap://127.0.0.1")._l), ldap.DECODING_ERROR)
    _is_compiled = True
except ImportError:
    _is_compiled = False

Values = dict[str, list[bytes]]
Rows = Iterable[tuple[str | None, Values]]
"""Pairs of a name and its values by attribute, which can be iterated over once. A referral to another naming context
has no name.
"""

_CONTROLS: Final = {SimplePagedResultsControl.controlType: SimplePagedResultsControl}
"""Those of an answer that matter here."""
_ERRORS: Final = {
    error.errnum: error
    for error in vars(_ldap).values()
    if isinstance(error, type) and issubclass(error, ldap.LDAPError) and hasattr(error, "errnum")
}


def answers_are_compiled() -> bool:
    """Whether the C module decodes answers."""
    return _is_compiled


def next_answer(
    link: LdapObject, message: int, seconds: float, *, whole: bool
) -> tuple[Rows, list[ResponseControl] | None]:
    """The next message of a search's answer, or the ``whole`` answer: rows, and the controls of its end, else None.

    Raises python-ldap's exceptions: ``ldap.TIMEOUT`` if nothing comes within ``seconds``, or the search's own error.
    The rows raise ``ldap.DECODING_ERROR`` at one that cannot be decoded, or if the connection was closed meanwhile.
    """
    if not _is_compiled or not isinstance(link, ldap.ldapobject.SimpleLDAPObject):
        kind, rows, _, controls = link.result3(message, all=int(whole), timeout=seconds)
        return rows, controls if kind == ldap.RES_SEARCH_RESULT else None
    answer = compiled_answer(link, message, seconds, whole=whole)
    if answer is None:
        raise ldap.TIMEOUT({"result": ldap.TIMEOUT.errnum, "desc": "Timed out"})
    return answer


def compiled_answer(
    link: LdapObject, message: int, seconds: float, *, whole: bool
) -> tuple[Rows, list[ResponseControl] | None] | None:
    """The same by the C module; None if nothing comes in time."""
    answer = receive(link._l, message, whole, seconds)
    if answer is None:
        return None
    rows, end = answer
    if end is None:
        return rows, None
    code, meaning, matched, text, controls = end
    if code != 0:
        raise _error(code, meaning, matched, text)
    try:
        return rows, DecodeControlTuples(controls, _CONTROLS) if controls else []
    except TypeError:  # it has no value
        raise _error(ldap.DECODING_ERROR.errnum, "Decoding error", b"", b"") from None


def _error(code: int, meaning: str, matched: bytes, text: bytes) -> ldap.LDAPError:
    details: dict[str, int | str] = {"result": code, "desc": meaning}
    if matched:
        details["matched"] = matched.decode("utf-8", "replace")
    if text:
        details["info"] = text.decode("utf-8", "replace")
    return _ERRORS.get(code, ldap.LDAPError)(details)


class Scope(enum.IntEnum):
    """How deep a search goes (RFC 4511 4.5.1.2)."""

    BASE = ldap.SCOPE_BASE
    ONE_LEVEL = ldap.SCOPE_ONELEVEL
    SUBTREE = ldap.SCOPE_SUBTREE


class Query:
    """A search ready to be sent.

    ``attributes`` None requests all that are not constructed (RFC 4511 4.5.1.8). `hide_deleted` checks the values of
    ``links``. With a ``schema``, values come with the objectGUIDs of the objects that they name; ``extended`` leaves
    both in the values. ``seconds`` is a time limit of its own. ``whole`` says that the answer is small enough to be
    read at once, which saves a sixth of the time.
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
        extended: bool = False,
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
        self.has_extended_names = extended or schema is not None
        if self.has_extended_names:
            self.controls.append(EXTENDED_NAMES)


def reference(ref: UUID | str) -> str:
    """The name to send for an objectGUID or distinguished name. Raises ``InvalidValue`` if it cannot be sent."""
    if isinstance(ref, UUID):
        return guid_reference(ref)
    if _UNSENDABLE.search(ref):
        raise InvalidValue("This is not a distinguished name")
    return ref


def stream(
    connection: Connection, query: Query, patience: float, first_seconds: float | None
) -> Generator[Entry, None, None]:
    """Yield the entries one by one. If the caller stops early, the server is told to stop, too. See `Request`."""
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
        # Samba answers a search whose time is over with this rather than with timeLimitExceeded (3).
        limit = time_limit(patience) if query.seconds is None else query.seconds
        if time.monotonic() - began < limit / 2:
            raise
        raise LimitExceeded("The time for this search is over", result_code=3) from None
    else:
        return
    # Windows returns no more than MaxPageSize rows unless they are requested in pages.
    with closing(_pages(connection, query, patience, deadline)) as pages:
        for entry in pages:
            if entry.dn in seen:
                continue
            count += 1
            yield entry
            if count == query.limit:
                return


def time_limit(seconds: float) -> int:
    """The time limit to send (RFC 4511 4.5.1.5), in whole seconds, if its answer is waited for `seconds`.

    Samba counts from the start of the second in which a request arrives (``ldb``'s ``starttime``), so a limit of 1 ends
    after anything between 0 and 1 seconds, and 2 is the lowest that lets a quick answer through.
    """
    return max(2, round(seconds - _ANSWER_SECONDS))


def complete_ranges(
    link: LdapObject, dn: str, values: Values, controls: Sequence[RequestControl], seconds: float
) -> None:
    """Fetch the rest of values returned in part, as ``member;range=0-1499`` ([MS-ADTS] 3.1.1.3.1.3.3), in place."""
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
                break  # values were removed meanwhile: there are no more than those collected
            collected += more[name]
            following = _range_end(name)
            if following is not None and following <= end:
                raise ProtocolError("The directory repeats a range of values", attribute=attribute)
            end = following
        values[attribute] = collected


def hide_deleted(values: Values, links: frozenset[str]) -> None:
    """Remove links to deleted objects from these attributes, in place: Samba shows them if the recycle bin is enabled.

    Windows does so only if deactivated links are requested ([MS-ADTS] 3.1.1.3.4.1).
    """
    if links.isdisjoint(values):
        return
    for name in links.intersection(values):
        if _DELETED in b"".join(values[name]):  # checking each value takes three times as long
            values[name] = [value for value in values[name] if not _IS_DELETED.search(value)]
            if not values[name]:
                del values[name]


class Request:
    """A query sent on a connection. Each message of the answer may take ``patience`` seconds, all of them until the
    ``deadline``.

    If the first does not come within ``first_seconds``, it raises `ConnectionSilent`. With a ``page`` the answer is one
    page, and that control gets the cookie for the next.
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
        """Yield the entries of the answer; ``whole`` waits for all of it first."""
        query, page = self._query, self._page
        asked = frozenset(query.attributes)
        under_way = True
        try:
            while under_way:
                rows, answered = self._next_answer(whole=whole)
                whole = whole or query.whole  # the first message alone, to know in time that the server answers
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
        """Tell the server to stop. What it has sent by then may still arrive."""
        self._connection.abandoned = True
        with suppress(ldap.LDAPError):  # the pool checks the connection before its next use
            self._connection.ldap.abandon(self._message)

    def _entry(self, dn: str, values: Values, asked: frozenset[str]) -> Entry:
        query, identities = self._query, NO_IDENTITIES
        if query.has_extended_names:
            dn = plain_name(dn)
        is_as_asked = values.keys() <= asked  # then no name has a range option
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
    """Yield the entries of each of many small searches, sending the next searches while the caller handles one's.

    It reads each answer whole, since fetching a message per entry costs as much as decoding the entry.
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
    """Yield all rows, page by page. A paging cookie is valid only on its connection."""
    cookie: bytes | str = ""
    while True:
        page = SimplePagedResultsControl(True, size=PAGE_SIZE, cookie=cookie)
        yield from Request(connection, query, patience, None, deadline=deadline, page=page).entries()
        if not page.cookie:
            return
        cookie = page.cookie


def _range_end(name: str) -> int | None:
    """The last index in ``attr;range=0-1499``; None if the range reaches the end (``*``)."""
    _, _, span = name.lower().partition(";range=")
    _, _, end = span.partition("-")
    return int(end) if end.isdigit() else None
