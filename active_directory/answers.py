"""Answers to searches as they come in, decoded by a small module in C where it was compiled, else by python-ldap.

Both give the same. python-ldap's time grows with the square of an entry's attributes (`_answers.c` says why), so that
decoding a thousand people takes it three times as long. The module reaches into python-ldap's connections: where these
are not the ones it knows, it is not used.
"""

from typing import Final

import _ldap
import ldap
from ldap.controls import DecodeControlTuples, ResponseControl

from active_directory.connections.connection import LdapObject

try:
    from active_directory._answers import attach, receive

    attach(_ldap.__file__, type(ldap.initialize("ldap://127.0.0.1")._l))
    _is_compiled = True
except ImportError:
    _is_compiled = False

Values = dict[str, list[bytes]]
Rows = list[tuple[str | None, Values]]
"""Entries, as names and values by attribute. The name of a reference to another naming context is None."""

_ERRORS: Final = {
    error.errnum: error
    for error in vars(_ldap).values()
    if isinstance(error, type) and issubclass(error, ldap.LDAPError) and hasattr(error, "errnum")
}


def answers_are_compiled() -> bool:
    """Whether the module in C is used."""
    return _is_compiled


def next_answer(
    link: LdapObject, message: int, seconds: float, *, whole: bool
) -> tuple[Rows, list[ResponseControl] | None]:
    """What comes next of an answer to a search, or a ``whole`` one; with the controls of its end when it has ended.

    Raises python-ldap's exceptions: ``ldap.TIMEOUT`` when nothing comes within ``seconds``, and what the search ends
    with if not with success.
    """
    if not _is_compiled or not isinstance(link, ldap.ldapobject.SimpleLDAPObject):
        kind, rows, _, controls = link.result3(message, all=int(whole), timeout=seconds)
        return rows, controls if kind == ldap.RES_SEARCH_RESULT else None
    try:
        answer = receive(link._l, message, whole, seconds)
    except ValueError as error:
        raise ldap.DECODING_ERROR({"result": ldap.DECODING_ERROR.errnum, "desc": "Decoding error"}) from error
    if answer is None:
        raise ldap.TIMEOUT({"result": ldap.TIMEOUT.errnum, "desc": "Timed out"})
    rows, end = answer
    if end is None:
        return rows, None
    code, meaning, matched, text, controls = end
    if code != 0:
        raise _error(code, meaning, matched, text)
    return rows, DecodeControlTuples(controls) if controls else []


def _error(code: int, meaning: str, matched: bytes, text: bytes) -> ldap.LDAPError:
    details: dict[str, int | str] = {"result": code, "desc": meaning}
    if matched:
        details["matched"] = matched.decode("utf-8", "replace")
    if text:
        details["info"] = text.decode("utf-8", "replace")
    return _ERRORS.get(code, ldap.LDAPError)(details)
