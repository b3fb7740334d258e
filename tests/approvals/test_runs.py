"""An approved run over a unit's accounts: the change goes on as long as the run does, whatever becomes of workers."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.mail import EmailMessage
from django.utils import timezone

from approvals import queue
from approvals.messages import message_about
from approvals.models import ChangeRequest, Notice
from audit.models import OperationRecord
from directory.models.runs import Run
from gateway import pipeline, tasks
from keys.models import Person
from lab.directory import Directory
from tests.directory.supervised import approve, approve_only
from tests.support.cast import Answer, Console, Integration, make_person


@pytest.fixture
def users(directory: Directory, organizational_unit: str) -> list[UUID]:
    return [directory.add_user(parent=organizational_unit) for _ in range(2)]


@pytest.fixture
def held(careful: Integration, users: list[UUID], directory: Directory, organizational_unit: str) -> Answer:
    """A run over both users that waits for a person."""
    unit = directory.guid(organizational_unit)
    return careful.post(
        f"/api/ad/organization-units/{unit}/accounts/disable", {"accounts": [str(user) for user in users]}
    )


class Killed(BaseException):
    """The worker is gone at this moment."""


def kill(*_: Any, **__: Any) -> None:
    raise Killed


def work(run_id: Any) -> None:
    tasks.execute_run(str(run_id))


def shown(careful: Integration, request: ChangeRequest) -> tuple[str, str | None]:
    body = careful.get(f"/api/change-requests/{request.id}").body
    return body["status"], body["runId"]


def test_its_plan_is_told_as_it_is_now(
    careful: Integration, held: Answer, users: list[UUID], directory: Directory
) -> None:
    path = f"/rest/change-requests/{held.body['changeRequest']['id']}/run-plan"
    directory.modify(users[0], userAccountControl="514")
    directory.delete(users[1])
    approver = Console(make_person(may=["approvals.decide_change", "directory.run_accounts", "directory.read_object"]))
    plan = approver.get(path).body
    assert (plan["action"], plan["total"]) == ("disable", 2)
    assert {item["id"]: (item["effect"], item["changed"]) for item in plan["accounts"]} == {
        str(users[0]): ("none", True),
        str(users[1]): ("absent", True),
    }
    assert Console(make_person(may=["directory.read_object"])).get(path).status == 404
    approve_only(held)
    assert approver.get(path).code == "Approvals.NotPending"


def test_it_ends_when_the_run_is_completed(
    careful: Integration, held: Answer, users: list[UUID], directory: Directory, mailoutbox: list[EmailMessage]
) -> None:
    assert careful.get(held.headers["Location"]).body["runId"] is None
    request = approve(held)
    run_id = str(Run.objects.get().id)
    assert shown(careful, request) == ("applying", run_id)
    assert queue.settle_applying() == 0
    assert shown(careful, request) == ("applying", run_id)
    queued = careful.get(f"/api/ad/runs/{run_id}")
    assert (queued.body["state"], queued.headers["Retry-After"]) == ("queued", "2")
    approver = Console(make_person(may=["approvals.decide_change", "directory.run_accounts"]))
    page = approver.get(f"/console/changes/{request.id}").body.decode()
    assert f'href="/console/runs/{run_id}"' in page
    assert "the accounts are being done" in page

    directory.delete(users[1])
    work(run_id)

    assert shown(careful, request) == ("partly-failed", run_id), "each account has its own result"
    run = careful.get(f"/api/ad/runs/{run_id}").body
    assert [(item["id"], item["status"]) for item in run["results"]] == [
        (str(users[0]), "succeeded"),
        (str(users[1]), "failed"),
    ]
    assert not directory.is_enabled(users[0])
    page = approver.get(f"/console/changes/{request.id}").body.decode()
    assert "the accounts are being done" not in page
    assert "Of 2 accounts 1 failed." in page
    request.refresh_from_db()
    chat = message_about(request)
    assert chat is not None
    assert chat.title.startswith("Approved, but a part of it failed: ")
    Person.objects.filter(pk=request.requester_id).update(email="owner@example.test")
    tasks.tell_people()
    Notice.objects.update(due_at=timezone.now())
    tasks.tell_people()
    assert "Partly failed: " in mailoutbox[-1].subject


def test_the_worker_was_killed_at_the_end_of_the_run(
    careful: Integration, held: Answer, users: list[UUID], directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = approve(held)
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "end_with_run", kill)
        with pytest.raises(Killed):
            work(request.run_id)
    assert shown(careful, request)[0] == "applying"
    assert queue.settle_applying() == 1
    assert shown(careful, request) == ("applied", str(request.run_id))
    assert queue.settle_applying() == 0
    assert OperationRecord.objects.filter(run_id=request.run_id, outcome="succeeded").count() == 2


def test_the_worker_was_killed_when_it_had_started_the_run(
    careful: Integration, held: Answer, users: list[UUID], directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = approve_only(held)
    with monkeypatch.context() as patch:
        patch.setattr(queue, "follow_run", kill)
        with pytest.raises(Killed):
            pipeline.apply_change_request(request.id)
    run = Run.objects.get()
    assert shown(careful, request) == ("applying", None)
    ChangeRequest.objects.filter(id=request.id).update(lease_until=timezone.now() - timedelta(seconds=1))
    queue.settle_applying()
    assert shown(careful, request) == ("applying", str(run.id)), "nobody starts it a second time"
    work(run.id)
    assert shown(careful, request) == ("applied", str(run.id))
    assert Run.objects.count() == 1
    assert not any(directory.is_enabled(user) for user in users)


def test_the_run_was_over_before_its_starter_went_on(
    careful: Integration, held: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = approve_only(held)
    follow = queue.follow_run

    def follow_late(change_request: ChangeRequest, run_id: UUID) -> None:
        work(run_id)
        follow(change_request, run_id)

    monkeypatch.setattr(queue, "follow_run", follow_late)
    pipeline.apply_change_request(request.id)
    assert shown(careful, request) == ("applied", str(Run.objects.get().id))


def test_rights_taken_back_after_the_approval(
    careful: Integration, held: Answer, users: list[UUID], directory: Directory
) -> None:
    request = approve(held)
    careful.key.role.permissions.remove(careful.key.role.permissions.get(codename="disable_account"))
    work(request.run_id)
    assert shown(careful, request)[0] == "partly-failed"
    run = careful.get(f"/api/ad/runs/{request.run_id}").body
    assert {item["problem"]["code"] for item in run["results"]} == {"Auth.Forbidden"}
    assert all(directory.is_enabled(user) for user in users)
