"""Approved changes whose first attempt came to nothing: they are applied all the same, and once."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from active_directory import Client, Unavailable
from approvals import queue
from approvals.models import ChangeRequest
from audit import log
from audit.models import OperationRecord
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.support.cast import Console, Integration, make_connection, make_person
from tests.support.mishaps import killed_at_the_write, settle, unknown_outcome

pytestmark = pytest.mark.sqlite


@pytest.fixture
def connection(db: None, domain: Domain, directory_proxy: FaultyProxy) -> DirectoryConnection:
    return make_connection(domain, url=directory_proxy.url)


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(parent=organizational_unit, title="Analyst")


@pytest.fixture
def approved(careful: Integration, ada: UUID) -> ChangeRequest:
    """A new title, approved."""
    careful.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}})
    request = ChangeRequest.objects.get()
    approver = Console(make_person(may=["approvals.decide_change"]))
    assert approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest}).status == 200
    return request


def apply(request: ChangeRequest) -> str:
    """What a worker makes of it."""
    pipeline.apply_change_request(request.id)
    return ChangeRequest.objects.get().status


def applications() -> list[tuple[str, str | None]]:
    return list(OperationRecord.objects.filter(surface="worker").order_by("id").values_list("outcome", "code"))


def test_the_directory_was_away(
    approved: ChangeRequest, ada: UUID, directory: Directory, directory_proxy: FaultyProxy
) -> None:
    directory_proxy.cut()
    assert [apply(approved) for _ in range(queue.MAX_LOST_WORKERS + 1)][-1] == "approved"
    assert applications() == [], "an attempt that told nobody anything"
    ChangeRequest.objects.update(decided_at=timezone.now() - timedelta(minutes=5))
    assert queue.take_unclaimed() == [approved.id]
    directory_proxy.restore()
    assert apply(approved) == "applied"
    assert directory.text(ada, "title") == "Countess"
    assert applications() == [("succeeded", None)]


def test_the_directory_went_away_before_the_write(
    approved: ChangeRequest, ada: UUID, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_away(*_: Any) -> str:
        raise Unavailable("No domain controller answers in time")

    with monkeypatch.context() as patch:
        patch.setattr(Client, "write", be_away)
        assert apply(approved) == "approved"
    assert apply(approved) == "applied"
    assert applications() == [("failed", "AD.Directory.Unavailable"), ("succeeded", None)]


def test_the_log_was_away(approved: ChangeRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> OperationRecord:
        raise log.NotRecorded

    with monkeypatch.context() as patch:
        patch.setattr(log, "record_intents", refuse)
        assert apply(approved) == "approved"
    assert apply(approved) == "applied"


@pytest.mark.parametrize("reached", [True, False])
def test_the_worker_was_killed_at_its_write(
    approved: ChangeRequest, ada: UUID, directory: Directory, reached: bool
) -> None:
    with killed_at_the_write(after_write=reached):
        apply(approved)
    settle_both()
    assert ChangeRequest.objects.get().status == ("applied" if reached else "approved")
    apply(approved)
    assert directory.text(ada, "title") == "Countess"
    assert [outcome for outcome, _ in applications()] == (["succeeded"] if reached else ["failed", "succeeded"])


def test_an_unknown_outcome_turned_out_to_be_none(approved: ChangeRequest, ada: UUID, directory: Directory) -> None:
    with unknown_outcome(after_write=False):
        assert apply(approved) == "unknown"
    settle_both()
    assert apply(approved) == "applied"
    assert directory.text(ada, "title") == "Countess"
    assert applications() == [("failed", "AD.Directory.NotApplied"), ("succeeded", None)]


def test_an_attempt_under_way_excludes_another(approved: ChangeRequest) -> None:
    with killed_at_the_write(after_write=False):
        apply(approved)
    ChangeRequest.objects.update(status="approved")
    assert apply(approved) == "applying", "its intent was refused, and the first one decides"
    assert [outcome for outcome, _ in applications()] == ["pending"]


def settle_both() -> None:
    """Let the sweep come by when both the record and the request are due."""
    ChangeRequest.objects.filter(status="applying").update(lease_until=timezone.now() - timedelta(seconds=1))
    settle(nothing_under_way=True)
