"""Change requests: seeing and cancelling one's own, and deciding those of others (in the console only)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, cast
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from pydantic import AfterValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from approvals import secrets, statistics
from approvals.models import ChangeRequest, Status
from approvals.review import decisions
from approvals.review.conflict_of_interest import conflict_reason, find_deciders
from approvals.review.scope_filter import HIDDEN, hides_something, require_fully_visible, within_reach
from approvals.shapes import (
    ChangeRequestJson,
    EndedJson,
    GivenSecret,
    ProposedChangeJson,
    ReviewJson,
    StatisticsJson,
    WaitingJson,
    change_request_as_json,
    line_as_json,
)
from core.call import Call, Surface
from core.errors import Forbidden, NotFound
from core.operation import SIGNED_IN, Effect, Risk, find_operation, operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, render_timestamp
from core.text.messages import message
from directory.lookup.visibility import requested_changes_seen_by
from keys.sign_in.confirmation import ConfirmedBody, is_needed

REST_ONLY = frozenset({Surface.REST})
DECIDE = "approvals.decide_change"


def require_text(value: str) -> str:
    if not value.strip():
        raise ValueError(message("must not be blank"))
    return value


Comment = Annotated[str, Field(max_length=2000)]


class SearchChangeRequests(PageQuery):
    """The filter of the list."""

    status: Annotated[Status | None, Field(description="Only requests in this state.")] = None
    risk: Annotated[Risk | None, Field(description="Only changes of this risk.")] = None
    operation: Annotated[str | None, Field(max_length=100, description="Only changes by this operation.")] = None
    owner: Annotated[str | None, Field(max_length=255, description="Only what this person's keys ask for.")] = None
    target: Annotated[UUID | None, Field(description="Only changes of this object (objectGUID).")] = None


class ApproveChangeRequest(ConfirmedBody):
    """The decision to let a change be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"digest": "9f2c…", "comment": "Agreed with HR."}]})

    digest: Annotated[str, Field(description="The `digest` shown with the request, so that nobody approves another.")]
    comment: Comment | None = None


class RejectChangeRequest(Body):
    """The decision that a change must not be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"comment": "Ask the unit's owner first."}]})

    comment: Annotated[Comment, AfterValidator(require_text), Field(description="Why; the requester reads it.")]


def visible_requests(call: Call) -> QuerySet[ChangeRequest]:
    """One's own requests; in the console all of them for who may decide. The input is the worker's alone.

    To whoever is confined only those whose target lies inside.
    """
    requests = ChangeRequest.objects.defer("input", "secret")
    if call.scopes:
        requests = requests.filter(within_reach(call))
    if call.surface is Surface.REST and call.may(DECIDE):
        return requests
    return requests.filter(requester_id=call.person.id)


def renderer_for(call: Call) -> Callable[[ChangeRequest], ChangeRequestJson]:
    """What makes a request as the caller may see it, with the values that the caller may see."""
    seen = requested_changes_seen_by(call)

    def render(change_request: ChangeRequest) -> ChangeRequestJson:
        record = change_request_as_json(change_request)
        shown = [
            ProposedChangeJson(attribute=item["attribute"], current=item["before"], proposed=item["after"])
            for item in seen(change_request.directory_id, change_request.changes)
        ]
        if shown == record["changes"]:
            return record
        # Of the objects that the values refer to, those that are named by what is left of them.
        named = {item["attribute"]: (*item["current"], *item["proposed"]) for item in shown}
        references = [
            reference
            for reference in record["references"]
            if any(reference["name"] in value for value in named.get(reference["attribute"], ()))
        ]
        return {**record, "changes": shown, "references": references, "problem": without_values(record["problem"])}

    return render


def without_values(problem: dict[str, Any] | None) -> dict[str, Any] | None:
    """A problem without the values that differed from those expected (`directory.changes.revert`)."""
    return problem and {name: value for name, value in problem.items() if name != "differences"}


@operation(
    "change-requests.search",
    "GET change-requests",
    "Search change requests",
    permission=SIGNED_IN,
    query=SearchChangeRequests,
    output=Page[ChangeRequestJson],
)
def search_change_requests(call: Call, *, query: SearchChangeRequests) -> Page[ChangeRequestJson]:
    """List change requests, newest first: your own, and in the console all of them if you may decide."""
    wanted = {
        "status": query.status,
        "risk": query.risk,
        "operation": query.operation,
        "requester": query.owner,
        "target_id": query.target,
    }
    requests = visible_requests(call).filter(**{name: value for name, value in wanted.items() if value is not None})
    return page_of(call, requests, query=query, order=("-id",), render=renderer_for(call))


@operation(
    "change-requests.read-statistics",
    "GET change-requests/statistics",
    "Read the statistics of change requests",
    permission=DECIDE,
    output=StatisticsJson,
    surfaces=REST_ONLY,
)
def read_statistics(call: Call) -> StatisticsJson:
    """Read what waits for a decision and since when, and how the changes of the last 30 days were decided."""
    since = timezone.now() - statistics.PERIOD
    seen = visible_requests(call)
    waiting = statistics.find_waiting(seen)
    ended = statistics.count_ended(seen, since)
    return {
        "waiting": cast(WaitingJson, {risk.value: count for risk, count in waiting.by_risk.items()}),
        "oldestWaitingSeconds": _seconds(waiting.oldest_age),
        "since": render_timestamp(since),
        "ended": cast(EndedJson, {to_camel(status.name.lower()): count for status, count in ended.items()}),
        "medianSecondsToDecide": _seconds(statistics.median_time_to_decide(seen, since)),
    }


def _seconds(time: timedelta | None) -> int | None:
    return None if time is None else round(time.total_seconds())


@operation(
    "change-requests.read",
    "GET change-requests/{id}",
    "Read {a change request}",
    permission=SIGNED_IN,
    output=ChangeRequestJson,
)
def read_change_request(call: Call, *, id: UUID) -> ChangeRequestJson:
    """Read one change request with its current and proposed values."""
    return renderer_for(call)(find_visible(call, id))


def find_visible(call: Call, request_id: UUID) -> ChangeRequest:
    """The request if the caller may see it; else NotFound."""
    change_request = visible_requests(call).filter(id=request_id).first()
    if change_request is None:
        raise NotFound
    return change_request


def require_decidable(call: Call, request_id: UUID) -> None:
    """Refuse a decision to who is confined and does not see the request, or not all of it. Others may decide any.

    Raises NotFound or Forbidden.
    """
    if call.scopes:
        require_fully_visible(call, find_visible(call, request_id))


@operation(
    "change-requests.read-review",
    "GET change-requests/{id}/review",
    "Read {a change request} for its review",
    permission=SIGNED_IN,
    output=ReviewJson,
    surfaces=REST_ONLY,
)
def read_review(call: Call, *, id: UUID) -> ReviewJson:
    """Read a change request with what its approver has to know, and what you may do with it now."""
    change_request = find_visible(call, id)
    own = change_request.requester_id == call.person.id
    is_open = change_request.status == Status.PENDING and change_request.expires_at > timezone.now()
    barred = None
    if is_open and not own and call.may(DECIDE):
        barred = conflict_reason(call.person.id, change_request) or why_hidden(call, change_request)
    may_decide = is_open and not own and call.may(DECIDE) and barred is None
    approved_first = change_request.first_approved_by_id
    two = decisions.needs_two(change_request)
    may_approve = may_decide and not (two and approved_first == call.person.id)
    secret_until = change_request.secret_until if secrets.may_take(call.person.id, change_request) else None
    return {
        **line_as_json(call, change_request, renderer_for(call)(change_request)),
        "summary": _summary(change_request.operation),
        "riskReasons": change_request.why_risky(confined=bool(call.scopes)),
        "clientAddress": change_request.client_address,
        "requestId": change_request.request_id,
        "approvalsNeeded": (2 if two and approved_first is None else 1) if is_open else 0,
        "own": own,
        "mayApprove": may_approve,
        "mayReject": may_decide,
        "mayCancel": is_open and own,
        "barred": barred,
        "deciders": find_deciders(change_request) if barred else [],
        "codeNeeded": may_approve and is_needed(call.person.id),
        "secretUntil": render_timestamp(secret_until),
        "secretForRequester": change_request.secret_for_requester,
    }


def why_hidden(call: Call, change_request: ChangeRequest) -> str | None:
    """In a sentence, why a confined caller may not decide a request that they see; None when they may."""
    return HIDDEN if hides_something(call, change_request) else None


def _summary(operation: str) -> str:
    """What the operation does in its own words; empty for one that this version does not have any more."""
    try:
        return find_operation(operation).summary
    except KeyError:
        return ""


@operation(
    "change-requests.cancel",
    "POST change-requests/{id}/cancel",
    "Cancel {a change request}",
    permission=SIGNED_IN,
    effect=Effect.ADMINISTER,
    output=ChangeRequestJson,
)
def cancel_change_request(call: Call, *, id: UUID) -> ChangeRequestJson:
    """Withdraw a change request of your own that nobody has decided yet."""
    find_visible(call, id)
    return renderer_for(call)(decisions.cancel(call.person, id))


@operation(
    "change-requests.approve",
    "POST change-requests/{id}/approve",
    "Approve {a change request}",
    permission=DECIDE,
    effect=Effect.ADMINISTER,
    body=ApproveChangeRequest,
    output=ChangeRequestJson,
    surfaces=REST_ONLY,
)
def approve_change_request(call: Call, *, id: UUID, body: ApproveChangeRequest) -> ChangeRequestJson:
    """Approve somebody else's change request; a worker then makes the change.

    Where the configuration asks for two approvals of changes of protected objects (`Approvals:ProtectedNeedsTwo`), the
    first one is kept as `firstApproval` and the request stays pending until a second person approves it too.
    """
    require_decidable(call, id)
    return renderer_for(call)(decisions.approve(call.person, id, digest=body.digest, comment=body.comment))


@operation(
    "change-requests.reject",
    "POST change-requests/{id}/reject",
    "Reject {a change request}",
    permission=DECIDE,
    effect=Effect.ADMINISTER,
    body=RejectChangeRequest,
    output=ChangeRequestJson,
    surfaces=REST_ONLY,
)
def reject_change_request(call: Call, *, id: UUID, body: RejectChangeRequest) -> ChangeRequestJson:
    """Reject somebody else's change request, saying why."""
    require_decidable(call, id)
    return renderer_for(call)(decisions.reject(call.person, id, comment=body.comment))


@operation(
    "change-requests.reveal-secret",
    "POST change-requests/{id}/secret",
    "Reveal the password generated for {a change request}",
    permission=SIGNED_IN,
    effect=Effect.ADMINISTER,
    output=GivenSecret,
    surfaces=REST_ONLY,
)
def reveal_secret(call: Call, *, id: UUID) -> GivenSecret:
    """Get the password that was generated for a change you approved: once, within 24 hours.

    Where the key that asked says so (`passwordsToRequester`) it is for its owner instead. 409 while the change is not
    applied yet; 404 when there is none (any more); 403 for everybody else.
    """
    if not call.may(DECIDE) and not visible_requests(call).filter(id=id, secret_for_requester=True).exists():
        raise Forbidden
    require_decidable(call, id)
    return {"generatedPassword": secrets.take(call.person, id)}
