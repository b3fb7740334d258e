"""Search filters as values: whatever is put into one is escaped when it is rendered (RFC 4515).

Reading filters that people wrote is `parser`'s.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

# [MS-ADTS] 3.1.1.3.4.4: the matching rules of Active Directory.
BIT_AND = "1.2.840.113556.1.4.803"
BIT_OR = "1.2.840.113556.1.4.804"
IN_CHAIN = "1.2.840.113556.1.4.1941"

Value = str | bytes | int

# RFC 4512 2.5, and ``_`` for the names some vendors' schemas use.
_DESCRIPTION = re.compile(r"(?:[A-Za-z][A-Za-z0-9_-]*|[0-9]+(?:\.[0-9]+)+)(?:;[A-Za-z0-9-]+)*")
# Beside what RFC 4515 asks for, what cannot be printed is written in hexadecimal, and a value of bytes all of it.
_SPECIAL = re.compile(r"[\x00-\x1f\x7f*()\\]")


def escape(value: Value) -> str:
    """A value ready to stand in a filter."""
    if isinstance(value, bytes):
        return "\\" + value.hex("\\") if value else ""
    return _SPECIAL.sub(lambda match: f"\\{ord(match[0]):02x}", str(value))


def _require_name(attribute: str) -> None:
    if not _DESCRIPTION.fullmatch(attribute):
        raise ValueError("This is not the name of an attribute")


@dataclass(frozen=True)
class _Attribute:
    attribute: str

    def __post_init__(self) -> None:
        _require_name(self.attribute)

    def attributes(self) -> set[str]:
        """The names used, without options such as ``;binary``."""
        return {self.attribute.partition(";")[0]}


@dataclass(frozen=True)
class Present(_Attribute):
    """The attribute has a value."""

    def __str__(self) -> str:
        return f"({self.attribute}=*)"


@dataclass(frozen=True)
class _Comparison(_Attribute):
    value: Value
    operator: ClassVar[str]

    def __str__(self) -> str:
        return f"({self.attribute}{self.operator}{escape(self.value)})"


class Equals(_Comparison):
    """One of the values is this one."""

    operator = "="


class ApproximatelyEquals(_Comparison):
    """RFC 4511's approxMatch, which AD treats as equality."""

    operator = "~="


class GreaterOrEqual(_Comparison):
    """One of the values is this one or sorts after it."""

    operator = ">="


class LessOrEqual(_Comparison):
    """One of the values is this one or sorts before it."""

    operator = "<="


@dataclass(frozen=True)
class Substrings(_Attribute):
    """One of the values has these parts in this order; an empty first or last part leaves that end open."""

    initial: Value = ""
    middle: tuple[Value, ...] = ()
    final: Value = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.initial or self.middle or self.final) or not all(self.middle):
            raise ValueError("A substring filter needs a part, and none in the middle may be empty")

    def __str__(self) -> str:
        parts = (self.initial, *self.middle, self.final)
        return f"({self.attribute}={'*'.join(escape(part) for part in parts)})"


def StartsWith(attribute: str, value: Value) -> Substrings:  # noqa: N802 - reads like the other filters
    """One of the values begins with this."""
    return Substrings(attribute, initial=value)


def EndsWith(attribute: str, value: Value) -> Substrings:  # noqa: N802 - reads like the other filters
    """One of the values ends with this; unindexed in AD unless the attribute has a tuple index."""
    return Substrings(attribute, final=value)


def Contains(attribute: str, value: Value) -> Substrings:  # noqa: N802 - reads like the other filters
    """One of the values has this in it; unindexed in AD unless the attribute has a tuple index."""
    return Substrings(attribute, middle=(value,))


@dataclass(frozen=True)
class Extensible:
    """RFC 4511's extensibleMatch: a matching rule on an attribute, or on all that the rule fits."""

    attribute: str | None
    rule: str | None
    value: Value
    dn_attributes: bool = False

    def __post_init__(self) -> None:
        if self.attribute is None and self.rule is None:
            raise ValueError("An extensible match needs an attribute or a rule")
        for name in (self.attribute, self.rule):
            if name is not None:
                _require_name(name)

    def attributes(self) -> set[str]:
        """The names used, without options."""
        return set() if self.attribute is None else {self.attribute.partition(";")[0]}

    def __str__(self) -> str:
        dn = ":dn" if self.dn_attributes else ""
        rule = f":{self.rule}" if self.rule else ""
        return f"({self.attribute or ''}{dn}{rule}:={escape(self.value)})"


def BitAnd(attribute: str, mask: int) -> Extensible:  # noqa: N802 - reads like the other filters
    """All bits of the mask are set."""
    return Extensible(attribute, BIT_AND, mask)


def BitOr(attribute: str, mask: int) -> Extensible:  # noqa: N802 - reads like the other filters
    """At least one bit of the mask is set."""
    return Extensible(attribute, BIT_OR, mask)


def InChain(attribute: str, dn: str) -> Extensible:  # noqa: N802 - reads like the other filters
    """The object is linked through any number of steps; slow in large directories."""
    return Extensible(attribute, IN_CHAIN, dn)


@dataclass(frozen=True, init=False)
class _Set:
    filters: tuple["Filter", ...]
    operator: ClassVar[str]

    def __init__(self, *filters: "Filter") -> None:
        object.__setattr__(self, "filters", filters)

    def attributes(self) -> set[str]:
        """The names used, without options."""
        return {name for inner in self.filters for name in inner.attributes()}

    def __str__(self) -> str:
        return f"({self.operator}{''.join(map(str, self.filters))})"


class And(_Set):
    """All of them; without any it is always true (RFC 4526)."""

    operator = "&"


class Or(_Set):
    """Any of them; without any it is always false (RFC 4526)."""

    operator = "|"


@dataclass(frozen=True)
class Not:
    """The opposite; of an unknown it stays unknown, so absent attributes do match."""

    filter: "Filter"

    def attributes(self) -> set[str]:
        """The names used, without options."""
        return self.filter.attributes()

    def __str__(self) -> str:
        return f"(!{self.filter})"


@dataclass(frozen=True)
class AnyGuid:
    """The objects with these objectGUIDs, as the directory keeps them."""

    guids: Sequence[bytes]

    def attributes(self) -> set[str]:
        """The name used."""
        return {"objectGUID"}

    def __str__(self) -> str:
        # Without any it is the one that nothing has: not every server knows RFC 4526's filter for "false".
        guids = self.guids or (bytes(16),)
        return f"(|{''.join([f'(objectGUID={escape(guid)})' for guid in guids])})"


Filter = (
    Present
    | Equals
    | ApproximatelyEquals
    | GreaterOrEqual
    | LessOrEqual
    | Substrings
    | Extensible
    | And
    | Or
    | Not
    | AnyGuid
)


def Anr(text: str) -> Equals:  # noqa: N802 - reads like the other filters
    """Ambiguous name resolution ([MS-ADTS] 3.1.1.3.1.3.4): names, mail and the like that start with the text."""
    return Equals("anr", text)


ANYTHING = Present("objectClass")


class FilterSyntax(ValueError):
    """The text is no filter from ``position`` on (characters from 0)."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} (at character {position})")
        self.position = position
        self.reason = reason
