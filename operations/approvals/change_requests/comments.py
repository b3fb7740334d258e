"""Comments on a waiting request, and its assignment to one person.

Neither decides anything: the request keeps waiting, and everybody who may decide it still can.
"""

from collections.abc import Iterable
from typing import Annotated
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from pydantic import AfterValidator, Field

from approvals.models import Audience, ChangeRequest, Notice
from approvals.review.deciders import find_deciders
from approvals.review.decisions import find_request, require_pending
from approvals.review.notifications import DIGEST_AFTER
from approvals.shapes import ChangeRequestJson
from core.call import Call
from core.errors import Conflict, Forbidden, InvalidRequest
from core.operation import SIGNED_IN, administration
from core.shapes import Body, example, render_timestamp
from core.text.messages import message
from keys.models import Person
from operations.approvals.change_requests.requests import (
    DECIDE,
    Comment,
    find_visible,
    renderer_for,
    require_text,
)

MOST_COMMENTS = 50
"""Per request."""


class CommentOnRequest(Body):
    """A question or an answer."""

    model_config = example(comment="Which ticket is this for?")

    comment: Annotated[Comment, AfterValidator(require_text), Field(description="The requester and approvers read it.")]


class AssignRequest(Body):
    """The person who is asked to decide."""

    model_config = example(username="bob")

    username: Annotated[
        str | None, Field(max_length=255, description="Somebody who may decide it; null for nobody in particular.")
    ]


@administration(
    "change-requests.comment",
    "POST change-requests/{id}/comment",
    "Comment on {a change request}",
    permission=SIGNED_IN,
)
def comment_on_request(call: Call, *, id: UUID, body: CommentOnRequest) -> ChangeRequestJson:
    """Ask back about a waiting change request, or answer; it keeps waiting. The others who are concerned are told."""
    request = find_visible(call, id)
    require_pending(request)
    if request.requester_id != call.person.id and not call.may(DECIDE):
        raise Forbidden
    said = list(request.comments or ())
    if len(said) >= MOST_COMMENTS:
        why = message("There are {count} comments already: decide it, or talk to each other.", count=MOST_COMMENTS)
        raise Conflict(why)
    by, at = call.person, render_timestamp(timezone.now())
    said.append({"by": by.username, "byId": by.id, "at": at, "text": body.comment.strip()})
    ChangeRequest.objects.filter(id=id).update(comments=said)
    involved = {request.requester_id, request.assigned_to_id, *(each["byId"] for each in said)}
    _tell(id, Audience.COMMENTED, involved - {by.id, None})
    return renderer_for(call)(find_request(id))


@administration(
    "change-requests.assign", "POST change-requests/{id}/assign", "Assign {a change request}", permission=DECIDE
)
def assign_request(call: Call, *, id: UUID, body: AssignRequest) -> ChangeRequestJson:
    """Ask one person to decide a waiting change request. Everybody else who may decide it still can."""
    request = find_visible(call, id)
    require_pending(request)
    assignee = None
    if body.username is not None:
        if body.username not in find_deciders(request, among=body.username):
            raise InvalidRequest.naming(message("is nobody who may decide this change"), pointer="#/username")
        assignee = Person.objects.get(username=body.username)
    ChangeRequest.objects.filter(id=id).update(assigned_to=body.username, assigned_to_id=assignee and assignee.pk)
    if assignee is not None and assignee.pk != call.person.id:
        _tell(id, Audience.ASSIGNED, {assignee.pk})
    return renderer_for(call)(find_request(id))


def _tell(request_id: UUID, audience: Audience, people: Iterable[int | None]) -> None:
    if not settings.CONFIGURATION.Approvals.NotifyByEmail:
        return
    reachable = Person.objects.filter(pk__in=[id for id in people if id], is_active=True).exclude(email="")
    due_at = timezone.now() + DIGEST_AFTER
    Notice.objects.bulk_create(
        Notice(person=person, change_request_id=request_id, audience=audience, due_at=due_at) for person in reachable
    )
