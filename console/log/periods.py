"""Times as people say them: "last month" in a search, and the moments that a browser's fields give, in UTC."""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

PRESETS = (
    (_("The last hour"), "last hour"),
    (_("Today"), "today"),
    (_("7 days"), "last 7 days"),
    (_("This month"), "this month"),
    (_("Last month"), "last month"),
)
"""What is offered beside the filters, as it is typed: in English in every language."""
_SAID = re.compile(
    r"\b(?:today|yesterday|(?:this|last) (?:hour|week|month|year)|last (\d{1,3}) (days?|hours?|weeks?))\b",
    re.IGNORECASE,
)


def with_said_period(query: Mapping[str, str]) -> dict[str, str]:
    """The filters with a period that the search says taken out of it: "ada last month" is `q=ada` and a time."""
    given = dict(query)
    said = _SAID.search(given.get("q", ""))
    if said is None:
        return given
    rest = " ".join((given["q"][: said.start()] + given["q"][said.end() :]).split())
    begins, ends = _period(said, timezone.now().astimezone(UTC))
    given |= {"q": rest, "from": _written(begins), "to": _written(ends - timedelta(minutes=1)) if ends else ""}
    return {name: value for name, value in given.items() if value}


def with_bounds(query: Mapping[str, str], *, indexed: Collection[str]) -> dict[str, str]:
    """The filters, of the last month if nothing else says where to look: words and values have no index."""
    is_slow = any(name in query for name in ("q", "attribute", "value"))
    if not is_slow or "from" in query or any(name in query for name in indexed):
        return dict(query)
    since = timezone.now().astimezone(UTC).replace(hour=0, minute=0) - timedelta(days=31)
    return {**query, "from": _written(since)}


def _period(said: re.Match[str], now: datetime) -> tuple[datetime, datetime | None]:
    """When it begins, and when it ended; None for one that is not over."""
    words = said[0].lower().split()
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if said[1]:
        return now - int(said[1]) * timedelta(**{f"{said[2].lower().rstrip('s')}s": 1}), None
    if words == ["today"]:
        return day, None
    if words == ["yesterday"]:
        return day - timedelta(days=1), day
    begins = {
        "hour": now - timedelta(hours=1),
        "week": day - timedelta(days=day.weekday()),
        "month": day.replace(day=1),
        "year": day.replace(month=1, day=1),
    }[words[1]]
    if words[0] == "this" or words[1] == "hour":
        return begins, None
    if words[1] == "week":
        return begins - timedelta(days=7), begins
    before = (begins - timedelta(days=1)).replace(day=1)
    return before.replace(month=1) if words[1] == "year" else before, begins


def with_zone(given: Mapping[str, str]) -> dict[str, str]:
    """The filters with moments in UTC: a browser's field gives neither a zone nor, most of the time, seconds.

    A minute that is named as the end is meant to its end.
    """
    query = dict(given)
    for name, rest in (("from", timedelta()), ("to", timedelta(minutes=1, microseconds=-1))):
        text = query.get(name, "")
        moment = _parse(text)
        if moment is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC) + (rest if text.count(":") == 1 else timedelta())
            query[name] = moment.isoformat()
    return query


def for_field(text: str) -> str:
    """A moment as a browser's field takes it, in UTC; as it is where it is none."""
    moment = _parse(text)
    if moment is None or moment.tzinfo is None:
        return text
    return moment.astimezone(UTC).isoformat(timespec="minutes").removesuffix("+00:00")


def _written(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}"


def _parse(text: str) -> datetime | None:
    try:
        return parse_datetime(text)
    except ValueError:  # well written, but no moment: the operation says so
        return None
