"""Two different people approve changes of protected objects, where the configuration asks for it."""

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from approvals import drift, queue
from approvals.models import ChangeRequest
from approvals.review import decisions
from core.call import PersonRef
from core.errors import GatewayError
from operations.approvals.change_requests import requests
from tests.approvals.proposals import APPROVER, IN_CONSOLE, hold, make_proposal
from tests.audit.calls import CALL, make_call
from tests.support.configuration import Configure

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

ALAN = PersonRef(id=9_000_010, username="alan", display_name="Alan Turing")
KATE = PersonRef(id=9_000_011, username="kate", display_name="Katherine Johnson")


@pytest.fixture(autouse=True)
def rule(configure: Configure) -> Callable[[bool], None]:
    """Whether changes of protected objects need two approvals."""

    def set_rule(is_on: bool) -> None:
        configure("Approvals", ProtectedNeedsTwo=is_on)

    set_rule(True)
    return set_rule


def approve(person: PersonRef, held: ChangeRequest, **more: Any) -> ChangeRequest:
    return decisions.approve(make_call(person=person), held.id, **{"digest": held.digest, **more})


def refused(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(GatewayError) as refusal:
        function(*args, **kwargs)
    assert refusal.value.status == 409
    return refusal.value.code


@pytest.mark.django_db(transaction=True)
def test_it_works(enqueued: list[Any]) -> None:
    held = hold(protected=True)
    first = approve(APPROVER, held, comment="Fine with me")
    assert (first.status, first.digest, first.decided_by) == ("pending", held.digest, None)
    assert enqueued == [], "nothing is applied yet"
    shown = requests.read_change_request(IN_CONSOLE, id=held.id)
    assert shown["firstApproval"] == {"by": "grace", "at": shown["firstApproval"]["at"], "comment": "Fine with me"}
    assert shown["decidedBy"] is None
    review = requests.read_review(IN_CONSOLE, id=held.id)
    assert (review["approvalsNeeded"], review["mayApprove"], review["mayReject"]) == (1, False, True)
    second = approve(ALAN, held, comment="Me too")
    assert (second.status, second.first_approved_by, second.decided_by) == ("approved", "grace", "alan")
    assert second.comment == "Me too"
    assert enqueued == [("gateway.tasks.apply_change_request", [str(held.id)])]
    assert ChangeRequest.objects.get(id=held.id).approvers == "grace, alan"
    assert queue.claim(held.id) is not None


def test_the_requester_sees_that_there_is_a_first_one() -> None:
    held = hold(protected=True)
    assert "firstApproval" not in requests.read_change_request(CALL, id=held.id)
    approve(APPROVER, held)
    assert requests.read_change_request(CALL, id=held.id)["firstApproval"]["by"] == "grace"


def test_the_same_person_twice() -> None:
    held = hold(protected=True)
    approve(APPROVER, held)
    assert refused(approve, APPROVER, held) == "Approvals.AlreadyDecided"
    assert refused(approve, APPROVER, held, digest="another") == "Approvals.AlreadyDecided"
    held.refresh_from_db()
    assert (held.status, held.first_approved_by_id) == ("pending", APPROVER.id)


def test_each_of_them_confirms_what_was_shown() -> None:
    held = hold(protected=True)
    assert refused(approve, APPROVER, held, digest="another") == "Approvals.Changed"
    approve(APPROVER, held)
    assert refused(approve, ALAN, held, digest="another") == "Approvals.Changed"
    held.refresh_from_db()
    assert held.status == "pending"


@pytest.mark.parametrize("rejecting", [APPROVER, ALAN])
def test_either_rejects(rejecting: PersonRef) -> None:
    held = hold(protected=True)
    approve(APPROVER, held)
    assert decisions.reject(make_call(person=rejecting), held.id, comment="On second thoughts").status == "rejected"
    assert refused(approve, ALAN, held) == "Approvals.AlreadyDecided"


def test_nobody_approves_their_own_first_or_second() -> None:
    held = hold(protected=True)
    assert refused(approve, CALL.person, held) == "Approvals.OwnRequest"
    approve(APPROVER, held)
    assert refused(approve, CALL.person, held) == "Approvals.OwnRequest"


def test_after_a_first_approval_it_is_cancelled_and_expires_as_before() -> None:
    held = hold(protected=True)
    approve(APPROVER, held)
    decisions.cancel(CALL.person, held.id)
    assert refused(approve, ALAN, held) == "Approvals.NotPending"


def test_others_need_one() -> None:
    assert approve(APPROVER, hold()).status == "approved"


def test_by_default_protected_ones_need_one_too(rule: Callable[[bool], None]) -> None:
    rule(False)
    assert approve(APPROVER, hold(protected=True)).status == "approved"


def test_the_rule_of_the_moment_counts(rule: Callable[[bool], None]) -> None:
    rule(False)
    held = hold(protected=True)
    rule(True)
    assert approve(APPROVER, held).status == "pending"
    rule(False)
    assert approve(APPROVER, held).status == "approved"


def test_a_target_that_became_protected_is_not_what_was_approved(rule: Callable[[bool], None]) -> None:
    held = hold()
    assert not drift.has_drifted(held, make_proposal())
    assert drift.has_drifted(held, make_proposal(protected=True))
    rule(False)
    assert not drift.has_drifted(held, make_proposal(protected=True))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "people", [(APPROVER, APPROVER), (APPROVER, ALAN), (APPROVER, APPROVER, ALAN, ALAN, KATE, KATE)]
)
def test_races(people: tuple[PersonRef, ...]) -> None:
    """However many approve at once, two different people did, and only their approvals count."""
    for _ in range(20):
        held = hold(protected=True)
        outcomes = approve_at_once(people, held)
        held.refresh_from_db()
        approved = {person for person, outcome in outcomes if outcome in ("pending", "approved")}
        assert {outcome for _, outcome in outcomes} <= {"pending", "approved", "Approvals.AlreadyDecided"}
        assert sum(outcome != "Approvals.AlreadyDecided" for _, outcome in outcomes) == len(approved)
        if len(set(people)) == 1:
            assert (held.status, held.first_approved_by_id, approved) == ("pending", APPROVER.id, {APPROVER.id})
        else:
            assert held.status == "approved"
            assert len(approved) == 2
            assert {held.first_approved_by_id, held.decided_by_id} == approved


def approve_at_once(people: tuple[PersonRef, ...], held: ChangeRequest) -> list[tuple[int, str]]:
    together = threading.Barrier(len(people))
    outcomes: list[tuple[int, str]] = []

    def work(person: PersonRef) -> None:
        together.wait()
        try:
            outcomes.append((person.id, approve(person, held).status))
        except GatewayError as refusal:
            outcomes.append((person.id, refusal.code))
        connection.close()

    threads = [threading.Thread(target=work, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_an_unknown_request() -> None:
    with pytest.raises(GatewayError) as refusal:
        decisions.approve(make_call(person=APPROVER), UUID(int=1), digest="x")
    assert refusal.value.status == 404
