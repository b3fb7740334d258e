"""The hours of the week in which a user may sign in: read from logonHours, and put into words."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Literal, get_args

from django.utils import dates
from django.utils.translation import gettext as _
from typing_extensions import TypedDict

_HOURS: Final = 24
Weekday = Literal["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)

# `from` is a keyword, so the class syntax cannot declare it.
AllowedHours = TypedDict("AllowedHours", {"day": Weekday, "from": int, "to": int})
"""Hours (UTC) of one day in which a user may sign in: from the beginning of `from` to that of `to`, at most 24."""

# The bits of logonHours begin with Sunday; people read a week from Monday.
_DAY_NAMES: Final = dict(zip((*WEEKDAYS[1:], WEEKDAYS[0]), dates.WEEKDAYS.values(), strict=True))


def allowed_hours(values: Sequence[bytes]) -> list[AllowedHours] | None:
    """The hours of the week in which a user may sign in, of the values of logonHours; None for all of them.

    It has a bit for each hour; the lowest bit of the first octet is Sunday, 0:00 to 1:00 UTC ([MS-SAMR]
    2.2.6.5).
    """
    if not values or len(values[0]) != 7 * _HOURS // 8:
        return None
    bits = int.from_bytes(values[0], "little")
    if bits == (1 << 7 * _HOURS) - 1:
        return None
    return [
        {"day": name, "from": start, "to": end}
        for day, name in enumerate(WEEKDAYS)
        for start, end in _consecutive_hours(bits >> day * _HOURS)
    ]


def _consecutive_hours(bits: int) -> Iterator[tuple[int, int]]:
    """The first hour, and the hour after the last, of each run of set bits in a day."""
    for is_set, hours in groupby(range(_HOURS), lambda hour: bits >> hour & 1):
        if is_set:
            start, *others = hours
            yield start, start + 1 + len(others)


def hours_in_words(allowed: Sequence[Mapping[str, Any]] | None) -> str:
    """logonHours in words: `Monday to Friday 08:00–18:00, Saturday 09:00–12:00 (UTC)`; equal days are combined."""
    if allowed is None:
        return _("At any time")
    by_day = {day: [(item["from"], item["to"]) for item in allowed if item["day"] == day] for day in _DAY_NAMES}
    if not any(by_day.values()):
        return _("Never")
    told = [
        f"{_days_in_words([str(_DAY_NAMES[day]) for day in run])} {_times_in_words(hours)}"
        for hours, run in groupby(_DAY_NAMES, key=by_day.__getitem__)
        if hours
    ]
    return f"{', '.join(told)} (UTC)"


def _days_in_words(run: Sequence[str]) -> str:
    if len(run) == len(_DAY_NAMES):
        return _("Every day")
    if len(run) < 3:
        return _joined(run, _("{first} and {last}"))
    return _("{first} to {last}").format(first=run[0], last=run[-1])


def _times_in_words(stretches: Sequence[tuple[int, int]]) -> str:
    if stretches == [(0, 24)]:
        return _("all day")
    return _joined([f"{start:02}:00–{end:02}:00" for start, end in stretches], _("{first} and {last}"))


def _joined(texts: Sequence[str], pattern: str) -> str:
    """Join texts as `a, b and c`; the pattern joins the last one."""
    *first, last = texts
    return pattern.format(first=", ".join(first), last=last) if first else last
