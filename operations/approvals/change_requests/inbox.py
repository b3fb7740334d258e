"""The inbox of people who decide: everything that waits in lines, which request comes next, and how many there are."""

from typing import Annotated, Literal, cast
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from pydantic import Field
from typing_extensions import TypedDict

from approvals.models import ChangeRequest, Status
from approvals.review import inbox
from approvals.review.conflict_of_interest import ConflictChecker
from approvals.review.notifications import wait_for_decision
from approvals.shapes import RequestLineJson, line_as_json
from core.call import Call
from core.operation import SIGNED_IN, Risk, operation
from core.paging import Page, PageQuery, page_of
from core.shapes import WHOLE_NUMBER, CommaList, Flag, Id, Query
from operations.approvals.change_requests.requests import (
    DECIDE,
    REST_ONLY,
    find_visible,
    renderer_for,
    visible_requests,
    why_hidden,
)

Order = Annotated[
    inbox.Order,
    Field(
        description="`urgency`: the most dangerous first, of equals the oldest; `oldest`, `newest`; `expiring`: which "
        "expires first; `object`, `owner` and `key` by name."
    ),
]
Attribute = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$", max_length=128)]


class _Filters(Query):
    """What the inbox can be narrowed to."""

    q: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="In the object's name, the owner, the key or the reason."),
    ] = None
    risk: Annotated[Risk | None, Field(description="Only changes of this risk.")] = None
    operation: Annotated[str | None, Field(max_length=100, description="Only changes by this operation.")] = None
    owner: Annotated[str | None, Field(max_length=255, description="Only what this person's keys ask for.")] = None
    key: Annotated[str | None, Field(max_length=255, description="Only what the key of this name asks for.")] = None
    kind: Annotated[str | None, Field(max_length=64, description="Only changes of objects of this kind.")] = None
    attribute: Annotated[Attribute | None, Field(description="Only changes that write this attribute.")] = None
    older_than_hours: Annotated[
        int | None,
        Field(ge=0, le=10_000, description="Only what was asked for so many hours ago or more."),
        WHOLE_NUMBER,
    ] = None
    mine: Annotated[Flag, Field(description="Only what is assigned to you.")] = False
    sort: Order = "urgency"

    def narrow(self, requests: QuerySet[ChangeRequest], call: Call) -> QuerySet[ChangeRequest]:
        return inbox.narrowed(
            requests,
            text=self.q,
            attribute=self.attribute,
            older_than_hours=self.older_than_hours,
            risk=self.risk,
            operation=self.operation,
            requester=self.owner,
            key_name=self.key,
            target_kind=self.kind,
            assigned_to_id=call.person.id if self.mine else None,
        )


class ListInbox(PageQuery, _Filters):
    """What is wanted of the inbox."""

    status: Annotated[Literal["any"] | Status, Field(description="Only requests in this state, or in `any`.")] = (
        Status.PENDING
    )
    decidable: Annotated[Flag, Field(description="Only what you could decide: pending, and asked for by others.")] = (
        False
    )


class FindNext(_Filters):
    """Which request is looked at now, and the order and the filter of the inbox it came from."""

    after: Annotated[UUID | None, Field(description="The request looked at now: the next one in the order.")] = None
    backwards: Annotated[Flag, Field(description="The one before instead of the next.")] = False
    leave_out: Annotated[CommaList, Field(description="Requests to leave out, by id.", max_length=500)] = ()


class InboxLineJson(TypedDict):
    """The requests that one call asked for: one, or those of a batch, an import or a run.

    `risks` counts them by risk. `first` are some of them, the most dangerous first. `own` tells that they are the
    reader's.
    """

    count: int
    risks: dict[Risk, int]
    own: bool
    first: list[RequestLineJson]


class NextJson(TypedDict):
    """The request to look at next, null when there is none; and how many wait for the person's decision by now."""

    id: Id | None
    waiting: int


class WaitingCountJson(TypedDict):
    """How many requests wait for the person's decision; of them, security changes and those assigned to the person."""

    waiting: int
    security: int
    assigned: int


@operation(
    "change-requests.list-inbox",
    "GET change-requests/inbox",
    "List the inbox of change requests",
    permission=SIGNED_IN,
    query=ListInbox,
    output=Page[InboxLineJson],
    surfaces=REST_ONLY,
)
def list_inbox(call: Call, *, query: ListInbox) -> Page[InboxLineJson]:
    """List change requests as an inbox: those of one call in one line, the most urgent first."""
    requests = _decidable(call) if query.decidable else visible_requests(call)
    if query.status != "any":
        requests = requests.filter(status=query.status)
    if query.status == Status.PENDING:
        requests = requests.filter(expires_at__gt=timezone.now())
    requests = query.narrow(requests, call)
    rows, order = inbox.grouped(requests, query.sort)
    page = page_of(call, rows, query=query, order=order, render=lambda row: row)
    render = renderer_for(call)

    def line(item: inbox.Line) -> InboxLineJson:
        return {
            "count": item.count,
            "risks": item.risks,
            "own": item.first[0].requester_id == call.person.id,
            "first": [line_as_json(call, request, render(request)) for request in item.first],
        }

    return {**page, "items": [line(item) for item in inbox.lines_of(requests, page["items"])]}


@operation(
    "change-requests.find-next",
    "GET change-requests/next",
    "Find the next change request",
    permission=DECIDE,
    query=FindNext,
    output=NextJson,
    surfaces=REST_ONLY,
)
def find_next(call: Call, *, query: FindNext) -> NextJson:
    """Find the next request that you may decide, in the order of the inbox; after the last one the first."""
    waiting = _decidable(call)
    after = find_visible(call, query.after) if query.after is not None else None
    left_out: list[UUID] = [UUID(each) for each in query.leave_out if each]
    if after is not None:
        left_out.append(after.id)
    narrowed = query.narrow(waiting, call)
    found = inbox.next_of(narrowed, query.sort, after=after, leave_out=left_out, backwards=query.backwards)
    conflicts = ConflictChecker(call.person.id)
    requests = waiting.in_bulk(found)
    may = (
        id
        for id in found
        if id in requests and conflicts.why(requests[id]) is None and why_hidden(call, requests[id]) is None
    )
    next_id = next(may, None)
    return {"id": str(next_id) if next_id else None, "waiting": waiting.count()}


@operation(
    "change-requests.count-waiting",
    "GET change-requests/waiting-count",
    "Count waiting change requests",
    permission=DECIDE,
    output=WaitingCountJson,
    surfaces=REST_ONLY,
)
def count_waiting(call: Call) -> WaitingCountJson:
    """Count what waits for your decision: what is pending, was asked for by others and not approved by you already."""
    counted: dict[str, int] = (
        _decidable(call)
        .order_by()
        .aggregate(
            waiting=Count("id"),
            security=Count("id", filter=Q(risk=Risk.SECURITY)),
            assigned=Count("id", filter=Q(assigned_to_id=call.person.id)),
        )
    )
    return cast(WaitingCountJson, counted)


def _decidable(call: Call) -> QuerySet[ChangeRequest]:
    return wait_for_decision(visible_requests(call), call.person.id)
