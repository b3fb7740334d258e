"""Seeing and deciding change requests through their operations."""

import threading
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone

from approvals.models import ChangeRequest
from core.call import Call, PersonRef, Surface
from core.errors import GatewayError, NotFound
from core.operation import SIGNED_IN, operations
from core.shapes import load_body, load_query
from operations.approvals.change_requests import requests
from tests.approvals.proposals import APPROVER, IN_CONSOLE, hold
from tests.audit.calls import CALL, make_call

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

MEMBERS = """
    id status operation risk target requestedBy agent reason changes references digest createdAt expiresAt decidedBy
    decidedAt comment problem runId dueAt revertAt revertAfter ends
"""
BOB = PersonRef(id=8_000_008, username="bob", display_name="Bob")
ADA_IN_CONSOLE = make_call(
    surface=Surface.REST, permissions=frozenset({"approvals.decide_change", "directory.read_object"})
)


def approve(id: UUID, digest: str, *, call: Call = IN_CONSOLE, **more: Any) -> Any:
    body = load_body(requests.ApproveChangeRequest, {"digest": digest, **more})
    return requests.approve_change_request(call, id=id, body=body)


def reject(id: UUID, comment: Any = "No ticket", *, call: Call = IN_CONSOLE) -> Any:
    body = load_body(requests.RejectChangeRequest, {"comment": comment})
    return requests.reject_change_request(call, id=id, body=body)


def found(call: Call, **parameters: str) -> list[str]:
    query = load_query(requests.SearchChangeRequests, parameters)
    return [item["id"] for item in requests.search_change_requests(call, query=query)["items"]]


def code_of(function: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(GatewayError) as refusal:
        function(*args, **kwargs)
    assert refusal.value.status in (400, 409)
    return refusal.value.code


def test_what_is_shown() -> None:
    held = hold()
    shown = requests.read_change_request(CALL, id=held.id)
    assert list(shown) == MEMBERS.split()
    assert shown["changes"] == [
        {"attribute": "mail", "current": ["old@example.test"], "proposed": ["new@example.test"]}
    ]
    assert shown["requestedBy"] == {"owner": "ada", "keyName": "crm"}
    assert shown["target"] == {"id": str(held.target_id), "distinguishedName": held.target_dn}
    assert shown["createdAt"].endswith("Z")


def test_who_sees_which() -> None:
    mine, others = hold(), hold(make_call(person=BOB))
    assert found(CALL) == [str(mine.id)]
    assert found(IN_CONSOLE) == [str(others.id), str(mine.id)]
    assert found(make_call(permissions=frozenset({"approvals.decide_change"}))) == [str(mine.id)], "never on /api"
    assert found(make_call(surface=Surface.REST, permissions=frozenset())) == [str(mine.id)]
    with pytest.raises(NotFound):
        requests.read_change_request(CALL, id=others.id)
    assert requests.read_change_request(IN_CONSOLE, id=others.id)["id"] == str(others.id)


def test_the_filter() -> None:
    waiting, ended = hold(), hold()
    requests.cancel_change_request(CALL, id=ended.id)
    assert found(CALL, status="pending") == [str(waiting.id)]
    assert found(CALL, status="cancelled") == [str(ended.id)]
    assert code_of(found, CALL, status="nonsense") == "Request.Invalid"
    both = [str(ended.id), str(waiting.id)]
    assert found(CALL, risk="security", operation="users.update", owner="ada") == both
    assert found(CALL, target=str(waiting.target_id)) == [str(waiting.id)]
    for nothing in ({"risk": "ordinary"}, {"operation": "users.delete"}, {"owner": "bob"}, {"target": str(uuid4())}):
        assert found(CALL, **nothing) == []


def test_what_the_approver_has_to_know() -> None:
    held = hold()
    review = requests.read_review(IN_CONSOLE, id=held.id)
    assert review["changeRequest"] == requests.read_change_request(IN_CONSOLE, id=held.id)
    assert review["summary"].startswith("Update attributes")
    assert review["riskReasons"] == ["This is a security change: it writes mail."]
    assert review["targetKind"] == "user"
    assert (review["own"], review["mayApprove"], review["mayReject"], review["mayCancel"]) == (False, True, True, False)
    assert (review["approvalsNeeded"], review["secretUntil"]) == (1, None)
    own = requests.read_review(CALL, id=held.id)
    assert (own["own"], own["mayApprove"], own["mayReject"], own["mayCancel"]) == (True, False, False, True)
    reject(held.id)
    decided = requests.read_review(IN_CONSOLE, id=held.id)
    assert (decided["mayApprove"], decided["mayReject"], decided["approvalsNeeded"]) == (False, False, 0)
    with pytest.raises(NotFound):
        requests.read_review(make_call(person=BOB, permissions=frozenset()), id=held.id)


def test_an_overdue_request_offers_no_decision() -> None:
    held = hold()
    ChangeRequest.objects.filter(id=held.id).update(expires_at=timezone.now() - timedelta(seconds=1))
    review = requests.read_review(IN_CONSOLE, id=held.id)
    assert (review["mayApprove"], review["mayReject"]) == (False, False)


@pytest.mark.django_db(transaction=True)
def test_approving(enqueued: list[Any]) -> None:
    held = hold()
    shown = approve(held.id, held.digest, comment="Seen with HR")
    assert (shown["status"], shown["decidedBy"], shown["comment"]) == ("approved", "grace", "Seen with HR")
    assert shown["decidedAt"].endswith("Z")
    assert enqueued == [("gateway.tasks.apply_change_request", [str(held.id)])]
    held.refresh_from_db()
    assert (held.decided_by_id, bool(held.input)) == (APPROVER.id, True)


def test_rejecting() -> None:
    held = hold()
    shown = reject(held.id)
    assert (shown["status"], shown["decidedBy"], shown["comment"]) == ("rejected", "grace", "No ticket")
    held.refresh_from_db()
    assert held.input == ""
    told = requests.read_change_request(CALL, id=held.id)
    assert (told["comment"], told["reason"], told["decidedBy"]) == ("No ticket", "Ticket 4711", "grace")


@pytest.mark.parametrize("comment", ["", "  \n", None, 3])
def test_a_rejection_says_why(comment: Any) -> None:
    assert code_of(reject, hold().id, comment) == "Request.Invalid"


def test_nobody_decides_their_own() -> None:
    held = hold()
    assert code_of(approve, held.id, held.digest, call=ADA_IN_CONSOLE) == "Approvals.OwnRequest"
    assert code_of(reject, held.id, call=ADA_IN_CONSOLE) == "Approvals.OwnRequest"
    held.refresh_from_db()
    assert held.status == "pending"


def test_another_digest() -> None:
    held, other = hold(), hold()
    for digest in (other.digest, held.digest.upper(), "", "ä"):
        assert code_of(approve, held.id, digest) == "Approvals.Changed"
    held.refresh_from_db()
    assert held.status == "pending"


def test_a_second_decision() -> None:
    held = hold()
    approve(held.id, held.digest)
    assert code_of(approve, held.id, held.digest) == "Approvals.AlreadyDecided"
    assert code_of(reject, held.id) == "Approvals.AlreadyDecided"
    assert code_of(requests.cancel_change_request, CALL, id=held.id) == "Approvals.AlreadyDecided"


def test_after_it_was_withdrawn() -> None:
    held = hold()
    requests.cancel_change_request(CALL, id=held.id)
    assert code_of(approve, held.id, held.digest) == "Approvals.NotPending"
    assert code_of(requests.cancel_change_request, CALL, id=held.id) == "Approvals.NotPending"


def test_an_overdue_request_is_refused_at_once() -> None:
    held = hold()
    ChangeRequest.objects.filter(id=held.id).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert code_of(approve, held.id, "another digest") == "Approvals.NotPending"
    assert code_of(reject, held.id) == "Approvals.NotPending"
    assert code_of(approve, held.id, held.digest, call=ADA_IN_CONSOLE) == "Approvals.OwnRequest"


def test_only_ones_own_is_cancelled() -> None:
    held = hold()
    for call in (IN_CONSOLE, make_call(person=BOB)):
        with pytest.raises(NotFound):
            requests.cancel_change_request(call, id=held.id)
    assert requests.cancel_change_request(ADA_IN_CONSOLE, id=held.id)["status"] == "cancelled"


def test_a_request_that_does_not_exist() -> None:
    with pytest.raises(NotFound):
        approve(uuid4(), "x")


@pytest.mark.django_db(transaction=True)
def test_of_many_decisions_at_once_one_counts() -> None:
    held = hold()
    together = threading.Barrier(6)
    outcomes: list[str] = []

    def decide() -> None:
        together.wait()
        try:
            outcomes.append(approve(held.id, held.digest)["status"])
        except GatewayError as refusal:
            outcomes.append(refusal.code)
        connection.close()

    threads = [threading.Thread(target=decide) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["Approvals.AlreadyDecided"] * 5 + ["approved"]


def test_deciding_is_for_the_console() -> None:
    declared = {item.name: item for item in operations() if item.resource == "change-requests"}
    for name in ("change-requests.approve", "change-requests.reject"):
        assert declared[name].surfaces == {Surface.REST}
        assert declared[name].permission == {"approvals.decide_change"}
    for name in ("change-requests.search", "change-requests.read", "change-requests.cancel"):
        assert declared[name].surfaces == {Surface.API, Surface.REST}
        assert declared[name].permission == {SIGNED_IN}
