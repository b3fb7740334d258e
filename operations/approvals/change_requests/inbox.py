"""The inbox of approvers: waiting requests as lines (`lines`), the next request, and how many wait."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.db.models import Case, Count, F, IntegerField, Max, Min, Q, QuerySet, TextField, Value, When, Window
from django.db.models.functions import Cast, RowNumber
from django.utils import timezone
from pydantic import Field
from typing_extensions import TypedDict

from approvals.models import ChangeRequest, Status
from approvals.review.deciders import ConflictChecker, hidden_reason
from approvals.review.notifications import decidable_by
from approvals.shapes import RequestLineJson, line_as_json
from audit.log_queries import pattern_in_names
from core.call import Call
from core.database import own_rows
from core.operation import SIGNED_IN, Risk, rest_operation
from core.paging import Page, PageQuery, page_of, rows_after
from core.shapes import WHOLE_NUMBER, CommaList, Flag, Id, Query
from operations.approvals.change_requests.lines import LINE, in_line_of
from operations.approvals.change_requests.requests import (
    DECIDE,
    find_visible,
    renderer_for,
    visible_requests,
)

Order = Literal["urgency", "oldest", "newest", "expiring", "object", "owner", "key"]
_SHOWN_OF_GROUP = 12
"""How many requests of a group a line contains."""
_RANKS = {Risk.SECURITY: 0, Risk.DESTRUCTIVE: 1, Risk.ORDINARY: 2}
"""The most dangerous first."""
_RANK = Case(
    *(When(risk=risk.value, then=Value(rank)) for risk, rank in _RANKS.items()),
    default=Value(0),
    output_field=IntegerField(),
)
_ORDERS = {
    "urgency": ("rank", "oldest"),
    "oldest": ("oldest",),
    "newest": ("-newest",),
    "expiring": ("soonest",),
    "object": ("object",),
    "owner": ("owner", "oldest"),
    "key": ("key", "oldest"),
}
_SORT_COLUMNS = {
    "rank": _RANK,
    "oldest": F("created_at"),
    "newest": F("created_at"),
    "soonest": F("expires_at"),
    "object": F("target_dn"),
    "owner": F("requester"),
    "key": Case(When(key_name__isnull=True, then=Value("")), default=F("key_name"), output_field=TextField()),
}
_MAX_CANDIDATES = 50
"""How many requests are considered to find one that the reader may decide."""

Attribute = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$", max_length=128)]


class _Filters(Query):
    """The filters and the order of the inbox."""

    q: str | None = Field(
        None, min_length=1, max_length=200, description="In the object's name, the owner, the key or the reason."
    )
    risk: Risk | None = Field(None, description="Only changes of this risk.")
    operation: str | None = Field(None, max_length=100, description="Only changes by this operation.")
    owner: str | None = Field(None, max_length=255, description="Only what this person's keys ask for.")
    key: str | None = Field(None, max_length=255, description="Only what the key of this name asks for.")
    kind: str | None = Field(None, max_length=64, description="Only changes of objects of this kind.")
    attribute: Attribute | None = Field(None, description="Only changes that write this attribute.")
    older_than_hours: Annotated[
        int | None,
        Field(ge=0, le=10_000, description="Only what was asked for so many hours ago or more."),
        WHOLE_NUMBER,
    ] = None
    mine: Flag = Field(False, description="Only what is assigned to you.")
    sort: Order = Field(
        "urgency",
        description="`urgency`: the most dangerous first, of equals the oldest; `oldest`, `newest`; `expiring`: "
        "which expires first; `object`, `owner` and `key` by name.",
    )

    def narrow(self, requests: QuerySet[ChangeRequest], call: Call) -> QuerySet[ChangeRequest]:
        requests = own_rows.filter_optional(
            requests,
            risk=self.risk,
            operation=self.operation,
            requester=self.owner,
            key_name=self.key,
            target_kind=self.kind,
            assigned_to_id=call.person.id if self.mine else None,
        )
        if self.q is not None:
            places = ("target_dn", "target_account", "requester", "key_name", "reason")
            in_name = Q(target_dn__iregex=pattern_in_names(self.q))
            requests = requests.filter(own_rows.containing(self.q, *places) | in_name)
        if self.attribute is not None:
            # As both databases write JSON. It matches no value, since quotation marks are escaped there.
            written = f'"attribute": "{self.attribute}"'
            requests = requests.annotate(written=Cast("changes", TextField())).filter(written__icontains=written)
        if self.older_than_hours is not None:
            requests = requests.filter(created_at__lte=timezone.now() - timedelta(hours=self.older_than_hours))
        return requests


class ListInbox(PageQuery, _Filters):
    """Which requests to list as an inbox."""

    status: Literal["any"] | Status = Field(Status.PENDING, description="Only requests in this state, or in `any`.")
    decidable: Flag = Field(False, description="Only what you could decide: pending, and asked for by others.")
    and_oldest: Flag = Field(False, description="With the oldest line at the end, if it is on a later page.")


class FindNext(_Filters):
    """Which request is looked at now, and the order and the filter of the inbox it came from."""

    after: UUID | None = Field(None, description="The request looked at now: the next one in the order.")
    backwards: Flag = Field(False, description="The one before instead of the next.")
    leave_out: CommaList = Field((), description="Requests to leave out, by id.", max_length=500)


class InboxLineJson(TypedDict):
    """One request; or those of one call, such as a batch or an import; or single ones of a key that are alike.

    `objects` is how many objects they change. `risks` counts them by risk. `first` are some of them, the most dangerous
    first. `own` tells that they are the reader's.
    """

    count: int
    objects: int
    risks: dict[Risk, int]
    own: bool
    first: list[RequestLineJson]


class NextJson(TypedDict):
    """The request to look at next, null when there is none; and how many wait for the person's decision by now.

    `count` is how many of them are in the same line of the inbox as that request.
    """

    id: Id | None
    count: int
    waiting: int


class WaitingCountJson(TypedDict):
    """How many requests wait for the person's decision; of them, security changes and those assigned to the person."""

    waiting: int
    security: int
    assigned: int


@rest_operation(
    "change-requests.list-inbox", "GET change-requests/inbox", "List the inbox of change requests", permission=SIGNED_IN
)
def list_inbox(call: Call, *, query: ListInbox) -> Page[InboxLineJson]:
    """List change requests as an inbox: those asked for together in one line, the most urgent first.

    Those of one call are, and those that the same key asks for one by one in the same hour, if they are of the same
    operation and change the same attributes.
    """
    requests = _decidable(call) if query.decidable else visible_requests(call)
    if query.status != "any":
        requests = requests.filter(status=query.status)
    if query.status == Status.PENDING:
        requests = requests.filter(expires_at__gt=timezone.now())
    requests = query.narrow(requests, call)
    rows, order = _grouped(requests, query.sort)
    page = page_of(call, rows, query=query, order=order, render=lambda row: row)
    found = page["items"]
    if query.and_oldest and page["nextCursor"] is not None:
        rows, order = _grouped(requests, "oldest")
        known = {row.group for row in found}
        found += [row for row in rows.order_by(*order)[:1] if row.group not in known]
    return {**page, "items": _lines_of(call, requests, found)}


def _grouped(requests: QuerySet[ChangeRequest], order: Order) -> tuple[QuerySet[Any, Any], tuple[str, ...]]:
    """The groups of requests as rows with sort columns and counts by risk; and the columns to order them by."""
    columns = _columns_of(order)
    lines = (
        requests.order_by()
        .annotate(group=LINE)
        .values("group")
        .annotate(
            **{name: Max(column) if name == "newest" else Min(column) for name, column in columns.items()},
            count=Count("id"),
            targets=Count("target_dn", distinct=True),
            **{risk.value: Count("id", filter=Q(risk=risk.value)) for risk in Risk},
        )
    )
    rows = lines.values_list("group", *columns, "count", "targets", *(risk.value for risk in Risk), named=True)
    return rows, (*_ORDERS[order], "group")


def _columns_of(order: Order) -> dict[str, Any]:
    """The columns that an order needs: what a query does not need takes time, too."""
    return {name: _SORT_COLUMNS[name] for name in (each.lstrip("-") for each in _ORDERS[order])}


def _lines_of(call: Call, requests: QuerySet[ChangeRequest], groups: Sequence[Any]) -> list[InboxLineJson]:
    """The lines for rows of `_grouped`, each with some of its requests, read in one query."""
    if not groups:
        return []
    wanted = [row.group for row in groups]
    numbered = requests.annotate(group=LINE).filter(group__in=wanted)
    numbered = numbered.annotate(
        number=Window(RowNumber(), partition_by=["group"], order_by=[_RANK.asc(), F("id").asc()])
    )
    first: dict[str, list[ChangeRequest]] = defaultdict(list)
    for request in numbered.filter(number__lte=_SHOWN_OF_GROUP).order_by("number"):
        first[request.group].append(request)
    render = renderer_for(call)
    return [
        {
            "count": row.count,
            "objects": row.targets,
            "risks": {risk: getattr(row, risk.value) for risk in Risk},
            "own": first[row.group][0].requester_id == call.person.id,
            "first": [line_as_json(call, request, render(request)) for request in first[row.group]],
        }
        for row in groups
        if row.group in first
    ]


@rest_operation(
    "change-requests.find-next", "GET change-requests/next", "Find the next change request", permission=DECIDE
)
def find_next(call: Call, *, query: FindNext) -> NextJson:
    """Find the next request that you may decide, in the order of the inbox; after the last one the first."""
    waiting = _decidable(call)
    after = find_visible(call, query.after) if query.after is not None else None
    found = _ids_of_next(query, query.narrow(waiting, call), after)
    conflicts = ConflictChecker()
    requests = waiting.in_bulk(found)
    decidable = (
        id
        for id in found
        if id in requests
        and conflicts.reason_against(call.person.id, requests[id]) is None
        and hidden_reason(call, requests[id]) is None
    )
    next_id = next(decidable, None)
    count = waiting.filter(id__in=in_line_of(requests[next_id]).values("id")).count() if next_id else 0
    return {"id": str(next_id) if next_id else None, "count": count, "waiting": waiting.count()}


def _ids_of_next(query: FindNext, requests: QuerySet[ChangeRequest], after: ChangeRequest | None) -> list[UUID]:
    """The next requests: those behind `after` or, if there are none, the first ones; at most _MAX_CANDIDATES."""
    names = (*_ORDERS[query.sort], "id")
    if query.backwards:
        names = tuple(name[1:] if name.startswith("-") else f"-{name}" for name in names)
    columns = _columns_of(query.sort)
    left_out = [UUID(each) for each in query.leave_out if each]
    if after is not None:
        left_out.append(after.id)
    ordered = requests.annotate(**columns).order_by(*names).exclude(id__in=left_out).values_list("id", flat=True)
    if after is not None:
        mine = ChangeRequest.objects.filter(id=after.id).annotate(**columns).values(*columns, "id").first()
        if mine and (behind := list(ordered.filter(rows_after(names, mine))[:_MAX_CANDIDATES])):
            return behind
    return list(ordered[:_MAX_CANDIDATES])


@rest_operation(
    "change-requests.count-waiting",
    "GET change-requests/waiting-count",
    "Count waiting change requests",
    permission=DECIDE,
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
    return decidable_by(visible_requests(call), call.person.id)
