"""Rules for groups whose memberships are temporary hold on every way to a membership."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection, MembershipRule
from lab.directory import Directory
from lab.domain import Domain
from tests.approvals.temporary import Later, Place, end_of, give, in_time
from tests.directory.supervised import approve
from tests.support.agent_tools import call_tool
from tests.support.agents import make_agent
from tests.support.cast import Console, Integration, make_connection, make_integration, make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

TOO_LONG = (400, "Schedules.TooLong")


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(superuser=True))


@pytest.fixture
def make_rule(console: Console, place: Place) -> Any:
    def make(group: UUID | None = None, **members: Any) -> dict[str, Any]:
        made = console.post("/rest/membership-rules", {"group": str(group or place.group), **members})
        assert made.status == 201, made.body
        return dict(made.body)

    return make


def test_the_default_and_the_longest(free: Integration, place: Place, later: Later, make_rule: Any) -> None:
    eve = place.user()
    assert give(free, place.group, eve).status == 200  # before the rule: stays
    make_rule(maxDuration="PT8H", defaultDuration="PT2H")
    bob, ada = place.user(), place.user()
    path = f"/api/ad/groups/{place.group}/members"
    shown = free.post(f"{path}?dryRun=true", {"add": [str(bob)]}).body
    assert shown["changes"][-1] == {"attribute": "until", "before": [], "after": ["PT2H"]}
    assert in_time(hours=1) < shown["revertAt"] < in_time(hours=3)
    given = give(free, place.group, bob)
    assert (given.status, end_of(given).operation) == (200, "groups.change-members")
    for headers in ({"X_Revert_After": "PT9H"}, {"X_Revert_At": in_time(hours=9)}):
        refused = give(free, place.group, ada, **headers)
        assert (refused.status, refused.code, refused.body["maxDuration"]) == (*TOO_LONG, "PT8H")
    refused = give(free, place.group, ada, X_Apply_At=in_time(hours=1), X_Revert_At=in_time(hours=10))
    assert (refused.status, refused.code) == TOO_LONG
    assert give(free, place.group, ada, X_Revert_At=in_time(hours=8)).status == 200
    both = {"add": [str(place.user())], "remove": [str(eve)]}
    assert free.post(path, both, X_Revert_After="PT1H").code == "Schedules.TooLong"
    later(hours=3)
    assert place.members() == {eve, ada}
    later(hours=6)
    assert place.members() == {eve}
    assert free.post(path, {"remove": [str(eve)]}).status == 200
    record = OperationRecord.objects.filter(operation="groups.change-members").latest("id")
    assert free.post(f"/api/operations/{record.id}/revert").status == 200  # given back for the default
    assert place.members() == {eve}
    later(hours=3)
    assert place.members() == set()


def test_a_domain_that_is_connected_twice(domain: Domain, place: Place, make_rule: Any) -> None:
    make_rule(maxDuration="PT8H")
    other = make_integration(make_connection(domain))
    refused = give(other, place.group, place.user())
    assert (refused.status, refused.code) == TOO_LONG


def test_without_a_default_an_end_is_named(free: Integration, place: Place, later: Later, make_rule: Any) -> None:
    bob = place.user()
    make_rule(maxDuration="PT8H")
    refused = give(free, place.group, bob)
    assert (refused.status, refused.code) == TOO_LONG
    end = end_of(give(free, place.group, bob, X_Revert_After="PT2H"))
    assert give(free, place.group, bob).code == "Schedules.TooLong"  # for good
    later(seconds=11)
    address = f"/api/change-requests/{end.id}/extend"
    for until in (None, in_time(hours=9)):
        refused = free.post(address, {"until": until})
        assert (refused.status, refused.code) == TOO_LONG
    assert free.post(address, {"until": in_time(hours=7)}).status == 200
    later(hours=6)
    assert free.post(address, {"until": in_time(hours=8)}).status == 200  # counted from now
    assert place.members() == {bob}


def test_every_way_in(free: Integration, place: Place, later: Later, make_rule: Any, directory: Directory) -> None:
    make_rule(defaultDuration="PT1H", reasonRequired=True)
    users = [place.user() for _ in range(5)]
    names = [place.name_of(user) for user in users]
    add = [{"add": {"member": [name]}} for name in names]
    group = str(place.group)
    assert free.patch(f"/api/ad/groups/{group}", add[0]).code == "Schedules.ReasonRequired"
    why = {"X_Change_Reason": "INC-1"}
    assert free.patch(f"/api/ad/groups/{group}", add[0], **why).status == 200
    description = {"replace": {"member": names[:2], "description": ["Kept"]}}
    assert free.patch(f"/api/ad/objects/{group}", description, **why).status == 200
    items = [{"id": group, **change} for change in add[2:4]]
    batch = free.post("/api/ad/groups/batch/update", {"items": items}, **why)
    assert all("scheduledEnd" in each for each in batch.body["results"]), batch.body
    assert place.members() == set(users[:4])
    assert ChangeRequest.objects.filter(ends__isnull=False).count() == 4
    # A primary group needs no `member`: it is one for good.
    refused = free.patch(f"/api/ad/users/{users[0]}", {"replace": {"primaryGroupID": [_number(directory, place)]}})
    assert (refused.status, refused.code) == TOO_LONG
    later(hours=2)
    assert place.members() == set()
    assert directory.text(place.group, "description") == "Kept"


def _number(directory: Directory, place: Place) -> str:
    return str(int.from_bytes(directory.read(place.group, "objectSid")["objectSid"][0][-4:], "little"))


def test_nested_groups(free: Integration, place: Place, later: Later, make_rule: Any, directory: Directory) -> None:
    inner = directory.add_group(parent=place.unit)
    outer = directory.add_group(parent=place.unit, members=[place.group])
    make_rule(outer, maxDuration="PT1H")
    assert give(free, place.group, place.user()).code == "Schedules.TooLong"
    assert give(free, outer, inner, X_Revert_After="PT1H").status == 200
    assert give(free, inner, place.user()).status == 200  # its members leave with it
    assert give(free, place.group, inner, X_Revert_After="PT2H").code == "Schedules.TooLong"


def test_what_was_approved(connection: DirectoryConnection, place: Place, later: Later, make_rule: Any) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    bob, eve = place.user(), place.user()
    unlimited = give(careful, place.group, bob)
    rule = make_rule(maxDuration="PT8H", defaultDuration="PT2H")
    held = give(careful, place.group, eve)
    request = ChangeRequest.objects.get(id=held.body["changeRequest"]["id"])
    assert request.changes[-1]["attribute"] == "until"
    approve(held)
    approve(unlimited)
    assert place.members() == {eve}  # what was approved was a membership for good
    later(hours=3)
    assert place.members() == set()
    held = give(careful, place.group, bob, X_Revert_After="PT8H")
    MembershipRule.objects.filter(id=rule["id"]).update(max_duration=timedelta(hours=1), default_duration=None)
    approve(held)
    request = ChangeRequest.objects.get(id=held.body["changeRequest"]["id"])
    assert (request.status, request.problem and request.problem["code"]) == ("failed", "Schedules.TooLong")


@pytest.mark.parametrize("deleted", ["user", "group"])
def test_what_is_restored(free: Integration, place: Place, later: Later, make_rule: Any, deleted: str) -> None:
    bob = place.user()
    assert give(free, place.group, bob).status == 200
    make_rule(maxDuration="PT1H")
    gone = bob if deleted == "user" else place.group
    assert free.delete(f"/api/ad/{deleted}s/{gone}").status == 204
    address = f"/api/ad/deleted-objects/{gone}/restore"
    assert "come back with an end" in str(free.post(f"{address}?dryRun=true").body["warnings"])
    assert free.post(address).status == 200
    assert place.members() == {bob}
    later(hours=2)
    assert place.members() == set()


def test_an_agent(connection: DirectoryConnection, place: Place, later: Later, make_rule: Any) -> None:
    make_rule(maxDuration="PT8H")
    agent = make_agent(connection, level=SupervisionLevel.ACT)
    member: dict[str, Any] = {"id": str(place.group), "add": [str(place.user())], "reason": "INC-1"}
    refused = call_tool(agent, "change_members", **member)
    assert (refused.is_error, "PT8H" in str(refused.structured)) == (True, True)
    assert not call_tool(agent, "change_members", **member, revertAfter="PT8H").is_error
    later(hours=9)
    assert place.members() == set()
