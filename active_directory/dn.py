"""Distinguished names (RFC 4514): as values, inside attribute values, and compared as the directory compares them.

Callers, logs and LDAP refer to objects by name, but names change: only an objectGUID identifies an object.
"""

import re
from binascii import unhexlify
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile
from typing import Final
from uuid import UUID

import ldap
import ldap.dn

from active_directory.errors import InvalidValue
from active_directory.schema import AttributeType, Schema, Syntax

# Directories compare text letter by letter, ignoring case and surplus spaces. Python's case folding equates more: `ß`
# and `ss`, a no-break space and a space, while a directory can hold `OU=Maßen` beside `OU=Massen`. Names that can exist
# side by side must never be taken for the same.
#
# These are the small letters that a directory equates with their capitals, as ranges of code points: those of Unicode
# 2. Samba's table has exactly these, measured letter by letter. Windows' table has some later ones, too, but a
# directory without them holds both side by side (`Ș` and `ș`), and taking different names for the same is the worse
# mistake.
_SMALL_LETTERS: Final = """
    61-17e 183-192 199-199 1a1-1bd 1c6-1f5 1fb-217 253-25b 260-260 263-263 268-269 26f-26f 272-275 283-283 288-288
    28a-28b 292-292 3ac-3ce 3e3-3ef 430-44f 451-45c 45e-481 491-4c4 4c8-4c8 4cc-4cc 4d1-4eb 4ef-4f5 4f9-4f9 561-586
    1e01-1ef9 1f00-1fe5 2170-217f 24d0-24e9 ff41-ff5a
"""
_SPACES = re.compile(" +")


def _read_small_letters() -> dict[str, str]:
    """Each capital with its small letters."""
    found = {"Σ": "ς"}  # the final sigma, whose capital lower() turns into the other one
    for span in _SMALL_LETTERS.split():
        first, last = (int(end, 16) for end in span.split("-"))
        for letter in map(chr, range(first, last + 1)):
            capital = letter.upper()
            # Both ways, since `ı` has the capital I, whose small letter is `i`.
            if len(capital) == 1 and capital != letter and capital.lower() == letter:
                found[capital] = found.get(capital, "") + letter
    return found


_SMALL: Final = _read_small_letters()
_CAPITALS: Final = {ord(letter): capital for capital, letters in _SMALL.items() for letter in letters}


def fold_case(text: str) -> str:
    """Replace small letters by capitals, keeping the length: equal for texts that differ only in case."""
    return text.upper() if text.isascii() else text.translate(_CAPITALS)


def comparable(text: str) -> str:
    """Normalize a whole value for comparison: fold case, strip spaces at the ends, collapse repeated ones."""
    return _SPACES.sub(" ", fold_case(text)).strip(" ")


def case_insensitive_pattern(text: str) -> str:
    """A regular expression, for Python and PostgreSQL, that matches the text in any case."""
    return "".join(
        f"[{letter}{_SMALL[letter]}]" if letter in _SMALL else re.escape(letter) for letter in fold_case(text)
    )


# libldap misreads two things that Samba writes: an escaped question mark, which RFC 4514 does not allow, and a bare
# tab, which libldap strips from the ends of a value. Between components white space is indeed surplus.
_SPELLED_OTHERWISE = re.compile(r"\\.|[,+]\s+|\t", re.DOTALL)
_AS_LIBLDAP_READS = {r"\?": "?", "\t": r"\09"}
MANGLED = r"\0ADEL:"
"""Separates the former name of a deleted object from its objectGUID in its distinguished name."""
_Ava = tuple[str, str]
_Rdn = tuple[_Ava, ...]


MAX_LENGTH = 16_384
"""Characters. An RDN has at most 255 ([MS-ADTS] 3.1.1.3.1.2), and one of 500,000 keeps Samba busy for a long time."""


@dataclass(frozen=True, eq=False)
class DistinguishedName:
    """A parsed distinguished name, compared as the directory does, ignoring case and surplus spaces."""

    rdns: tuple[_Rdn, ...]

    @classmethod
    def parse(cls, text: str) -> "DistinguishedName":
        """Parse RFC 4514 text. Raises ``InvalidValue``."""
        if "\x00" in text:
            raise InvalidValue("A distinguished name cannot contain NUL")
        if len(text) > MAX_LENGTH:
            raise InvalidValue(f"A distinguished name has at most {MAX_LENGTH} characters here")
        if r"\?" in text or "\t" in text:
            text = _SPELLED_OTHERWISE.sub(lambda found: _AS_LIBLDAP_READS.get(found[0], found[0]), text)
        try:
            parsed = ldap.dn.str2dn(text, flags=ldap.DN_FORMAT_LDAPV3)
        except (ldap.DECODING_ERROR, ldap.INVALID_DN_SYNTAX, UnicodeError) as error:
            raise InvalidValue("This is not a distinguished name") from error
        return cls(tuple(tuple((attribute, value) for attribute, value, _ in rdn) for rdn in parsed))

    @property
    def parent(self) -> "DistinguishedName | None":
        """The name one level up; None for the root."""
        return DistinguishedName(self.rdns[1:]) if self.rdns else None

    @property
    def rdn(self) -> str:
        """The first component as text, escaped: ``CN=Ada``."""
        return str(DistinguishedName(self.rdns[:1]))

    @property
    def rdn_attribute(self) -> str:
        """The attribute of the first component: ``CN``; empty for the root."""
        return self.rdns[0][0][0] if self.rdns else ""

    @property
    def rdn_value(self) -> str:
        """The value of the first component, without escapes; empty for the root."""
        return self.rdns[0][0][1] if self.rdns else ""

    @property
    def domain(self) -> "DistinguishedName":
        """The name of the domain that it is in: its components from the first ``DC`` on, if any."""
        return DistinguishedName(tuple(dropwhile(lambda rdn: rdn[0][0].upper() != "DC", self.rdns)))

    def child(self, attribute: str, value: str) -> "DistinguishedName":
        """The name of an entry directly below this one."""
        return DistinguishedName((((attribute, value),), *self.rdns))

    def is_within(self, other: "DistinguishedName") -> bool:
        """Whether this is the other name or one below it."""
        depth = len(other._key)
        return depth <= len(self._key) and self._key[len(self._key) - depth :] == other._key

    @cached_property
    def _key(self) -> tuple[tuple[_Ava, ...], ...]:
        return tuple(
            tuple(sorted((attribute.lower(), comparable(value)) for attribute, value in rdn)) for rdn in self.rdns
        )

    def __str__(self) -> str:
        return ",".join(
            "+".join(f"{attribute}={escape_rdn_value(value)}" for attribute, value in rdn) for rdn in self.rdns
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DistinguishedName) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def escape_rdn_value(value: str) -> str:
    """Escape a value for use in a distinguished name.

    Control characters and line ends become hexadecimal, since some readers take them for separators.
    """
    escaped: str = ldap.dn.escape_dn_chars(value)
    return "".join(
        f"\\{ord(char):02X}" if char < " " or char == "\x7f" else char for char in escaped.replace("\\\x00", "\\00")
    )


def make_rdn(attribute: str, value: str) -> str:
    """Make an escaped RDN such as ``CN=Ada Lovelace``. Raises ``InvalidValue`` for an empty value or one with NUL."""
    if not value or "\x00" in value:
        raise InvalidValue("A name cannot be empty or contain NUL", attribute=attribute)
    return f"{attribute}={escape_rdn_value(value)}"


def guid_reference(guid: UUID) -> str:
    """The form of an objectGUID that AD accepts instead of a name ([MS-ADTS] 3.1.1.3.1.2.4)."""
    return f"<GUID={guid}>"


_TAGGED: Final = frozenset({Syntax.DN_BINARY, Syntax.DN_STRING})
REFERRING_SYNTAXES: Final = _TAGGED | {Syntax.DN}
"""The syntaxes whose values name objects ([MS-ADTS] 3.1.1.2.2.2)."""
LINKS_IN_TEXT: Final[Mapping[str, re.Pattern[str]]] = {
    "gplink": re.compile(r"(?<=\[LDAP://)[^;\]]+(?=;)", re.IGNORECASE)  # [MS-GPOL] 2.2.2
}
"""Attributes of other syntaxes (in lower case) that contain names, and the pattern that finds these."""
_EXTENDED: Final = re.compile(r"<GUID=([0-9A-Fa-f]{32})>;(?:<SID=[^>]*>;)?")


def may_refer(attribute: AttributeType | None) -> bool:
    """Whether values of the attribute can refer to objects."""
    return attribute is not None and (attribute.syntax in REFERRING_SYNTAXES or attribute.name.lower() in LINKS_IN_TEXT)


def names_in(attribute: AttributeType | None, text: str) -> list[str]:
    """The distinguished names in a value, as spelled there; none if the attribute does not refer to objects."""
    names: list[str] = []

    def collect(name: str) -> str:
        names.append(name)
        return name

    replace_names(attribute, text, collect)
    return names


def replace_names(attribute: AttributeType | None, text: str, renamed: Callable[[str], str]) -> str:
    """Replace each distinguished name in a value by what `renamed` returns for it."""
    if attribute is None:
        return text
    if attribute.name.lower() in LINKS_IN_TEXT:
        return LINKS_IN_TEXT[attribute.name.lower()].sub(lambda found: renamed(found[0]), text)
    if attribute.syntax is Syntax.DN:
        return renamed(text)
    if attribute.syntax in _TAGGED and (at := start_of_tagged(text)):
        return text[:at] + renamed(text[at:])
    return text


def tagged_name(text: str) -> str | None:
    """The distinguished name in a DN-Binary or DN-String value; None if there is none."""
    at = start_of_tagged(text)
    return text[at:] if at else None


def start_of_tagged(text: str) -> int:
    """The index of the name in ``B:<digits>:<hex>:<dn>`` or ``S:<characters>:<text>:<dn>``; 0 for other text."""
    _, _, rest = text.partition(":")
    length, separator, data = rest.partition(":")
    if not separator or not length.isdecimal() or data[int(length) : int(length) + 1] != ":":
        return 0
    return len(text) - len(data) + int(length) + 1


def plain_name(extended: str) -> str:
    """The distinguished name within an extended one."""
    found = _EXTENDED.match(extended)
    return extended if found is None else extended[found.end() :]


def linked_object(extended: bytes) -> tuple[bytes, str]:
    """The objectGUID, as the directory keeps it, and the name in an extended name.

    A group may have very many members: a regular expression and `uuid.UUID` would take three times as long.
    """
    at = extended.index(b">;", 46) + 2 if extended.startswith(b"<SID=", 40) else 40
    return unhexlify(extended[6:38]), extended[at:].decode("utf-8", "replace")


def take_identities(values: dict[str, list[bytes]], schema: Schema) -> dict[str, UUID]:
    """Replace extended names in an entry's values by plain ones, in place; return their objectGUIDs by name.

    Servers send extended names under LDAP_SERVER_EXTENDED_DN_OID ([MS-ADTS] 3.1.1.3.4.1.5).
    """
    identities: dict[str, UUID] = {}

    def plain(extended: str) -> str:
        name = plain_name(extended)
        if found := _EXTENDED.match(extended):
            identities[name] = UUID(bytes_le=unhexlify(found[1]))
        return name

    for name, found in values.items():
        attribute = schema.attribute(name)
        if attribute is not None and attribute.syntax in REFERRING_SYNTAXES:
            found[:] = [replace_names(attribute, value.decode("utf-8", "replace"), plain).encode() for value in found]
    return identities
