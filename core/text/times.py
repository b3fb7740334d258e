"""Times and durations in the reader's words."""

from datetime import UTC, datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

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
        parts.append(_("at {time}").format(time=_minute(begins)))
    if ends is not None:
        parts.append(_("until {time}").format(time=_minute(ends)))
    if lasts is not None:
        parts.append(_("for {duration}").format(duration=exact_duration_in_words(lasts)))
    return ", ".join(parts)


def _minute(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
