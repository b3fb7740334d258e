"""Change requests: reading and cancelling one's own, and deciding those of others (only in the console)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, cast
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from pydantic import AfterValidator, Field
from pydantic.alias_generators import to_camel

from approvals import secrets, statistics
from approvals.errors import AskedElsewhere
from approvals.models import ChangeRequest, Status
from approvals.review import decisions
from approvals.review.deciders import (
    conflict_reason,
    find_deciders,
    hidden_reason,
    is_inside_scopes,
    requests_in_scopes,
)
from approvals.review.unusual import unusual_facts
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
from approvals.states import retry_after
from core.call import Call, Surface
from core.database import own_rows
from core.errors import Forbidden, NotFound
from core.operation import SIGNED_IN, Effect, Risk, administration, find_operation, operation, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import example, parse_guid, render_timestamp
from core.text.messages import message
from directory.lookup.visibility import masker_for_change_requests
from keys.agents.scopes import WITHDRAW_ALL
from keys.models.agents import AgentGrant
from keys.sign_in.confirmation import (
    ConfirmedBody,
    DecisionBody,
    decision_purpose,
    needs_confirmation,
    needs_passkey,
)
from operations.waiting import AT_ONCE, WaitingQuery, wait_for_end

DECIDE = "approvals.decide_change"


def require_text(value: str) -> str:
    if not value.strip():
        raise ValueError(message("must not be blank"))
    return value


Comment = Annotated[str, Field(max_length=2000)]


class SearchChangeRequests(PageQuery):
    """The filter of the list."""

    status: Status | None = Field(None, description="Only requests in this state.")
    risk: Risk | None = Field(None, description="Only changes of this risk.")
    operation: str | None = Field(None, max_length=100, description="Only changes by this operation.")
    owner: str | None = Field(None, max_length=255, description="Only what this person's keys ask for.")
    target: UUID | None = Field(None, description="Only changes of this object (objectGUID).")


class ApproveChangeRequest(ConfirmedBody):
    """The decision to let a change be made."""

    model_config = example(digest="9f2c…", comment="Agreed with HR.")

    digest: Annotated[str, Field(description="The `digest` shown with the request, so that nobody approves another.")]
    comment: Comment | None = None

    def purpose(self, id: UUID | None) -> str:
        return decision_purpose("approve", [(id, self.digest)])


class RejectChangeRequest(DecisionBody):
    """The decision that a change must not be made."""

    model_config = example(comment="Ask the unit's owner first.")

    comment: Annotated[Comment, AfterValidator(require_text), Field(description="Why; the requester reads it.")]

    def purpose(self, id: UUID | None) -> str:
        return decision_purpose("reject", [(id, "")])


def visible_requests(call: Call) -> QuerySet[ChangeRequest]:
    """The caller's own requests, or in the console all of them if they may decide; without inputs and secrets.

    Confined callers see only requests whose target lies inside their scopes, by the name that it had then.
    """
    requests = _requests_for(call)
    return requests.filter(requests_in_scopes(call)) if call.scopes else requests


def _requests_for(call: Call) -> QuerySet[ChangeRequest]:
    """The same wherever their targets are."""
    requests = ChangeRequest.objects.defer("input", "secret")
    if call.surface is Surface.REST and call.may(DECIDE):
        return requests
    return requests.filter(requester_id=call.person.id)


def renderer_for(call: Call) -> Callable[[ChangeRequest], ChangeRequestJson]:
    """A function that renders requests with the values that the caller may see."""
    seen = masker_for_change_requests(call)

    def render(change_request: ChangeRequest) -> ChangeRequestJson:
        record = change_request_as_json(change_request)
        shown = [
            ProposedChangeJson(attribute=item["attribute"], current=item["before"], proposed=item["after"])
            for item in seen(change_request.directory_id, change_request.changes)
        ]
        if shown == record["changes"]:
            return record
        # Only references that the remaining values name: the others would reveal hidden objects.
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


@operation("change-requests.search", "GET change-requests", "Search change requests", permission=SIGNED_IN)
def search_change_requests(call: Call, *, query: SearchChangeRequests) -> Page[ChangeRequestJson]:
    """List change requests, newest first: your own, and in the console all of them if you may decide."""
    requests = own_rows.filter_optional(
        visible_requests(call),
        status=query.status,
        risk=query.risk,
        operation=query.operation,
        requester=query.owner,
        target_id=query.target,
    )
    return page_of(call, requests, query=query, order=("-id",), render=renderer_for(call))


@rest_operation(
    "change-requests.read-statistics",
    "GET change-requests/statistics",
    "Read the statistics of change requests",
    permission=DECIDE,
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


@operation("change-requests.read", "GET change-requests/{id}", "Read {a change request}", permission=SIGNED_IN)
def read_change_request(call: Call, *, id: UUID, query: WaitingQuery = AT_ONCE) -> ChangeRequestJson:
    """Read one change request with its current and proposed values.

    With `wait` the answer comes when the request has ended, or after so many seconds: then `Retry-After` says when to
    ask again. Few requests can wait at a time, one of a credential; others are answered at once.
    """
    found = wait_for_end(
        lambda: find_visible(call, id),
        has_ended=lambda request: retry_after(request.status) is None,
        query=query,
        credential=call.credential.unique_id,
    )
    return renderer_for(call)(found)


def find_visible(call: Call, request_id: UUID) -> ChangeRequest:
    """The request, if the caller may see it; raises NotFound, also for a confined caller if its target has left."""
    request = own_rows.find(_requests_for(call), id=request_id)
    if call.scopes and not is_inside_scopes(call, request):
        raise NotFound
    return request


def require_decidable(call: Call, request_id: UUID) -> None:
    """Refuse a confined caller who does not see the whole request; raises NotFound or Forbidden."""
    if call.scopes and hidden_reason(call, find_visible(call, request_id)):
        raise Forbidden


@rest_operation(
    "change-requests.read-review",
    "GET change-requests/{id}/review",
    "Read {a change request} for its review",
    permission=SIGNED_IN,
)
def read_review(call: Call, *, id: UUID) -> ReviewJson:
    """Read a change request with what its approver has to know, and what you may do with it now."""
    change_request = find_visible(call, id)
    own = change_request.requester_id == call.person.id
    is_open = change_request.status == Status.PENDING and change_request.expires_at > timezone.now()
    barred = None
    if is_open and not own and call.may(DECIDE):
        barred = conflict_reason(call.person.id, change_request) or hidden_reason(call, change_request)
    may_decide = is_open and not own and call.may(DECIDE) and barred is None
    approved_first = change_request.first_approved_by_id
    two = decisions.needs_two(change_request)
    may_approve = may_decide and not (two and approved_first == call.person.id)
    secret_until = change_request.secret_until if secrets.may_take(call.person.id, change_request) else None
    return {
        **line_as_json(call, change_request, renderer_for(call)(change_request)),
        "summary": _summary_of(change_request.operation),
        "riskReasons": change_request.risk_sentences(confined=bool(call.scopes)),
        "clientAddress": change_request.client_address,
        "requestId": change_request.request_id,
        "approvalsNeeded": (2 if two and approved_first is None else 1) if is_open else 0,
        "own": own,
        "mayApprove": may_approve,
        "mayReject": may_decide,
        "mayCancel": is_open and own,
        "barred": barred,
        "deciders": find_deciders(change_request) if barred else [],
        "codeNeeded": may_approve and needs_confirmation(call.person.id),
        "passkeyNeeded": may_decide and needs_passkey(call, change_request.risk),
        "unusual": unusual_facts(change_request) if is_open and call.may(DECIDE) and not call.scopes else [],
        "secretUntil": render_timestamp(secret_until),
        "secretForRequester": change_request.secret_for_requester,
    }


def _summary_of(operation: str) -> str:
    """The operation's summary; empty for one that no longer exists."""
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
)
def cancel_change_request(call: Call, *, id: UUID) -> ChangeRequestJson:
    """Withdraw a change request of your own that nobody has decided yet."""
    request = find_visible(call, id)
    if call.credential.withdraws_own_only:  # an agent; what it asked for under an earlier consent is its own, too
        asking = parse_guid(request.key_id) if request.agent else None
        if asking is None or not AgentGrant.objects.filter(pk=asking, client__client_id=call.credential.id).exists():
            raise AskedElsewhere(frozenset({WITHDRAW_ALL}))
    return renderer_for(call)(decisions.cancel(call.person, id))


@administration(
    "change-requests.approve", "POST change-requests/{id}/approve", "Approve {a change request}", permission=DECIDE
)
def approve_change_request(call: Call, *, id: UUID, body: ApproveChangeRequest) -> ChangeRequestJson:
    """Approve somebody else's change request; a worker then makes the change.

    Where the configuration asks for two approvals of changes of protected objects (`Approvals:ProtectedNeedsTwo`), the
    first one is kept as `firstApproval` and the request stays pending until a second person approves it too.
    """
    require_decidable(call, id)
    return renderer_for(call)(decisions.approve(call, id, digest=body.digest, comment=body.comment))


@administration(
    "change-requests.reject", "POST change-requests/{id}/reject", "Reject {a change request}", permission=DECIDE
)
def reject_change_request(call: Call, *, id: UUID, body: RejectChangeRequest) -> ChangeRequestJson:
    """Reject somebody else's change request, saying why."""
    require_decidable(call, id)
    return renderer_for(call)(decisions.reject(call, id, comment=body.comment))


@administration(
    "change-requests.reveal-secret",
    "POST change-requests/{id}/secret",
    "Reveal the password generated for {a change request}",
    permission=SIGNED_IN,
)
def reveal_secret(call: Call, *, id: UUID) -> GivenSecret:
    """Get the password that was generated for a change you approved: once, within 24 hours.

    Where the key that asked says so (`passwordsToRequester`), or nobody had to approve a change for later, it is for
    the requester instead. 409 while the change is not applied yet; 404 when there is none (any more); 403 for everybody
    else.
    """
    if not call.may(DECIDE) and not visible_requests(call).filter(id=id, secret_for_requester=True).exists():
        raise Forbidden
    require_decidable(call, id)
    return {"generatedPassword": secrets.take(call.person, id)}
