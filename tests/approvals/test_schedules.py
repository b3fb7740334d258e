"""When a change may begin and end, and how that is judged."""

import pytest

from approvals.messages import message_about
from approvals.models import ChangeRequest
from audit.models import OperationRecord, WebhookDelivery, WebhookEndpoint
from core.call import SupervisionLevel
from core.configuration_sections import Budget
from directory.models import DirectoryConnection
from gateway import pipeline, tasks
from lab.directory import Directory, random_name
from operations.approvals.change_requests.lines import in_line_of
from tests.approvals.temporary import Later, Place, give, in_time
from tests.directory.supervised import approve, approve_request
from tests.support.agent_tools import call_tool
from tests.support.agents import make_agent
from tests.support.cast import Integration, make_integration
from tests.support.configuration import Configure

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"X_Revert_At": "2020-01-01T00:00:00Z"}, 400, "Schedules.BadTime"),
        ({"X_Revert_At": "2026-12-01T00:00:00"}, 400, "Schedules.BadTime"),
        ({"X_Revert_At": "2026-12-01T23:59:60Z"}, 400, "Schedules.BadTime"),
        ({"X_Revert_At": "9999-01-01T00:00:00Z"}, 400, "Schedules.BadTime"),
        ({"X_Revert_After": "PT30S"}, 400, "Schedules.BadTime"),
        ({"X_Revert_After": "P367D"}, 400, "Schedules.BadTime"),
        ({"X_Revert_After": "P1M"}, 400, "Schedules.BadTime"),
        ({"X_Revert_After": "P"}, 400, "Schedules.BadTime"),
        ({"X_Revert_After": "8 hours"}, 400, "Schedules.BadTime"),
        ({"X_Apply_At": "tomorrow"}, 400, "Schedules.BadTime"),
    ],
)
def test_bad_times(free: Integration, place: Place, headers: dict[str, str], status: int, code: str) -> None:
    refused = give(free, place.group, place.user(), **headers)
    assert (refused.status, refused.body["code"]) == (status, code)
    assert (place.members(), ChangeRequest.objects.count()) == (set(), 0)


def test_both_ends_are_refused(free: Integration, place: Place) -> None:
    refused = give(free, place.group, place.user(), X_Revert_After="PT1H", X_Revert_At=in_time(hours=1))
    assert (refused.status, refused.body["code"]) == (400, "Schedules.BadTime")
    assert refused.body["errors"][0]["parameter"] == "X-Revert-After"


def test_a_change_without_an_inverse_has_no_end(free: Integration, place: Place) -> None:
    bob = place.user()
    headers = {"X_Revert_After": "PT1H"}
    refused = free.post(f"/api/ad/users/{bob}/reset-password", {"newPassword": "Str0ng-Passw0rd!"}, **headers)
    assert (refused.status, refused.body["code"]) == (409, "Operations.NotRevertible")
    refused = free.post("/api/ad/groups", {"name": "x"}, X_Revert_After="PT1H", X_Apply_At="x")
    assert refused.body["code"] == "Schedules.BadTime"
    assert free.get("/api/me", **headers).status in (200, 400)


def test_beginning_and_ending(free: Integration, place: Place, later: Later) -> None:
    bob = place.user()
    answer = give(free, place.group, bob, X_Apply_At=in_time(hours=1), X_Revert_At=in_time(hours=3))
    assert (answer.status, answer.body["changeRequest"]["status"]) == (202, "scheduled")
    request = ChangeRequest.objects.get(id=answer.body["changeRequest"]["id"])
    later(minutes=30)
    assert place.members() == set()
    later(minutes=31)
    tasks.apply_change_request(str(request.id))
    request.refresh_from_db()
    assert (place.members(), request.status) == ({bob}, "applied")
    later(minutes=1)
    later(hours=2)
    assert place.members() == set()


def test_items_of_a_batch_have_times_of_their_own(
    free: Integration, place: Place, later: Later, directory: Directory
) -> None:
    users = [place.user() for _ in range(4)]
    times: list[dict[str, str]] = [{"revertAfter": "PT1H"}, {}, {"applyAt": in_time(hours=1)}, {"revertAt": "never"}]
    items = [{"id": str(user), "replace": {"title": "Head"}, **time} for user, time in zip(users, times, strict=True)]
    path = "/api/ad/users/batch/update"
    answer = free.post(path, {"items": items}).body["results"]
    assert [each["status"] for each in answer] == [200, 200, 202, 400]
    assert answer[3]["problem"]["errors"][0]["pointer"] == "#/items/3/revertAt"
    assert ["scheduledEnd" in each for each in answer] == [True, False, False, False]
    later(hours=2)
    assert [directory.text(user, "title") for user in users[:2]] == [None, "Head"]
    whole = free.post(path, {"items": items}, X_Revert_After="PT1H")
    assert (whole.status, whole.code) == (400, "Schedules.BadTime")


def test_events(free: Integration, place: Place, later: Later) -> None:
    WebhookEndpoint.objects.create(url="https://example.test/", events=["change-requests"], secret="whsec_QQ==")
    give(free, place.group, place.user(), X_Revert_After="P3D")
    for hours in (25, 24, 22.5, 0.75):
        later(hours=hours)
        tasks.sweep()
    told = list(WebhookDelivery.objects.order_by("id").values_list("event", flat=True))
    assert sorted(told) == sorted(
        ["change.scheduled", "change.revert.due", "change.revert.due", "change-request.applying", "change.reverted"]
    )


def test_what_has_to_be_approved_by_now_waits(free: Integration, place: Place, later: Later) -> None:
    bob = place.user()
    answer = give(free, place.group, bob, X_Apply_At=in_time(hours=1))
    request = ChangeRequest.objects.get(id=answer.body["changeRequest"]["id"])
    free.key.supervision_level = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY
    free.key.save()
    later(hours=1, minutes=1)
    tasks.apply_change_request(str(request.id))
    request.refresh_from_db()
    assert (request.status, place.members()) == ("superseded", set())
    waiting = ChangeRequest.objects.get(status="pending")
    assert (waiting.operation, waiting.target_id) == ("groups.change-members", place.group)


def test_a_budget_that_is_used_up_by_then_holds_it(
    free: Integration, place: Place, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    free.key.security_changes_per_hour = 0
    free.key.save()
    bob = place.user()
    asked = give(free, place.group, bob, X_Apply_At=in_time(hours=1))
    later(hours=1, minutes=1)
    assert ChangeRequest.objects.get(id=asked.body["changeRequest"]["id"]).status == "superseded"
    waiting = ChangeRequest.objects.get(status="pending")
    assert OperationRecord.objects.get(change_request_id=waiting.id).surface == "api"
    approve_request(waiting)
    with monkeypatch.context() as patched:
        patched.setattr("gateway.pipeline.approved._apply", _be_killed)
        with pytest.raises(KeyboardInterrupt):
            tasks.apply_change_request(str(waiting.id))
    later(minutes=1)
    tasks.sweep()  # finds out that the killed worker has written nothing
    tasks.apply_change_request(str(waiting.id))
    assert place.members() == {bob}


def _be_killed(_: ChangeRequest) -> str:
    raise KeyboardInterrupt


def test_an_agents_budget_that_is_used_up_by_then_holds_it(
    connection: DirectoryConnection, place: Place, later: Later, configure: Configure
) -> None:
    configure("Budgets", Agent=Budget(SecurityChangesPerHour=0))
    agent, bob = make_agent(connection, level=SupervisionLevel.ACT), place.user()
    asked = call_tool(
        agent, "change_members", id=str(place.group), add=[str(bob)], reason="INC-1", applyAt=in_time(hours=1)
    )
    assert not asked.is_error
    later(hours=1, minutes=1)
    waiting = ChangeRequest.objects.get(status="pending")
    assert waiting.agent
    pipeline.apply_change_request(approve_request(waiting).id)
    assert place.members() == {bob}


def test_a_name_that_looks_like_another_by_then_waits(
    connection: DirectoryConnection, place: Place, later: Later, directory: Directory
) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    bob, name = place.user(), random_name("Lovelace")
    path, body = f"/api/ad/users/{bob}/rename", {"name": name.replace("o", "\N{CYRILLIC SMALL LETTER O}")}
    asked = careful.post(path, body, X_Apply_At=in_time(hours=1))
    assert asked.body["changeRequest"]["status"] == "scheduled"
    directory.add_user(name, parent=place.unit)
    assert careful.post(f"{path}?dryRun=true", body).body["wouldQueue"]
    later(hours=1, minutes=1)
    assert ChangeRequest.objects.get(id=asked.body["changeRequest"]["id"]).status == "superseded"
    assert "looks like" in str(ChangeRequest.objects.get(status="pending").risk_reasons)


def test_a_change_for_later_is_withdrawn(free: Integration, place: Place, later: Later) -> None:
    answer = give(free, place.group, place.user(), X_Apply_At=in_time(hours=1))
    address = f"/api/change-requests/{answer.body['changeRequest']['id']}"
    assert free.post(f"{address}/cancel").body["status"] == "cancelled"
    later(hours=2)
    assert place.members() == set()


def test_approved_too_late(connection: DirectoryConnection, place: Place, later: Later) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    early, late, too_late = (give(careful, place.group, place.user(), X_Apply_At=in_time(hours=1)) for _ in range(3))
    ids = [each.body["changeRequest"]["id"] for each in (early, late, too_late)]
    approve(early)
    assert ChangeRequest.objects.get(id=ids[0]).status == "scheduled"
    assert place.members() == set()
    later(hours=2)
    tasks.apply_change_request(ids[0])
    assert len(place.members()) == 1
    approve(late)
    assert len(place.members()) == 2
    later(hours=24)
    tasks.sweep()
    assert ChangeRequest.objects.get(id=ids[2]).status == "expired"


def test_the_end_is_judged_with_the_change(free: Integration, place: Place) -> None:
    bob = place.user()
    shown = free.post(f"/api/ad/users/{bob}/disable?dryRun=true", X_Revert_After="PT1H").body
    assert shown["risk"] == "security"  # it enables the account again
    assert "revertAt" in shown
    assert free.post(f"/api/ad/users/{bob}/disable?dryRun=true").body["risk"] == "destructive"
    role = free.key.role
    role.permissions.remove(*role.permissions.filter(codename="enable_account"))
    assert free.post(f"/api/ad/users/{bob}/disable", X_Revert_After="PT1H").status == 403
    assert free.post(f"/api/ad/users/{bob}/disable").status == 200


def test_the_ends_of_a_batch_are_no_part_of_what_waits(
    connection: DirectoryConnection, place: Place, directory: Directory
) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    bob, eve = place.user(), place.user()
    items = [
        {"id": str(bob), "replace": {"title": "Head"}, "revertAfter": "PT1H"},
        {"id": str(eve), "replace": {"scriptPath": "logon.cmd"}},
    ]
    answer = careful.post("/api/ad/users/batch/update", {"items": items}).body
    assert [each["status"] for each in answer["results"]] == [200, 202]
    held = ChangeRequest.objects.get(status="pending")
    assert list(in_line_of(held)) == [held]
    told = message_about(held)
    assert told is not None
    assert told.title.startswith("Waits for a decision")
