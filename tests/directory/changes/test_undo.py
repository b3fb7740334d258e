"""What a key undoes of its own: its own changes only, under the permissions of the inverse one."""

from uuid import UUID

import pytest
from django.contrib.auth.models import Permission

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from core.operation import Effect, find_operation, operations
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory
from tests.directory.changes.reverting import NOT_REVERTIBLE, refused, succeeded
from tests.support.cast import Console, Integration, make_integration, make_person

MAY = ["directory.update_user", "directory.read_object"]


@pytest.fixture
def key(connection: DirectoryConnection) -> Integration:
    """It may neither read the log nor revert what others did."""
    return make_integration(connection, may=MAY)


def change_title(integration: Integration, id: UUID, title: str) -> str:
    succeeded(integration.patch(f"/api/ad/users/{id}", {"replace": {"title": title}}))
    made: str = integration.get("/api/operations/own").body["items"][0]["id"]
    return made


def test_it_works(key: Integration, ada: UUID, directory: Directory) -> None:
    made = change_title(key, ada, "Countess")
    (listed,) = key.get("/api/operations/own").body["items"]
    assert listed["changes"] == [{"attribute": "title", "before": ["Analyst"], "after": ["Countess"]}]
    assert (listed["operation"], listed["outcome"], listed["target"]["id"]) == ("users.update", "succeeded", str(ada))
    shown = succeeded(key.post(f"/api/operations/{made}/undo?dryRun=true")).body
    assert shown["changes"] == [{"attribute": "title", "before": ["Countess"], "after": ["Analyst"]}]
    undone = succeeded(key.post(f"/api/operations/{made}/undo")).body
    assert (undone["reverts"], undone["operation"]) == (made, "users.update")
    assert directory.text(ada, "title") == "Analyst"
    newest, first = key.get("/api/operations/own").body["items"]
    assert first["revertedBy"] == newest["id"]
    assert newest["reason"] == f"Reverts {made}"
    assert refused(key.post(f"/api/operations/{made}/undo")) == NOT_REVERTIBLE


def test_only_ones_own(key: Integration, ada: UUID, directory: Directory, connection: DirectoryConnection) -> None:
    others = [make_integration(connection), make_integration(connection, owner=key.key.owner)]
    made = [change_title(other, ada, title) for other, title in zip(others, ("Countess", "Baroness"), strict=True)]
    assert key.get("/api/operations/own").body["items"] == []
    for id in made:
        assert refused(key.post(f"/api/operations/{id}/undo")) == (404, "Request.NotFound")
    assert directory.text(ada, "title") == "Baroness"


def test_it_needs_what_the_inverse_change_needs(key: Integration, ada: UUID) -> None:
    made = change_title(key, ada, "Countess")
    key.key.role.permissions.remove(Permission.objects.get(codename="update_user"))
    assert refused(key.post(f"/api/operations/{made}/undo")) == (403, "Auth.Forbidden")


def test_since(key: Integration, ada: UUID) -> None:
    change_title(key, ada, "Countess")
    (listed,) = key.get("/api/operations/own?since=2020-01-01T00:00:00Z").body["items"]
    assert listed["target"]["id"] == str(ada)
    assert key.get("/api/operations/own?since=2100-01-01T00:00:00Z").body["items"] == []


def test_without_read_object_no_values_are_shown(connection: DirectoryConnection, ada: UUID) -> None:
    blind = make_integration(connection, may=["directory.update_user"])
    change_title(blind, ada, "Countess")
    (change,) = blind.get("/api/operations/own").body["items"][0]["changes"]
    assert change["attribute"] == "title"
    assert not {"Analyst", "Countess"} & {*change["before"], *change["after"]}


def test_an_approved_change_is_ones_own(connection: DirectoryConnection, ada: UUID, directory: Directory) -> None:
    key = make_integration(connection, may=MAY, level=SupervisionLevel.ASK_EVERY_CHANGE)
    assert key.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}).status == 202
    approve()
    applied, asked = key.get("/api/operations/own").body["items"]
    assert (applied["outcome"], asked["outcome"]) == ("succeeded", "queued")
    assert applied["changeRequestId"] == asked["changeRequestId"]
    assert key.post(f"/api/operations/{applied['id']}/undo").status == 202
    approve()
    assert directory.text(ada, "title") == "Analyst"


def approve() -> None:
    request = ChangeRequest.objects.get(status="pending")
    approver = Console(make_person(may=["approvals.decide_change"]))
    succeeded(approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest}))
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    assert request.status == "applied", request.problem


ELSEWHERE = {"restore": "deleted-objects.restore", "enable": "users.enable", "disable": "users.disable"}


def test_whoever_may_make_any_inverse_change_may_undo() -> None:
    """Which of the permissions a record needs, its own inverse says."""
    for change in operations():
        if change.effect is Effect.CHANGE and change.inverse:
            resource = change.resource.replace("deleted-objects", "users")  # what was restored is deleted as what it is
            inverse = find_operation(ELSEWHERE.get(change.inverse, f"{resource}.{change.inverse}"))
            assert inverse.permission <= find_operation("operations.undo").permission, change.name
