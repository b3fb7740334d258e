"""A person who approves what was held, and the worker that applies it."""

from approvals.models import ChangeRequest
from gateway import pipeline
from tests.support.cast import Answer, Console, make_person


def approve_only(held: Answer) -> ChangeRequest:
    """Approve what was answered with 202; no worker has heard of it yet."""
    assert held.status == 202, held
    return approve_request(ChangeRequest.objects.get(id=held.body["changeRequest"]["id"]))


def approve_request(request: ChangeRequest) -> ChangeRequest:
    """Approve what waits; no worker has heard of it yet."""
    approver = Console(make_person(may=["approvals.decide_change"]))
    answer = approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest})
    assert answer.status == 200, answer
    request.refresh_from_db()
    return request


def approve(held: Answer) -> ChangeRequest:
    """Approve what was answered with 202, apply it as a worker does, and return the request as it ended."""
    request = approve_only(held)
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    return request
