"""Deciding a change request: approve, reject, cancel. The operations and Django admin both come here."""

import hmac
from functools import partial
from typing import NoReturn
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from approvals.errors import AlreadyDecided, Changed, NotPending, OwnRequest
from approvals.models import ChangeRequest, Status
from approvals.queue import nudge
from approvals.states import WITHDRAWN, move
from gateway.core.call import PersonRef
from gateway.core.errors import NotFound


def find_request(request_id: UUID) -> ChangeRequest:
    """The request without its input, which is the worker's alone, and without its secret; raises NotFound."""
    change_request = ChangeRequest.objects.defer("input", "secret").filter(id=request_id).first()
    if change_request is None:
        raise NotFound
    return change_request


def approve(person: PersonRef, request_id: UUID, *, digest: str, comment: str | None = None) -> ChangeRequest:
    """Approve a pending request of somebody else, which must be the one that was shown, and tell a worker.

    Raises NotFound, OwnRequest, NotPending, AlreadyDecided or Changed, looked for in this order.
    """
    change_request = _find_undecided(person, request_id)
    if not hmac.compare_digest(change_request.digest.encode(), digest.encode()):
        raise Changed
    decided = _decide(person, change_request, Status.APPROVED, comment)
    transaction.on_commit(partial(nudge, request_id))
    return decided


def reject(person: PersonRef, request_id: UUID, *, comment: str) -> ChangeRequest:
    """Reject a pending request of somebody else; raises NotFound, OwnRequest, NotPending or AlreadyDecided."""
    return _decide(person, _find_undecided(person, request_id), Status.REJECTED, comment)


def cancel(person: PersonRef, request_id: UUID) -> ChangeRequest:
    """Withdraw a pending request of one's own; raises NotFound (others' too), NotPending or AlreadyDecided."""
    change_request = find_request(request_id)
    if change_request.requester_id != person.id:
        raise NotFound
    _require_pending(change_request)
    if not move(request_id, Status.PENDING, Status.CANCELLED):
        _refuse(find_request(request_id))
    return find_request(request_id)


def _find_undecided(person: PersonRef, request_id: UUID) -> ChangeRequest:
    change_request = find_request(request_id)
    if change_request.requester_id == person.id:
        raise OwnRequest
    _require_pending(change_request)
    return change_request


def _require_pending(change_request: ChangeRequest) -> None:
    """Refuse what is not to be decided any more. An overdue request counts as expired before the sweep marks it so."""
    if change_request.status != Status.PENDING:
        _refuse(change_request)
    if change_request.expires_at <= timezone.now():
        raise NotPending


def _decide(person: PersonRef, change_request: ChangeRequest, decision: Status, comment: str | None) -> ChangeRequest:
    decided = move(
        change_request.id,
        Status.PENDING,
        decision,
        decided_by_id=person.id,
        decided_by=person.username,
        decided_at=timezone.now(),
        comment=comment,
    )
    after = find_request(change_request.id)
    if not decided:  # somebody else was faster
        _refuse(after)
    return after


def _refuse(change_request: ChangeRequest) -> NoReturn:
    if change_request.status in WITHDRAWN:
        raise NotPending
    raise AlreadyDecided
