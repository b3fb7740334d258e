"""Lengths of time and distances from now, as people say them in their language."""

from datetime import datetime
from typing import Final, NamedTuple

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy


class _Unit(NamedTuple):
    """A unit of time in seconds, and what so many of them are called: by themselves, in the past, in the future."""

    seconds: int
    length: Promise
    ago: Promise
    ahead: Promise


_UNITS: Final = (
    _Unit(
        86_400 * 365,
        ngettext_lazy("{} year", "{} years"),
        ngettext_lazy("{} year ago", "{} years ago"),
        ngettext_lazy("in {} year", "in {} years"),
    ),
    _Unit(
        86_400 * 30,
        ngettext_lazy("{} month", "{} months"),
        ngettext_lazy("{} month ago", "{} months ago"),
        ngettext_lazy("in {} month", "in {} months"),
    ),
    _Unit(
        86_400,
        ngettext_lazy("{} day", "{} days"),
        ngettext_lazy("{} day ago", "{} days ago"),
        ngettext_lazy("in {} day", "in {} days"),
    ),
    _Unit(
        3_600,
        ngettext_lazy("{} hour", "{} hours"),
        ngettext_lazy("{} hour ago", "{} hours ago"),
        ngettext_lazy("in {} hour", "in {} hours"),
    ),
    _Unit(
        60,
        ngettext_lazy("{} minute", "{} minutes"),
        ngettext_lazy("{} minute ago", "{} minutes ago"),
        ngettext_lazy("in {} minute", "in {} minutes"),
    ),
)
_EXACT: Final = (*((unit.seconds, unit.length) for unit in _UNITS[2:]), (1, ngettext_lazy("{} second", "{} seconds")))


def _in_units(seconds: float) -> tuple[_Unit, int] | None:
    """A length of time in its greatest whole unit, and how many; None below a minute."""
    for unit in _UNITS:
        if seconds >= 0.95 * unit.seconds:
            return unit, round(seconds / unit.seconds)
    return None


def seconds_since(moment: str) -> int:
    """The whole seconds since a moment of an answer."""
    return max(0, int((timezone.now() - datetime.fromisoformat(moment)).total_seconds()))


def length_in_words(seconds: float) -> str:
    """`3 hours`."""
    known = _in_units(seconds)
    return _("less than a minute") if known is None else _counted(known[0].length, known[1])


def distance_in_words(seconds: float) -> str:
    """How long ago something was, `3 hours ago`; a negative number of seconds is ahead: `in 2 days`."""
    known = _in_units(abs(seconds))
    if known is None:
        return _("just now") if seconds > 0 else _("in a moment")
    return _counted(known[0].ago if seconds > 0 else known[0].ahead, known[1])


def exact_length_in_words(seconds: int) -> str:
    """A length of time in the greatest unit that divides it: 42 days, 90 minutes."""
    length, called = next((length, called) for length, called in _EXACT if seconds % length == 0)
    return _counted(called, seconds // length)


def _counted(called: Promise, count: int) -> str:
    return str(called.format(count))  # type: ignore[attr-defined]  # of lazy plurals, by the number that it is given
