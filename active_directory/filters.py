"""Search filters as values, and a parser for filters that people write (RFC 4515).

Rendering a filter escapes every value, which prevents LDAP injection. The parser is strict, limits size and depth, and
reports the position of an error.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

# [MS-ADTS] 3.1.1.3.4.4: the matching rules of Active Directory.
BIT_AND = "1.2.840.113556.1.4.803"
BIT_OR = "1.2.840.113556.1.4.804"
IN_CHAIN = "1.2.840.113556.1.4.1941"

Value = str | bytes | int

# RFC 4512 2.5, and ``_``, which names in some vendors' schemas contain.
_DESCRIPTION = re.compile(r"(?:[A-Za-z][A-Za-z0-9_-]*|[0-9]+(?:\.[0-9]+)+)(?:;[A-Za-z0-9-]+)*")
# What RFC 4515 requires to be escaped, and control characters.
_SPECIAL = re.compile(r"[\x00-\x1f\x7f*()\\]")


def escape(value: Value) -> str:
    """Escape a value for use in a filter; bytes become hexadecimal throughout."""
    if isinstance(value, bytes):
        return "\\" + value.hex("\\") if value else ""
    return _SPECIAL.sub(lambda match: f"\\{ord(match[0]):02x}", str(value))


def _require_name(attribute: str) -> None:
    if not _DESCRIPTION.fullmatch(attribute):
        raise ValueError("This is not the name of an attribute")


@dataclass(frozen=True)
class _Attribute:
    attribute: str
    at: int = field(default=0, kw_only=True, compare=False, repr=False)
    """Where the value starts in the text that was parsed, in characters from 0."""

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
    """One of the values contains these parts in this order; an empty first or last part leaves that end open."""

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
    """One of the values starts with this."""
    return Substrings(attribute, initial=value)


def EndsWith(attribute: str, value: Value) -> Substrings:  # noqa: N802 - reads like the other filters
    """One of the values ends with this; unindexed in AD unless the attribute has a tuple index."""
    return Substrings(attribute, final=value)


def Contains(attribute: str, value: Value) -> Substrings:  # noqa: N802 - reads like the other filters
    """One of the values contains this; unindexed in AD unless the attribute has a tuple index."""
    return Substrings(attribute, middle=(value,))


@dataclass(frozen=True)
class Extensible:
    """RFC 4511's extensibleMatch: a matching rule for one attribute, or for all that it applies to."""

    attribute: str | None
    rule: str | None
    value: Value
    dn_attributes: bool = False
    at: int = field(default=0, kw_only=True, compare=False, repr=False)

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
    """All filters match; with none it is always true (RFC 4526)."""

    operator = "&"


class Or(_Set):
    """At least one filter matches; with none it is always false (RFC 4526)."""

    operator = "|"


@dataclass(frozen=True)
class Not:
    """The inner filter is false, as for an absent attribute. If it is undefined, so is this (RFC 4511 4.5.1.7)."""

    filter: "Filter"

    def attributes(self) -> set[str]:
        """The names used, without options."""
        return self.filter.attributes()

    def __str__(self) -> str:
        return f"(!{self.filter})"


@dataclass(frozen=True)
class AnyGuid:
    """One of these objectGUIDs, as bytes."""

    guids: Sequence[bytes]

    def attributes(self) -> set[str]:
        """The name used."""
        return {"objectGUID"}

    def __str__(self) -> str:
        # For none it is a GUID that no object has: not every server supports RFC 4526's absolute false filter.
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
    """The text is malformed at ``position``, in characters from 0."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} (at character {position})")
        self.position = position
        self.reason = reason


_SPACE = re.compile(r"[ \t\r\n]*")
_RULE = re.compile(r"[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)+")
_NAME = re.compile(rf"(?:{_RULE.pattern})(?:;[A-Za-z0-9-]+)*")
_DN_FLAG = re.compile(r":[Dd][Nn](?=:)")
_VALUE = re.compile(r"(?:[^()*\\\x00\ud800-\udfff]|\\[0-9A-Fa-f]{2})*")
_ESCAPED = re.compile(rb"\\(..)")
_NOT_IN_A_VALUE = {
    "(": "'(' must be escaped in a value",
    "\x00": "NUL must be escaped in a value",
    "\\": "A backslash must be followed by two hexadecimal digits",
}
_COMPARISONS: tuple[type[ApproximatelyEquals | GreaterOrEqual | LessOrEqual], ...] = (
    ApproximatelyEquals,
    GreaterOrEqual,
    LessOrEqual,
)


def parse(text: str, *, max_depth: int = 32, max_size: int = 8192) -> Filter:
    """Parse a filter. Raises ``FilterSyntax`` if it is malformed, nested too deeply or too long.

    White space is allowed around the filter and between the parts of a set, as in every AD client.
    """
    if len(text) > max_size:
        raise FilterSyntax(max_size, f"A filter may have at most {max_size} characters")
    return _Parser(text, max_depth).whole()


class _Parser:
    def __init__(self, text: str, max_depth: int) -> None:
        self._text = text
        self._position = 0
        self._max_depth = max_depth

    def whole(self) -> Filter:
        self._match(_SPACE)
        result = self._filter(1)
        self._match(_SPACE)
        if self._position < len(self._text):
            raise self._stop("The filter ends here, but more text follows")
        return result

    def _filter(self, depth: int) -> Filter:
        if depth > self._max_depth:
            raise self._stop(f"Filters may be nested at most {self._max_depth} deep")
        self._expect("(")
        self._match(_SPACE)
        result: Filter
        if self._take("&"):
            result = And(*self._list(depth))
        elif self._take("|"):
            result = Or(*self._list(depth))
        elif self._take("!"):
            self._match(_SPACE)
            result = Not(self._filter(depth + 1))
            self._match(_SPACE)
        else:
            result = self._item()
        self._expect(")")
        return result

    def _list(self, depth: int) -> list[Filter]:
        found = []
        self._match(_SPACE)
        while self._peek() == "(":
            found.append(self._filter(depth + 1))
            self._match(_SPACE)
        return found

    def _item(self) -> Filter:
        name = self._match(_NAME)
        if name is not None:
            if self._take("="):
                return self._equality(name)
            for comparison in _COMPARISONS:
                if self._take(comparison.operator):
                    return comparison(name, at=self._position, value=self._value())
        if self._peek() == ":":
            return self._extensible(name)
        raise self._stop("Expected the name of an attribute" if name is None else "Expected =, ~=, >=, <= or :=")

    def _extensible(self, name: str | None) -> Filter:
        start = self._position
        dn_attributes = self._match(_DN_FLAG) is not None
        rule = None
        if not self._text.startswith(":=", self._position):
            self._expect(":", "':='")
            rule = self._match(_RULE)
            if rule is None:
                raise self._stop("Expected the name of a matching rule")
        if not self._take(":="):
            raise self._stop("Expected ':='")
        if name is None and rule is None:
            raise FilterSyntax(start, "An extensible match needs an attribute or a matching rule")
        return Extensible(name, rule, at=self._position, value=self._value(), dn_attributes=dn_attributes)

    def _equality(self, name: str) -> Filter:
        at = self._position
        parts = [self._value()]
        while self._take("*"):
            part = self._value()
            if part == "" and self._peek() == "*":
                raise self._stop("Two '*' in a row")
            parts.append(part)
        if len(parts) == 1:
            return Equals(name, parts[0], at=at)
        if parts == ["", ""]:
            return Present(name, at=at)
        return Substrings(name, parts[0], tuple(parts[1:-1]), parts[-1], at=at)

    def _value(self) -> str | bytes:
        """The value up to ``*`` or the end of the item, as bytes if its escapes are not UTF-8."""
        text = self._match(_VALUE) or ""
        end = self._peek()
        if end in _NOT_IN_A_VALUE:
            raise self._stop(_NOT_IN_A_VALUE[end])
        if end not in ("", ")", "*"):
            raise self._stop("This is not a character")
        value = _ESCAPED.sub(lambda pair: bytes.fromhex(pair[1].decode()), text.encode())
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        """Consume and return what matches the pattern here, or None."""
        found = pattern.match(self._text, self._position)
        if found is None:
            return None
        self._position = found.end()
        return found[0]

    def _take(self, literal: str) -> bool:
        if not self._text.startswith(literal, self._position):
            return False
        self._position += len(literal)
        return True

    def _expect(self, literal: str, named: str = "") -> None:
        if not self._take(literal):
            reason = f"Expected {named or repr(literal)}"
            raise self._stop(reason if self._position < len(self._text) else f"{reason}, but the text ends")

    def _stop(self, reason: str) -> FilterSyntax:
        return FilterSyntax(self._position, reason)
