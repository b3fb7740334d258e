"""Passwords generated for approved changes: kept before they are set, handed out once, wiped after a day.

The approver gets the password, or the requester instead if the key says so or nobody had to approve; nobody else ever
does.

It is generated when the change is applied. A password that the requester chose is part of the request's input.
"""

from datetime import timedelta
from uuid import UUID

from django.db.models import Case, DateTimeField, Q, Value, When

from approvals.models import ChangeRequest, Status
from core.call import PersonRef
from core.database import own_rows, shared_clock
from core.errors import Conflict, Forbidden, NotFound, ServiceUnavailable
from core.text.messages import message

KEPT_FOR = timedelta(hours=24)
"""How long a password can be taken, from the moment when the change is known to be applied."""

_STILL_OPEN = frozenset({Status.APPROVED, Status.APPLYING, Status.UNKNOWN})


def keep(request_id: UUID, secret: str) -> None:
    """Keep the password that an approved change is about to set, encrypted: if it were lost, nobody could sign in.

    Raises ServiceUnavailable if the request is no longer being applied; the caller must then write nothing.
    """
    applying = ChangeRequest.objects.filter(id=request_id, status=Status.APPLYING)
    if applying.update(secret=secret, secret_until=shared_clock.now() + KEPT_FOR) != 1:
        raise ServiceUnavailable(message("The approved change is not being applied any more."))


def deadline_from_now() -> Case:
    """For an UPDATE: the deadline for taking the password, counted from now; null if there is no password."""
    until = Value(shared_clock.now() + KEPT_FOR, DateTimeField())
    return Case(When(secret_until__isnull=False, then=until), default=None, output_field=DateTimeField())


def may_take(person_id: int | None, change_request: ChangeRequest) -> bool:
    """Whether the person would get a generated password now."""
    until = change_request.secret_until
    return (
        _recipient_id(change_request) == person_id
        and change_request.status == Status.APPLIED
        and until is not None
        and until > shared_clock.now()
    )


def takeable_by(person_id: int | None) -> Q:
    """The condition that selects the requests whose generated password the person would get now (`may_take`)."""
    recipient = Q(secret_for_requester=True, requester_id=person_id) | Q(
        secret_for_requester=False, decided_by_id=person_id
    )
    return recipient & Q(status=Status.APPLIED, secret_until__gt=shared_clock.now())


def _recipient_id(change_request: ChangeRequest) -> int | None:
    """The id of the person who may take the generated password."""
    return change_request.requester_id if change_request.secret_for_requester else change_request.decided_by_id


def take(person: PersonRef, request_id: UUID) -> str:
    """Hand the generated password to the person who may take it, and erase it.

    Raises NotFound (also if it was taken, wiped or never generated), Forbidden for everybody else, and Conflict while
    the change is not applied yet. Call it in the transaction in which the log records who took it.
    """
    change_request = own_rows.find(ChangeRequest.objects.defer("input", "secret"), id=request_id)
    if _recipient_id(change_request) != person.id:
        raise Forbidden
    if change_request.status in _STILL_OPEN:
        raise Conflict(message("The change is not applied yet."))
    available = ChangeRequest.objects.filter(id=request_id, status=Status.APPLIED, secret_until__gt=shared_clock.now())
    secret = available.values_list("secret", flat=True).first()
    if secret is None or available.update(secret="", secret_until=None) != 1:  # of two simultaneous calls, one gets it
        raise NotFound(
            message("No password is kept here: none was generated, it was given already, or its 24 hours are over.")
        )
    return secret


def wipe_overdue() -> int:
    """Erase the passwords that nobody took in time; return how many."""
    overdue = ChangeRequest.objects.filter(status=Status.APPLIED, secret_until__lte=shared_clock.now())
    return overdue.update(secret="", secret_until=None)
