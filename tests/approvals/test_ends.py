"""A change that is made for a while ends by itself, once and at its time, whatever happened in between."""

from datetime import timedelta

import pytest
from django.db import connection as database

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from core.database import shared_clock
from directory.errors import DirectoryRejected, OutcomeUnknown
from directory.models import DirectoryConnection
from directory.outcomes.writer import RecordedWrite, Result
from gateway import pipeline, tasks
from gateway.models import IdempotencyRecord
from lab.directory import Directory
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.approvals.temporary import Later, Place, end_of, give, in_time
from tests.directory.supervised import approve
from tests.support.cast import Integration, make_connection, make_integration

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


def test_a_membership_ends(free: Integration, place: Place, later: Later) -> None:
    bob = place.user()
    given = give(free, place.group, bob, X_Revert_After="PT8H")
    assert (given.status, given.body["added"]) == (200, 1)
    end = end_of(given)
    assert (end.status, end.operation) == ("scheduled", "groups.change-members")
    later(hours=7, minutes=59)
    assert place.members() == {bob}
    shown = free.get(f"/api/change-requests/{end.id}").body
    assert (shown["status"], shown["changes"][0]["proposed"]) == ("scheduled", [])
    later(minutes=2)
    assert place.members() == set()
    end.refresh_from_db()
    assert (end.status, end.input, end.retry_at) == ("applied", "", None)
    record = OperationRecord.objects.get(change_request_id=end.id)
    assert (record.outcome, record.surface, record.operation) == ("succeeded", "worker", "groups.change-members")
    assert str(end.ends) in str(record.reason)
    later(days=1)
    assert OperationRecord.objects.filter(change_request_id=end.id).count() == 1


def test_an_end_outlives_the_key_and_its_owner(free: Integration, place: Place, later: Later) -> None:
    give(free, place.group, place.user(), X_Revert_After="PT8H")
    free.key.owner.is_active = False
    free.key.owner.save()
    free.key.delete()
    later(hours=9)
    assert place.members() == set()


def test_a_change_that_was_not_made_has_no_end(
    free: Integration, place: Place, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = place.user()
    monkeypatch.setattr("gateway.pipeline.execute.writer.write", _refuse)
    refused = give(free, place.group, bob, X_Revert_After="P1D")
    assert refused.status == 422
    end = ChangeRequest.objects.get()
    assert end.status == "scheduled"
    monkeypatch.undo()
    given = give(free, place.group, bob, X_Revert_After="P2D")  # at once: what failed is no end of this
    assert given.status == 200
    later(seconds=11)
    end.refresh_from_db()
    assert (end.status, end_of(given).status) == ("cancelled", "scheduled")


def _refuse(_client: object, recorded: RecordedWrite) -> Result:
    return Result(record=recorded.record, refusal=DirectoryRejected())


def test_what_was_there_before_does_not_end(free: Integration, place: Place, later: Later) -> None:
    bob, eve = place.user(), place.user()
    assert give(free, place.group, bob).status == 200
    given = give(free, place.group, bob, eve, X_Revert_After="PT1H")
    assert (given.body["added"], given.body["unchanged"]) == (1, 1)
    assert given.body["warnings"] == ["What was already in place will not be reverted."]
    later(hours=2)
    assert place.members() == {bob}
    again = give(free, place.group, bob, X_Revert_After="PT1H")
    assert (again.status, "Gateway-Scheduled-End" in again.headers) == (200, False)
    assert again.body["warnings"]


def test_the_latest_end_wins(free: Integration, place: Place, later: Later) -> None:
    bob, eve = place.user(), place.user()
    end = end_of(give(free, place.group, bob, eve, X_Revert_After="PT2H"))
    assert give(free, place.group, bob, X_Revert_After="PT1H").body["warnings"]  # earlier: the end stands
    assert give(free, place.group, bob, X_Revert_After="PT9H").status == 200
    later(hours=3)
    assert place.members() == {bob}
    end.refresh_from_db()
    assert end.status == "applied"
    later(hours=7)
    assert place.members() == set()


def test_a_grant_for_good_supersedes(free: Integration, place: Place, later: Later) -> None:
    bob = place.user()
    end = end_of(give(free, place.group, bob, X_Revert_After="PT2H"))
    assert give(free, place.group, bob).body["unchanged"] == 1
    end.refresh_from_db()
    assert end.status == "superseded"
    later(hours=3)
    assert place.members() == {bob}


def test_moving_an_end_is_supervised(connection: DirectoryConnection, free: Integration, place: Place) -> None:
    bob = place.user()
    end = end_of(give(free, place.group, bob, X_Revert_After="PT2H"))
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    for headers in ({}, {"X_Revert_After": "P2D"}):
        held = give(careful, place.group, bob, **headers)
        assert held.status == 202
    end.refresh_from_db()
    assert end.status == "scheduled"
    approve(held)
    before, end = end.due_at, ChangeRequest.objects.get(id=end.id)
    assert end.due_at is not None
    assert before is not None
    assert end.due_at - before > timedelta(hours=40)


def test_what_others_change_for_good_stays(free: Integration, place: Place, later: Later) -> None:
    bob, eve = place.user(), place.user()
    give(free, place.group, bob, eve, X_Revert_After="PT2H")
    path = f"/api/ad/groups/{place.group}/members"
    assert free.post(path, {"remove": [str(bob)]}).status == 200
    assert give(free, place.group, bob).status == 200
    later(hours=3)
    assert place.members() == {bob}


def test_overlapping_ends_are_refused(free: Integration, place: Place) -> None:
    bob = place.user()
    give(free, place.group, bob, X_Revert_After="PT1H")
    path = f"/api/ad/groups/{place.group}/members"
    refused = free.post(path, {"remove": [str(bob)]}, X_Revert_After="PT3H")
    assert (refused.status, refused.body["code"]) == (409, "Schedules.EndsAlready")


def test_a_held_change_runs_from_its_application(connection: DirectoryConnection, place: Place, later: Later) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    bob = place.user()
    held = give(careful, place.group, bob, X_Revert_After="PT8H")
    assert held.status == 202
    shown = careful.get(f"/api/change-requests/{held.body['changeRequest']['id']}").body
    assert shown["revertAfter"] == "PT28800S"
    later(hours=10)
    approve(held)
    assert place.members() == {bob}
    later(hours=7)
    assert place.members() == {bob}
    later(hours=2)
    assert place.members() == set()


def test_an_end_is_moved(free: Integration, place: Place, later: Later) -> None:
    bob = place.user()
    end = end_of(give(free, place.group, bob, X_Revert_After="PT2H"))
    address = f"/api/change-requests/{end.id}"
    assert free.post(f"{address}/extend", {"until": in_time(hours=5)}).code == "Schedules.NoEnd"  # not known to be made
    later(seconds=11)
    refused = free.post(f"{address}/extend", {"until": "2020-01-01T00:00:00Z"})
    assert (refused.code, refused.body["errors"][0]["pointer"]) == ("Schedules.BadTime", "#/until")
    until = in_time(hours=5)
    shown = free.post(f"{address}/extend?dryRun=true", {"until": until}).body
    (change,) = shown["changes"]
    assert (shown["risk"], change["attribute"], change["after"]) == ("security", "until", [until])
    moved = free.post(f"{address}/extend", {"until": until})
    assert (moved.status, moved.body["status"], moved.body["dueAt"]) == (200, "scheduled", until)
    record = OperationRecord.objects.get(operation="change-requests.extend", outcome="succeeded")
    assert (record.target_id, record.reversible) == (place.group, "none")
    later(hours=3)
    assert place.members() == {bob}
    assert free.post(f"{address}/cancel").code == "Approvals.NotPending"
    assert free.post(f"{address}/revert-now").status == 200
    assert place.members() == set()
    end.refresh_from_db()
    assert end.status == "superseded"
    assert free.post(f"{address}/extend", {"until": None}).code == "Schedules.NoEnd"


def test_an_end_is_given_up(free: Integration, place: Place, later: Later) -> None:
    bob = place.user()
    end = end_of(give(free, place.group, bob, X_Revert_After="PT2H"))
    later(seconds=11)
    assert free.post(f"/api/change-requests/{end.id}/extend", {"until": None}).body["status"] == "superseded"
    later(hours=3)
    assert place.members() == {bob}


def test_nobody_moves_the_end_of_what_they_may_not_do(
    connection: DirectoryConnection, free: Integration, place: Place, later: Later
) -> None:
    end = end_of(give(free, place.group, place.user(), X_Revert_After="PT2H"))
    later(seconds=11)
    role = free.key.role
    role.permissions.remove(*role.permissions.filter(codename="manage_membership"))
    for path, body in (("extend", {"until": None}), ("revert-now", None)):
        assert free.post(f"/api/change-requests/{end.id}/{path}", body).status == 403
    other = make_integration(connection, level=SupervisionLevel.ACT)
    assert other.post(f"/api/change-requests/{end.id}/extend", {"until": None}).status == 404


@pytest.mark.parametrize(
    "update", [{"replace": {"userAccountControl": "514"}}, {"account": {"expiresAt": "2030-01-01T00:00:00Z"}}]
)
def test_moving_the_end_of_an_update_needs_what_the_update_needed(
    connection: DirectoryConnection,
    free: Integration,
    place: Place,
    later: Later,
    update: dict[str, dict[str, str]],
) -> None:
    end = end_of(free.patch(f"/api/ad/users/{place.user()}", update, X_Revert_After="PT2H"))
    later(seconds=11)
    few = ["directory.update_user", "directory.read_object"]
    enough = [*few, "directory.enable_account", "directory.disable_account"]
    for may, status in ((few, 403), (enough, 200)):
        key = make_integration(connection, may=may, owner=free.key.owner)
        assert key.post(f"/api/change-requests/{end.id}/extend", {"until": in_time(hours=3)}).status == status


def test_who_may_not_see_a_member_does_not_move_its_end(
    connection: DirectoryConnection, free: Integration, place: Place, later: Later, directory: Directory
) -> None:
    inside = directory.add_unit("Inside", parent=place.unit)
    group = directory.add_group(parent=inside)
    end = end_of(give(free, group, place.user(), X_Revert_After="PT2H"))
    later(seconds=11)
    confined = make_integration(connection, owner=free.key.owner, scopes=[directory.guid(inside)])
    for path, body in (("extend", {"until": None}), ("revert-now", None)):
        assert confined.post(f"/api/change-requests/{end.id}/{path}", body).status == 403


def test_whether_somebody_has_changed_it_meanwhile_is_not_known(
    free: Integration, place: Place, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = place.user()
    end = end_of(give(free, place.group, bob, X_Revert_After="PT1H"))
    with monkeypatch.context() as patched:
        patched.setattr("gateway.pipeline.execute.writer.write", _lose)
        lost = free.post(f"/api/ad/groups/{place.group}/members", {"remove": [str(bob)]})
    assert lost.status == 504
    later(hours=2)
    end.refresh_from_db()
    assert end.status == "overdue"
    tasks.sweep()  # finds out that the member was not removed
    later(minutes=5)
    end.refresh_from_db()
    assert (end.status, place.members()) == ("applied", set())


def _lose(_client: object, recorded: RecordedWrite) -> Result:
    return Result(record=recorded.record, refusal=OutcomeUnknown())


def test_what_was_made_for_a_while_does_not_end_twice(free: Integration, place: Place, later: Later) -> None:
    made = free.post("/api/ad/contacts", {"name": "Guest", "parent": place.unit}, X_Revert_After="PT8H")
    later(seconds=11)
    assert free.post(f"/api/change-requests/{end_of(made).id}/revert-now").status == 200
    assert end_of(made).status == "superseded"


def test_an_end_that_the_directory_refuses_is_overdue(
    free: Integration, place: Place, later: Later, directory: Directory
) -> None:
    bob = place.user()
    old = directory.text(bob, "sAMAccountName")
    given = free.patch(f"/api/ad/users/{bob}", {"replace": {"sAMAccountName": f"x{old}"}}, X_Revert_After="PT1H")
    other = place.user()
    directory.modify(other, sAMAccountName=old)
    later(hours=1, minutes=1)
    end = end_of(given)
    assert (end.status, end.problem and end.problem["code"]) == ("overdue", "AD.Object.AlreadyExists")
    assert end.to_announce
    ChangeRequest.objects.filter(id=end.id).update(to_announce=False)
    later(hours=1, minutes=1)
    assert (end_of(given).status, end_of(given).to_announce) == ("overdue", False)  # told once
    directory.delete(other)
    later(minutes=30)
    assert end_of(given).status == "overdue"
    later(minutes=31)
    assert (end_of(given).status, directory.text(bob, "sAMAccountName")) == ("applied", old)


def test_a_directory_that_is_away(domain: Domain, place: Place, later: Later) -> None:
    proxy = FaultyProxy(domain.controller.address, 636)
    free = make_integration(make_connection(domain, urls=[proxy.url]), level=SupervisionLevel.ACT)
    given = give(free, place.group, place.user(), X_Revert_After="PT1H")
    later(seconds=11)
    proxy.cut()
    later(hours=1)
    assert (end_of(given).status, end_of(given).tries) == ("scheduled", 1)
    later(minutes=6)
    assert (end_of(given).status, end_of(given).problem) == ("overdue", None)
    proxy.restore()
    later(seconds=2)
    assert end_of(given).status == "overdue"  # tried a moment ago
    later(seconds=10)
    assert (end_of(given).status, place.members()) == ("applied", set())
    proxy.close()


def test_an_altered_end_is_not_made(free: Integration, place: Place, later: Later) -> None:
    bob, eve = place.user(), place.user()
    give(free, place.group, eve)
    end = end_of(give(free, place.group, bob, X_Revert_After="PT1H"))
    name = str(end.changes[0]["before"][0])
    eves = place.name_of(eve)
    changes = [{**end.changes[0], "before": [eves], "references": [{"name": eves, "id": str(eve)}]}]
    ChangeRequest.objects.filter(id=end.id).update(changes=changes)
    later(hours=2)
    end.refresh_from_db()
    assert (end.status, end.problem and end.problem["code"], bool(name)) == ("overdue", "Approvals.Changed", True)
    assert place.members() == {bob, eve}


def test_a_worker_that_is_lost_while_it_ends_a_change(
    free: Integration, place: Place, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = give(free, place.group, place.user(), X_Revert_After="PT1H")
    with monkeypatch.context() as killed:
        killed.setattr("approvals.ends.finish", lambda *_args, **_facts: _interrupt())
        with pytest.raises(KeyboardInterrupt):
            later(hours=2)
    assert (end_of(given).status, place.members()) == ("applying", set())
    later(seconds=5)
    assert end_of(given).status == "applying"  # its lease lasts
    later(seconds=6)
    assert end_of(given).status == "applied"
    assert OperationRecord.objects.filter(change_request_id=end_of(given).id).count() == 1


def test_a_sweep_leaves_time_for_other_work(
    free: Integration, place: Place, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = place.user()
    give(free, place.group, bob, X_Revert_After="PT1M")
    monkeypatch.setattr(shared_clock._offset, "value", timedelta(hours=2))
    with monkeypatch.context() as busy:
        busy.setattr("gateway.pipeline.ending.SWEEP_SECONDS", -1)
        assert pipeline.take_up_scheduled()
    assert place.members() == {bob}
    later()
    assert place.members() == set()


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_what_a_run_has_changed_since_stays(
    free: Integration, place: Place, later: Later, directory: Directory, organizational_unit: str
) -> None:
    bob = place.user()
    given = free.post(f"/api/ad/users/{bob}/disable", X_Revert_After="PT1H")
    unit = directory.guid(organizational_unit)
    for action in ("enable", "disable"):
        path = f"/api/ad/organization-units/{unit}/accounts/{action}"
        run = free.post(path, {"accounts": [str(bob)]}, Prefer="respond-async")
        tasks.execute_run(run.body["runId"])
    later(hours=2)
    assert (end_of(given).status, directory.is_enabled(bob)) == ("superseded", False)


def test_the_connection_is_deleted(
    connection: DirectoryConnection, free: Integration, place: Place, later: Later
) -> None:
    given = give(free, place.group, place.user(), X_Revert_After="PT1H")
    free.key.links.all().delete()
    connection.delete()
    later(hours=2)
    end = end_of(given)
    assert (end.status, end.problem and end.problem["detail"]) == (
        "failed",
        "The connection to its directory was deleted.",
    )


def test_one_that_cannot_be_read_stops_no_other(free: Integration, place: Place, later: Later) -> None:
    bob, eve = place.user(), place.user()
    first, second = (end_of(give(free, place.group, user, X_Revert_After="PT1H")) for user in (bob, eve))
    with database.cursor() as cursor:
        key = first.id.hex if database.vendor == "sqlite" else str(first.id)
        cursor.execute("UPDATE approvals_changerequest SET input = 'gAAAA' WHERE id = %s", [key])
    assert give(free, place.group, eve).status == 200  # nor does it keep anybody from changing the group
    later(hours=2)
    states = dict(ChangeRequest.objects.filter(ends__isnull=False).values_list("id", "status"))
    assert states == {first.id: "overdue", second.id: "superseded"}
    assert place.members() == {bob, eve}


def test_what_ends_at_this_moment_is_not_said_to_stay(free: Integration, place: Place) -> None:
    bob, eve = place.user(), place.user()
    end = end_of(give(free, place.group, bob, X_Revert_After="PT1H"))
    ChangeRequest.objects.filter(id=end.id).update(status="applying")
    for members in ((bob,), (bob, eve)):
        assert (give(free, place.group, *members).status, place.members()) == (409, {bob})


def test_a_retry_names_the_same_end(free: Integration, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    bob = place.user()
    once = {"X_Revert_After": "PT1H", "Idempotency_Key": "lend-bob"}
    given = give(free, place.group, bob, **once)
    again = give(free, place.group, bob, **once)
    assert (again.headers["Idempotency-Replayed"], end_of(again)) == ("true", end_of(given))
    IdempotencyRecord.objects.update(status=None, lease_until=shared_clock.now())  # as if its process had been killed
    interrupted = give(free, place.group, bob, **once)
    assert (interrupted.status, end_of(interrupted).due_at) == (200, end_of(given).due_at)
