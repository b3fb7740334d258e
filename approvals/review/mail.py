"""E-mails about change requests: one message for all that a person is to be told at a time, in plain text.

They name attributes and never their values. What is to be told is `approvals.review.notifications`'s.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from smtplib import SMTPDataError, SMTPNotSupportedError, SMTPRecipientsRefused
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.core.mail import EmailMessage
from django.template.loader import render_to_string

from approvals.messages import headline_of, in_one_line, link_to
from approvals.models import Audience, ChangeRequest, Notice, Status
from approvals.review.notifications import EXPIRY_LEAD, people_who_decide, wait_for_decision
from approvals.review.scope_filter import reaches
from core.database import row_lease, shared_clock
from core.text.unseen import for_people
from keys.models import Person
from keys.permissions.scoping import is_confined

_logger = structlog.stdlib.get_logger(__name__)

MAX_ATTEMPTS = 10
"""With the pauses between them, about four hours: then the message is given up."""
LEASE = timedelta(minutes=5)
"""How long a worker has for one message; one that takes longer was lost with it."""
SUBJECT_PREFIX = "[Directory gateway]"

_OF_ONE_MESSAGE = (SMTPRecipientsRefused, SMTPDataError, SMTPNotSupportedError, ValueError)
"""What is wrong with one recipient, or with an address that cannot be written."""
_LONGEST_PAUSE = timedelta(hours=1)
_DETAILED = 25
"""So many requests are told in full; of the others only the number."""
_TO_DECIDE = (Audience.APPROVER, Audience.ASSIGNED)
"""These are told of what they can still decide, and of nothing else."""
_OUTCOMES = {
    Status.APPROVED: "approved",
    Status.APPLYING: "approved",
    Status.UNKNOWN: "approved, its outcome not known yet",
    Status.APPLIED: "applied",
    Status.PARTLY_FAILED: "partly failed",
    Status.REJECTED: "rejected",
    Status.FAILED: "failed",
    Status.STALE: "stale: the values have changed since, so nothing was done",
    Status.EXPIRED: "expired without a decision",
}


@dataclass(frozen=True, slots=True)
class _Claim:
    """The notices of one person that this worker alone sends as one message."""

    token: UUID
    person: Person
    audience: Audience

    def requests(self) -> list[ChangeRequest]:
        """What there still is to tell: nobody is asked for a decision that is not theirs to take (any more)."""
        told = Notice.objects.filter(claim=self.token).values("change_request_id")
        requests = ChangeRequest.objects.defer("input", "secret").filter(id__in=told).order_by("id")
        if self.audience in _TO_DECIDE:
            requests = wait_for_decision(requests, self.person.pk)
        return [request for request in requests if reaches(self.person, request)]


def send_due() -> int:
    """Send every person what is due to them; how many messages went out. A server that is away is tried again later."""
    sent = 0
    due = Notice.objects.filter(row_lease.free("claimed_until"), due_at__lte=shared_clock.now())
    for person_id, audience in due.order_by("person_id").values_list("person_id", "audience").distinct():
        claim = _claim(person_id, Audience(audience))
        if claim is None:
            continue
        try:
            sent += _send(claim)
        except _OF_ONE_MESSAGE as error:
            _put_off(claim, error)
        except OSError as error:  # the server is away, or refuses everybody: the next message would fare no better
            _put_off(claim, error)
            break
    return sent


def _claim(person_id: int, audience: Audience) -> _Claim | None:
    """Take all notices of a person for an audience, those that are not due yet too; None when another worker has."""
    token = uuid4()
    notices = Notice.objects.filter(person_id=person_id, audience=audience)
    if not row_lease.take_all(notices, "claimed_until", lasts=LEASE, counting="attempts", claim=token):
        return None
    return _Claim(token, Person.objects.get(pk=person_id), audience)


def _send(claim: _Claim) -> bool:
    """Send the message of a claim, if there still is something to tell somebody; whether it was sent."""
    person = claim.person
    if claim.audience in _TO_DECIDE:
        is_told = people_who_decide().filter(pk=person.pk).exists()
    else:
        is_told = person.is_active and bool(person.email)
    requests = claim.requests() if is_told else []
    if requests:
        message(claim.audience, person.email, requests, confined=is_confined(person)).send()
    Notice.objects.filter(claim=claim.token).delete()
    return bool(requests)


def _put_off(claim: _Claim, error: Exception) -> None:
    """Try again later, less and less often, and give up in the end: the requests themselves say it all."""
    notices = Notice.objects.filter(claim=claim.token)
    attempts = max(notices.values_list("attempts", flat=True), default=0)
    told = {"person": claim.person.username, "attempts": attempts, "error": str(error) or type(error).__name__}
    abandoned, _ = notices.filter(attempts__gte=MAX_ATTEMPTS).delete()
    if abandoned:
        _logger.error("an e-mail was given up", notices=abandoned, **told)
    pause = min(timedelta(minutes=2 ** min(attempts - 1, 10)), _LONGEST_PAUSE)
    if notices.update(due_at=shared_clock.now() + pause, claim=None, claimed_until=None):
        _logger.warning("an e-mail could not be sent and is tried again", **told)


def message(audience: Audience, address: str, requests: list[ChangeRequest], *, confined: bool = False) -> EmailMessage:
    """The message that tells one person, who may be confined, of some requests."""
    subject = _SUBJECTS[audience](requests)
    template, one, many = _TEMPLATES[audience]
    context = {
        "opening": one if len(requests) == 1 else many.format(len(requests)),
        "items": [_item(request, confined=confined) for request in requests[:_DETAILED]],
        "more": len(requests) - _DETAILED,
    }
    return EmailMessage(
        subject=for_people(f"{SUBJECT_PREFIX} {subject}"[:200]),
        body=for_people(render_to_string(f"approvals/mail/{template}.txt", context)),
        to=[address],
        # No out-of-office answers, and something that filters need not guess.
        headers={
            "Auto-Submitted": "auto-generated",
            "X-Directory-Gateway": "outcome" if audience is Audience.REQUESTER else "approval-needed",
        },
    )


def _question(requests: list[ChangeRequest]) -> str:
    soon = shared_clock.now() + EXPIRY_LEAD
    kind = "Approval needed"
    if any(request.expiry_announced and request.expires_at <= soon for request in requests):
        kind = "Approval needed, expires soon"
    return _about(kind, requests)


def _outcome(requests: list[ChangeRequest]) -> str:
    words = [_OUTCOMES[Status(request.status)].partition(":")[0] for request in requests]
    if len(requests) == 1:
        return f"{words[0].capitalize()}: {headline_of(requests[0])}"
    counted = ", ".join(f"{count} {word}" for word, count in Counter(words).most_common())
    return f"{len(requests)} changes: {counted}"


def _item(request: ChangeRequest, *, confined: bool) -> dict[str, Any]:
    """What the templates say of a request. What people wrote goes on one line: it must not look like ours."""
    key_name = in_one_line(request.key_name)
    key = f"{'agent' if request.agent else 'key'} {key_name}" if key_name else ""
    return {
        "request": request,
        "what": headline_of(request),
        "target": in_one_line(request.target_dn),
        "key": key,
        "asked_by": f"{request.requester}, {key}" if key else request.requester,
        "decided_by": _decided_by(request),
        "reason": in_one_line(request.reason),
        "comment": in_one_line(request.comment),
        "attributes": in_one_line(", ".join(dict.fromkeys(change["attribute"] for change in request.changes))),
        "said": [{"by": in_one_line(each["by"]), "text": in_one_line(each["text"])} for each in request.comments or ()],
        "risk_reasons": [in_one_line(reason) for reason in request.why_risky(confined=confined)],
        "outcome": _OUTCOMES.get(Status(request.status), request.status),
        "problem": f"{request.problem['code']}, {request.problem['title']}" if request.problem else "",
        "link": link_to(request),
    }


def _decided_by(request: ChangeRequest) -> str:
    """Who approved or rejected it, the first of two approvers before the second; empty while nobody has."""
    if not request.decided_by:
        return ""
    return " and ".join(name for name in (request.first_approved_by, request.decided_by) if name)


def _about(kind: str, requests: list[ChangeRequest]) -> str:
    return f"{kind}: {headline_of(requests[0]) if len(requests) == 1 else f'{len(requests)} changes'}"


_SUBJECTS: dict[Audience, Callable[[list[ChangeRequest]], str]] = {
    Audience.APPROVER: _question,
    Audience.REQUESTER: _outcome,
    Audience.ASSIGNED: partial(_about, "For you to decide"),
    Audience.COMMENTED: partial(_about, "Comment"),
}
_QUESTION = ("question", "A change waits for a decision.", "{} changes wait for a decision.")
_TEMPLATES = {
    Audience.APPROVER: _QUESTION,
    Audience.REQUESTER: (
        "outcome",
        "News of a change that you or your API key asked for.",
        "News of {} changes that you or your API keys asked for.",
    ),
    Audience.ASSIGNED: _QUESTION,
    Audience.COMMENTED: (
        "comment",
        "Somebody has said something about a change that waits.",
        "Somebody has said something about {} changes that wait.",
    ),
}
"""The template of each, and its first sentence about one change and about several."""
