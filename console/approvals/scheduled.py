"""What is to come: changes for later, and the ends of changes that were made for a while, in the order of time."""

from typing import Any

from django.http import HttpResponseBase

from approvals.models import Status
from console.directory.selection.actions import find_named
from console.page_context import PageContext, page_at
from console.shared.wording import change_request_facts
from core import shown_once
from core.errors import InvalidRequest
from directory.shapes.wording.change_words import describe_change
from keys import calendar_addresses


@page_at("scheduled/", "scheduled")
def scheduled(page: PageContext) -> HttpResponseBase:
    """All that is scheduled, or what is about one person or what one has asked for; overdue ends come first."""
    query = page.query_of("owner", "cursor", "pageSize")
    about = page.query["about"]
    found: dict[str, Any] = {"items": [], "nextCursor": None}
    try:
        if about:
            query["object"] = find_named(page, "users", about, ("objectSid",), field="about")["id"]
        found = page.perform("change-requests.search-scheduled", query={"pageSize": "50", **query})
    except InvalidRequest as refusal:
        page.problem = refusal
    lines = [_line(item) for item in found["items"]]
    context = {
        "found": found,
        "overdue": [line for line in lines if line["is_overdue"]],
        "to_come": [line for line in lines if not line["is_overdue"]],
        "has_address": calendar_addresses.is_made(page.person),
        "address": shown_once.take(page.request),
    }
    return page.render("approvals/scheduled.html", context)


def _line(item: dict[str, Any]) -> dict[str, Any]:
    change = item["changeRequest"]
    return {
        "change": change,
        "words": describe_change(change_request_facts(item)),
        "is_end": change["ends"] is not None,
        "is_overdue": change["status"] == Status.OVERDUE,
    }
