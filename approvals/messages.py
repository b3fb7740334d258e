"""What people are told of a change request outside the console: a sentence and a link, and no values."""

import re

from django.conf import settings
from django.urls import reverse
from django.utils.translation import override

from approvals.models import ChangeRequest, Status
from approvals.shapes import facts_of
from audit.webhooks.chat import ChatMessage
from core.text.unseen import with_unseen_marked
from directory.shapes.wording.change_words import say

_SPACES = re.compile(r"[ \t\r\n]+")

_TOLD = {
    Status.PENDING: "Waits for a decision",
    Status.APPLIED: "Done",
    Status.PARTLY_FAILED: "Approved, but a part of it failed",
    Status.FAILED: "Approved, but it failed",
    Status.STALE: "Approved, but the values had changed: nothing was done",
    Status.REJECTED: "Rejected",
    Status.EXPIRED: "Expired without a decision",
}
"""The steps that people in a channel want to hear of."""


def in_one_line(text: str | None) -> str:
    """What people wrote, on one line that cannot be taken for one of ours, with what nobody sees marked."""
    shown = with_unseen_marked(_SPACES.sub(" ", text or "").strip(" "))
    return shown if len(shown) <= 500 else f"{shown[:499]}…"


def headline_of(request: ChangeRequest) -> str:
    """What is asked for in a sentence: names of objects and attributes, and no value of any of these.

    In English, whoever's browser it was that moved the request: it goes to other people, and to channels.
    """
    with override("en"):
        return in_one_line(str(say(facts_of(request))))


def link_to(request: ChangeRequest) -> str:
    """The request's page in the console; empty while its address is not configured."""
    base = settings.CONFIGURATION.Approvals.BaseUrl.rstrip("/")
    return f"{base}{reverse('console:change', args=[request.id])}" if base else ""


def message_about(request: ChangeRequest) -> ChatMessage | None:
    """The message for a channel; None for a step that nobody there waits for.

    Of a batch the first request alone is told of while it waits: two hundred messages would be read by nobody.
    """
    told = _TOLD.get(Status(request.status))
    if told is None or (request.status == Status.PENDING and _is_one_of_many(request)):
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
    return ChatMessage(f"{told}: {headline_of(request)}", tuple(facts), link_to(request))


def _is_one_of_many(request: ChangeRequest) -> bool:
    return ChangeRequest.objects.filter(request.of_same_call()).exclude(id=request.id).exists()
