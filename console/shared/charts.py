"""The shapes of small charts, as percentages of the place they are drawn in. Drawing is the templates' business."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.utils.translation import gettext as _

from core.text.vocabulary import noun_label

_STACK = (("succeeded", "good"), ("queued", "warn"), ("failed", "bad"), ("unknown", "open"), ("pending", "open"))
"""The outcomes from the bottom of a column to its top, and the colour of each."""
_GAP = 0.25
"""The part of a column's place that stays free."""


class Part(NamedTuple):
    """A coloured part of a column or bar; `at` is its upper end or its left one."""

    looks: str
    at: str
    length: str


class Column(NamedTuple):
    """One day: where it stands, its parts, and what it says in words and numbers."""

    left: str
    width: str
    parts: list[Part]
    says: str
    counts: Mapping[str, Any]


class Days(NamedTuple):
    """A column for each day. `top` is the number at the upper edge; `total` and `says` are about all of them."""

    columns: list[Column]
    top: int
    total: int
    says: str


class Bar(NamedTuple):
    """One key, or several together, with its share of the longest bar."""

    name: str
    key_name: str | None
    parts: list[Part]
    counts: Mapping[str, int]


def chart_of_days(days: Sequence[Mapping[str, Any]]) -> Days:
    """The changes of each day by outcome, as `operations.read-statistics` gives them."""
    totals = [sum(day[outcome] for outcome, looks in _STACK) for day in days]
    top = _round_up(max(totals))
    place = 100 / len(days)
    columns = [
        Column(
            left=_percent(place * (number + _GAP / 2)),
            width=_percent(place * (1 - _GAP)),
            parts=_stacked(day, top),
            says=f"{day['day']}: {_in_words(day)}",
            counts={**day, "total": total},
        )
        for number, (day, total) in enumerate(zip(days, totals, strict=True))
    ]
    together = {outcome: sum(day[outcome] for day in days) for outcome, looks in _STACK}
    return Days(columns, top, sum(totals), _in_words(together))


def _round_up(number: int) -> int:
    """The next round number, of one digit and noughts; at least 1."""
    unit = int("1" + "0" * (len(str(number)) - 1))
    return max(1, -(-number // unit)) * unit


def _stacked(day: Mapping[str, int], top: int) -> list[Part]:
    parts, height = [], 0.0
    for outcome, looks in _STACK:
        if day[outcome]:
            length = 100 * day[outcome] / top
            height += length
            parts.append(Part(looks, _percent(100 - height), _percent(length)))
    return parts


def _in_words(counts: Mapping[str, int]) -> str:
    told = [f"{counts[outcome]} {noun_label(outcome)}" for outcome, looks in _STACK if counts[outcome]]
    return ", ".join(told) or _("no changes")


def chart_of_keys(statistics: Mapping[str, Any]) -> list[Bar]:
    """The operations of the busiest keys, of all others together, and of persons."""
    rows = [(item["keyName"], item["keyName"], item) for item in statistics["keys"]]
    rows += [(_("All other keys"), None, statistics["otherKeys"]), (_("People"), None, statistics["persons"])]
    used = [row for row in rows if row[2]["operations"]]
    longest = max((counts["operations"] for _, _, counts in used), default=1)
    return [Bar(name, key_name, _shares(counts, longest), counts) for name, key_name, counts in used]


def _shares(counts: Mapping[str, int], longest: int) -> list[Part]:
    went_well = 100 * (counts["operations"] - counts["failed"]) / longest
    parts = [
        Part("accent", _percent(0), _percent(went_well)),
        Part("bad", _percent(went_well), _percent(100 * counts["failed"] / longest)),
    ]
    return _not_empty(parts)


def _not_empty(parts: Iterable[Part]) -> list[Part]:
    return [part for part in parts if part.length != _percent(0)]


def _percent(number: float) -> str:
    return f"{number:.2f}%"
