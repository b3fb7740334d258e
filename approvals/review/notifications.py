"""Who is still to be told what about change requests. Telling them is `approvals.review.mail`'s.

A sweep finds it out from the requests themselves, so the request that is held or decided waits for nothing, and what
is to be told outlives every process.
"""

from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from approvals.models import Audience, ChangeRequest, Notice, Status
from approvals.review.conflict_of_interest import active_deciders, conflict_reason
from approvals.states import ANNOUNCED
from core.database import shared_clock
from keys.models import Person

DIGEST_AFTER = timedelta(seconds=60)
"""So long the first notice waits for others to the same person: all of them become one message."""
EXPIRY_LEAD = timedelta(hours=24)
"""So long before its end approvers are reminded of a request, or at half of its life when that is shorter."""

_AT_ONCE = 1000


def collect() -> int:
    """Make notices of what has happened to change requests since the last time; how many."""
    if not settings.CONFIGURATION.Approvals.NotifyByEmail:
        ChangeRequest.objects.filter(to_announce=True).update(to_announce=False)
        return 0
    news = list(_without_secrets().filter(to_announce=True).order_by("id")[:_AT_ONCE])
    soon = list(_about_to_expire())
    if not news and not soon:
        return 0
    approvers = list(people_who_decide().values_list("pk", flat=True))
    return sum(_announce(item, approvers) for item in news) + sum(_remind(item, approvers) for item in soon)


def people_who_decide() -> QuerySet[Person]:
    """The active people who may decide change requests and have an e-mail address."""
    return active_deciders().exclude(email="")


def wait_for_decision(requests: QuerySet[ChangeRequest], person_id: int) -> QuerySet[ChangeRequest]:
    """Those of some requests that this person could decide now: pending, not their own, not approved by them."""
    pending = requests.filter(status=Status.PENDING, expires_at__gt=shared_clock.now()).exclude(requester_id=person_id)
    return pending.filter(Q(first_approved_by_id__isnull=True) | ~Q(first_approved_by_id=person_id))


def _without_secrets() -> QuerySet[ChangeRequest]:
    return ChangeRequest.objects.defer("input", "secret")


def _about_to_expire() -> Iterable[ChangeRequest]:
    now = shared_clock.now()
    waiting = _without_secrets().filter(status=Status.PENDING, expiry_announced=False)
    for item in waiting.filter(expires_at__gt=now, expires_at__lte=now + EXPIRY_LEAD).order_by("id")[:_AT_ONCE]:
        if item.expires_at - min(EXPIRY_LEAD, (item.expires_at - item.created_at) / 2) <= now:
            yield item


def _announce(change_request: ChangeRequest, approvers: Iterable[int]) -> int:
    """Make the notices of a request's present state, unless it has another one by now."""
    first = change_request.first_approved_by_id
    unchanged = ChangeRequest.objects.filter(
        id=change_request.id, to_announce=True, status=change_request.status, first_approved_by_id=first
    )
    with transaction.atomic():
        if unchanged.update(to_announce=False) != 1:
            return 0
        if change_request.status == Status.PENDING:
            return _tell(change_request, Audience.APPROVER, approvers)
        if change_request.status in ANNOUNCED:
            requester = Person.objects.filter(pk=change_request.requester_id, is_active=True).exclude(email="")
            return _tell(change_request, Audience.REQUESTER, requester.values_list("pk", flat=True))
    return 0  # on its way: being applied, or cancelled by who asked


def _remind(change_request: ChangeRequest, approvers: Iterable[int]) -> int:
    unchanged = ChangeRequest.objects.filter(id=change_request.id, status=Status.PENDING, expiry_announced=False)
    with transaction.atomic():
        if unchanged.update(expiry_announced=True) != 1:
            return 0
        return _tell(change_request, Audience.APPROVER, approvers)


def _tell(change_request: ChangeRequest, audience: Audience, people: Iterable[int]) -> int:
    due_at = shared_clock.now() + DIGEST_AFTER
    uninvolved = {change_request.requester_id, change_request.first_approved_by_id}
    notices = [
        Notice(person_id=person, change_request=change_request, audience=audience, due_at=due_at)
        for person in people
        if audience is Audience.REQUESTER
        or (person not in uninvolved and conflict_reason(person, change_request) is None)
    ]
    return len(Notice.objects.bulk_create(notices))
