"""What is scheduled as a calendar (RFC 5545), which calendar programs read at a person's secret address.

The secret is in the query, which neither the gateway nor the nginx of `deploy/` writes into its log.
"""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import path
from django.utils.cache import get_conditional_response
from django.utils.translation import get_language, override
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from approvals.models import Status
from audit import log
from console.page_context import PageContext, page_at, page_url
from console.shared.wording import change_request_facts
from core.operation import find_operation
from core.text.invisible import mark_invisible
from directory.shapes.wording.change_words import describe_in_short
from gateway import pipeline
from keys import calendar_addresses
from keys.callers import note_caller, origin_of

_SHOWN = "change-requests.search-scheduled"
_MOST = 1000
"""Events in a calendar: the next ones."""


@page_at("scheduled/calendar", "calendar-make", "POST")
def make_address(page: PageContext) -> HttpResponseBase:
    secret = calendar_addresses.make(page.call, page.person, language=get_language() or "en")
    address = page.request.build_absolute_uri(f"/calendar.ics?secret={secret}")
    return page.redirect_showing(address, "scheduled")


@page_at("scheduled/calendar/end", "calendar-end", "POST")
def end_address(page: PageContext) -> HttpResponseBase:
    calendar_addresses.end(page.call, page.person)
    return page.redirect("scheduled", message=_("The calendar's address has ended."))


@require_safe
def calendar(request: HttpRequest) -> HttpResponseBase:
    """What the person of a secret address may see of what is scheduled, with a record of each read."""
    language, calls = calendar_addresses.identify(request.GET.get("secret", ""), **origin_of(request))
    found: dict[str, Mapping[str, Any]] = {}
    for call in calls:
        note_caller(request, call)
        inputs = pipeline.Inputs(arguments={}, query=lambda: {"pageSize": str(_MOST)}, document=lambda: None)
        page = pipeline.run(find_operation(_SHOWN), call, inputs).body
        found |= {item["changeRequest"]["id"]: item for item in page["items"]}
        log.record_read(call, operation=_SHOWN)
    with override(language):
        name = _("Scheduled changes")
        lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Directory Management Gateway//EN"]
        lines += [f"X-WR-CALNAME:{_text(name)}", "REFRESH-INTERVAL;VALUE=DURATION:PT1H"]
        for item in found.values():
            lines += _event(request, item)
    content = "".join(f"{_folded(line)}\r\n" for line in (*lines, "END:VCALENDAR")).encode()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
    response = HttpResponse(content, content_type="text/calendar; charset=utf-8", headers=headers)
    return get_conditional_response(request, etag=etag, response=response) or response


urlpatterns = [path("", calendar, name="calendar")]


def _event(request: HttpRequest, item: Mapping[str, Any]) -> Iterator[str]:
    change = item["changeRequest"]
    summary = describe_in_short(change_request_facts(item))
    if change["status"] == Status.OVERDUE:
        summary = _("Overdue: {change}").format(change=summary)
    what = _("end of a temporary change") if change["ends"] else _("scheduled change")
    reason = [change["reason"]] if change["reason"] else []
    about = [what, _("Requested by {name}").format(name=change["requestedBy"]["owner"]), *reason]
    yield "BEGIN:VEVENT"
    yield f"UID:{change['id']}"
    yield f"DTSTAMP:{_time(change['createdAt'])}"
    yield f"DTSTART:{_time(change['dueAt'])}"
    yield f"SUMMARY:{_text(summary)}"
    yield f"DESCRIPTION:{_text(chr(10).join(about))}"
    yield f"URL:{request.build_absolute_uri(page_url('change', request_id=change['id']))}"
    yield "STATUS:CONFIRMED"
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def _time(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y%m%dT%H%M%SZ}"


_ESCAPED = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def _text(value: str) -> str:
    """A value of type TEXT (RFC 5545 section 3.3.11), with marks for what is invisible in it."""
    return mark_invisible(value, but="\n").translate(_ESCAPED)


def _folded(line: str) -> str:
    """A line in parts of at most 75 octets, none of which ends within a character (RFC 5545 section 3.1)."""
    parts, size = [""], 0
    for character in line:
        octets = len(character.encode())
        if size + octets > 75:
            parts.append("")
            size = 1  # the space that continues the line
        parts[-1] += character
        size += octets
    return "\r\n ".join(parts)
