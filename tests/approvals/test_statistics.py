"""How the queue is doing, for people and for Prometheus."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from approvals.models import ChangeRequest
from core.operation import Risk
from tests.approvals.proposals import hold
from tests.support.cast import Console, make_integration, make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

PATH = "/rest/change-requests/statistics"
STATES = "approved applying applied partlyFailed failed unknown stale rejected expired"
NOTHING = dict.fromkeys(STATES.split(), 0)


@pytest.fixture
def console() -> Console:
    return Console(make_person(may=["approvals.decide_change"]))


def held(*, risk: Risk = Risk.SECURITY, age: float = 0, **fields: Any) -> ChangeRequest:
    """A request made so many seconds ago."""
    request = hold()
    fields = {"created_at": timezone.now() - timedelta(seconds=age), **fields}
    ChangeRequest.objects.filter(id=request.id).update(risk=risk, **fields)
    return request


def decided(status: str, *, after: float, ago: timedelta = timedelta()) -> None:
    """A request that was decided after so many seconds."""
    at: datetime = timezone.now() - ago
    held(status=status, decided_at=at, created_at=at - timedelta(seconds=after))


def test_nothing(console: Console) -> None:
    answer = console.get(PATH)
    assert answer.status == 200
    since = datetime.fromisoformat(answer.body.pop("since"))
    assert timedelta(days=29.9) < timezone.now() - since < timedelta(days=30.1)
    assert answer.body == {
        "waiting": {"ordinary": 0, "destructive": 0, "security": 0},
        "oldestWaitingSeconds": None,
        "ended": NOTHING,
        "medianSecondsToDecide": None,
    }


def test_what_waits(console: Console) -> None:
    begun = timezone.now()
    held(age=10)
    held(risk=Risk.DESTRUCTIVE, age=500)
    held(age=5)
    held(age=9000, expires_at=timezone.now())  # not marked yet
    held(age=9000, status="rejected", decided_at=timezone.now())
    body = console.get(PATH).body
    assert body["waiting"] == {"ordinary": 0, "destructive": 1, "security": 2}
    assert 500 <= body["oldestWaitingSeconds"] < 510 + (timezone.now() - begun).total_seconds()


def test_what_was_decided(console: Console) -> None:
    for status, count in (("applied", 3), ("rejected", 2), ("stale", 1)):
        for _ in range(count):
            decided(status, after=60)
    decided("applied", after=60, ago=timedelta(days=31))
    held(status="expired", expires_at=timezone.now() - timedelta(days=1))
    held(status="expired", expires_at=timezone.now() - timedelta(days=31))
    held(status="cancelled")
    assert console.get(PATH).body["ended"] == NOTHING | {"applied": 3, "rejected": 2, "stale": 1, "expired": 1}


@pytest.mark.parametrize(("times", "median"), [([60], 60), ([10, 1000], 505), ([5, 100, 9000], 100), ([1, 2, 4, 9], 3)])
def test_the_median(console: Console, times: list[float], median: int) -> None:
    for seconds in times:
        decided("rejected", after=seconds)
    decided("rejected", after=1, ago=timedelta(days=31))
    assert console.get(PATH).body["medianSecondsToDecide"] == median


def test_only_for_who_may_decide() -> None:
    answer = Console(make_person(may=["audit.read_log"])).get(PATH)
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert make_integration(None, may=["approvals.decide_change"]).get("/api/change-requests/statistics").status == 404


def test_for_prometheus(client: Client) -> None:
    begun = timezone.now()
    held(risk=Risk.DESTRUCTIVE, age=500)
    text = client.get("/metrics").content.decode()
    assert 'gateway_change_requests_waiting{risk="destructive"} 1.0' in text
    assert 'gateway_change_requests_waiting{risk="security"} 0.0' in text
    oldest = next(line for line in text.splitlines() if line.startswith("gateway_change_requests_oldest_seconds "))
    assert 500 <= float(oldest.split()[1]) < 510 + (timezone.now() - begun).total_seconds()
