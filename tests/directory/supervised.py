"""What tests of single changes share: a person who approves, and what happens between a check and its write."""

from collections.abc import Callable
from threading import Timer
from typing import Any

import pytest

from approvals.models import ChangeRequest
from audit import log
from audit.models import OperationRecord
from gateway import pipeline
from tests.support.cast import Answer, Console, make_person
from tests.support.proxy import FaultyProxy


def approve_only(held: Answer) -> ChangeRequest:
    """Approve what was answered with 202; no worker has heard of it yet."""
    assert held.status == 202, held
    request = ChangeRequest.objects.get(id=held.body["changeRequest"]["id"])
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


def just_before_the_write(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let something happen once, after the next change was checked and before it is recorded and written."""
    original = log.record_intent

    def record_intent(*args: Any, **kwargs: Any) -> OperationRecord:
        monkeypatch.setattr(log, "record_intent", original)
        action()
        return original(*args, **kwargs)

    monkeypatch.setattr(log, "record_intent", record_intent)


def lose_the_answer(monkeypatch: pytest.MonkeyPatch, proxy: FaultyProxy) -> None:
    """With the next write the connection begins to lose answers, for a second."""

    def begin() -> None:
        proxy.lose_answer()
        timer = Timer(1, proxy.restore)
        timer.daemon = True
        timer.start()

    just_before_the_write(monkeypatch, begin)
