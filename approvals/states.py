"""The states of a change request: the table of transitions, and the only function that moves one."""

from typing import Any
from uuid import UUID

from django.db import transaction

from approvals.messages import message_about
from approvals.models import ChangeRequest, Status
from approvals.secrets import deadline_from_now
from approvals.shapes import change_request_as_json
from audit.webhooks import events as webhooks

TRANSITIONS: dict[Status, frozenset[Status]] = {
    **{end: frozenset() for end in Status},  # those without a line of their own are final
    # Scheduled: it was approved before its time.
    Status.PENDING: frozenset({Status.APPROVED, Status.SCHEDULED, Status.REJECTED, Status.EXPIRED, Status.CANCELLED}),
    # Failed: no worker applied it in time.
    Status.APPROVED: frozenset({Status.APPLYING, Status.FAILED}),
    # Back to approved, or to scheduled or overdue for an end: nothing was written, since the directory was away or the
    # worker was lost before it wrote. Superseded: the values were changed for good, or it has to be approved by now.
    Status.APPLYING: frozenset(
        {
            *(Status.APPLIED, Status.PARTLY_FAILED, Status.FAILED, Status.STALE, Status.UNKNOWN, Status.APPROVED),
            *(Status.SCHEDULED, Status.OVERDUE, Status.SUPERSEDED),
        }
    ),
    # Approved: its time has come. Cancelled: withdrawn, or the change that it ends was not made.
    Status.SCHEDULED: frozenset({Status.APPROVED, Status.APPLYING, Status.SUPERSEDED, Status.CANCELLED}),
    Status.OVERDUE: frozenset({Status.APPLYING, Status.SUPERSEDED, Status.CANCELLED}),
    # Settled with the record of the write; a change that was not written becomes approved again.
    Status.UNKNOWN: frozenset({Status.APPLIED, Status.FAILED, Status.APPROVED}),
}

NEEDS_INPUT = frozenset(
    {Status.PENDING, Status.APPROVED, Status.APPLYING, Status.UNKNOWN, Status.SCHEDULED, Status.OVERDUE}
)
"""The states in which the change may still be made. In all others its input, secrets included, is erased."""

ANNOUNCED = frozenset(
    {
        *(Status.APPROVED, Status.REJECTED, Status.EXPIRED),
        *(Status.APPLIED, Status.PARTLY_FAILED, Status.FAILED, Status.STALE, Status.OVERDUE),
    }
)
"""The states that the requester is notified of (`approvals.review.notifications`)."""

NO_NEWS = frozenset({(Status.APPLYING, Status.APPROVED), (Status.UNKNOWN, Status.APPROVED)})
"""Transitions back to approved, which nobody needs to hear of again."""

WITHDRAWN = frozenset({Status.CANCELLED, Status.EXPIRED})
"""The states of requests that ended without a decision."""


def retry_after(status: str) -> int | None:
    """In how many seconds it is worth asking again about a request in this state; None when it has ended.

    A person takes longer to decide than a worker to apply what was decided, and what is scheduled waits for its time.
    """
    if not TRANSITIONS[Status(status)]:
        return None
    return _ASK_AGAIN_AFTER.get(Status(status), 2)


_ASK_AGAIN_AFTER = {Status.PENDING: 15, Status.SCHEDULED: 60, Status.OVERDUE: 60}


def move(request_id: UUID, from_: Status, to: Status, *, if_attempt: int | None = None, **fields: Any) -> bool:
    """Move a request if it is in state `from_` (and in that attempt at applying it); return whether it was.

    One conditional UPDATE, a compare-and-swap: of many processes that try, one succeeds. Raises ValueError for a
    transition that is not in the table.
    """
    if to not in TRANSITIONS[from_]:
        raise ValueError(f"a change request does not go from {from_} to {to}")
    if to not in NEEDS_INPUT:
        fields |= {"input": "", "retry_at": None}
    if to in ANNOUNCED and (from_, to) not in NO_NEWS:
        fields.setdefault("to_announce", True)
    if to is Status.APPLIED:
        fields["secret_until"] = deadline_from_now()
    elif to in (Status.FAILED, Status.APPROVED):  # the generated password was never set
        fields |= {"secret": "", "secret_until": None}
    requests = ChangeRequest.objects.filter(id=request_id, status=from_)
    if if_attempt is not None:
        requests = requests.filter(attempt=if_attempt)
    with transaction.atomic():
        moved = requests.update(status=to, **fields) == 1
        if moved:
            publish(ChangeRequest.objects.defer("input", "secret").get(id=request_id))
    return moved


def publish(change_request: ChangeRequest) -> None:
    """Tell subscribed webhooks about a request's new state; joins the caller's transaction."""
    is_end = change_request.ends is not None
    webhooks.enqueue_change_request(
        "reverted" if is_end and change_request.status == Status.APPLIED else change_request.status,
        lambda: change_request_as_json(change_request),
        lambda: message_about(change_request),
    )
