"""E-mail notices about change requests: who has yet to get which, and sending them.

A sweep makes the notices from the requests themselves. So holding or deciding a request never waits for mail, and no
notice is lost with a process. A person gets all due notices in one plain-text message, which names attributes but never
their values.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from smtplib import SMTPDataError, SMTPNotSupportedError, SMTPRecipientsRefused
from typing import Any
from uuid import uuid4

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q, QuerySet
from django.template.loader import render_to_string

from approvals.messages import headline_of, in_one_line, link_to
from approvals.models import Audience, ChangeRequest, Notice, Status
from approvals.review.deciders import ConflictChecker, active_deciders, find_visible_to
from approvals.states import ANNOUNCED
from core.database import row_lease, shared_clock
from core.mail import make_email
from keys.models import Person
from keys.permissions.scopes import is_confined

_logger = structlog.stdlib.get_logger(__name__)

DIGEST_AFTER = timedelta(seconds=60)
"""How long the first notice waits for further ones to the same person, to be sent together."""
EXPIRY_LEAD = timedelta(hours=24)
"""How long before a request expires approvers are reminded; at half of its life if that is later."""

MAX_ATTEMPTS = 10
"""With the pauses between attempts, about four hours. Then the message is given up."""
LEASE = timedelta(minutes=5)
"""How long a worker may take for one message before it counts as lost."""

_RECIPIENT_ERRORS = (SMTPRecipientsRefused, SMTPDataError, SMTPNotSupportedError, ValueError)
"""Errors that concern one recipient alone; other recipients can still be served."""
_LONGEST_PAUSE = timedelta(hours=1)
_MAX_DETAILED = 25
"""How many requests a message describes; it only counts the others."""
_DECIDING_AUDIENCES = (Audience.APPROVER, Audience.ASSIGNED)
"""These hear only of requests that they can still decide."""
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
    Status.SCHEDULED: "approved, to be made at its time",
    Status.OVERDUE: "overdue: it should have ended and has not; the gateway goes on trying",
    Status.SUPERSEDED: "not to come any more",
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
    Audience.OVERDUE: (
        "outcome",
        "A temporary change should have ended by now.",
        "{} changes that were made for a while should have ended, and have not.",
    ),
    Audience.COMMENTED: (
        "comment",
        "Somebody has said something about a change that waits.",
        "Somebody has said something about {} changes that wait.",
    ),
}
"""The template of each audience, and its opening for one change and for several."""
_BATCH_SIZE = 1000
_AT_ONCE = 50
"""How many requests are locked together, for some milliseconds, while their notices are stored."""


def collect() -> int:
    """Make notices of what has happened to change requests since the last sweep; return how many."""
    if not settings.CONFIGURATION.Approvals.NotifyByEmail:
        ChangeRequest.objects.filter(to_announce=True).update(to_announce=False)
        return 0
    news = list(_without_secrets().filter(to_announce=True).order_by("id")[:_BATCH_SIZE])
    soon = list(_about_to_expire())
    if not news and not soon:
        return 0
    approvers = list(deciders_with_email().values_list("pk", flat=True))
    conflicts = ConflictChecker()
    return sum(
        _announce(requests[start : start + _AT_ONCE], flag, approvers, conflicts)
        for requests, flag in ((news, "to_announce"), (soon, "expiry_announced"))
        for start in range(0, len(requests), _AT_ONCE)
    )


def deciders_with_email() -> QuerySet[Person]:
    """The active people who may decide change requests and have an e-mail address."""
    return active_deciders().exclude(email="")


def decidable_by(requests: QuerySet[ChangeRequest], person_id: int) -> QuerySet[ChangeRequest]:
    """The requests that this person could decide now: pending, not their own, not yet approved by them."""
    pending = requests.filter(status=Status.PENDING, expires_at__gt=shared_clock.now()).exclude(requester_id=person_id)
    return pending.filter(Q(first_approved_by_id__isnull=True) | ~Q(first_approved_by_id=person_id))


def _without_secrets() -> QuerySet[ChangeRequest]:
    return ChangeRequest.objects.defer("input", "secret")


def _about_to_expire() -> Iterable[ChangeRequest]:
    now = shared_clock.now()
    waiting = _without_secrets().filter(status=Status.PENDING, expiry_announced=False)
    for item in waiting.filter(expires_at__gt=now, expires_at__lte=now + EXPIRY_LEAD).order_by("id")[:_BATCH_SIZE]:
        if item.expires_at - min(EXPIRY_LEAD, (item.expires_at - item.created_at) / 2) <= now:
            yield item


def _announce(
    requests: Sequence[ChangeRequest], flag: str, approvers: Iterable[int], conflicts: ConflictChecker
) -> int:
    """Make the notices of some requests, and turn the flag that asks for them.

    Requests that have changed meanwhile, or are being changed, wait for the next sweep.
    """
    requesters = set(
        Person.objects.filter(pk__in={request.requester_id for request in requests}, is_active=True)
        .exclude(email="")
        .values_list("pk", flat=True)
    )
    due_at = shared_clock.now() + DIGEST_AFTER
    notices = {}
    for request in requests:
        audience, people = Audience.REQUESTER, requesters & {request.requester_id}
        if request.status == Status.PENDING:
            uninvolved = {request.requester_id, request.first_approved_by_id}
            audience = Audience.APPROVER
            people = {
                person
                for person in approvers
                if person not in uninvolved and conflicts.reason_against(person, request) is None
            }
        elif request.status == Status.OVERDUE:
            audience, people = Audience.OVERDUE, people | set(approvers)
        elif request.status not in ANNOUNCED:  # no news: being applied, or cancelled by the requester
            people = set()
        notices[request.id] = [
            Notice(person_id=person, change_request=request, audience=audience, due_at=due_at) for person in people
        ]
    states = {(request.id, request.status, request.first_approved_by_id) for request in requests}
    with transaction.atomic():
        flagged = ChangeRequest.objects.filter(id__in=notices, **{flag: getattr(requests[0], flag)})
        now = flagged.select_for_update(skip_locked=True).values_list("id", "status", "first_approved_by_id")
        unchanged = [id for id, *_ in states.intersection(now)]
        flagged.filter(id__in=unchanged).update(**{flag: not getattr(requests[0], flag)})
        return len(Notice.objects.bulk_create([notice for id in unchanged for notice in notices[id]]))


def send_due() -> int:
    """Send each person their due notices; return how many messages went out. Retries later if the server is away."""
    sent = 0
    due = Notice.objects.filter(row_lease.is_free("claimed_until"), due_at__lte=shared_clock.now())
    for person_id, audience in due.order_by("person_id").values_list("person_id", "audience").distinct():
        claim = uuid4()
        # Notices that are not due yet go along, so that nobody gets two messages within a minute.
        notices = Notice.objects.filter(person_id=person_id, audience=audience)
        if not row_lease.take_free(notices, "claimed_until", lasts=LEASE, counting="attempts", claim=claim):
            continue  # another worker has them
        person, claimed = Person.objects.get(pk=person_id), Notice.objects.filter(claim=claim)
        try:
            sent += _send(person, Audience(audience), claimed)
        except _RECIPIENT_ERRORS as error:
            _postpone(person, claimed, error)
        except OSError as error:  # the server is away or refuses everybody, so further messages would fail too
            _postpone(person, claimed, error)
            break
    return sent


def _send(person: Person, audience: Audience, claimed: QuerySet[Notice]) -> bool:
    """Send the message of the claimed notices if there is still something to say; return whether it was sent."""
    if audience in _DECIDING_AUDIENCES:
        may_be_told = deciders_with_email().filter(pk=person.pk).exists()
    else:
        may_be_told = person.is_active and bool(person.email)
    requests = _without_secrets().filter(id__in=claimed.values("change_request_id")).order_by("id")
    if audience in _DECIDING_AUDIENCES:  # others may have decided since the notice was made
        requests = decidable_by(requests, person.pk)
    visible = find_visible_to(person, list(requests)) if may_be_told else []
    if visible:
        render_email(audience, person.email, visible, confined=is_confined(person)).send()
    claimed.delete()
    return bool(visible)


def _postpone(person: Person, claimed: QuerySet[Notice], error: Exception) -> None:
    """Try again later, less and less often, and finally give up: the inbox still shows the requests."""
    attempts = max(claimed.values_list("attempts", flat=True), default=0)
    facts = {"person": person.username, "attempts": attempts, "error": str(error) or type(error).__name__}
    abandoned, _ = claimed.filter(attempts__gte=MAX_ATTEMPTS).delete()
    if abandoned:
        _logger.error("an e-mail was given up", notices=abandoned, **facts)
    pause = min(timedelta(minutes=2 ** min(attempts - 1, 10)), _LONGEST_PAUSE)
    if claimed.update(due_at=shared_clock.now() + pause, claim=None, claimed_until=None):
        _logger.warning("an e-mail could not be sent and is tried again", **facts)


def render_email(
    audience: Audience, address: str, requests: list[ChangeRequest], *, confined: bool = False
) -> EmailMessage:
    """The message to one person about some requests; the texts for confined people name no other objects."""
    template, one, many = _TEMPLATES[audience]
    context = {
        "opening": one if len(requests) == 1 else many.format(len(requests)),
        "items": [_item(request, confined=confined) for request in requests[:_MAX_DETAILED]],
        "more": len(requests) - _MAX_DETAILED,
    }
    return make_email(
        address,
        subject=_subject(audience, requests),
        body=render_to_string(f"approvals/mail/{template}.txt", context),
        about="outcome" if audience is Audience.REQUESTER else "approval-needed",
    )


def _subject(audience: Audience, requests: list[ChangeRequest]) -> str:
    about = headline_of(requests[0]) if len(requests) == 1 else f"{len(requests)} changes"
    if audience is Audience.REQUESTER:
        words = [_OUTCOMES[Status(request.status)].partition(":")[0] for request in requests]
        if len(requests) == 1:
            return f"{words[0].capitalize()}: {about}"
        return f"{about}: {', '.join(f'{count} {word}' for word, count in Counter(words).most_common())}"
    if audience is Audience.APPROVER:
        soon = shared_clock.now() + EXPIRY_LEAD
        is_urgent = any(request.expiry_announced and request.expires_at <= soon for request in requests)
        return f"Approval needed, expires soon: {about}" if is_urgent else f"Approval needed: {about}"
    return f"{'Comment' if audience is Audience.COMMENTED else 'For you to decide'}: {about}"


def _item(request: ChangeRequest, *, confined: bool) -> dict[str, Any]:
    """A request's values for the templates. What people wrote is put on one line, so that it cannot pose as ours."""
    key_name = in_one_line(request.key_name)
    key = f"{'agent' if request.agent else 'key'} {key_name}" if key_name else ""
    return {
        "request": request,
        "what": headline_of(request),
        "target": in_one_line(request.target_dn),
        "key": key,
        "asked_by": f"{request.requester}, {key}" if key else request.requester,
        # The first of two approvers before the second; empty while nobody has decided.
        "decided_by": " and ".join(name for name in (request.first_approved_by, request.decided_by) if name)
        if request.decided_by
        else "",
        "reason": in_one_line(request.reason),
        "comment": in_one_line(request.comment),
        "attributes": in_one_line(", ".join(dict.fromkeys(change["attribute"] for change in request.changes))),
        "said": [{"by": in_one_line(each["by"]), "text": in_one_line(each["text"])} for each in request.comments or ()],
        "risk_reasons": [in_one_line(reason) for reason in request.risk_sentences(confined=confined)],
        "outcome": _OUTCOMES.get(Status(request.status), request.status),
        "problem": f"{request.problem['code']}, {request.problem['title']}" if request.problem else "",
        "link": link_to(request.id),
    }
