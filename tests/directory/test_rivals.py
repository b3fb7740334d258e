"""A killed request leaves an open record and others change the same: whose change is it that the directory has?"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from audit.models import OperationRecord
from directory.ldap import Client
from gateway import tasks
from tests.support.cast import Answer, Integration
from tests.support.directory import PASSWORD, Directory, random_name

pytestmark = pytest.mark.sqlite


class Killed(BaseException):
    """The end of the process, as far as the request can tell."""


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada", parent=organizational_unit, title="Analyst", password=PASSWORD)


Change = Callable[[], Answer]


def killed(change: Change, monkeypatch: pytest.MonkeyPatch, *, after_write: bool) -> None:
    """Make a change whose process is killed before or after its write."""
    write = Client.write

    def write_and_die(client: Client, what: Any) -> str:
        if after_write:
            write(client, what)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Client, "write", write_and_die)
        with pytest.raises(Killed):
            change()


def settle() -> list[tuple[str, str | None]]:
    """Let the settler come by when it is due; the outcomes and codes of all changes in their order."""
    OperationRecord.objects.filter(outcome__in=["pending", "unknown"]).update(
        settle_at=timezone.now() - timedelta(seconds=1)
    )
    tasks.sweep()
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


def test_a_retry_does_what_the_killed_request_did_not(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(change, monkeypatch, after_write=False)
    assert change().status < 300
    assert settle() == [NOT_APPLIED, SUCCEEDED]


def test_what_the_killed_request_did_is_its_own(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(change, monkeypatch, after_write=True)
    assert settle() == [SUCCEEDED]


@pytest.mark.parametrize("change", ["reset"], indirect=True)
def test_both_may_have_set_a_password(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(change, monkeypatch, after_write=True)
    assert change().status < 300
    assert settle() == [SUCCEEDED, SUCCEEDED]


def test_of_two_killed_requests_the_directory_names_the_one(
    integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(lambda: update(integration, ada, "Countess"), monkeypatch, after_write=False)
    killed(lambda: update(integration, ada, "Baroness"), monkeypatch, after_write=True)
    assert settle() == [NOT_APPLIED, SUCCEEDED]


def test_of_two_killed_requests_for_the_same_one_is_counted(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(change, monkeypatch, after_write=False)
    killed(change, monkeypatch, after_write=True)
    assert sorted(outcome for outcome, _ in settle()) == ["failed", "succeeded"]


def test_while_another_writer_is_at_it_nobody_knows(
    integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(lambda: update(integration, ada), monkeypatch, after_write=False)
    killed(lambda: update(integration, ada), monkeypatch, after_write=True)
    first = OperationRecord.objects.order_by("id")[0]
    OperationRecord.objects.filter(id=first.id).update(settle_at=timezone.now() - timedelta(seconds=1))
    tasks.sweep()
    first.refresh_from_db()
    assert first.outcome == "unknown"
    assert settle() == [SUCCEEDED, NOT_APPLIED]


def test_what_was_undone_can_be_done_again(
    integration: Integration, ada: UUID, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = directory.add_group(parent=organizational_unit)
    path = f"/api/ad/groups/{group}/members"
    killed(lambda: integration.post(path, {"add": [str(ada)]}), monkeypatch, after_write=True)
    assert integration.post(path, {"remove": [str(ada)]}).body["removed"] == 1
    assert integration.post(path, {"add": [str(ada)]}).body["added"] == 1
    assert settle() == [SUCCEEDED, SUCCEEDED, SUCCEEDED]
