"""What is to come: changes for later, and the ends of changes that were made for a while, by day."""

from datetime import UTC, date, datetime
from itertools import groupby
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
    overdue = [line for line in lines if line["is_overdue"]]
    to_come = [line for line in lines if not line["is_overdue"]]
    days = [(day, list(some)) for day, some in groupby(to_come, key=lambda line: _day_of(line["change"]["dueAt"]))]
    return page.render("approvals/scheduled.html", {"found": found, "overdue": overdue, "days": days})


def _day_of(time: str) -> date:
    return datetime.fromisoformat(time).astimezone(UTC).date()


def _line(item: dict[str, Any]) -> dict[str, Any]:
    change = item["changeRequest"]
    return {
        "change": change,
        "words": describe_change(change_request_facts(item)),
        "is_end": change["ends"] is not None,
        "is_overdue": change["status"] == Status.OVERDUE,
    }
