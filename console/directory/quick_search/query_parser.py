"""What a typed text may be: a name, an address, a number, an identifier. Pure.

Each reading becomes a filter that the directory can answer from an index, but for telephone numbers, which are kept in
any writing so that only their digits tell, and parts of words.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.utils.translation import gettext as _

from active_directory import (
    And,
    Anr,
    Contains,
    DistinguishedName,
    Equals,
    Filter,
    InvalidValue,
    Or,
    StartsWith,
    Substrings,
    text_to_sid,
)
from core.shapes import parse_guid

PHONE_ATTRIBUTES = ("telephoneNumber", "mobile", "homePhone", "ipPhone")
PEOPLE = Equals("objectCategory", "person")
"""Users and contacts; the attribute is indexed ([MS-ADA3], attribute objectCategory)."""
_INDEXED = ("mail", "userPrincipalName", "dNSHostName", "ou")
"""What has an index besides the attributes that ambiguous name resolution looks at."""
_INSIDE_WORDS = ("name", "displayName", "sAMAccountName", "userPrincipalName", "mail", "givenName", "sn")
_NUMBERS = ("employeeID", "employeeNumber")
NAMED = tuple(dict.fromkeys((*_INDEXED, *_NUMBERS, *_INSIDE_WORDS, *PHONE_ATTRIBUTES, "title", "department")))
"""All attributes that a search may name or show."""
_SHORTEST_PART = 3
_FEWEST_DIGITS = 4
_SHORTEST_NUMBER = 7
"""Fewer digits are an extension, in which noughts at the beginning tell."""
_TELLING_DIGITS = 9
"""The last digits of a number, without country and trunk codes, which people write or leave out."""
_PHONE = re.compile(r"[+(]?[\d\s().\-/]+")
_NUMBER = re.compile(r"[\w.-]*\d[\w.-]*")
_ACCOUNT = re.compile(r"[^\\/\s]+\\([^\\]+)")
_SID = re.compile(r"S-1(-\d+)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Interpretation:
    """One way to read what was typed: the filter it makes, and what was searched, as the rest of a sentence."""

    condition: Filter
    said: str


@dataclass(frozen=True, slots=True)
class Typed:
    """What somebody typed, and what it may be; None and empty for what it is not."""

    text: str
    guid: UUID | None = None
    sid: bytes | None = None
    name: str | None = None
    account: str | None = None
    address: str | None = None
    digits: str = ""
    number: str | None = None
    unreadable: frozenset[str] = frozenset()
    """Attributes that whoever typed it may not read, and so not search by."""

    @classmethod
    def of(cls, text: str) -> "Typed":
        text = " ".join(text.split())
        account = _ACCOUNT.fullmatch(text)
        return cls(
            text,
            guid=parse_guid(text.strip("{}")),
            sid=_sid(text),
            name=_distinguished_name(text),
            account=account[1] if account else None,
            address=text if "@" in text.strip("@") and " " not in text else None,
            digits=_digits(text),
            number=text if _NUMBER.fullmatch(text) else None,
        )

    def without(self, names: Iterable[str]) -> "Typed":
        """The same for somebody who may not read these attributes."""
        return replace(self, unreadable=frozenset(names))

    def _usable(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self.unreadable]

    @property
    def names_one(self) -> bool:
        """Whether it identifies an object, so that nothing else can be meant."""
        return bool(self.guid or self.sid or self.name or self.account)

    def exact(self) -> Interpretation | None:
        """How to find the one object that it identifies. One named by its distinguished name is looked up."""
        if self.guid is not None:
            return Interpretation(Equals("objectGUID", self.guid.bytes_le), _("the object with this objectGUID"))
        if self.sid is not None:
            known = Or(Equals("objectSid", self.sid), Equals("sIDHistory", self.sid))
            return Interpretation(known, _("the object that has or had this SID"))
        if self.account is not None:
            names = Or(Equals("sAMAccountName", self.account), Equals("sAMAccountName", f"{self.account}$"))
            said = _("the account {name} of this directory, whatever stands before it")
            return Interpretation(names, said.format(name=self.account))
        return None

    def names(self) -> Interpretation:
        """Objects of any kind by names and addresses, as far as indexes lead to them."""
        ways: list[Filter] = [Anr(self.text), *(StartsWith(name, self.text) for name in self._usable(_INDEXED))]
        if self.address:
            ways.append(Equals("proxyAddresses", f"smtp:{self.address}"))
        said = _("people, groups, computers and places with a name, account or address that begins with “{text}”")
        return Interpretation(Or(*ways), said.format(text=self.text))

    def employee(self) -> Interpretation | None:
        """People by their employee number."""
        names = self._usable(_NUMBERS)
        if self.number is None or not names:
            return None
        ways = Or(*(Equals(name, self.number) for name in names))
        return Interpretation(
            And(PEOPLE, ways), _("people with the employee number {number}").format(number=self.number)
        )

    def looked_through(self) -> Interpretation | None:
        """What no index leads to, so that the gateway bounds its time: a telephone number, or a part of a word."""
        if self.digits:
            parts = tuple(self.digits)
            phones = self._usable(PHONE_ATTRIBUTES)
            ways = Or(*(Substrings(name, middle=parts[:-1], final=parts[-1]) for name in phones))
            said = _("people whose telephone number ends with {digits}, however it is written")
            return Interpretation(And(PEOPLE, ways), said.format(digits=self.digits))
        if self.names_one or len(self.text) < _SHORTEST_PART:
            return None
        anywhere = Or(*(Contains(name, self.text) for name in self._usable(_INSIDE_WORDS)))
        said = _("names, accounts and addresses with “{text}” anywhere in them")
        return Interpretation(anywhere, said.format(text=self.text))

    def has_telephone(self, attributes: Mapping[str, Sequence[str]]) -> bool:
        """Whether somebody whom the digits found has the number: others may stand between those of the filter."""
        phones = (value for name in PHONE_ATTRIBUTES for value in attributes.get(name, ()))
        return any(re.sub(r"\D", "", phone).endswith(self.digits) for phone in phones)


def _sid(text: str) -> bytes | None:
    try:
        return text_to_sid(text.upper()) if _SID.fullmatch(text) else None
    except ValueError:
        return None


def _distinguished_name(text: str) -> str | None:
    if "=" not in text:
        return None
    try:
        name = DistinguishedName.parse(text)
    except InvalidValue:
        return None
    return text if name.rdns else None


def _digits(text: str) -> str:
    """The digits that tell a telephone number, without the codes before them; empty for what is none."""
    if not _PHONE.fullmatch(text):
        return ""
    digits = re.sub(r"\D", "", text.replace("(0)", ""))
    is_extension = len(digits) < _SHORTEST_NUMBER
    telling = (digits if is_extension else digits.lstrip("0"))[-_TELLING_DIGITS:]
    return telling if len(telling) >= _FEWEST_DIGITS else ""
