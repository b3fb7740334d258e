"""The life of a change request."""

import itertools
from uuid import uuid4

import pytest

from approvals.models import ChangeRequest, Status
from approvals.states import NEEDS_INPUT, TRANSITIONS, move
from tests.approvals.proposals import hold

pytestmark = pytest.mark.django_db

ALLOWED = {
    ("pending", "approved"), ("pending", "rejected"), ("pending", "expired"), ("pending", "cancelled"),
    ("approved", "applying"), ("approved", "failed"),
    ("applying", "applied"), ("applying", "partly-failed"), ("applying", "failed"), ("applying", "unknown"),
    ("applying", "stale"),
    ("applying", "approved"),
    ("pending", "scheduled"), ("scheduled", "approved"), ("scheduled", "applying"), ("scheduled", "cancelled"),
    ("scheduled", "superseded"), ("applying", "scheduled"), ("applying", "overdue"), ("applying", "superseded"),
    ("overdue", "applying"), ("overdue", "cancelled"), ("overdue", "superseded"),
    ("unknown", "applied"), ("unknown", "failed"), ("unknown", "approved"),
}  # fmt: skip


def test_every_state_is_in_the_table() -> None:
    assert set(TRANSITIONS) == set(Status)


@pytest.mark.parametrize(("from_", "to"), list(itertools.product(Status, Status)))
def test_transitions(from_: Status, to: Status) -> None:
    change_request = hold()
    ChangeRequest.objects.filter(id=change_request.id).update(status=from_)
    if (from_, to) not in ALLOWED:
        with pytest.raises(ValueError, match="does not go"):
            move(change_request.id, from_, to)
        return
    other = Status.REJECTED if from_ is not Status.REJECTED else Status.PENDING
    ChangeRequest.objects.filter(id=change_request.id).update(status=other)
    assert not move(change_request.id, from_, to), "it is not in that state"
    ChangeRequest.objects.filter(id=change_request.id).update(status=from_)
    assert move(change_request.id, from_, to)
    change_request.refresh_from_db()
    assert change_request.status == to
    assert bool(change_request.input) is (to in NEEDS_INPUT), "the input is wiped at the end"


def test_an_attempt_that_is_over_moves_nothing() -> None:
    change_request = hold()
    ChangeRequest.objects.filter(id=change_request.id).update(status="applying", attempt=2)
    assert not move(change_request.id, Status.APPLYING, Status.FAILED, if_attempt=1)
    assert move(change_request.id, Status.APPLYING, Status.APPLIED, if_attempt=2)


def test_a_request_that_does_not_exist() -> None:
    assert not move(uuid4(), Status.PENDING, Status.CANCELLED)
