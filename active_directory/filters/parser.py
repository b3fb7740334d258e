"""The reader of filters that people wrote (RFC 4515): strict, bounded in size and depth, naming where it stopped."""

import re

from active_directory.filters import tree
from active_directory.filters.tree import Filter, FilterSyntax

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
_COMPARISONS: tuple[type[tree.ApproximatelyEquals | tree.GreaterOrEqual | tree.LessOrEqual], ...] = (
    tree.ApproximatelyEquals,
    tree.GreaterOrEqual,
    tree.LessOrEqual,
)


def parse(text: str, *, max_depth: int = 32, max_size: int = 8192) -> Filter:
    """Read a whole filter; ``FilterSyntax`` when it is malformed, nested too deeply or too long.

    White space may stand around the whole and between the parts of a set, as every client of AD lets people write.
    """
    if len(text) > max_size:
        raise FilterSyntax(max_size, f"A filter may have at most {max_size} characters")
    return _Reader(text, max_depth).whole()


class _Reader:
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
            result = tree.And(*self._list(depth))
        elif self._take("|"):
            result = tree.Or(*self._list(depth))
        elif self._take("!"):
            self._match(_SPACE)
            result = tree.Not(self._filter(depth + 1))
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
                    return comparison(name, self._value())
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
        return tree.Extensible(name, rule, self._value(), dn_attributes)

    def _equality(self, name: str) -> Filter:
        parts = [self._value()]
        while self._take("*"):
            part = self._value()
            if part == "" and self._peek() == "*":
                raise self._stop("Two '*' in a row")
            parts.append(part)
        if len(parts) == 1:
            return tree.Equals(name, parts[0])
        if parts == ["", ""]:
            return tree.Present(name)
        return tree.Substrings(name, parts[0], tuple(parts[1:-1]), parts[-1])

    def _value(self) -> str | bytes:
        """What stands up to ``*`` or the end of the item; bytes when the escapes in it are not UTF-8."""
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
        """Take what fits the pattern here."""
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
