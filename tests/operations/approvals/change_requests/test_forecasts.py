"""What an approver learns of a waiting change before deciding: whether it would be applied as things are now."""

from uuid import UUID, uuid4

import pytest

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import Console, Integration, make_connection, make_integration, make_person
from tests.support.sent_searches import note_searches

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


@pytest.fixture
def integration(domain: Domain) -> Integration:
    connection: DirectoryConnection = make_connection(domain)
    return make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)


@pytest.fixture
def user(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(parent=organizational_unit, title="Clerk")


def hold(integration: Integration, user: UUID) -> str:
    answer = integration.patch(f"/api/ad/users/{user}", {"replace": {"title": "Countess"}})
    return f"/rest/change-requests/{answer.body['changeRequest']['id']}"


def approver() -> Console:
    return Console(make_person(may=["approvals.decide_change", "directory.read_object"]))


def test_it_works(integration: Integration, user: UUID, directory: Directory) -> None:
    answer = approver().get(f"{hold(integration, user)}/forecast")
    assert answer.status == 200
    change = {"attribute": "title", "before": ["Clerk"], "after": ["Countess"]}
    assert answer.body == {"problem": None, "stale": False, "changes": [change], "warnings": []}
    assert directory.text(user, "title") == "Clerk"


def test_what_has_changed_since(integration: Integration, user: UUID, directory: Directory) -> None:
    held = hold(integration, user)
    directory.modify(user, title="Baroness")
    told = approver().get(f"{held}/forecast").body
    assert told["stale"]
    assert told["changes"] == [{"attribute": "title", "before": ["Baroness"], "after": ["Countess"]}]


def test_what_it_would_fail_with(integration: Integration, user: UUID, directory: Directory) -> None:
    held = hold(integration, user)
    directory.delete(user)
    told = approver().get(f"{held}/forecast").body
    assert (told["problem"]["code"], told["changes"], told["stale"]) == ("AD.Object.NotFound", [], False)


def test_a_key_that_may_not_any_more(integration: Integration, user: UUID) -> None:
    held = hold(integration, user)
    integration.key.role.permissions.clear()
    assert approver().get(f"{held}/forecast").body["problem"]["code"] == "Auth.Forbidden"


def test_several_are_judged_by_what_is_read_for_all_of_them(
    integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is not asked about each by itself: the page of hundreds would wait for it."""
    users = [directory.add_user(parent=organizational_unit, title="Clerk") for _ in range(8)]
    held = [hold(integration, user).rpartition("/")[2] for user in users]
    directory.modify(users[2], title="Baroness")
    directory.delete(users[5])
    sent = note_searches(monkeypatch)
    told = approver().get(f"/rest/change-requests/forecasts?ids={','.join(held)}").body
    assert (told["looked"], told["left"]) == (8, 0)
    exceptions = {item["id"]: item["forecast"]["stale"] for item in told["exceptions"]}
    assert exceptions == {held[2]: True, held[5]: False}
    assert sum(str(user) in base for base, _ in sent for user in users) <= 2, sent  # but for the one that is gone


def test_one_that_is_decided(integration: Integration, user: UUID) -> None:
    held, console = hold(integration, user), approver()
    assert console.post(f"{held}/reject", {"comment": "no"}).status == 200
    answer = console.get(f"{held}/forecast")
    assert (answer.status, answer.code) == (409, "Approvals.NotPending")


def test_for_strangers_there_is_none(integration: Integration, user: UUID) -> None:
    held = hold(integration, user)
    assert Console(make_person()).get(f"{held}/forecast").status == 404
    assert approver().get(f"/rest/change-requests/{uuid4()}/forecast").status == 404
    assert Console(integration.key.owner).get(f"{held}/forecast").status == 200
