"""Several change requests seen and decided together; each is decided, and recorded, by itself."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from django.db.models import Q, QuerySet
from django.utils import timezone
from pydantic import ConfigDict, Field, model_validator
from typing_extensions import Self, TypedDict

from approvals.models import ChangeRequest, Status
from approvals.review import decisions
from approvals.review.conflict_of_interest import ConflictChecker
from approvals.review.grouped_review import Member, exceptions_of, union_of
from approvals.shapes import ChangeRequestJson, TogetherItemJson, line_as_json
from audit import log
from audit.model_changes.descriptions import find_audited_model
from audit.model_changes.recording import recorded
from core.call import Call
from core.errors import GatewayError
from core.operation import SIGNED_IN, Effect, operation
from core.shapes import COMMA_SEPARATED, KEPT_PROBLEM, Body, Guid, Id, Query, documented_as
from core.text.messages import message
from directory.shapes.wording.change_words import change_facts
from keys.sign_in.confirmation import ConfirmedBody, is_needed, require_confirmation
from operations.approvals.change_requests.requests import (
    DECIDE,
    REST_ONLY,
    Comment,
    find_visible,
    renderer_for,
    require_decidable,
    visible_requests,
    why_hidden,
)

MOST = 500
"""So many requests are seen, and decided, at once."""


Ids = Annotated[tuple[Guid, ...], COMMA_SEPARATED, Field(max_length=MOST)]


class ReadTogether(Query):
    """Which requests: by their own ids, or all that the same call asked for as one of them."""

    ids: Annotated[Ids, Field(description="Requests, by id.")] = ()
    group_of: Annotated[Ids, Field(description="All requests that the same call asked for as each of these.")] = ()
    status: Annotated[Status | None, Field(description="Only those in this state.")] = None


class GivenValueJson(TypedDict):
    value: str
    count: int


class CommonJson(TypedDict):
    """An attribute that some of the changes write: in how many, and what they give it, the most frequent first.

    `distinct` is how many different values they give it.
    """

    attribute: str
    label: str
    count: int
    values: list[GivenValueJson]
    distinct: int


class TogetherJson(TypedDict):
    """Several requests, those that differ from the others first. `total` is how many there are, beyond the limit too.

    `statuses` counts them by status; `union` is everything that those shown would write. `codeNeeded` is whether
    approving takes a code of the reader's second factor: one for all of them.
    """

    total: int
    statuses: dict[Status, int]
    union: list[CommonJson]
    items: list[TogetherItemJson]
    truncated: bool
    codeNeeded: bool


@operation(
    "change-requests.read-together",
    "GET change-requests/together",
    "Read several change requests together",
    permission=SIGNED_IN,
    query=ReadTogether,
    output=TogetherJson,
    surfaces=REST_ONLY,
)
def read_together(call: Call, *, query: ReadTogether) -> TogetherJson:
    """Read several change requests together: everything they would change, and which are not like the others.

    At most 500 of them, the oldest first. Ids of requests that you may not see are left out.
    """
    chosen = chosen_requests(call, query)
    statuses: dict[Status, int] = {}
    for status in chosen.order_by().values_list("status", flat=True):
        statuses[Status(status)] = statuses.get(Status(status), 0) + 1
    shown = chosen if query.status is None else chosen.filter(status=query.status)
    rows = list(shown.order_by("id")[: MOST + 1])
    truncated, rows = len(rows) > MOST, rows[:MOST]
    render = renderer_for(call)
    rendered = [render(row) for row in rows]
    members = [_member(row, record) for row, record in zip(rows, rendered, strict=True)]
    differs = exceptions_of(members)
    conflicts = ConflictChecker(call.person.id)
    items = [
        _item(call, row, record, differs.get(row.id, []), conflicts) for row, record in zip(rows, rendered, strict=True)
    ]
    return {
        "total": sum(statuses.values()) if query.status is None else statuses.get(query.status, 0),
        "statuses": statuses,
        "union": [
            {
                "attribute": each.attribute,
                "label": each.label,
                "count": each.count,
                "values": [{"value": value, "count": count} for value, count in each.values],
                "distinct": each.distinct,
            }
            for each in union_of(members)
        ],
        "items": sorted(items, key=lambda item: not item["differs"]),
        "truncated": truncated,
        "codeNeeded": call.may(DECIDE) and is_needed(call.person.id),
    }


def chosen_requests(call: Call, query: ReadTogether) -> QuerySet[ChangeRequest]:
    """The requests that are meant, as far as the caller may see them."""
    visible = visible_requests(call)
    wanted = Q(id__in=query.ids)
    for member in visible.filter(id__in=query.group_of):
        wanted |= member.of_same_call()
    return visible.filter(wanted)


def _member(row: ChangeRequest, record: ChangeRequestJson) -> Member:
    change = change_facts(
        row.operation,
        record["changes"],
        distinguished_name=row.target_dn,
        kind=row.target_kind,
        references=record["references"],
        own=row.directory_id is None,
    )
    return Member(id=row.id, risk=row.risk, change=change)


def _item(
    call: Call, row: ChangeRequest, record: ChangeRequestJson, differs: list[str], conflicts: ConflictChecker
) -> TogetherItemJson:
    hindrance: str | None = None
    may_reject = False
    if row.status != Status.PENDING or row.expires_at <= timezone.now():
        hindrance = message("It does not wait any more.")
    elif row.requester_id == call.person.id:
        hindrance = message("It is your own request.")
    elif not call.may(DECIDE):
        hindrance = message("You do not decide changes.")
    elif why := conflicts.why(row) or why_hidden(call, row):
        hindrance = why
    else:
        may_reject = True
        if decisions.needs_two(row) and row.first_approved_by_id == call.person.id:
            hindrance = message("You approved it already: somebody else has to approve it too.")
    line = line_as_json(call, row, record)
    return {
        **line,
        "differs": differs,
        "mayApprove": hindrance is None,
        "mayReject": may_reject,
        "hindrance": hindrance,
    }


class OneDecision(Body):
    """A request with the `digest` that was shown with it."""

    id: Guid
    digest: Annotated[str, Field(max_length=128)]


class DecideTogether(ConfirmedBody):
    """One decision about several change requests."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "decision": "approve",
                    "changeRequests": [{"id": "0192f1c8-5b1e-7c44-9d0e-0f5f2f6a7b11", "digest": "9f2c…"}],
                    "comment": "Agreed with HR.",
                }
            ]
        }
    )

    decision: Literal["approve", "reject"]
    change_requests: Annotated[list[OneDecision], Field(min_length=1, max_length=MOST)]
    comment: Annotated[Comment | None, Field(description="For all of them. A rejection needs one.")] = None

    @model_validator(mode="after")
    def _require_reason(self) -> Self:
        if self.decision == "reject" and not (self.comment or "").strip():
            raise ValueError(message("a rejection needs a comment"))
        return self


class DecidedJson(TypedDict):
    """What became of one decision: the request's state, or why it was refused."""

    id: Id
    status: Annotated[str, documented_as(Status)] | None
    problem: Annotated[dict[str, Any], KEPT_PROBLEM] | None


class DecidedTogetherJson(TypedDict):
    """What became of each decision, in their order."""

    total: int
    succeeded: int
    failed: int
    results: list[DecidedJson]


@operation(
    "change-requests.decide",
    "POST change-requests/decide",
    "Decide several change requests",
    permission=DECIDE,
    effect=Effect.UNDERTAKE,
    body=DecideTogether,
    output=DecidedTogetherJson,
    surfaces=REST_ONLY,
)
def decide_together(call: Call, *, body: DecideTogether) -> DecidedTogetherJson:
    """Approve or reject several change requests with one comment; each is decided and recorded by itself.

    Every rule of a single decision holds for each of them: its digest, who may decide it, a second approval. One that
    is refused hinders no other. A code of the second factor is asked for once.
    """
    if body.decision == "approve":
        require_confirmation(call, body.code)
    comment = (body.comment or "").strip() or None
    results = [_decide(call, body.decision, each, comment) for each in _each_once(body.change_requests)]
    failed = sum(item["problem"] is not None for item in results)
    return {"total": len(results), "succeeded": len(results) - failed, "failed": failed, "results": results}


def _each_once(decided: Iterable[OneDecision]) -> Iterable[OneDecision]:
    return {item.id: item for item in decided}.values()


def _decide(call: Call, decision: Literal["approve", "reject"], item: OneDecision, comment: str | None) -> DecidedJson:
    """One of the decisions, in a transaction of its own with its record, as the operation of that name makes it."""
    name, table = f"change-requests.{decision}", find_audited_model("change-requests")
    try:
        find_visible(call, item.id)
        require_decidable(call, item.id)
        with recorded(call, operation=name) as administration:
            administration.watch(table, item.id)
            if decision == "approve":
                decided = decisions.approve(call.person, item.id, digest=item.digest, comment=comment)
            else:
                decided = decisions.reject(call.person, item.id, comment=comment or "", digest=item.digest)
    except GatewayError as refusal:
        target = log.TargetRef(id=item.id, kind=table.resource, distinguished_name="")
        log.record_refusal(call, operation=name, code=refusal.code, target=target)
        return {"id": str(item.id), "status": None, "problem": refusal.as_problem()}
    return {"id": str(item.id), "status": decided.status, "problem": None}
