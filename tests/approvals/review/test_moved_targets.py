"""Confined people see and decide a request where its object is now, whatever its name was when it was asked for."""

import pytest

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.approvals.temporary import Place
from tests.support.cast import Answer, Console, Integration, as_scopes, make_integration, make_person

pytestmark = pytest.mark.django_db


@pytest.fixture
def inside(directory: Directory, place: Place) -> str:
    return directory.add_unit("Sales", parent=place.unit)


@pytest.fixture
def confined(connection: DirectoryConnection, directory: Directory, inside: str) -> Integration:
    level = SupervisionLevel.ASK_EVERY_CHANGE
    return make_integration(connection, level=level, scopes=[directory.guid(inside)])


@pytest.fixture
def approver(connection: DirectoryConnection, directory: Directory, inside: str) -> Console:
    person = make_person(may=["approvals.decide_change", "directory.read_object"])
    person.scopes = as_scopes([directory.guid(inside)], connection)
    person.save()
    return Console(person)


def decide(approver: Console, request: ChangeRequest) -> Answer:
    return approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest})


def test_its_container_was_renamed(confined: Integration, approver: Console, directory: Directory, inside: str) -> None:
    ada, bob = (directory.add_user(parent=inside) for _ in range(2))
    first, second = (confined.post(f"/api/ad/users/{user}/disable").body["changeRequest"]["id"] for user in (ada, bob))
    directory.rename(inside, "Sales and marketing")
    assert confined.get(f"/api/change-requests/{first}").body["status"] == "pending"
    assert confined.post(f"/api/change-requests/{first}/cancel").body["status"] == "cancelled"
    assert decide(approver, ChangeRequest.objects.get(id=second)).status == 200


def test_it_was_moved_away(
    confined: Integration, approver: Console, directory: Directory, place: Place, inside: str
) -> None:
    ada = directory.add_user(parent=inside)
    held = ChangeRequest.objects.get(id=confined.post(f"/api/ad/users/{ada}/disable").body["changeRequest"]["id"])
    directory.move(ada, parent=place.unit)
    assert decide(approver, held).status == 404
    assert confined.get(f"/api/change-requests/{held.id}").status == 404
