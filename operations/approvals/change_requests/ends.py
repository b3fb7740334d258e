"""Ends of changes that were made for a while: moving one, and ending what was changed at once."""

import json
from functools import partial
from typing import Annotated
from uuid import UUID

from django.db.models import Q
from pydantic import Field

from approvals import ends
from approvals.ends import EndMove, NoEnd
from approvals.models import ChangeRequest
from approvals.review.deciders import requests_in_scopes
from approvals.shapes import ChangeRequestJson, RequestLineJson, line_as_json
from core.call import Call, Surface
from core.errors import Forbidden
from core.operation import NO_INVERSE, SIGNED_IN, Effect, Risk, Target, find_operation, operation, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Timestamp, example, render_timestamp
from core.text.messages import message
from directory.changes.revert import Reverted
from directory.changes.targets import find_target, target_of
from directory.shapes.kinds import resource_of
from directory.shapes.proposal import UNTIL, AttributeChange, Proposal
from gateway.pipeline.ending import propose_end
from gateway.pipeline.membership_rules import require_end_kept
from gateway.pipeline.schedules import require_in_time
from gateway.pipeline.time_to_live import with_time_to_live
from operations.approvals.change_requests.requests import (
    find_visible,
    renderer_for,
    require_decidable,
    visible_requests,
)
from operations.log.operations import CHANGE_PERMISSIONS


class SearchScheduled(PageQuery):
    """The filter of the list of what is to come."""

    owner: str | None = Field(None, max_length=255, description="Only what this person's keys have asked for.")
    object: UUID | None = Field(None, description="Only what concerns this object (objectGUID), also as a member.")


@rest_operation(
    "change-requests.search-scheduled",
    "GET change-requests/scheduled",
    "Search scheduled changes",
    permission=SIGNED_IN,
)
def search_scheduled(call: Call, *, query: SearchScheduled) -> Page[RequestLineJson]:
    """List the changes that are to begin or to end, in the order of their times, overdue ones included.

    In the console, whoever may read an object sees what is to come for it, whoever has asked for it.
    """
    scheduled = visible_requests(call)
    if query.object is not None and call.surface is Surface.REST and call.may("directory.read_object"):
        scheduled = ChangeRequest.objects.defer("input", "secret").filter(requests_in_scopes(call))
    scheduled = scheduled.filter(retry_at__isnull=False)
    if query.owner is not None:
        scheduled = scheduled.filter(requester=query.owner)
    if query.object is not None:
        scheduled = scheduled.filter(Q(target_id=query.object) | Q(changes__icontains=str(query.object)))
    rendered = renderer_for(call)
    return page_of(
        call,
        scheduled,
        query=query,
        order=("due_at", "id"),
        render=lambda each: line_as_json(call, each, rendered(each)),
    )


class ExtendEnd(Body):
    """The time at which a change shall end instead."""

    model_config = example(until="2026-12-04T18:00:00Z")

    until: Annotated[Timestamp | None, Field(description="When it ends; null to keep what was changed for good.")]


@operation(
    "change-requests.extend",
    "POST change-requests/{id}/extend",
    "Move the end of a change of {an object}",
    permission=CHANGE_PERMISSIONS,
    target=Target.DIRECTORY,
    inverse=NO_INVERSE,
    effect=Effect.CHANGE,
    output=ChangeRequestJson,
)
def extend_end(call: Call, *, id: UUID, body: ExtendEnd) -> Proposal:
    """Move the end of a temporary change, or make the change permanent.

    It needs the permission of that change, has its risk, and may have to be approved; the old end stands until then.
    """
    end = _find_end(call, id)
    kept = json.loads(end.input)
    made = find_operation(kept["operation"])
    if not made.permission & call.permissions:
        raise Forbidden(made.permission)
    require_in_time(body.until, pointer="#/until")
    if ends.removes_members(end):
        require_end_kept(call, end.target_id, body.until)
    assert end.target_id is not None
    entry, protected = find_target(call, resource_of(end.target_kind), end.target_id)
    before, after = ((render_timestamp(time) or "",) if time else () for time in (end.due_at, body.until))
    moves = [] if before == after else [EndMove(end, ends.parts_of_end(end), body.until)]
    proposal = Proposal(
        target=target_of(entry),
        changes=(AttributeChange(UNTIL, before, after),) if moves else (),
        answer=lambda: renderer_for(call)(find_visible(call, id)),
        requires=frozenset(kept.get("requires", ())),  # an earlier release did not keep them
        protected=protected,
        risk=Risk(end.risk),
        risk_reason=message("it moves the end of an earlier change"),
        move_ends=partial(ends.move_ends, moves) if moves else None,
    )
    return with_time_to_live(call, proposal, moves, until=body.until)


@operation(
    "change-requests.revert-now",
    "POST change-requests/{id}/revert-now",
    "End a change of {an object} before its time",
    permission=CHANGE_PERMISSIONS,
    target=Target.DIRECTORY,
    inverse=NO_INVERSE,
    effect=Effect.CHANGE,
    output=Reverted,
)
def end_before_time(call: Call, *, id: UUID) -> Proposal:
    """Undo a temporary change now, as its end would: with the permissions and risk of the inverse.

    The end itself becomes `superseded`.
    """
    return propose_end(call, _find_end(call, id))


def _find_end(call: Call, id: UUID) -> ChangeRequest:
    """The end of a change in the call's directory that is still to come; raises NotFound, NoEnd or Forbidden."""
    end = find_visible(call, id)
    if end.ends is None or end.status not in ends.OPEN:
        raise NoEnd
    if end.made_at is None:
        raise NoEnd(message("It is not known yet whether the change was made: try again in a few seconds."))
    if call.directory is None or end.directory_id != call.directory.id:
        raise Forbidden
    require_decidable(call, id)
    return end
