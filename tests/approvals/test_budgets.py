"""Beyond a budget every further destructive or security change waits, whoever asks for it and on whatever surface."""

import threading
from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import connection as database

from approvals import budgets
from approvals.models import ChangeRequest
from audit.models import OperationRecord, WebhookDelivery, WebhookEndpoint
from core.call import SupervisionLevel
from core.configuration_sections import Budget
from core.redis.broker import BrokerUnavailable
from directory.models import DirectoryConnection
from gateway import tasks
from lab.directory import Directory
from tests.console.plain_browser import PlainBrowser
from tests.directory.supervised import approve
from tests.support.cast import Answer, Console, Integration, make_integration, make_person
from tests.support.configuration import Configure

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


@pytest.fixture
def users(directory: Directory, organizational_unit: str) -> Callable[[int], list[UUID]]:
    return lambda count: [directory.add_user(parent=organizational_unit) for _ in range(count)]


def give(key: Integration, **budget: int) -> None:
    for name, limit in budget.items():
        setattr(key.key, name, limit)
    key.key.save()


def disable(by: Integration, user: UUID) -> Answer:
    return by.post(f"/api/ad/users/{user}/disable")


def reasons(held: Answer) -> list[str]:
    """Why a change waits."""
    assert held.status == 202, held
    return ChangeRequest.objects.get(id=held.body["changeRequest"]["id"]).risk_reasons


def has_recorded(user: UUID) -> bool:
    return OperationRecord.objects.filter(target_id=user, outcome="succeeded", operation="users.disable").exists()


def test_a_key_has_used_up_its_own(
    free: Integration, users: Callable[[int], list[UUID]], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = WebhookEndpoint.objects.create(
        url="https://example.test/", events=["change-requests"], secret="whsec_QQ=="
    )
    give(free, destructive_changes_per_hour=2, destructive_changes_per_day=3)
    first, second, third, fourth = users(4)
    assert [disable(free, user).status for user in (first, second)] == [200, 200]
    assert disable(free, first).status == 200  # changes nothing, so it counts as nothing
    shown = free.post(f"/api/ad/users/{third}/disable?dryRun=true").body
    sentence = "The key has used up its budget of 2 destructive changes in an hour."
    assert (shown["wouldQueue"], shown["warnings"][0]) == (True, sentence)
    assert shown["budgets"][0] == {"of": "key", "risk": "destructive", "period": "hour", "limit": 2, "remaining": 0}
    held = disable(free, third)
    assert reasons(held)[0] == sentence
    assert not has_recorded(third)
    assert disable(free, fourth).status == 202
    assert free.post(f"/api/ad/users/{third}/enable").status == 200  # a security change has a budget of its own
    assert WebhookDelivery.objects.filter(endpoint=endpoint, event="budget.exceeded").count() == 1
    remaining = {(each["period"], each["remaining"]) for each in free.get("/api/me").body["budgets"]}
    assert remaining == {("hour", 0), ("day", 1)}
    approve(held)  # a person has decided: it is made, and counts as nothing
    assert has_recorded(third)
    now = budgets._bucket
    monkeypatch.setattr(budgets, "_bucket", lambda before=0: now(before=before - 3900))  # 65 minutes later
    (fifth,) = users(1)
    assert disable(free, fifth).status == 200
    assert disable(free, first).status == 200
    (sixth,) = users(1)
    assert "3 destructive changes in a day" in reasons(disable(free, sixth))[0]


def test_a_batch_is_held_from_where_the_budget_ends(
    free: Integration, users: Callable[[int], list[UUID]], directory: Directory
) -> None:
    give(free, security_changes_per_hour=2)
    people = users(4)
    items = [{"id": str(user), "replace": {"scriptPath": "logon.cmd"}} for user in people]
    shown = free.post("/api/ad/users/batch/update?dryRun=true", {"items": items}).body["results"]
    assert [item["wouldQueue"] for item in shown] == [False, False, True, True]
    assert [item["budgets"][0]["remaining"] for item in shown] == [2, 1, 0, 0]
    assert shown[2]["warnings"][0] == "The key has used up its budget of 2 security changes in an hour."
    answer = free.post("/api/ad/users/batch/update", {"items": items}).body
    assert [item["status"] for item in answer["results"]] == [200, 200, 202, 202]
    assert [directory.text(user, "scriptPath") for user in people] == ["logon.cmd"] * 2 + [None] * 2
    assert ChangeRequest.objects.filter(key_id=str(free.key.id)).count() == 2


def test_a_run_counts_each_account(
    free: Integration, users: Callable[[int], list[UUID]], directory: Directory, organizational_unit: str
) -> None:
    give(free, destructive_changes_per_hour=2)
    people = users(3)
    path = f"/api/ad/organization-units/{directory.guid(organizational_unit)}/accounts/disable"
    answer = free.post(path, {"accounts": [str(user) for user in people]})
    assert "2 destructive changes" in reasons(answer)[0]
    assert free.get("/api/me").body["budgets"][0]["remaining"] == 2


def test_a_run_that_cannot_be_started_counts_as_nothing(
    free: Integration,
    users: Callable[[int], list[UUID]],
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give(free, destructive_changes_per_hour=3)
    monkeypatch.setattr("directory.runs.requests.send_task", _be_away)
    path = f"/api/ad/organization-units/{directory.guid(organizational_unit)}/accounts/disable"
    for _ in range(3):
        assert free.post(path, {"accounts": [str(user) for user in users(2)]}).code == "Runs.Unavailable"
    assert free.get("/api/me").body["budgets"][0]["remaining"] == 3


def _be_away(*_: object, **__: object) -> None:
    raise BrokerUnavailable


def test_the_directory_has_one_for_everybody(
    connection: DirectoryConnection,
    free: Integration,
    users: Callable[[int], list[UUID]],
    configure: Configure,
) -> None:
    configure("Budgets", Directory=Budget(DestructiveChangesPerHour=1))
    first, second, third = users(3)
    assert disable(free, first).status == 200
    assert disable(make_integration(connection, level=SupervisionLevel.ACT), second).status == 202
    allowed = ["directory.disable_account", "directory.read_object", "approvals.decide_change"]
    person, decider = (Console(make_person(may=allowed)) for _ in range(2))
    page = PlainBrowser(person).open(f"/console/directory/objects/{third}/disable")
    page.press("Disable")
    held = ChangeRequest.objects.get(target_id=third)
    assert page.address == f"/console/changes/{held.id}"
    assert "A budget is used up, so a second person has to approve this first." in page.text
    assert person.post(f"/rest/change-requests/{held.id}/approve", {"digest": held.digest}).status == 409
    assert decider.post(f"/rest/change-requests/{held.id}/approve", {"digest": held.digest}).status == 200
    tasks.apply_change_request(str(held.id))
    assert has_recorded(third)


@pytest.mark.django_db(transaction=True)
def test_writers_together_never_exceed_it(free: Integration, users: Callable[[int], list[UUID]]) -> None:
    give(free, destructive_changes_per_hour=5)
    people, statuses = users(12), []

    def write(user: UUID) -> None:
        statuses.append(disable(Integration(free.key, free.value, free.client_id), user).status)
        database.close()

    threads = [threading.Thread(target=write, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] * 5 + [202] * 7
    assert sum(map(has_recorded, people)) == 5


def test_a_greater_one_is_more_access(free: Integration, configure: Configure) -> None:
    configure("Approvals", AccessNeedsTwo=True)
    give(free, destructive_changes_per_hour=5)
    console = Console(make_person(superuser=True))
    path = f"/rest/api-keys/{free.key.id}"
    assert console.patch(path, {"destructiveChangesPerHour": 6}).status == 202
    assert console.patch(path, {"destructiveChangesPerHour": None}).status == 202
    assert console.patch(path, {"destructiveChangesPerHour": -1}).status == 400
    page = console.get(f"/console/keys/{free.key.id}/edit").body.decode()
    assert 'name="destructiveChangesPerHour" value="5"' in page
    version = console.get(path).body["version"]
    fields = {"version": version, "name": "n", "destructiveChangesPerHour": "4", "securityChangesPerDay": "9"}
    assert console.submit(f"/console/keys/{free.key.id}/edit", **fields).status == 302
    found = console.get(path).body
    assert (found["destructiveChangesPerHour"], found["securityChangesPerDay"]) == (4, 9)
    assert "4 of 4 left within an hour" in console.get(f"/console/keys/{free.key.id}/use").body.decode()
