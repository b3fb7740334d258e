"""What a search text may be: a name, an address, a number, an identifier. No I/O.

Each interpretation is a filter that Active Directory can answer from an index. The exceptions are parts of words, and
telephone numbers, whose spelling varies so that only their digits can be compared.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
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
from core.text.spellings import other_spellings

PHONE_ATTRIBUTES = ("telephoneNumber", "mobile", "homePhone", "ipPhone")
PEOPLE = Equals("objectCategory", "person")
"""Users and contacts; the attribute is indexed ([MS-ADA3], attribute objectCategory)."""
_INDEXED = ("mail", "userPrincipalName", "dNSHostName", "ou")
"""Indexed attributes that ambiguous name resolution (ANR, [MS-ADTS] section 3.1.1.3.1.3.3) does not cover."""
_INSIDE_WORDS = ("name", "displayName", "sAMAccountName", "userPrincipalName", "mail", "givenName", "sn")
_NUMBERS = ("employeeID", "employeeNumber")
SEARCHED_ATTRIBUTES = tuple(
    dict.fromkeys((*_INDEXED, *_NUMBERS, *_INSIDE_WORDS, *PHONE_ATTRIBUTES, "title", "department", "description"))
)
"""All attributes that searches filter by or show."""
_MIN_PART_LENGTH = 3
_WORDS = 4
_MOST_ANR = 9
"""How many a filter may have, since each counts 10 of the comparisons (`Searches:MaxComparisons`)."""
"""Each word is a search by an index for every way to spell it."""
_MIN_PHONE_DIGITS = 4
_MIN_FULL_NUMBER = 7
"""Shorter numbers are extensions, in which leading zeros matter."""
_SIGNIFICANT_DIGITS = 9
"""Compare only so many last digits: people write country and trunk codes or leave them out."""
_PHONE = re.compile(r"[+(]?[\d\s().\-/]+")
_NUMBER = re.compile(r"[\w.-]*\d[\w.-]*")
_ACCOUNT = re.compile(r"[^\\/\s]+\\([^\\]+)")
_SID = re.compile(r"S-1(-\d+)+", re.IGNORECASE)


class Interpretation(NamedTuple):
    """One way to read the text: a filter, and a description of what it finds, as the end of a sentence."""

    condition: Filter
    description: str


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The text of a search and everything it may be; None or empty for what it is not."""

    text: str
    guid: UUID | None = None
    sid: bytes | None = None
    distinguished_name: str | None = None
    account_name: str | None = None
    email: str | None = None
    phone_digits: str = ""
    employee_number: str | None = None
    unreadable: frozenset[str] = frozenset()
    """Attributes that the person may not read; they are left out of filters, which would reveal them."""

    @classmethod
    def parse(cls, text: str) -> "ParsedQuery":
        text = " ".join(text.split())
        account = _ACCOUNT.fullmatch(text)
        return cls(
            text,
            guid=parse_guid(text.strip("{}")),
            sid=_parse_sid(text),
            distinguished_name=_parse_distinguished_name(text),
            account_name=account[1] if account else None,
            email=text if "@" in text.strip("@") and " " not in text else None,
            phone_digits=_phone_digits(text),
            employee_number=text if _NUMBER.fullmatch(text) else None,
        )

    def without_attributes(self, names: Iterable[str]) -> "ParsedQuery":
        """The same for a person who may not read these attributes."""
        return replace(self, unreadable=frozenset(names))

    def _usable(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self.unreadable]

    @property
    def is_identifier(self) -> bool:
        """Whether the text identifies one object, so that nothing else can be meant."""
        return bool(self.guid or self.sid or self.distinguished_name or self.account_name)

    def by_identifier(self) -> Interpretation | None:
        """The object with this objectGUID, SID or account name; a distinguished name needs a base search instead."""
        if self.guid is not None:
            return Interpretation(Equals("objectGUID", self.guid.bytes_le), _("the object with this objectGUID"))
        if self.sid is not None:
            # A migrated account keeps the SIDs of its former domains in sIDHistory.
            known = Or(Equals("objectSid", self.sid), Equals("sIDHistory", self.sid))
            return Interpretation(known, _("the object that has or had this SID"))
        if self.account_name is not None:
            # The account names of computers and managed service accounts end with "$".
            names = Or(Equals("sAMAccountName", self.account_name), Equals("sAMAccountName", f"{self.account_name}$"))
            description = _("the account {name} of this directory, whatever stands before it")
            return Interpretation(names, description.format(name=self.account_name))
        return None

    def by_name(self) -> Interpretation:
        """Objects of any kind by the beginning of an indexed name or address."""
        ways: list[Filter] = [Anr(self.text), *(StartsWith(name, self.text) for name in self._usable(_INDEXED))]
        # Every word by itself: ANR takes two words for a first and a last name, and knows one spelling.
        words = self.text.split(" ")[:_WORDS]
        others = (_MOST_ANR - 1) // len(words) - 1
        ways.append(And(*(Or(Anr(word), *map(Anr, other_spellings(word)[:others])) for word in words)))
        if self.email:
            # The comparison ignores case, so it finds the main address ("SMTP:") as well.
            ways.append(Equals("proxyAddresses", f"smtp:{self.email}"))
        description = _(
            "people, groups, computers and places with a name, account or address that begins with “{text}”"
        )
        return Interpretation(Or(*ways), description.format(text=self.text))

    def by_employee_number(self) -> Interpretation | None:
        """People by their employee number."""
        names = self._usable(_NUMBERS)
        if self.employee_number is None or not names:
            return None
        ways = Or(*(Equals(name, self.employee_number) for name in names))
        return Interpretation(
            And(PEOPLE, ways), _("people with the employee number {number}").format(number=self.employee_number)
        )

    def by_phone_or_part(self) -> Interpretation | None:
        """People by telephone number, or objects by a part of a word: no index helps, so the search is slow."""
        if self.phone_digits:
            parts = tuple(self.phone_digits)  # *0*7*9…: whatever people put between the digits
            phones = self._usable(PHONE_ATTRIBUTES)
            ways = Or(*(Substrings(name, middle=parts[:-1], final=parts[-1]) for name in phones))
            description = _("people whose telephone number ends with {digits}, however it is written")
            return Interpretation(And(PEOPLE, ways), description.format(digits=self.phone_digits))
        if self.is_identifier or len(self.text) < _MIN_PART_LENGTH:
            return None
        anywhere = Or(*(Contains(name, self.text) for name in self._usable(_INSIDE_WORDS)))
        description = _("names, accounts and addresses with “{text}” anywhere in them")
        return Interpretation(anywhere, description.format(text=self.text))

    def has_phone_number(self, attributes: Mapping[str, Sequence[str]]) -> bool:
        """Whether somebody found has the number: the filter also matches numbers with other digits in between."""
        phones = (value for name in PHONE_ATTRIBUTES for value in attributes.get(name, ()))
        return any(re.sub(r"\D", "", phone).endswith(self.phone_digits) for phone in phones)


def _parse_sid(text: str) -> bytes | None:
    try:
        return text_to_sid(text.upper()) if _SID.fullmatch(text) else None
    except ValueError:
        return None


def _parse_distinguished_name(text: str) -> str | None:
    if "=" not in text:
        return None
    try:
        name = DistinguishedName.parse(text)
    except InvalidValue:
        return None
    return text if name.rdns else None


def _phone_digits(text: str) -> str:
    """The significant digits of a telephone number, without country and trunk code; empty if it is none."""
    if not _PHONE.fullmatch(text):
        return ""
    # "+44 (0) 20": the trunk code is dialled only within the country.
    digits = re.sub(r"\D", "", text.replace("(0)", ""))
    is_extension = len(digits) < _MIN_FULL_NUMBER
    significant = (digits if is_extension else digits.lstrip("0"))[-_SIGNIFICANT_DIGITS:]
    return significant if len(significant) >= _MIN_PHONE_DIGITS else ""
