"""Times and durations in the reader's words."""

from datetime import UTC, datetime
from typing import Any, Final

from django.utils.translation import get_language, ngettext_lazy
from django.utils.translation import gettext as _

# Units by their seconds, each as a duration, in the past and in the future.
_UNITS: Final[dict[int, tuple[Any, Any, Any]]] = {
    86_400 * 365: (
        ngettext_lazy("{} year", "{} years"),
        ngettext_lazy("{} year ago", "{} years ago"),
        ngettext_lazy("in {} year", "in {} years"),
    ),
    86_400 * 30: (
        ngettext_lazy("{} month", "{} months"),
        ngettext_lazy("{} month ago", "{} months ago"),
        ngettext_lazy("in {} month", "in {} months"),
    ),
    86_400: (
        ngettext_lazy("{} day", "{} days"),
        ngettext_lazy("{} day ago", "{} days ago"),
        ngettext_lazy("in {} day", "in {} days"),
    ),
    3_600: (
        ngettext_lazy("{} hour", "{} hours"),
        ngettext_lazy("{} hour ago", "{} hours ago"),
        ngettext_lazy("in {} hour", "in {} hours"),
    ),
    60: (
        ngettext_lazy("{} minute", "{} minutes"),
        ngettext_lazy("{} minute ago", "{} minutes ago"),
        ngettext_lazy("in {} minute", "in {} minutes"),
    ),
}
_LENGTH, _AGO, _AHEAD = range(3)
_EXACT_UNITS: Final = (
    *((unit, called[_LENGTH]) for unit, called in _UNITS.items() if unit <= 86_400),
    (1, ngettext_lazy("{} second", "{} seconds")),
)


def _in_words(seconds: float, column: int, shortest: str) -> str:
    """A duration rounded to its largest unit; `shortest` for less than a minute."""
    for unit, called in _UNITS.items():
        if seconds >= 0.95 * unit:
            return str(called[column].format(round(seconds / unit)))
    return shortest


def duration_in_words(seconds: float) -> str:
    """A duration rounded to its largest unit: `3 hours`."""
    return _in_words(seconds, _LENGTH, _("less than a minute"))


def relative_time(seconds: float) -> str:
    """A time relative to now: `3 hours ago`; negative seconds are in the future: `in 2 days`."""
    if seconds > 0:
        return _in_words(seconds, _AGO, _("just now"))
    return _in_words(-seconds, _AHEAD, _("in a moment"))


def exact_duration_in_words(seconds: int) -> str:
    """A duration in the largest unit, up to days, that divides it: `42 days`, `90 minutes`."""
    unit, called = next((unit, called) for unit, called in _EXACT_UNITS if seconds % unit == 0)
    return str(called.format(seconds // unit))


def schedule_in_words(begins: datetime | None, ends: datetime | None, lasts: int | None) -> str:
    """When a change is made, and until when or for how many seconds, as it was asked for; empty if neither."""
    parts = []
    if begins is not None:
        parts.append(_("at {time}").format(time=written_time(begins)))
    if ends is not None:
        parts.append(_("until {time}").format(time=written_time(ends)))
    if lasts is not None:
        parts.append(_("for {duration}").format(duration=exact_duration_in_words(lasts)))
    return ", ".join(parts)


_WRITTEN = {"de": "%d.%m.%Y, %H:%M"}
"""How a reader of the language writes a time; ISO 8601 for all others."""


def written_time(time: datetime, *, seconds: bool = False) -> str:
    """A time in UTC as the reader's language writes it, to the minute or the second."""
    written = _WRITTEN.get(get_language() or "", "%Y-%m-%d %H:%M") + (":%S" if seconds else "")
    return f"{time.astimezone(UTC):{written}} UTC"
