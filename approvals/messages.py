"""What chat channels and e-mails say about a change request: a sentence and a link, but no values."""

import re
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from django.utils.translation import override

from approvals.models import ChangeRequest, Status
from approvals.shapes import facts_of
from audit.webhooks.events import ChatMessage
from core.text.invisible import mark_invisible
from directory.shapes.wording.change_words import describe_change

_SPACES = re.compile(r"[ \t\r\n]+")

_ANNOUNCEMENTS = {
    Status.PENDING: "Waits for a decision",
    Status.APPLIED: "Done",
    Status.PARTLY_FAILED: "Approved, but a part of it failed",
    Status.FAILED: "Approved, but it failed",
    Status.STALE: "Approved, but the values had changed: nothing was done",
    Status.REJECTED: "Rejected",
    Status.EXPIRED: "Expired without a decision",
    Status.OVERDUE: "Should have ended, and has not",
}
"""The states that a channel is told about."""


def in_one_line(text: str | None) -> str:
    """Text that people wrote, on one line of at most 500 characters, with invisible characters marked.

    With line breaks of its own it could pretend to be a line of the gateway's.
    """
    shown = mark_invisible(_SPACES.sub(" ", text or "").strip(" "))
    return shown if len(shown) <= 500 else f"{shown[:499]}…"


def headline_of(request: ChangeRequest) -> str:
    """The request in a sentence: names of objects and attributes, but no values.

    Always in English: others read it than the person in whose language the present request is answered.
    """
    with override("en"):
        return in_one_line(str(describe_change(facts_of(request))))


def link_to(request_id: UUID | str, *, origin: str = "") -> str:
    """The URL of the request's page in the console, below `Approvals:BaseUrl` or else `origin`; empty without both."""
    base = settings.CONFIGURATION.Approvals.BaseUrl.rstrip("/") or origin
    return f"{base}{reverse('console:change', args=[request_id])}" if base else ""


def message_about(request: ChangeRequest) -> ChatMessage | None:
    """The message for a channel; None for a state that channels are not told about.

    Of a batch only the first waiting request is announced: nobody would read two hundred messages.
    """
    announcement = _ANNOUNCEMENTS.get(Status(request.status))
    if announcement is None or (request.status == Status.PENDING and _is_one_of_many(request)):
        return None
    asks = in_one_line(request.requester)
    if request.key_name:
        asks += f", {'agent' if request.agent else 'key'} {in_one_line(request.key_name)}"
    facts = [("Risk", request.risk), ("Asked by", asks)]
    if request.reason:
        facts.append(("Reason", in_one_line(request.reason)))
    if request.decided_by:
        facts.append(("Decided by", in_one_line(request.decided_by)))
    if request.comment:
        facts.append(("Comment", in_one_line(request.comment)))
    return ChatMessage(f"{announcement}: {headline_of(request)}", tuple(facts), link_to(request.id))


def _is_one_of_many(request: ChangeRequest) -> bool:
    return ChangeRequest.objects.filter(request.of_same_call()).exclude(id=request.id).exists()
