"""The geometry of small charts, as percentages of the drawing area. Templates draw them.

A part is a coloured piece of a column or bar: its class (`looks`), its upper or left end (`at`) and its length.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from core.text.vocabulary import noun_label

_STACK = {"succeeded": "good", "queued": "warn", "failed": "bad", "unknown": "open", "pending": "open"}
"""The outcomes from the bottom of a column to its top, with the class that colours each."""
_GAP = 0.25
"""The share of a column's width that stays empty."""


def daily_chart(days: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A column for each day of `operations.read-statistics`, divided by outcome; `says` gives its numbers in words.

    `top` is the number at the upper edge; the chart's `total` and `says` sum up all days. On `busy` days there was
    something: a single column would show nothing that the sentence does not say.
    """
    totals = [sum(day[outcome] for outcome in _STACK) for day in days]
    top = _round_up(max(totals))
    place = 100 / len(days)
    columns = [
        {
            "left": _percent(place * (number + _GAP / 2)),
            "width": _percent(place * (1 - _GAP)),
            "parts": _column_parts(day, top),
            "says": f"{day['day']}: {_counts_in_words(day)}",
            "counts": day,
        }
        for number, day in enumerate(days)
    ]
    together = {outcome: sum(day[outcome] for day in days) for outcome in _STACK}
    return {
        "columns": columns,
        "top": top,
        "total": sum(totals),
        "busy": sum(map(bool, totals)),
        "says": _counts_in_words(together),
    }


def _round_up(number: int) -> int:
    """The next round number (one digit and zeros); at least 1."""
    unit: int = 10 ** (len(str(number)) - 1)
    return max(1, -(-number // unit)) * unit


def _column_parts(day: Mapping[str, int], top: int) -> list[dict[str, str]]:
    parts, height = [], 0.0
    for outcome, looks in _STACK.items():
        length = 100 * day[outcome] / top
        height += length
        parts.append(_part(looks, 100 - height, length))
    return [part for part in parts if part["length"] != _percent(0)]


def _counts_in_words(counts: Mapping[str, int]) -> str:
    told = [f"{counts[outcome]} {noun_label(outcome)}" for outcome in _STACK if counts[outcome]]
    return ", ".join(told) or _("no changes")


def key_chart(statistics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A bar each for the busiest keys, all other keys and people; bars without operations are left out."""
    rows = [(item["keyName"], item["keyName"], item) for item in statistics["keys"]]
    rows += [(_("All other keys"), None, statistics["otherKeys"]), (_("People"), None, statistics["persons"])]
    used = [row for row in rows if row[2]["operations"]]
    longest = max((counts["operations"] for _, _, counts in used), default=1)
    return [
        {"name": name, "key_name": key_name, "parts": _bar_parts(counts, longest), "counts": counts}
        for name, key_name, counts in used
    ]


def _bar_parts(counts: Mapping[str, int], longest: int) -> list[dict[str, str]]:
    failed = 100 * counts["failed"] / longest
    went_well = 100 * counts["operations"] / longest - failed
    parts = [_part("accent", 0, went_well), _part("bad", went_well, failed)]
    return [part for part in parts if part["length"] != _percent(0)]


def _part(looks: str, at: float, length: float) -> dict[str, str]:
    return {"looks": looks, "at": _percent(at), "length": _percent(length)}


def _percent(number: float) -> str:
    return f"{number:.2f}%"
