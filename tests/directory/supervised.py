"""What tests of single changes share: a person who approves, and a connection that is lost with the write on it."""

from threading import Timer
from typing import Any

import pytest

from approvals.models import ChangeRequest
from gateway import pipeline
from tests.support.cast import Answer, Console, make_person
from tests.support.proxy import FaultyProxy


def approve(held: Answer) -> ChangeRequest:
    """Approve what was answered with 202, apply it as a worker does, and return the request as it ended."""
    assert held.status == 202, held
    request = ChangeRequest.objects.get(id=held.body["changeRequest"]["id"])
    approver = Console(make_person(may=["approvals.decide_change"]))
    answer = approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest})
    assert answer.status == 200, answer
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    return request


def lose_the_answer(monkeypatch: pytest.MonkeyPatch, proxy: FaultyProxy) -> None:
    """Between the next intent and its write the connection begins to lose answers, for a second."""
    original = pipeline.log.record_intent

    def record_intent(*args: Any, **kwargs: Any) -> Any:
        record = original(*args, **kwargs)
        monkeypatch.setattr(pipeline.log, "record_intent", original)
        proxy.lose_answer()
        timer = Timer(1, proxy.restore)
        timer.daemon = True
        timer.start()
        return record

    monkeypatch.setattr(pipeline.log, "record_intent", record_intent)
