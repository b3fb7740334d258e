"""Facts in the reader's words: durations, browsers, and the facts that sentences about changes are made from."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from directory.shapes.wording.change_words import ChangeFacts, change_facts

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


def seconds_since(moment: str) -> int:
    """The whole seconds since an RFC 3339 time; 0 for a future one."""
    return max(0, int((timezone.now() - datetime.fromisoformat(moment)).total_seconds()))


def change_request_facts(item: Mapping[str, Any]) -> ChangeFacts:
    """The facts of a change request from the inbox or a review."""
    change = item["changeRequest"]
    unlisted = item["unlisted"]
    return change_facts(
        change["operation"],
        [{**each, "kept": unlisted.get(each["attribute"])} for each in change["changes"]],
        change["target"],
        account_name=item["targetAccount"],
        kind=item["targetKind"],
        references=change["references"],
        own=item["directory"] is None,
    )


def log_record_facts(record: Mapping[str, Any]) -> ChangeFacts:
    """The facts of a log record, or of a change request's public part, which has the same shape."""
    return change_facts(
        record["operation"],
        record["changes"],
        record["target"],
        kind=(record["target"] or {}).get("kind") or "",
        references=record.get("references", ()),
        own=record.get("directory", "") is None,
    )


def dry_run_facts(operation: str, changes: Sequence[Mapping[str, Any]], about: Mapping[str, Any] | None) -> ChangeFacts:
    """The facts of a dry run; `about` is the record of the object, None for a creation."""
    if about is None:
        named = next((item["after"] for item in changes if item["attribute"] == "distinguishedName"), ())
        return change_facts(operation, changes, {"distinguishedName": next(iter(named), "")})
    members = (about.get("group") or {}).get("memberCount")
    return change_facts(
        operation,
        [_with_kept(change, members) for change in changes],
        about,
        account_name=(about.get("account") or {}).get("samAccountName"),
        kind=about["kind"],
    )


def _with_kept(change: Mapping[str, Any], members: int | None) -> Mapping[str, Any]:
    """Add how many members stay: a dry run lists only those that are added or removed."""
    if members is None or change["attribute"].lower() != "member":
        return change
    return {**change, "kept": max(0, members - len(change["before"]))}


# In this order: Edge and Opera also claim to be Chrome, and Chrome claims to be Safari.
_BROWSERS = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def client_name(user_agent: str) -> str:
    """The browser and system of a User-Agent header ("Firefox on Linux"), else its first product token."""
    browser = next((name for token, name in _BROWSERS if f"{token}/" in user_agent), None)
    system = next((name for token, name in _SYSTEMS if token in user_agent), None)
    if browser is None:
        return re.split(r"[/ ]", user_agent, maxsplit=1)[0] or _("Unknown")
    return _("{browser} on {system}").format(browser=browser, system=system) if system else browser
