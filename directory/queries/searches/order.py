"""The order of a search's matches, and where a match stands in it. Which objects match is not decided here."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, NamedTuple

from active_directory import FILETIME_NEVER, AttributeType, Entry, Schema, Syntax, ValueType, decode, value_type
from directory.shapes.record import readable_name

Value = int | str | None

_NUMBERS = frozenset({Syntax.INTEGER, Syntax.LARGE_INTEGER})
_COMPARED = 256
"""Characters of a text that count: a place must fit into a cursor, and photographs can be sorted by, too."""


class Match(NamedTuple):
    """A found object, reduced to what its place needs; `value` is None when it has none to sort by."""

    value: Value
    guid: bytes


@total_ordering
@dataclass(frozen=True, slots=True)
class _Descending:
    value: int | str

    def __lt__(self, other: "_Descending") -> bool:
        return other.value < self.value  # type: ignore[operator]  # values of one attribute are of one type


@dataclass(frozen=True, slots=True)
class Order:
    """By an attribute's first value without regard to case, missing ones last either way; then by objectGUID.

    "Never" is a missing time: accountExpires writes it as the least number and as the greatest.
    """

    attribute: AttributeType | None = None
    descending: bool = False

    @classmethod
    def of(cls, sort: str | None, schema: Schema, *, confidential: bool) -> "Order":
        """The order that `?sort=` asks for; raises AttributeUnknown or AttributeNotReadable."""
        if sort is None:
            return cls()
        name = readable_name(schema, sort.removeprefix("-"), parameter="sort", confidential=confidential)
        return cls(schema.attribute(name), sort.startswith("-"))

    @property
    def needs(self) -> tuple[str, ...]:
        """The attributes `match` looks at."""
        return ("objectGUID",) if self.attribute is None else ("objectGUID", self.attribute.name)

    def match(self, entry: Entry) -> Match:
        guid = entry.values("objectGUID")[0]
        if self.attribute is None or not (values := entry.values(self.attribute.name)):
            return Match(None, guid)
        if self.attribute.syntax in _NUMBERS:
            number = int(values[0])
            is_never = number in FILETIME_NEVER and value_type(self.attribute) is ValueType.TIME
            return Match(None if is_never else number, guid)
        return Match(decode(self.attribute, values[:1])[0].casefold()[:_COMPARED], guid)

    def sorted(self, matches: Iterable[Match]) -> list[Match]:
        """The matches in order."""
        present: list[Match] = []
        missing: list[Match] = []
        for match in matches:
            (missing if match.value is None else present).append(match)
        for some in (present, missing):
            some.sort(key=lambda match: match.guid)
        present.sort(key=lambda match: match.value, reverse=self.descending)  # type: ignore[arg-type,return-value]
        return present + missing

    def after(self, ordered: list[Match], last: Match) -> list[Match]:
        """Those of matches in order that come after one that need not be among them any more."""
        return ordered[bisect_right(ordered, self._place(last), key=self._place) :]

    def _place(self, match: Match) -> tuple[bool, Any, bytes]:
        if match.value is None:
            return (True, 0, match.guid)
        return (False, _Descending(match.value) if self.descending else match.value, match.guid)
