"""A killed request leaves an open record and others change the same: whose change is it that the directory has?"""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from audit.models import OperationRecord
from gateway import tasks
from lab.directory import PASSWORD, Directory, random_name
from tests.support.cast import Answer, Integration
from tests.support.mishaps import killed_at_the_write, settle

pytestmark = pytest.mark.sqlite


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada", parent=organizational_unit, title="Analyst", password=PASSWORD)


Change = Callable[[], Answer]


def outcomes() -> list[tuple[str, str | None]]:
    """Of all changes, in their order, when the settler has come by; each with its code."""
    settle(nothing_under_way=True)
    return list(OperationRecord.objects.order_by("id").values_list("outcome", "code"))


NOT_APPLIED, SUCCEEDED = ("failed", "AD.Directory.NotApplied"), ("succeeded", None)


def update(integration: Integration, ada: UUID, title: str = "Countess") -> Answer:
    return integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": title}})


@pytest.fixture(params=["update", "disable", "join", "create", "delete", "rename", "reset"])
def change(
    request: pytest.FixtureRequest, integration: Integration, directory: Directory, organizational_unit: str, ada: UUID
) -> Change:
    """A change that may be asked for again after it was done."""
    user, group = f"/api/ad/users/{ada}", directory.add_group(parent=organizational_unit)
    new = {"name": random_name("new"), "parent": organizational_unit}
    changes: dict[str, Change] = {
        "update": lambda: update(integration, ada),
        "disable": lambda: integration.post(f"{user}/disable"),
        "join": lambda: integration.post(f"/api/ad/groups/{group}/members", {"add": [str(ada)]}),
        "create": lambda: integration.post("/api/ad/users", new),
        "delete": lambda: integration.delete(user),
        "rename": lambda: integration.post(f"{user}/rename", {"name": random_name("renamed")}),
        "reset": lambda: integration.post(f"{user}/reset-password", {"newPassword": "Other-Horse-10"}),
    }
    return changes[request.param]


def test_a_retry_does_what_the_killed_request_did_not(change: Change) -> None:
    with killed_at_the_write(after_write=False):
        change()
    assert change().status < 300
    assert outcomes() == [NOT_APPLIED, SUCCEEDED]


def test_what_the_killed_request_did_is_its_own(change: Change) -> None:
    with killed_at_the_write(after_write=True):
        change()
    assert outcomes() == [SUCCEEDED]


@pytest.mark.parametrize("change", ["reset"], indirect=True)
def test_both_may_have_set_a_password(change: Change) -> None:
    with killed_at_the_write(after_write=True):
        change()
    assert change().status < 300
    assert outcomes() == [SUCCEEDED, SUCCEEDED]


def test_of_two_killed_requests_the_directory_names_the_one(integration: Integration, ada: UUID) -> None:
    with killed_at_the_write(after_write=False):
        update(integration, ada, "Countess")
    with killed_at_the_write(after_write=True):
        update(integration, ada, "Baroness")
    assert outcomes() == [NOT_APPLIED, SUCCEEDED]


def test_of_two_killed_requests_for_the_same_one_is_counted(change: Change) -> None:
    with killed_at_the_write(after_write=False):
        change()
    with killed_at_the_write(after_write=True):
        change()
    assert sorted(outcome for outcome, _ in outcomes()) == ["failed", "succeeded"]


def test_while_another_writer_is_at_it_nobody_knows(integration: Integration, ada: UUID) -> None:
    with killed_at_the_write(after_write=False):
        update(integration, ada)
    with killed_at_the_write(after_write=True):
        update(integration, ada)
    first = OperationRecord.objects.order_by("id")[0]
    OperationRecord.objects.filter(id=first.id).update(settle_at=timezone.now() - timedelta(seconds=1))
    tasks.sweep()
    first.refresh_from_db()
    assert first.outcome == "unknown"
    assert outcomes() == [SUCCEEDED, NOT_APPLIED]


def test_what_was_undone_can_be_done_again(
    integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    group = directory.add_group(parent=organizational_unit)
    path = f"/api/ad/groups/{group}/members"
    with killed_at_the_write(after_write=True):
        integration.post(path, {"add": [str(ada)]})
    assert integration.post(path, {"remove": [str(ada)]}).body["removed"] == 1
    assert integration.post(path, {"add": [str(ada)]}).body["added"] == 1
    assert outcomes() == [SUCCEEDED, SUCCEEDED, SUCCEEDED]
