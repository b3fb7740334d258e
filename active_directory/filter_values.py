"""Values in callers' filters, written as records show them or as the directory keeps them, read by their syntax.

A domain controller does not refuse a value that it cannot read: the comparison is undefined and finds nothing
(RFC 4511 4.5.1.7), which looks like an answer.
"""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from active_directory.codecs import NEVER, decode, encode, sid_to_text, text_to_guid, text_to_sid
from active_directory.constants import (
    FILETIME_ATTRIBUTES,
    FILETIME_NEVER,
    FILETIME_TICKS_PER_SECOND,
    GUID_ATTRIBUTES,
    INTERVAL_ATTRIBUTES,
)
from active_directory.dn import REFERRING_SYNTAXES, DistinguishedName
from active_directory.errors import InvalidValue
from active_directory.filters import (
    BIT_AND,
    BIT_OR,
    And,
    Equals,
    Extensible,
    Filter,
    GreaterOrEqual,
    LessOrEqual,
    Or,
    Substrings,
    Value,
)
from active_directory.schema import AttributeType, Schema, Syntax

_NUMBER = re.compile(r"-?[0-9]{1,20}")
_GENERALIZED_TIME = re.compile(
    r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})(?:[.,]([0-9]{1,9}))?(Z|[+-][0-9]{2}(?:[0-9]{2})?)"
)
_INTERVAL = re.compile(
    r"P(?=[0-9T])(?:([0-9]{1,4})W)?(?:([0-9]{1,5})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,7})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,11})S)?)?"
)
_OID = re.compile(r"[0-2](?:\.[0-9]+)+")
_CLASS_ATTRIBUTES: Final = {"objectclass", "objectcategory"}
"""Attributes that AD compares with the name of a class ([MS-ADTS] 3.1.1.3.1.3.5)."""
_OCTETS: Final = frozenset({Syntax.OCTET_STRING, Syntax.SID})
_WITHOUT_ORDER: Final = REFERRING_SYNTAXES | {Syntax.OID}
_WITHOUT_PARTS: Final = _WITHOUT_ORDER | {Syntax.BOOLEAN, Syntax.INTEGER, Syntax.LARGE_INTEGER, Syntax.TIME}
_SURPLUS_SPACE: Final = re.compile(r" [=,+]|(?<!\\)[=,+] ")


def incomparable_reason(term: Filter, attribute: AttributeType) -> str | None:
    """Why the directory would ignore the comparison, whatever its value ([MS-ADTS] 3.1.1.2.2.4); None if it would not.

    Samba compares more, but what one domain controller finds another one must find, too.
    """
    is_compared = isinstance(term, Equals | GreaterOrEqual | LessOrEqual | Substrings)
    if attribute.syntax is Syntax.SECURITY_DESCRIPTOR and is_compared:
        return "can only be asked for its presence"
    if attribute.syntax in _WITHOUT_PARTS and isinstance(term, Substrings):
        return "is compared as a whole, not by parts"
    if attribute.syntax in _WITHOUT_ORDER and isinstance(term, GreaterOrEqual | LessOrEqual):
        return "has no order"
    return None


def read_values(term: Filter, attribute: AttributeType, schema: Schema, *, is_escaped: bool) -> Filter:
    """The comparison with its values as the directory keeps them. Raises ``InvalidValue`` for a value that is none.

    `is_escaped` is whether the value begins with an escaped octet: such a value is no Base64.
    """
    match term:
        case Substrings():
            for part in (term.initial, *term.middle, term.final):
                if part:
                    _read_part(part, attribute, is_escaped=is_escaped)
        case Extensible(rule=rule) if rule in (BIT_AND, BIT_OR):
            _read_number(_text(term.value), attribute)
        case Extensible() | Equals() | GreaterOrEqual() | LessOrEqual():
            if attribute.syntax in _OCTETS:
                return _with_value(term, _read_octets(term.value, attribute, is_escaped=is_escaped))
            return _read_whole(term, _text(term.value), attribute, schema)
    return term


def _read_whole(term: Filter, text: str, attribute: AttributeType, schema: Schema) -> Filter:
    if attribute.name.lower() in _CLASS_ATTRIBUTES:
        is_oid = attribute.syntax is Syntax.OID
        if schema.object_class(text) or (is_oid and _OID.fullmatch(text)):
            return term
        if is_oid:
            raise InvalidValue("The directory's schema has no such class")
    if attribute.syntax is Syntax.LARGE_INTEGER and attribute.name.lower() in FILETIME_ATTRIBUTES:
        return _read_filetime(term, text, attribute)
    reader = _READERS.get(attribute.syntax)
    return _with_value(term, text if reader is None else reader(term, text, attribute))


def _with_value(term: Any, value: Value) -> Filter:
    changed: Filter = replace(term, value=value)
    return changed


def _text(value: Value) -> str:
    if isinstance(value, bytes):
        raise InvalidValue("The octets are not UTF-8")
    text = str(value)
    if not text:
        raise InvalidValue("A value cannot be empty")
    if "\x00" in text:
        raise InvalidValue("A value cannot contain NUL")
    return text


def _read_part(part: Value, attribute: AttributeType, *, is_escaped: bool) -> None:
    if attribute.syntax not in _OCTETS:
        _text(part)
    elif not (is_escaped or _is_binary(part)):
        raise InvalidValue(r"Parts of octets are written as \xx each")


def _is_binary(value: Value) -> bool:
    return isinstance(value, bytes) or not str(value).isprintable()


def _read_octets(value: Value, attribute: AttributeType, *, is_escaped: bool) -> bytes:
    """Octets, each written as ``\\xx``, or the form that records show: a SID, a GUID, or Base64."""
    is_sid, is_guid = attribute.syntax is Syntax.SID, attribute.name.lower() in GUID_ATTRIBUTES
    try:
        if is_escaped or _is_binary(value):
            octets = value if isinstance(value, bytes) else str(value).encode()
            if is_sid:
                sid_to_text(octets)
        elif is_sid:
            return text_to_sid(str(value))
        elif is_guid:  # never Base64, in which a part of a GUID could be read
            return text_to_guid(str(value)).bytes_le
        else:
            octets = base64.b64decode(str(value).encode("ascii"), validate=True)
    except ValueError as error:
        forms = "a security identifier (S-1-…)" if is_sid else "a UUID with dashes" if is_guid else "Base64"
        raise InvalidValue(f"Expected {forms}, or octets written as \\xx each") from error
    # encode() enforces the schema's range
    return octets if is_sid else encode(replace(attribute, name="octets"), [base64.b64encode(octets).decode()])[0]


def _read_integer(term: Filter, text: str, attribute: AttributeType) -> str:
    if attribute.name.lower() in INTERVAL_ATTRIBUTES and text.startswith("P"):
        return _read_interval(text, is_ordered=not isinstance(term, Equals))
    number = _read_number(text, attribute)
    return str(number - 2**32 if attribute.syntax is Syntax.INTEGER and number >= 2**31 else number)


def _read_boolean(_: Filter, text: str, attribute: AttributeType) -> str:
    return encode(attribute, [text.upper()])[0].decode()


def _read_name(_: Filter, text: str, attribute: AttributeType) -> str:
    if attribute.syntax is Syntax.DN and _SURPLUS_SPACE.search(text):  # Samba would find nothing
        text = str(DistinguishedName.parse(text))
    return encode(attribute, [text])[0].decode()


def _read_number(text: str, attribute: AttributeType) -> int:
    """A whole number, also one of 32 bits without a sign, as Windows' tools write flags."""
    is_large = attribute.syntax is Syntax.LARGE_INTEGER
    bits, highest = (64, 2**63) if is_large else (32, 2**32)
    if not _NUMBER.fullmatch(text) or not -(2 ** (bits - 1)) <= int(text) < highest:
        raise InvalidValue(f"Expected a whole number of {bits} bits")
    return int(text)


def _read_interval(text: str, *, is_ordered: bool) -> str:
    """A duration of ISO 8601, which the directory keeps as a negative number of ticks."""
    if is_ordered:  # a longer one is a smaller number, and two numbers mean that there is no limit
        raise InvalidValue("Intervals are ordered by the number that records show")
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise InvalidValue("Expected a duration as in ISO 8601, such as P42D or PT30M, or the number that records show")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    whole = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return str(-(whole // timedelta(seconds=1)) * FILETIME_TICKS_PER_SECOND)


def _read_filetime(term: Filter, text: str, attribute: AttributeType) -> Filter:
    """A number is compared as it is. `never` is neither before nor after any time: it is kept as two numbers."""
    none, last = FILETIME_NEVER
    if text.lower() == NEVER:
        if not isinstance(term, Equals):
            raise InvalidValue("never is no time that others come before or after")
        return Or(*(_with_value(term, str(number)) for number in FILETIME_NEVER))
    if _NUMBER.fullmatch(text):
        return _with_value(term, str(_read_number(text, attribute)))
    read = _with_value(term, _read_time(term, text, attribute))
    match term:
        case GreaterOrEqual():
            return And(read, LessOrEqual(term.attribute, str(last - 1)))
        case LessOrEqual():
            return And(GreaterOrEqual(term.attribute, str(none + 1)), read)
    return read


def _read_time(term: Filter, text: str, attribute: AttributeType) -> str:
    """RFC 3339 with any offset, or generalized time, to the precision that the directory keeps."""
    if found := _GENERALIZED_TIME.fullmatch(text):
        year, month, day, hour, minute, second, fraction, zone = found.groups()
        offset = zone if zone == "Z" else f"{zone[:3]}:{zone[3:] or '00'}"
        text = f"{year}-{month}-{day}T{hour}:{minute}:{second}{f'.{fraction}' if fraction else ''}{offset}"
    kept = encode(attribute, [text])[0].decode()
    is_filetime = attribute.syntax is Syntax.LARGE_INTEGER
    if not re.search(rf"\.[0-9]{{{7 if is_filetime else 0}}}[0-9]*[1-9]", text) or isinstance(term, LessOrEqual):
        return kept
    if not isinstance(term, GreaterOrEqual):
        raise InvalidValue("The directory keeps times less exactly than this")
    if is_filetime:
        return str(int(kept) + 1)
    (whole,) = decode(attribute, [kept.encode()])
    try:
        following = datetime.fromisoformat(whole) + timedelta(seconds=1)
    except OverflowError:
        raise InvalidValue("The time is out of range") from None
    return encode(attribute, [f"{following:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")])[0].decode()


_READERS: Final[Mapping[Syntax, Callable[[Filter, str, AttributeType], str]]] = {
    **dict.fromkeys((Syntax.INTEGER, Syntax.LARGE_INTEGER), _read_integer),
    **dict.fromkeys(REFERRING_SYNTAXES, _read_name),
    Syntax.BOOLEAN: _read_boolean,
    Syntax.TIME: _read_time,
}
"""Values of other syntaxes are text."""
