"""What is to come: changes for later, and the ends of changes that were made for a while, in the order of time."""

from typing import Any

from django.http import HttpResponseBase

from approvals.models import Status
from console.page_context import PageContext, page_at
from console.shared.wording import change_request_facts
from directory.shapes.wording.change_words import describe_change


@page_at("scheduled/", "scheduled")
def scheduled(page: PageContext) -> HttpResponseBase:
    """All that is scheduled, or what one person's keys have asked for; overdue ends come first."""
    found = page.list_page("change-requests.search-scheduled")
    lines = [_line(item) for item in found["items"]]
    context = {
        "found": found,
        "overdue": [line for line in lines if line["is_overdue"]],
        "to_come": [line for line in lines if not line["is_overdue"]],
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
