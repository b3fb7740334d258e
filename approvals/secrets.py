"""A generated password on its way to the person who approved it: kept before it is set, given once, wiped after a day.

Where the key says so it is the requester's instead, and not the approver's any more: nobody else is ever told.

It is generated when the approved change is applied; what a requester sends is a part of the request's input.
"""

from datetime import timedelta
from uuid import UUID

from django.db.models import Case, DateTimeField, Value, When

from approvals.models import ChangeRequest, Status
from core.call import PersonRef
from core.database import shared_clock
from core.errors import Conflict, Forbidden, NotFound, ServiceUnavailable
from core.text.messages import message

KEPT_FOR = timedelta(hours=24)
"""How long the approver has, from the moment the change is known to be applied."""

_STILL_OPEN = frozenset({Status.APPROVED, Status.APPLYING, Status.UNKNOWN})


def keep(request_id: UUID, secret: str) -> None:
    """Keep what an approved change is about to set, encrypted: were it lost afterwards, nobody could sign in.

    Raises ServiceUnavailable when the request is not being applied (any more): then nothing must be written.
    """
    applying = ChangeRequest.objects.filter(id=request_id, status=Status.APPLYING)
    if applying.update(secret=secret, secret_until=shared_clock.now() + KEPT_FOR) != 1:
        raise ServiceUnavailable(message("The approved change is not being applied any more."))


def deadline_from_now() -> Case:
    """For an UPDATE: the approver's time begins now, if there is something to be given."""
    until = Value(shared_clock.now() + KEPT_FOR, DateTimeField())
    return Case(When(secret_until__isnull=False, then=until), default=None, output_field=DateTimeField())


def may_take(person_id: int | None, change_request: ChangeRequest) -> bool:
    """Whether this person would be given a password now."""
    until = change_request.secret_until
    return (
        _taker_of(change_request) == person_id
        and change_request.status == Status.APPLIED
        and until is not None
        and until > shared_clock.now()
    )


def _taker_of(change_request: ChangeRequest) -> int | None:
    """Whom a generated password is for, by the person's id."""
    return change_request.requester_id if change_request.secret_for_requester else change_request.decided_by_id


def take(person: PersonRef, request_id: UUID) -> str:
    """The generated password of a request that is this person's to take; from then on it is gone.

    Raises NotFound (for one that was given, wiped or never generated, too), Forbidden for everybody else, and Conflict
    while the change is not applied yet. To be called in the transaction in which the log says who took it.
    """
    change_request = ChangeRequest.objects.defer("input", "secret").filter(id=request_id).first()
    if change_request is None:
        raise NotFound
    if _taker_of(change_request) != person.id:
        raise Forbidden
    if change_request.status in _STILL_OPEN:
        raise Conflict(message("The change is not applied yet."))
    available = ChangeRequest.objects.filter(id=request_id, status=Status.APPLIED, secret_until__gt=shared_clock.now())
    secret = available.values_list("secret", flat=True).first()
    if secret is None or available.update(secret="", secret_until=None) != 1:  # of two at once, one gets it
        raise NotFound(
            message("No password is kept here: none was generated, it was given already, or its 24 hours are over.")
        )
    return secret


def wipe_overdue() -> int:
    """Forget the passwords that nobody came for; how many."""
    overdue = ChangeRequest.objects.filter(status=Status.APPLIED, secret_until__lte=shared_clock.now())
    return overdue.update(secret="", secret_until=None)
