"""What is said about a request while it waits: a question to who asked, the answer, and whom it is assigned to.

None of it decides anything: the request waits on, and whoever may decide it still can.
"""

from collections.abc import Iterable
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from approvals.models import Audience, ChangeRequest, Notice
from approvals.review.conflict_of_interest import find_deciders
from approvals.review.decisions import require_pending
from approvals.review.notifications import DIGEST_AFTER
from core.call import PersonRef
from core.errors import Conflict, FieldError, Forbidden, InvalidRequest
from core.shapes import render_timestamp
from core.text.messages import message
from keys.models import Person

MOST_COMMENTS = 50
"""A request is no chat room."""


def comment(person: PersonRef, request: ChangeRequest, text: str, *, may_decide: bool) -> None:
    """Add what somebody says, and tell the others. Raises NotPending, AlreadyDecided, Forbidden or Conflict.

    Only the requester and people who may decide talk about it. To be called in the transaction that records it.
    """
    require_pending(request)
    is_own = request.requester_id == person.id
    if not is_own and not may_decide:
        raise Forbidden
    said = list(request.comments or ())
    if len(said) >= MOST_COMMENTS:
        raise Conflict(
            message(
                "There are {count} comments already: decide it, or talk to each other.",
                count=MOST_COMMENTS,
            )
        )
    said.append({"by": person.username, "byId": person.id, "at": render_timestamp(timezone.now()), "text": text})
    ChangeRequest.objects.filter(id=request.id).update(comments=said)
    involved = {request.requester_id, request.assigned_to_id, *(each["byId"] for each in said)}
    _tell(request.id, Audience.COMMENTED, involved - {person.id, None})


def assign(person: PersonRef, request: ChangeRequest, username: str | None) -> None:
    """Ask one person to decide it, or nobody in particular; raises NotPending, AlreadyDecided or InvalidRequest."""
    require_pending(request)
    if username is None:
        ChangeRequest.objects.filter(id=request.id).update(assigned_to_id=None, assigned_to=None)
        return
    if username not in find_deciders(request, among=username):
        detail = message("is nobody who may decide this change")
        raise InvalidRequest(detail, errors=[FieldError(InvalidRequest.code, detail, pointer="#/username")])
    assignee = Person.objects.get(username=username)
    ChangeRequest.objects.filter(id=request.id).update(assigned_to_id=assignee.pk, assigned_to=username)
    if assignee.pk != person.id:
        _tell(request.id, Audience.ASSIGNED, {assignee.pk})


def _tell(request_id: UUID, audience: Audience, people: Iterable[int | None]) -> None:
    if not settings.CONFIGURATION.Approvals.NotifyByEmail:
        return
    reachable = Person.objects.filter(pk__in=[id for id in people if id], is_active=True).exclude(email="")
    due_at = timezone.now() + DIGEST_AFTER
    Notice.objects.bulk_create(
        Notice(person=person, change_request_id=request_id, audience=audience, due_at=due_at) for person in reachable
    )
