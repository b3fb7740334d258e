"""Asking back about a request that waits, answering, and asking one person to decide it."""

from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field

from approvals.review import comments, decisions
from approvals.shapes import ChangeRequestJson
from core.call import Call
from core.operation import SIGNED_IN, Effect, operation
from core.shapes import Body
from operations.approvals.change_requests.requests import (
    DECIDE,
    REST_ONLY,
    Comment,
    find_visible,
    renderer_for,
    require_text,
)


class CommentOnRequest(Body):
    """What is asked, or answered."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"comment": "Which ticket is this for?"}]})

    comment: Annotated[Comment, AfterValidator(require_text), Field(description="The requester and approvers read it.")]


class AssignRequest(Body):
    """Who is asked to decide."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"username": "bob"}]})

    username: Annotated[
        str | None, Field(max_length=255, description="Somebody who may decide it; null for nobody in particular.")
    ]


@operation(
    "change-requests.comment",
    "POST change-requests/{id}/comment",
    "Comment on {a change request}",
    permission=SIGNED_IN,
    effect=Effect.ADMINISTER,
    body=CommentOnRequest,
    output=ChangeRequestJson,
    surfaces=REST_ONLY,
)
def comment_on_request(call: Call, *, id: UUID, body: CommentOnRequest) -> ChangeRequestJson:
    """Ask back about a waiting change request, or answer; it keeps waiting. The others who are concerned are told."""
    request = find_visible(call, id)
    comments.comment(call.person, request, body.comment.strip(), may_decide=call.may(DECIDE))
    return renderer_for(call)(decisions.find_request(id))


@operation(
    "change-requests.assign",
    "POST change-requests/{id}/assign",
    "Assign {a change request}",
    permission=DECIDE,
    effect=Effect.ADMINISTER,
    body=AssignRequest,
    output=ChangeRequestJson,
    surfaces=REST_ONLY,
)
def assign_request(call: Call, *, id: UUID, body: AssignRequest) -> ChangeRequestJson:
    """Ask one person to decide a waiting change request. Everybody else who may decide it still can."""
    comments.assign(call.person, find_visible(call, id), body.username)
    return renderer_for(call)(decisions.find_request(id))
