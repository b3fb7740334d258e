"""Durations and times as people type them, in the forms that the gateway takes."""

import re
from datetime import datetime

from dirgate.failures import Failure


def duration(text: str) -> str:
    """`90m`, `8h`, `2d12h` or `1w` as an ISO 8601 duration, which will do, too. Raises Failure."""
    if text[:1] == "P":
        return text
    parts = re.fullmatch(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?", text, re.ASCII)
    weeks, days, hours, minutes = (int(part or 0) for part in parts.groups()) if parts else (0, 0, 0, 0)
    if not (weeks or days or hours or minutes):
        raise Failure(f"{text} is no duration such as 90m, 8h, 2d or 1w.")
    return f"P{7 * weeks + days}DT{hours}H{minutes}M"


def moment(text: str) -> str:
    """A date, or a date and a time, in RFC 3339: in this machine's time zone unless it names one. Raises Failure."""
    try:
        return datetime.fromisoformat(text).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        raise Failure(f"{text} is no time such as 2027-01-31T18:00.") from None
