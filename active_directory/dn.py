"""Distinguished names as values, and the references by which AD lets an object be named without one (RFC 4514)."""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile
from uuid import UUID

import ldap
import ldap.dn

from active_directory.comparison import comparable
from active_directory.errors import InvalidValue

# Two things that Samba writes and libldap misreads: a question mark is escaped, which RFC 4514 does not have, and a
# tab is not, which libldap takes for surplus at either end of a value. Between components it is.
_SPELLED_OTHERWISE = re.compile(r"\\.|[,+]\s+|\t", re.DOTALL)
_AS_LIBLDAP_READS = {r"\?": "?", "\t": r"\09"}
MANGLED = r"\0ADEL:"
"""What is in the distinguished name of every deleted object, between its own name and its objectGUID."""
_Ava = tuple[str, str]
_Rdn = tuple[_Ava, ...]


LONGEST = 16_384
"""Characters. A component has at most 255 ([MS-ADTS] 3.1.1.3.1.2); one of 500,000 keeps Samba busy for long."""


@dataclass(frozen=True, eq=False)
class DistinguishedName:
    """A parsed distinguished name: compared as the directory does, without regard to case and surplus spaces."""

    rdns: tuple[_Rdn, ...]

    @classmethod
    def parse(cls, text: str) -> "DistinguishedName":
        """Read RFC 4514 text; ``InvalidValue`` when it is not a distinguished name."""
        if "\x00" in text:
            raise InvalidValue("A distinguished name cannot contain NUL")
        if len(text) > LONGEST:
            raise InvalidValue(f"A distinguished name has at most {LONGEST} characters here")
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
        """The domain that it is in: its components from the first ``DC`` on, none where there is none."""
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
    """A value ready to stand in a distinguished name.

    Line ends and control characters are written in hexadecimal: some readers of the directory take them for separators.
    """
    escaped: str = ldap.dn.escape_dn_chars(value)
    return "".join(
        f"\\{ord(char):02X}" if char < " " or char == "\x7f" else char for char in escaped.replace("\\\x00", "\\00")
    )


def make_rdn(attribute: str, value: str) -> str:
    """``CN=Ada Lovelace``, escaped; ``InvalidValue`` for an empty value or one with NUL."""
    if not value or "\x00" in value:
        raise InvalidValue("A name cannot be empty or contain NUL", attribute=attribute)
    return f"{attribute}={escape_rdn_value(value)}"


def guid_reference(guid: UUID) -> str:
    """The form of an objectGUID that AD accepts in place of a name ([MS-ADTS] 3.1.1.3.1.2.4)."""
    return f"<GUID={guid}>"
