"""What is unusual about a request: facts from the log, about the same requester alone."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from approvals.models import ChangeRequest
from approvals.review.unusual import unusual_facts
from audit import log
from audit.identifiers import identifier_bounds
from audit.models import OperationRecord, Outcome
from core.call import Call
from operations.approvals.change_requests.requests import read_review
from tests.approvals.proposals import IN_CONSOLE, hold
from tests.audit.calls import CALL, make_call

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

NOON = timezone.now().replace(hour=12, minute=0, second=0, microsecond=0)


def record(at: datetime, operation: str = "users.update", kind: str = "user", *, call: Call = CALL) -> None:
    """A change that the key made at this moment."""
    target = log.TargetRef(id=None, kind=kind, distinguished_name="CN=Ada,DC=corp")
    template = log.record_refusal(call, operation=operation, code="X", target=target)
    facts = {field.attname: getattr(template, field.attname) for field in template._meta.concrete_fields}
    number = OperationRecord.objects.count()
    facts |= {"id": identifier_bounds(at + timedelta(milliseconds=number))[0], "at": at, "outcome": Outcome.SUCCEEDED}
    OperationRecord(**facts).save(force_insert=True)


def ask(at: datetime) -> ChangeRequest:
    request = hold(make_call())
    ChangeRequest.objects.filter(id=request.id).update(created_at=at)
    return ChangeRequest.objects.get(id=request.id)


def test_what_is_as_always_is_not_told() -> None:
    for day in range(2, 25):
        record(NOON - timedelta(days=day))
    assert unusual_facts(ask(NOON)) == []


def test_each_fact() -> None:
    request = ask(NOON)
    other = make_call(credential=replace(CALL.credential, name="other"))
    record(NOON - timedelta(days=3), call=other)
    assert "first change" in unusual_facts(request)[0]
    for day in range(2, 25):
        record(NOON - timedelta(days=day, hours=5), "groups.update", "group")
    assert unusual_facts(request) == [
        "Of its 23 changes before, none was of an object of this kind.",
        "It asks at a time of the day at which it asked for none of its last 23 changes.",
    ]
    record(NOON - timedelta(days=2))
    for _ in range(10):
        record(NOON - timedelta(hours=1))
    assert unusual_facts(request) == ["It asked for 10 such changes within a day; before, for at most 1."]
    assert read_review(IN_CONSOLE, id=request.id)["unusual"] == unusual_facts(request)
