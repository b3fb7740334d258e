"""The reader of filters that people wrote (RFC 4515): strict, bounded in size and depth, naming where it stopped."""

import re

from active_directory.filters import tree
from active_directory.filters.tree import Filter, FilterSyntax

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)+")
_OPTIONS = re.compile(r"(?:;[A-Za-z0-9-]+)*")
_HEX_PAIR = re.compile(r"[0-9A-Fa-f]{2}")
_COMPARISONS: dict[str, type[tree.ApproximatelyEquals] | type[tree.GreaterOrEqual] | type[tree.LessOrEqual]] = {
    "~=": tree.ApproximatelyEquals,
    ">=": tree.GreaterOrEqual,
    "<=": tree.LessOrEqual,
}


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
        self._skip_space()
        result = self._filter(1)
        self._skip_space()
        if self._position < len(self._text):
            raise self._stop("The filter ends here, but more text follows")
        return result

    def _filter(self, depth: int) -> Filter:
        if depth > self._max_depth:
            raise self._stop(f"Filters may be nested at most {self._max_depth} deep")
        self._expect("(", "Expected '('")
        self._skip_space()
        result: Filter
        match self._peek():
            case "&":
                self._position += 1
                result = tree.And(*self._list(depth))
            case "|":
                self._position += 1
                result = tree.Or(*self._list(depth))
            case "!":
                self._position += 1
                self._skip_space()
                result = tree.Not(self._filter(depth + 1))
                self._skip_space()
            case _:
                result = self._item()
        self._expect(")", "Expected ')'")
        return result

    def _list(self, depth: int) -> list[Filter]:
        found = []
        self._skip_space()
        while self._peek() == "(":
            found.append(self._filter(depth + 1))
            self._skip_space()
        return found

    def _item(self) -> Filter:
        name = self._name()
        if name is not None:
            if self._take("="):
                return self._equality(name)
            for operator, comparison in _COMPARISONS.items():
                if self._take(operator):
                    return comparison(name, self._value())
        if self._peek() == ":":
            return self._extensible(name)
        raise self._stop("Expected the name of an attribute" if name is None else "Expected =, ~=, >=, <= or :=")

    def _extensible(self, name: str | None) -> Filter:
        start = self._position
        dn_attributes = self._take_word(":dn")
        rule = None
        if not self._text.startswith(":=", self._position):
            self._expect(":", "Expected ':='")
            rule = self._rule()
        if not self._take(":="):
            raise self._stop("Expected ':='")
        if name is None and rule is None:
            raise FilterSyntax(start, "An extensible match needs an attribute or a matching rule")
        return tree.Extensible(name, rule, self._value(), dn_attributes)

    def _equality(self, name: str) -> Filter:
        parts = [self._value()]
        while self._peek() == "*":
            star = self._position
            self._position += 1
            part = self._value()
            if part == "" and self._peek() == "*":
                raise FilterSyntax(star + 1, "Two '*' in a row")
            parts.append(part)
        if len(parts) == 1:
            return tree.Equals(name, parts[0])
        if parts == ["", ""]:
            return tree.Present(name)
        return tree.Substrings(name, parts[0], tuple(parts[1:-1]), parts[-1])

    def _value(self) -> str | bytes:
        """What stands up to ``*`` or the end of the item; bytes when the escapes in it are not UTF-8."""
        plain: list[bytes] = []
        while True:
            char = self._peek()
            if char in ("", ")", "*"):
                break
            if char in ("(", "\x00"):
                raise self._stop(f"{'NUL' if char != '(' else repr(char)} must be escaped in a value")
            if char == "\\":
                pair = _HEX_PAIR.match(self._text, self._position + 1)
                if pair is None:
                    raise self._stop("A backslash must be followed by two hexadecimal digits")
                plain.append(bytes.fromhex(pair[0]))
                self._position = pair.end()
                continue
            try:
                plain.append(char.encode())
            except UnicodeEncodeError:
                raise self._stop("This is not a character") from None
            self._position += 1
        value = b"".join(plain)
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value

    def _name(self) -> str | None:
        match = _NAME.match(self._text, self._position)
        if match is None:
            return None
        options = _OPTIONS.match(self._text, match.end())
        self._position = options.end() if options else match.end()
        return self._text[match.start() : self._position]

    def _rule(self) -> str:
        match = _NAME.match(self._text, self._position)
        if match is None:
            raise self._stop("Expected the name of a matching rule")
        self._position = match.end()
        return match[0]

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _take(self, literal: str) -> bool:
        if not self._text.startswith(literal, self._position):
            return False
        self._position += len(literal)
        return True

    def _take_word(self, literal: str) -> bool:
        """Take a literal only when a colon ends it: ``:dn`` but not ``:dnOther``; letters in any case."""
        end = self._position + len(literal)
        if self._text[self._position : end].lower() != literal or self._text[end : end + 1] != ":":
            return False
        self._position = end
        return True

    def _expect(self, literal: str, reason: str) -> None:
        if not self._take(literal):
            raise self._stop(reason if self._position < len(self._text) else f"{reason}, but the text ends")

    def _skip_space(self) -> None:
        while self._peek() in (" ", "\t", "\r", "\n"):
            self._position += 1

    def _stop(self, reason: str) -> FilterSyntax:
        return FilterSyntax(self._position, reason)
