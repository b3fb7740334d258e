"""Change requests: seeing and cancelling one's own, and deciding those of others (in the console only)."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from pydantic import AfterValidator, ConfigDict, Field

from approvals import decide, secrets, statistics
from approvals.models import ChangeRequest, Status
from approvals.shapes import ChangeRequestJson, GivenSecret, StatisticsJson, change_request_as_json
from gateway.core.call import Call, Surface
from gateway.core.errors import NotFound
from gateway.core.operation import SIGNED_IN, Effect, Risk, operation
from gateway.core.paging import Page, PageQuery, page_of
from gateway.core.shapes import Body, render_timestamp

REST_ONLY = frozenset({Surface.REST})
DECIDE = "approvals.decide_change"


def _require_text(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


Comment = Annotated[str, Field(max_length=2000)]


class SearchChangeRequests(PageQuery):
    """The filter of the list."""

    status: Annotated[Status | None, Field(description="Only requests in this state.")] = None


class ApproveChangeRequest(Body):
    """The decision to let a change be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"digest": "9f2c…", "comment": "Agreed with HR."}]})

    digest: Annotated[str, Field(description="The `digest` shown with the request, so that nobody approves another.")]
    comment: Comment | None = None


class RejectChangeRequest(Body):
    """The decision that a change must not be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"comment": "Ask the unit's owner first."}]})

    comment: Annotated[Comment, AfterValidator(_require_text), Field(description="Why; the requester reads it.")]


def _visible_requests(call: Call) -> QuerySet[ChangeRequest]:
    """One's own requests; in the console all of them for who may decide. The input is the worker's alone."""
    requests = ChangeRequest.objects.defer("input", "secret")
    if call.surface is Surface.REST and call.may(DECIDE):
        return requests
    return requests.filter(requester_id=call.person.id)


@operation(
    "change-requests.search",
    "GET change-requests",
    permission=SIGNED_IN,
    query=SearchChangeRequests,
    output=Page[ChangeRequestJson],
)
def search_change_requests(call: Call, *, query: SearchChangeRequests) -> Page[ChangeRequestJson]:
    """List change requests, newest first: your own, and in the console all of them if you may decide."""
    requests = _visible_requests(call)
    if query.status is not None:
        requests = requests.filter(status=query.status)
    return page_of(call, requests, query=query, order=("-id",), render=change_request_as_json)


@operation(
    "change-requests.read-statistics",
    "GET change-requests/statistics",
    permission=DECIDE,
    output=StatisticsJson,
    surfaces=REST_ONLY,
)
def read_statistics(call: Call) -> StatisticsJson:  # noqa: ARG001 - every operation takes its call
    """Read what waits for a decision and since when, and how the changes of the last 30 days were decided."""
    since = timezone.now() - statistics.PERIOD
    waiting = statistics.find_waiting()
    ended = statistics.count_ended(since)
    return {
        "waiting": {
            "ordinary": waiting.by_risk[Risk.ORDINARY],
            "destructive": waiting.by_risk[Risk.DESTRUCTIVE],
            "security": waiting.by_risk[Risk.SECURITY],
        },
        "oldestWaitingSeconds": _seconds(waiting.oldest_age),
        "since": render_timestamp(since),
        "ended": {
            "approved": ended[Status.APPROVED],
            "applying": ended[Status.APPLYING],
            "applied": ended[Status.APPLIED],
            "failed": ended[Status.FAILED],
            "unknown": ended[Status.UNKNOWN],
            "stale": ended[Status.STALE],
            "rejected": ended[Status.REJECTED],
            "expired": ended[Status.EXPIRED],
        },
        "medianSecondsToDecide": _seconds(statistics.median_time_to_decide(since)),
    }


def _seconds(time: timedelta | None) -> int | None:
    return None if time is None else round(time.total_seconds())


@operation("change-requests.read", "GET change-requests/{id}", permission=SIGNED_IN, output=ChangeRequestJson)
def read_change_request(call: Call, *, id: UUID) -> ChangeRequestJson:
    """Read one change request with its current and proposed values."""
    change_request = _visible_requests(call).filter(id=id).first()
    if change_request is None:
        raise NotFound
    return change_request_as_json(change_request)


@operation(
    "change-requests.cancel",
    "POST change-requests/{id}/cancel",
    permission=SIGNED_IN,
    effect=Effect.ADMINISTER,
    output=ChangeRequestJson,
)
def cancel_change_request(call: Call, *, id: UUID) -> ChangeRequestJson:
    """Withdraw a change request of your own that nobody has decided yet."""
    return change_request_as_json(decide.cancel(call.person, id))


@operation(
    "change-requests.approve",
    "POST change-requests/{id}/approve",
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
    return change_request_as_json(decide.approve(call.person, id, digest=body.digest, comment=body.comment))


@operation(
    "change-requests.reject",
    "POST change-requests/{id}/reject",
    permission=DECIDE,
    effect=Effect.ADMINISTER,
    body=RejectChangeRequest,
    output=ChangeRequestJson,
    surfaces=REST_ONLY,
)
def reject_change_request(call: Call, *, id: UUID, body: RejectChangeRequest) -> ChangeRequestJson:
    """Reject somebody else's change request, saying why."""
    return change_request_as_json(decide.reject(call.person, id, comment=body.comment))


@operation(
    "change-requests.reveal-secret",
    "POST change-requests/{id}/secret",
    permission=DECIDE,
    effect=Effect.ADMINISTER,
    output=GivenSecret,
    surfaces=REST_ONLY,
)
def reveal_secret(call: Call, *, id: UUID) -> GivenSecret:
    """Get the password that was generated for a change you approved: once, within 24 hours.

    409 while the change is not applied yet; 404 when there is none (any more); 403 for everybody but the approver.
    """
    return {"generatedPassword": secrets.take(call.person, id)}
