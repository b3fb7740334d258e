"""Deciding a change request: approve, reject, cancel."""

import hmac
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn
from uuid import UUID

from django.conf import settings
from django.db import transaction

from approvals.errors import AlreadyDecided, Changed, NotPending, OwnRequest, PasskeyNeeded
from approvals.models import ChangeRequest, Status
from approvals.queue import enqueue
from approvals.review.deciders import ConflictChecker
from approvals.states import WITHDRAWN, move
from core.call import Call, PersonRef
from core.database import own_rows, shared_clock
from core.errors import NotFound
from core.text.messages import message
from keys.sign_in.confirmation import needs_passkey


def find_request(request_id: UUID, *, with_input: bool = False) -> ChangeRequest:
    """The request without its secret, and with its input only on demand; raises NotFound."""
    hidden = ("secret",) if with_input else ("input", "secret")
    return own_rows.find(ChangeRequest.objects.defer(*hidden), id=request_id)


def find_requests(ids: Sequence[UUID]) -> list[ChangeRequest]:
    """The requests with these ids that exist, with their input but no secret, by id."""
    return list(ChangeRequest.objects.defer("secret").filter(id__in=ids).order_by("id"))


def approve(
    call: Call,
    request_id: UUID,
    *,
    digest: str,
    comment: str | None = None,
    conflicts: ConflictChecker | None = None,
) -> ChangeRequest:
    """Approve somebody else's pending request, provided that `digest` is the request's, and tell a worker.

    If two people have to approve, the first approval is kept and the request stays pending.
    Raises NotFound, OwnRequest, NotPending, PasskeyNeeded, AlreadyDecided or Changed.
    """
    person, change_request = call.person, _find_decidable(call, request_id, conflicts)
    if needs_two(change_request) and change_request.first_approved_by_id == person.id:
        raise AlreadyDecided(message("You approved it already: somebody else has to approve it too."))
    _require_shown(change_request, digest)
    if needs_two(change_request) and change_request.first_approved_by_id is None:
        if _approve_first(person, request_id, comment):
            return find_request(request_id)
        # Somebody else was faster.
        return approve(call, request_id, digest=digest, comment=comment, conflicts=conflicts)
    if change_request.due_at is not None and change_request.due_at > shared_clock.now():
        return _decide(person, change_request, Status.SCHEDULED, comment, retry_at=change_request.due_at)
    decided = _decide(person, change_request, Status.APPROVED, comment)
    transaction.on_commit(partial(enqueue, request_id))
    return decided


def _require_shown(change_request: ChangeRequest, digest: str) -> None:
    if not hmac.compare_digest(change_request.digest.encode(), digest.encode()):
        raise Changed


def needs_two(change_request: ChangeRequest) -> bool:
    """Whether two different people have to approve the request."""
    return change_request.protected and settings.CONFIGURATION.Approvals.ProtectedNeedsTwo


def _approve_first(person: PersonRef, request_id: UUID, comment: str | None) -> bool:
    """Keep the first of two approvals; False if there is one already, or the request is no longer pending."""
    undecided = ChangeRequest.objects.filter(id=request_id, status=Status.PENDING, first_approved_by_id__isnull=True)
    kept = undecided.update(
        first_approved_by_id=person.id,
        first_approved_by=person.username,
        first_approved_at=shared_clock.now(),
        first_comment=comment,
        to_announce=True,
    )
    return kept == 1


def reject(
    call: Call,
    request_id: UUID,
    *,
    comment: str,
    digest: str | None = None,
    conflicts: ConflictChecker | None = None,
) -> ChangeRequest:
    """Reject somebody else's pending request; a `digest`, if given, must be the request's.

    Raises NotFound, OwnRequest, NotPending, PasskeyNeeded, AlreadyDecided or Changed.
    """
    change_request = _find_decidable(call, request_id, conflicts)
    if digest is not None:
        _require_shown(change_request, digest)
    return _decide(call.person, change_request, Status.REJECTED, comment)


def make_way(person: PersonRef, request_id: UUID, *, comment: str) -> ChangeRequest:
    """Reject somebody else's pending request for a new one in its place. That one waits, too: this takes no passkey.

    Raises NotFound, OwnRequest, NotPending or AlreadyDecided.
    """
    return _decide(person, _find_undecided(person, request_id), Status.REJECTED, comment)


def cancel(person: PersonRef, request_id: UUID) -> ChangeRequest:
    """Withdraw the person's own request that waits for a decision or for its time.

    Raises NotFound (also for others'), NotPending or AlreadyDecided.
    """
    change_request = find_request(request_id)
    if change_request.requester_id != person.id:
        raise NotFound
    if change_request.ends is not None:
        raise NotPending(message("This is the end of a temporary change: to keep the change, move its end (`extend`)."))
    if change_request.status != Status.SCHEDULED:
        require_pending(change_request)
    if not move(request_id, Status(change_request.status), Status.CANCELLED):
        _refuse(find_request(request_id))
    return find_request(request_id)


def _find_decidable(call: Call, request_id: UUID, conflicts: ConflictChecker | None) -> ChangeRequest:
    """The request, if the caller may decide it: every decision is about one found here."""
    change_request = _find_undecided(call.person, request_id, conflicts)
    if needs_passkey(call, change_request.risk):
        raise PasskeyNeeded
    return change_request


def _find_undecided(person: PersonRef, request_id: UUID, conflicts: ConflictChecker | None = None) -> ChangeRequest:
    change_request = find_request(request_id)
    if change_request.requester_id == person.id:
        raise OwnRequest
    if why := (conflicts or ConflictChecker()).reason_against(person.id, change_request):
        raise OwnRequest(why)
    require_pending(change_request)
    return change_request


def require_pending(change_request: ChangeRequest) -> None:
    """Refuse a request that is no longer pending. An overdue one counts as expired before the sweep marks it."""
    if change_request.status != Status.PENDING:
        _refuse(change_request)
    if change_request.expires_at <= shared_clock.now():
        raise NotPending


def _decide(
    person: PersonRef, change_request: ChangeRequest, decision: Status, comment: str | None, **fields: Any
) -> ChangeRequest:
    decided = move(
        change_request.id,
        Status.PENDING,
        decision,
        decided_by_id=person.id,
        decided_by=person.username,
        decided_at=shared_clock.now(),
        comment=comment,
        **fields,
    )
    after = find_request(change_request.id)
    if not decided:  # somebody else was faster
        _refuse(after)
    return after


def _refuse(change_request: ChangeRequest) -> NoReturn:
    if change_request.status in WITHDRAWN:
        raise NotPending
    raise AlreadyDecided
