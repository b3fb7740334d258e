"""Services and computers are named in changes that wait, and who has a name may change: the change is about the objects
that had it when it was asked for, and is decided by those alone to whom nothing of it is hidden by then.
"""

from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory, random_name
from tests.approvals.test_references import forecast
from tests.directory.supervised import approve, approve_only
from tests.support.cast import Answer, Console, Integration, make_confined, make_integration

VALUES = {
    "userWorkstations": "{host}",
    "msDS-AllowedToDelegateTo": "cifs/{host}.example.test:445",
}


class World:
    """An account in a unit, with a computer there and one outside."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self.directory = directory
        self.inside, self.outside = (directory.add_unit(random_name(name), parent=unit) for name in ("in", "out"))
        self.unit_id = directory.guid(self.inside)
        self.user = directory.add_user(parent=self.inside)
        self.host = random_name("pc")[:12]
        self.computer, self.canary = (self._computer(self.host, self.inside), self._computer("other", self.outside))

    def _computer(self, host: str, parent: str) -> UUID:
        return self.directory.add_computer(host, parent=parent, dNSHostName=f"{host}.example.test")

    def give_the_name_to_the_canary(self) -> None:
        self.call(self.computer, random_name("pc")[:12])
        self.call(self.canary, self.host)

    def call(self, computer: UUID, host: str) -> None:
        self.directory.modify(computer, sAMAccountName=f"{host}$", dNSHostName=f"{host}.example.test")


@pytest.fixture
def world(directory: Directory, organizational_unit: str) -> World:
    return World(directory, organizational_unit)


def ask(careful: Integration, world: World, name: str) -> Answer:
    value = VALUES[name].format(host=world.host)
    return careful.patch(f"/api/ad/users/{world.user}", {"replace": {name: value}})


def decide(approver: Console, held: Answer) -> int:
    request = ChangeRequest.objects.get(id=held.body["changeRequest"]["id"])
    return approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest}).status


@pytest.mark.parametrize("name", VALUES)
def test_whoever_has_the_name_by_then_is_not_meant(careful: Integration, world: World, name: str) -> None:
    held = ask(careful, world, name)
    assert (forecast(held)["problem"], forecast(held)["stale"]) == (None, False)
    world.give_the_name_to_the_canary()
    assert forecast(held)["stale"]
    assert approve(held).status == "stale"
    assert name not in world.directory.read(world.user)


@pytest.mark.parametrize("name", VALUES)
def test_nor_is_who_gets_it_after_the_approval(careful: Integration, world: World, name: str) -> None:
    request = approve_only(ask(careful, world, name))
    world.give_the_name_to_the_canary()
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    assert request.status == "stale"
    assert name not in world.directory.read(world.user)


@pytest.mark.parametrize("name", VALUES)
def test_the_same_computer_in_another_place_is_the_same(careful: Integration, world: World, name: str) -> None:
    held = ask(careful, world, name)
    world.directory.rename(world.computer, random_name("renamed"))
    assert approve(held).status == "applied"
    assert world.directory.text(world.user, name) == VALUES[name].format(host=world.host)


@pytest.mark.parametrize("name", VALUES)
def test_a_confined_approver_decides_by_where_it_is_now(
    connection: DirectoryConnection, careful: Integration, world: World, name: str
) -> None:
    approver = Console(make_confined("owner", connection, world.unit_id).key.owner)
    held = ask(careful, world, name)
    world.give_the_name_to_the_canary()
    assert decide(approver, held) == 403, "the canary has the name by now"
    world.call(world.canary, "other")
    world.call(world.computer, world.host)
    assert decide(approver, held) == 200


@pytest.mark.parametrize("name", VALUES)
def test_a_confined_key_loses_what_leaves_its_scopes(connection: DirectoryConnection, world: World, name: str) -> None:
    """Its scopes count anew when the change is applied, though an approver of everything said yes."""
    confined = make_integration(connection, scopes=[world.unit_id], level=SupervisionLevel.ASK_EVERY_CHANGE)
    held = ask(confined, world, name)
    world.directory.move(world.computer, parent=world.outside)
    assert approve(held).status == "failed"
    assert name not in world.directory.read(world.user)
