"""What happens between a request and its application, on the real domain: what makes it stale, what does not, how late
is too late, and that it is applied once.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection as database
from django.utils import timezone

from approvals import queue
from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from gateway import pipeline, tasks
from lab.directory import PASSWORD, Directory, filetime, random_name
from lab.domain import Domain
from tests.directory.supervised import approve
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person
from tests.support.configuration import Configure


@pytest.fixture
def elsewhere(directory: Directory, organizational_unit: str) -> str:
    return directory.add_unit("Elsewhere", parent=organizational_unit)


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada", parent=organizational_unit, title="Analyst", department="Engines")


def user(guid: UUID, action: str = "") -> str:
    return f"/api/ad/users/{guid}{action}"


def update(careful: Integration, ada: UUID, **replace: str) -> Answer:
    return careful.patch(user(ada), {"replace": replace})


class TestAttributesConcerned:
    def test_an_unrelated_change_does_not_matter(self, careful: Integration, ada: UUID, directory: Directory) -> None:
        held = update(careful, ada, title="Countess")
        directory.modify(ada, department="Numbers", description="x", userAccountControl=str(0x10220))
        assert approve(held).status == "applied"
        assert directory.text(ada, "title") == "Countess"
        assert directory.text(ada, "department") == "Numbers"

    @pytest.mark.parametrize("value", ["Baroness", None])
    def test_a_change_of_what_is_to_be_changed_does(
        self, careful: Integration, ada: UUID, directory: Directory, value: str | None
    ) -> None:
        held = update(careful, ada, title="Countess")
        directory.modify(ada, title=value)
        ended = approve(held)
        assert (ended.status, ended.problem) == ("stale", None)
        assert directory.text(ada, "title") == value

    def test_so_does_the_same_change_by_somebody_else(
        self, careful: Integration, ada: UUID, directory: Directory
    ) -> None:
        held = update(careful, ada, title="Countess")
        directory.modify(ada, title="Countess")
        assert approve(held).status == "stale"

    def test_there_and_back_again_is_no_change(self, careful: Integration, ada: UUID, directory: Directory) -> None:
        held = update(careful, ada, title="Countess")
        directory.modify(ada, title="Baroness")
        directory.modify(ada, title="Analyst")
        assert approve(held).status == "applied"

    @pytest.mark.parametrize("control", [0x10220, 0x222])
    def test_flags_are_one_attribute(self, careful: Integration, ada: UUID, directory: Directory, control: int) -> None:
        held = careful.post(user(ada, "/disable"))
        directory.modify(ada, userAccountControl=str(control))
        assert approve(held).status == "stale"

    def test_an_unlock_looks_at_the_lock_alone(
        self, careful: Integration, organizational_unit: str, directory: Directory
    ) -> None:
        locked = directory.add_user(parent=organizational_unit, lockoutTime=filetime(-60))
        held = careful.post(user(locked, "/unlock"))
        directory.modify(locked, title="Countess")
        assert approve(held).status == "applied"
        assert directory.text(locked, "lockoutTime") == "0"


class TestPlace:
    @pytest.fixture(params=["moved", "renamed", "moved with its unit"])
    def displaced(
        self, request: pytest.FixtureRequest, directory: Directory, organizational_unit: str, elsewhere: str
    ) -> tuple[UUID, Callable[[], None]]:
        """A user in a unit, and what somebody else does to its place."""
        unit = directory.add_unit("Here", parent=organizational_unit)
        guid = directory.add_user("Ada", parent=unit, title="Analyst", password=PASSWORD)
        ways: dict[str, Callable[[], None]] = {
            "moved": lambda: directory.move(guid, parent=elsewhere),
            "renamed": lambda: directory.rename(guid, "Countess of Lovelace"),
            "moved with its unit": lambda: directory.move(unit, parent=elsewhere),
        }
        return guid, ways[request.param]

    @pytest.mark.parametrize(
        ("method", "action", "body"),
        [
            ("PATCH", "", {"replace": {"title": "Countess"}}),
            ("PATCH", "", {"account": {"expiresAt": "2031-01-31T00:00:00Z"}}),
            ("POST", "/disable", None),
            ("POST", "/reset-password", {"generate": True}),
            ("DELETE", "", None),
        ],
    )
    def test_it_is_no_matter_to_other_changes(
        self, careful: Integration, displaced: tuple[UUID, Callable[[], None]], method: str, action: str, body: Any
    ) -> None:
        guid, displace = displaced
        held = careful.call(method, user(guid, action), body)
        displace()
        ended = approve(held)
        assert ended.status == "applied", ended.problem

    @pytest.mark.parametrize("action", ["/move", "/rename"])
    def test_it_is_the_matter_of_a_move_and_a_rename(
        self,
        careful: Integration,
        displaced: tuple[UUID, Callable[[], None]],
        action: str,
        organizational_unit: str,
        directory: Directory,
    ) -> None:
        guid, displace = displaced
        held = careful.post(
            user(guid, action), {"parent": organizational_unit} if action == "/move" else {"name": "Ada King"}
        )
        displace()
        now = directory.dn(guid)
        assert approve(held).status == "stale"
        assert directory.dn(guid) == now

    def test_a_group_and_its_members(
        self, careful: Integration, ada: UUID, directory: Directory, organizational_unit: str, elsewhere: str
    ) -> None:
        group = directory.add_group(parent=organizational_unit)
        held = careful.post(f"/api/ad/groups/{group}/members", {"add": [str(ada)]})
        directory.move(group, parent=elsewhere)
        assert approve(held).status == "applied"
        assert directory.members(group) == {directory.dn(ada)}

    def test_a_unit_that_moved_with_the_accounts_of_a_run(
        self, careful: Integration, directory: Directory, organizational_unit: str, elsewhere: str
    ) -> None:
        unit = directory.add_unit("Here", parent=organizational_unit)
        guid = directory.guid(unit)
        directory.add_user("Ada", parent=unit)
        held = careful.post(f"/api/ad/organization-units/{guid}/accounts/disable", {"kinds": ["user"]})
        directory.move(guid, parent=elsewhere)
        assert approve(held).status == "applying", "its run has begun"


class TestDeletions:
    def test_a_sign_in_and_a_renamed_group_do_not_matter(
        self, careful: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        group = directory.add_group(parent=organizational_unit, members=[ada])
        held = careful.delete(user(ada))
        directory.rename(group, random_name("renamed"))
        assert approve(held).status == "applied"
        assert not directory.exists(ada)

    def test_what_it_held_since_does(
        self, careful: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        unit = directory.add_unit("Here", parent=organizational_unit)
        guid = directory.guid(unit)
        directory.add_user(parent=unit)
        held = careful.delete(f"/api/ad/organization-units/{guid}?recursive=true")
        newcomer = directory.add_user(parent=unit)
        assert approve(held).status == "stale"
        assert directory.exists(newcomer)

    def test_a_recursive_one_follows_its_unit(
        self, careful: Integration, directory: Directory, organizational_unit: str, elsewhere: str
    ) -> None:
        unit = directory.add_unit("Here", parent=organizational_unit)
        guid = directory.guid(unit)
        directory.add_user(parent=unit)
        held = careful.delete(f"/api/ad/organization-units/{guid}?recursive=true")
        directory.move(guid, parent=elsewhere)
        assert approve(held).status == "applied"
        assert not directory.exists(guid)


class TestTooLate:
    @pytest.fixture
    def approved(self, careful: Integration, ada: UUID) -> ChangeRequest:
        held = update(careful, ada, title="Countess")
        approver = Console(make_person(may=["approvals.decide_change"]))
        request = ChangeRequest.objects.get(id=held.body["changeRequest"]["id"])
        assert approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest}).status == 200
        return request

    def approved_hours_ago(self, request: ChangeRequest, hours: float) -> None:
        ChangeRequest.objects.filter(id=request.id).update(decided_at=timezone.now() - timedelta(hours=hours))

    @pytest.mark.parametrize(
        "take_up", [lambda request: pipeline.apply_change_request(request.id), lambda _: tasks.sweep()]
    )
    def test_after_a_day_it_is_not_applied_by_surprise(
        self, approved: ChangeRequest, directory: Directory, ada: UUID, take_up: Callable[[ChangeRequest], None]
    ) -> None:
        self.approved_hours_ago(approved, 24.01)
        take_up(approved)
        approved.refresh_from_db()
        assert (approved.status, approved.problem["code"]) == ("failed", "Approvals.NotAppliedInTime")
        assert "24 hours" in approved.problem["detail"]
        assert approved.input == ""
        assert directory.text(ada, "title") == "Analyst"
        pipeline.apply_change_request(approved.id)
        assert directory.text(ada, "title") == "Analyst"

    def test_before_it_is(self, approved: ChangeRequest, directory: Directory, ada: UUID) -> None:
        self.approved_hours_ago(approved, 23.9)
        queue.fail_overdue()
        pipeline.apply_change_request(approved.id)
        assert directory.text(ada, "title") == "Countess"

    def test_the_time_is_configured(
        self, approved: ChangeRequest, directory: Directory, ada: UUID, configure: Configure
    ) -> None:
        configure("Approvals", ApplyWithinHours=1)
        self.approved_hours_ago(approved, 1.1)
        pipeline.apply_change_request(approved.id)
        assert directory.text(ada, "title") == "Analyst"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("needs_two", [False, True])
def test_double_approvals_at_once(
    domain: Domain, directory: Directory, organizational_unit: str, configure: Configure, needs_two: bool
) -> None:
    """Two people approve each of 40 changes at once, and two workers take each up: one application of each."""
    configure("Approvals", ProtectedNeedsTwo=needs_two)
    careful = make_integration(make_connection(domain), level=SupervisionLevel.ASK_EVERY_CHANGE)
    mark: dict[str, Any] = {"adminCount": "1"} if needs_two else {}
    people = [directory.add_user(parent=organizational_unit, **mark) for _ in range(40)]
    items = [{"id": str(guid), "replace": {"title": "Countess"}} for guid in people]
    batch = careful.post("/api/ad/users/batch/update", {"items": items})
    assert batch.body["queued"] == 40
    requests = list(ChangeRequest.objects.order_by("id"))
    approvers = [Console(make_person(may=["approvals.decide_change"])) for _ in range(2)]
    together = threading.Barrier(2)
    statuses: dict[UUID, list[int]] = {request.id: [] for request in requests}

    def work(approver: Console) -> None:
        for request in requests:
            together.wait(timeout=300)
            answer = approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest})
            statuses[request.id].append(answer.status)
        for request in requests:
            pipeline.apply_change_request(request.id)
        database.close()

    threads = [threading.Thread(target=work, args=(approver,)) for approver in approvers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [200, 200] if needs_two else [200, 409]
    assert all(sorted(seen) == expected for seen in statuses.values())
    assert set(ChangeRequest.objects.values_list("status", flat=True)) == {"applied"}
    for guid in people:
        assert directory.text(guid, "title") == "Countess"
    applied = OperationRecord.objects.filter(surface="worker", outcome="succeeded")
    assert sorted(record.change_request_id for record in applied) == [request.id for request in requests]
    names = {approver.person.username for approver in approvers}
    for record in applied:
        assert len(set(record.approved_by.split(", ")) & names) == (2 if needs_two else 1)


class TestAskedAnew:
    """A decider has a stale request replaced by one with the values of now."""

    def test_it_works(self, careful: Integration, ada: UUID, directory: Directory) -> None:
        held = update(careful, ada, title="Countess")
        path = f"/rest/change-requests/{held.body['changeRequest']['id']}"
        directory.modify(ada, title="Baroness")
        approver = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
        new = approver.post(f"{path}/ask-anew").body
        assert new["changes"] == [{"attribute": "title", "current": ["Baroness"], "proposed": ["Countess"]}]
        assert (new["status"], new["requestedBy"]["owner"]) == ("pending", careful.key.owner.username)
        assert approver.get(path).body["status"] == "rejected"
        approved = approver.post(f"/rest/change-requests/{new['id']}/approve", {"digest": new["digest"]})
        assert approved.status == 200, approved
        assert approver.post(f"{path}/ask-anew").code == "Approvals.AlreadyDecided"

    def test_not_for_oneself_and_not_for_nothing(self, careful: Integration, ada: UUID, directory: Directory) -> None:
        held = update(careful, ada, title="Countess")
        path = f"/rest/change-requests/{held.body['changeRequest']['id']}/ask-anew"
        directory.modify(ada, title="Countess")  # somebody else did it
        assert Console(careful.key.owner).post(path).code == "Approvals.OwnRequest"
        approver = Console(make_person(may=["approvals.decide_change"]))
        assert approver.post(path).status == 409
        assert [request.status for request in ChangeRequest.objects.all()] == ["pending"]
