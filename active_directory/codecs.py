"""Codecs between the directory's values and text, chosen by the attribute's syntax in the schema.

Where the syntax does not suffice, the attribute's name decides (`active_directory.constants`).
"""

import base64
import binascii
import datetime
import enum
import re
import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from active_directory.constants import (
    FILETIME_ATTRIBUTES,
    FILETIME_NEVER,
    FILETIME_TICKS_PER_SECOND,
    FILETIME_UNIX_EPOCH,
    GUID_ATTRIBUTES,
)
from active_directory.dn import DistinguishedName, start_of_tagged
from active_directory.errors import InvalidValue
from active_directory.schema import OM_IA5_STRING, OM_UTC_TIME, AttributeType, Syntax

NEVER = "never"

# Records repeat most times and SIDs, and neighbours share many. Formatting takes ten times as long as a cache hit.
_remember = lru_cache(maxsize=1024)

_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_GENERALIZED_TIME = re.compile(
    r"([0-9]{2}|[0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})?(?:[.,]([0-9]{1,9}))?Z"
)
# As AD writes it, on a day that every month has, so that it needs no validation: most times of most objects.
_USUAL_TIME = re.compile(
    r"[1-9][0-9]{3}(?:0[1-9]|1[0-2])(?:0[1-9]|1[0-9]|2[0-8])(?:[01][0-9]|2[0-3])[0-5][0-9][0-5][0-9]\.0Z"
)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
# ASCII, because re.IGNORECASE alone matches `ſ` (long s) as an S.
_OBJECT_REFERENCE = re.compile(
    r"<(?:GUID=[0-9A-Fa-f-]{32,36}|SID=(?:S-1-[0-9-]+|[0-9A-Fa-f]+))>", re.IGNORECASE | re.ASCII
)
_GUID_TEXT = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_SID = re.compile(r"S-1-(0x[0-9A-Fa-f]{1,12}|[0-9]{1,15})((?:-[0-9]{1,10}){0,15})", re.IGNORECASE | re.ASCII)


def decode(attribute: AttributeType | None, values: Iterable[bytes]) -> list[str]:
    """Decode values to text. A value that does not fit its syntax is shown as it is rather than refused.

    Values of an attribute that the schema does not know (None) are text if they are UTF-8, else base64.
    """
    decode_one = decoder(attribute)
    return [decode_one(value) for value in values]


def decoder(attribute: AttributeType | None) -> Callable[[bytes], str]:
    """The function that `decode` applies to each value, for callers that decode many entries."""
    return _text_or_base64 if attribute is None else _form(attribute).decode


def is_text(attribute: AttributeType | None) -> bool:
    """Whether the directory stores the attribute's values as UTF-8 text already."""
    return decoder(attribute) is _text


def compiled_form(attribute: AttributeType | None) -> str | None:
    """What C calls the form that `decoder` gives the values (`_json.c`); None for what it does not know."""
    return _COMPILED_FORMS.get(decoder(attribute))


def encode(attribute: AttributeType, values: Iterable[str]) -> list[bytes]:
    """Encode text for the directory. Raises ``InvalidValue`` if it does not fit the syntax or the schema's range."""
    form = _form(attribute)
    encoded = []
    for value in values:
        try:
            raw = form.encode(value)
            _require_range(attribute, value, raw)
        except (ValueError, binascii.Error, struct.error) as error:
            raise InvalidValue(str(error), attribute=attribute.name) from error
        except InvalidValue as error:
            raise InvalidValue(error.message, attribute=attribute.name) from error
        encoded.append(raw)
    return encoded


class ValueType(enum.StrEnum):
    """What the text of an attribute's values represents."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    TIME = "time"
    BINARY = "binary"
    DISTINGUISHED_NAME = "distinguishedName"
    SID = "sid"
    GUID = "guid"


def value_type(attribute: AttributeType) -> ValueType:
    """What the text of its values represents; DN-Binary and DN-String values count as text."""
    return _form(attribute).type


def filetime_to_datetime(filetime: int) -> datetime.datetime | None:
    """The time in UTC, to the microsecond; None for both values that mean "never" and for times out of range."""
    if filetime in FILETIME_NEVER:
        return None
    try:
        return _UNIX_EPOCH + datetime.timedelta(microseconds=(filetime - FILETIME_UNIX_EPOCH) // 10)
    except OverflowError:
        return None


def datetime_to_filetime(moment: datetime.datetime) -> int:
    """The FILETIME of an aware datetime."""
    since = moment - _UNIX_EPOCH
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return FILETIME_UNIX_EPOCH + microseconds * 10


@_remember
def sid_to_text(sid: bytes) -> str:
    """``S-1-5-…`` ([MS-DTYP] 2.4.2). Raises ``ValueError`` if the bytes are not a SID."""
    if len(sid) < 8 or sid[0] != 1 or sid[1] > 15 or len(sid) != 8 + 4 * sid[1]:
        raise ValueError("This is not a security identifier")
    authority = int.from_bytes(sid[2:8], "big")
    shown = str(authority) if authority < 2**32 else f"0x{authority:012X}"
    return "-".join(["S-1", shown, *map(str, struct.unpack(f"<{sid[1]}I", sid[8:]))])


def guid_to_text(guid: bytes) -> str:
    """The dashed form of an objectGUID's 16 bytes, whose first three fields are little-endian ([MS-DTYP] 2.3.4)."""
    digits = (guid[3::-1] + guid[5:3:-1] + guid[7:5:-1] + guid[8:]).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def text_to_guid(text: str) -> UUID:
    """Parse a GUID in dashed form. Raises ``ValueError``."""
    if not _GUID_TEXT.fullmatch(text):
        raise ValueError("Expected a UUID with dashes")
    return UUID(text)


def text_to_sid(text: str) -> bytes:
    """The bytes of ``S-1-5-…``. Raises ``ValueError`` if the text is not a SID."""
    match = _SID.fullmatch(text)
    if match is None:
        raise ValueError("This is not a security identifier (S-1-…)")
    authority = int(match[1], 16 if match[1].lower().startswith("0x") else 10)
    parts = [int(part) for part in match[2].split("-")[1:]]
    if authority >= 2**48 or any(part >= 2**32 for part in parts):
        raise ValueError("A number in this security identifier is too large")
    return bytes([1, len(parts)]) + authority.to_bytes(6, "big") + struct.pack(f"<{len(parts)}I", *parts)


_UNIX_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class _Form(NamedTuple):
    """The functions and the type of one textual form."""

    decode: Callable[[bytes], str]
    encode: Callable[[str], bytes]
    type: ValueType = ValueType.TEXT


def _form(attribute: AttributeType) -> _Form:
    name = attribute.name.lower()
    match attribute.syntax:
        case Syntax.LARGE_INTEGER if name in FILETIME_ATTRIBUTES:
            return _ACCOUNT_EXPIRES if name == "accountexpires" else _FILETIME
        case Syntax.OCTET_STRING if name in GUID_ATTRIBUTES:
            return _GUID
        case Syntax.PRINTABLE_STRING if attribute.om_syntax == OM_IA5_STRING:
            return _IA5
        case Syntax.TIME if attribute.om_syntax == OM_UTC_TIME:
            return _UTC_TIME
    return _FORMS[attribute.syntax]


def _text(value: bytes) -> str:
    try:
        return value.decode()  # the hot path of reads: passing arguments would cost as much as the decoding itself
    except UnicodeDecodeError:
        return value.decode("utf-8", "replace")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _text_or_base64(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _base64(value)
    return text if "\x00" not in text else _base64(value)


def _decode_guid(value: bytes) -> str:
    return guid_to_text(value) if len(value) == 16 else _base64(value)


def _decode_sid(value: bytes) -> str:
    try:
        return sid_to_text(value)
    except ValueError:
        return _base64(value)


@_remember
def _decode_filetime(value: bytes) -> str:
    text = _text(value)
    if not _INTEGER.fullmatch(text):
        return text
    filetime = int(text)
    if filetime in FILETIME_NEVER:
        return NEVER
    seconds, ticks = divmod(filetime - FILETIME_UNIX_EPOCH, FILETIME_TICKS_PER_SECOND)
    try:
        moment = _UNIX_EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return text
    return text if filetime < 0 else _rfc3339(moment, f"{ticks:07d}")


@_remember
def _decode_time(value: bytes) -> str:
    text = _text(value)
    if _USUAL_TIME.fullmatch(text):
        return f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:14]}Z"
    match = _GENERALIZED_TIME.fullmatch(text)
    if match is None:
        return text
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    if len(match[1]) == 2:  # UTCTime: X.680 leaves the century open; this is the rule of RFC 5280 section 4.1.2.5.1
        year += 2000 if year < 50 else 1900
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        return text
    return _rfc3339(moment, match[7] or "")


def _rfc3339(moment: datetime.datetime, fraction: str) -> str:
    digits = fraction.rstrip("0")
    return moment.isoformat()[:19] + (f".{digits}" if digits else "") + "Z"


def _encode_text(value: str) -> bytes:
    if not value:
        raise ValueError("A value cannot be empty")
    if "\x00" in value:
        raise ValueError("A value cannot contain NUL")
    return value.encode()  # UnicodeEncodeError, of a lone surrogate, is a ValueError


def _matching(pattern: str, complaint: str) -> Callable[[str], bytes]:
    def encode_matching(value: str) -> bytes:
        if not re.fullmatch(pattern, value):
            raise ValueError(complaint)
        return _encode_text(value)

    return encode_matching


def _encode_dn(value: str) -> bytes:
    if not _OBJECT_REFERENCE.fullmatch(value) and not DistinguishedName.parse(value).rdns:
        raise ValueError("A distinguished name cannot be empty")
    return _encode_text(value)


def _encode_tagged_dn(tag: str, data: str) -> Callable[[str], bytes]:
    """``B:<digits>:<hex>:<dn>`` and ``S:<characters>:<text>:<dn>`` ([MS-ADTS] 3.1.1.2.2.2.3 and .4)."""
    before_name = re.compile(rf"{tag}:[0-9]{{1,7}}:{data}:", re.DOTALL)

    def encode_tagged_dn(value: str) -> bytes:
        at = start_of_tagged(value)
        if not before_name.fullmatch(value[:at]):
            raise ValueError(f"Expected {tag}:<length>:<value>:<distinguished name>")
        _encode_dn(value[at:])
        return _encode_text(value)

    return encode_tagged_dn


def _encode_integer(bits: int) -> Callable[[str], bytes]:
    def encode_integer(value: str) -> bytes:
        if not _INTEGER.fullmatch(value) or not -(2 ** (bits - 1)) <= int(value) < 2 ** (bits - 1):
            raise ValueError(f"Expected an integer of {bits} bits")
        return value.encode()

    return encode_integer


def _encode_base64(value: str) -> bytes:
    raw = base64.b64decode(value.encode("ascii"), validate=True)
    if not raw:
        raise ValueError("A value cannot be empty")
    return raw


def _parse_rfc3339(value: str) -> tuple[datetime.datetime, str]:
    """The moment in whole seconds of UTC, and the digits of its fraction."""
    match = _RFC3339.fullmatch(value)
    if match is None:
        raise ValueError("Expected a time as in RFC 3339, such as 2026-01-31T12:00:00Z")
    moment = datetime.datetime.fromisoformat(f"{match[1]}{match[3].upper()}")
    try:
        return moment.astimezone(datetime.UTC), match[2] or ""
    except OverflowError as error:
        raise ValueError("The time is out of range") from error


def _encode_filetime(never: int) -> Callable[[str], bytes]:
    def encode_filetime(value: str) -> bytes:
        if value == NEVER:
            return str(never).encode()
        if _INTEGER.fullmatch(value):  # clients write 0 or -1 to pwdLastSet, and 0 to lockoutTime
            return _encode_integer(64)(value)
        moment, fraction = _parse_rfc3339(value)
        filetime = datetime_to_filetime(moment) + int(fraction[:7].ljust(7, "0"))
        if filetime <= 0:
            raise ValueError("The time is out of range")
        return str(filetime).encode()

    return encode_filetime


def _encode_time(value: str) -> bytes:
    moment, _ = _parse_rfc3339(value)  # AD keeps whole seconds
    return f"{moment:%Y%m%d%H%M%S}.0Z".rjust(17, "0").encode()


def _encode_utc_time(value: str) -> bytes:
    moment, _ = _parse_rfc3339(value)
    if not 1950 <= moment.year < 2050:
        raise ValueError("The time is out of range")
    return f"{moment:%y%m%d%H%M%S}Z".encode()


def _require_range(attribute: AttributeType, value: str, raw: bytes) -> None:
    """Enforce rangeLower and rangeUpper ([MS-ADTS] 3.1.1.2.3), which count UTF-16 units, bytes or the number itself."""
    if attribute.syntax in _COUNTED_IN_CHARACTERS:
        size, unit = len(value.encode("utf-16-le")) // 2, " characters"
    elif attribute.syntax in (Syntax.OCTET_STRING, Syntax.SID):
        size, unit = len(raw), " bytes"
    elif _form(attribute).type is ValueType.INTEGER:
        size, unit = int(value), ""
    else:
        return
    if attribute.range_lower is not None and size < attribute.range_lower:
        raise ValueError(f"The value must be at least {attribute.range_lower}{unit}")
    # The schema stores an unsigned maximum as a signed 32-bit integer: a negative upper limit is none.
    if attribute.range_upper is not None and attribute.range_upper >= 0 and size > attribute.range_upper:
        raise ValueError(f"The value must be at most {attribute.range_upper}{unit}")


_TEXT_SYNTAXES: Final = (
    *(Syntax.CASE_EXACT_STRING, Syntax.CASE_IGNORE_STRING, Syntax.UNICODE_STRING),
    Syntax.PRESENTATION_ADDRESS,
)
_COUNTED_IN_CHARACTERS: Final = (*_TEXT_SYNTAXES, Syntax.PRINTABLE_STRING, Syntax.NUMERIC_STRING)

# "never" is written as the maximum to accountExpires and as 0 ("has not happened") to the others.
_FILETIME, _ACCOUNT_EXPIRES = (
    _Form(_decode_filetime, _encode_filetime(never), ValueType.TIME) for never in FILETIME_NEVER
)
_GUID: Final = _Form(_decode_guid, lambda value: text_to_guid(value).bytes_le, ValueType.GUID)
_IA5: Final = _Form(_text, _matching(r"[\x00-\x7f]*", "Only ASCII characters are allowed"))
_UTC_TIME: Final = _Form(_decode_time, _encode_utc_time, ValueType.TIME)
_PRINTABLE: Final = _matching(r"[A-Za-z0-9 '()+,./:=?-]*", "Only letters, digits, spaces and '()+,-./:=? are allowed")
_OBJECT_IDENTIFIER: Final = _matching(
    r"[0-2](?:\.(?:0|[1-9][0-9]*))+|[A-Za-z][A-Za-z0-9-]*", "Expected an object identifier or a name of the schema"
)
_COMPILED_FORMS: Final[dict[Callable[[bytes], str], str]] = {
    _text: "t",
    _base64: "b",
    _decode_guid: "g",
    _decode_sid: "s",
    _decode_filetime: "f",
    _decode_time: "z",
}
_FORMS: Final = {
    **dict.fromkeys(_TEXT_SYNTAXES, _Form(_text, _encode_text)),
    **dict.fromkeys(
        (Syntax.OCTET_STRING, Syntax.SECURITY_DESCRIPTOR), _Form(_base64, _encode_base64, ValueType.BINARY)
    ),
    Syntax.DN: _Form(_text, _encode_dn, ValueType.DISTINGUISHED_NAME),
    Syntax.OID: _Form(_text, _OBJECT_IDENTIFIER),
    Syntax.PRINTABLE_STRING: _Form(_text, _PRINTABLE),
    Syntax.NUMERIC_STRING: _Form(_text, _matching(r"[0-9 ]*", "Only digits and spaces are allowed")),
    Syntax.DN_BINARY: _Form(_text, _encode_tagged_dn("B", r"(?:[0-9A-Fa-f]{2})*")),
    Syntax.DN_STRING: _Form(_text, _encode_tagged_dn("S", r".*")),
    Syntax.BOOLEAN: _Form(_text, _matching("TRUE|FALSE", "Expected TRUE or FALSE"), ValueType.BOOLEAN),
    Syntax.INTEGER: _Form(_text, _encode_integer(32), ValueType.INTEGER),
    Syntax.LARGE_INTEGER: _Form(_text, _encode_integer(64), ValueType.INTEGER),
    Syntax.SID: _Form(_decode_sid, text_to_sid, ValueType.SID),
    Syntax.TIME: _Form(_decode_time, _encode_time, ValueType.TIME),
}
