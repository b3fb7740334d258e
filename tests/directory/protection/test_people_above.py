"""Accounts of people who may do more in the gateway than the caller: whoever takes the account takes their rights."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, Permission

from core.call import SupervisionLevel
from core.operation import Operation
from directory.models import DirectoryConnection
from gateway import pipeline
from keys.models import Person
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.audit.every_change import BATCHABLE, CHANGES, Attempt, World, attempt, named, records_of
from tests.directory.supervised import approve_only
from tests.support.cast import (
    Console,
    Integration,
    all_permissions,
    make_connection,
    make_integration,
    make_person,
    permissions,
)

OF_EXISTING = [item for item in CHANGES if item.action != "create"]
ADMINISTRATOR = ("keys.change_person",)  # no key ever holds it

MakePerson = Callable[..., Person]


@pytest.fixture
def world(integration: Integration, directory: Directory, organizational_unit: str) -> World:
    return World(integration, directory, organizational_unit)


@pytest.fixture
def limited(connection: DirectoryConnection) -> Integration:
    """May do everything that a key may, but write protected objects."""
    return make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})


@pytest.fixture
def make_person_of(connection: DirectoryConnection) -> MakePerson:
    """Makes the person of the gateway that an account of the directory is."""

    def make(account: UUID, *may: str, of: DirectoryConnection = connection, **fields: Any) -> Person:
        person = Person.objects.create(
            username=f"{of.name}\\{random_name('person')}", connection=of, object_guid=account, password="!", **fields
        )
        person.user_permissions.set(permissions(may))
        return person

    return make


def person_concerned(change: Attempt, make_person_of: MakePerson, *may: str, **fields: Any) -> None:
    """Let what the change writes be somebody's account."""
    assert change.target is not None
    make_person_of(change.target, *may, **fields)


@pytest.mark.parametrize("operation", OF_EXISTING, ids=named)
def test_no_change_of_the_account_of_an_administrator(
    operation: Operation, world: World, limited: Integration, make_person_of: MakePerson
) -> None:
    change = attempt(operation, world)
    person_concerned(change, make_person_of, *ADMINISTRATOR)
    answer = change.ask(limited, **{"X-Request-Id": "refused"})
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert not change.is_done()
    (record,) = records_of(world.integration, "refused")
    assert (record["outcome"], record["code"]) == ("failed", "Auth.Forbidden")
    method, path, body = change.request
    assert limited.call(method, f"{path}?dryRun=true", body).status == 403
    told = world.integration.call(method, f"{path}?dryRun=true", body)
    assert (told.status, told.body["risk"]) == (200, "security")
    assert "a person who may do more in this gateway" in str(told.body["warnings"])
    assert change.ask(world.integration).status in (200, 204)
    assert change.is_done()


@pytest.mark.parametrize("operation", [item for item in BATCHABLE if item.action != "create"], ids=named)
def test_no_batch(operation: Operation, world: World, limited: Integration, make_person_of: MakePerson) -> None:
    ordinary, change, other = (attempt(operation, world) for _ in range(3))
    person_concerned(change, make_person_of, *ADMINISTRATOR)
    path = f"/api/{operation.path}".removesuffix("/{id}") + f"/batch/{operation.action}"
    answer = limited.post(path, {"items": [each.item for each in (ordinary, change, other)]})
    assert [item["status"] for item in answer.body["results"]] == [
        ordinary_status(operation),
        403,
        ordinary_status(operation),
    ]
    assert (ordinary.is_done(), change.is_done(), other.is_done()) == (True, False, True)


def ordinary_status(operation: Operation) -> int:
    return operation.status


HOLDERS: dict[str, Callable[[str, str], tuple[str, str, Any]]] = {
    "delete": lambda unit, _: ("DELETE", f"/api/ad/organization-units/{unit}?recursive=true", None),
    "delete as an object": lambda unit, _: ("DELETE", f"/api/ad/objects/{unit}?recursive=true", None),
    "move": lambda unit, other: ("POST", f"/api/ad/organization-units/{unit}/move", {"parent": other}),
    "rename": lambda unit, _: ("POST", f"/api/ad/objects/{unit}/rename", {"name": random_name("renamed")}),
    "link policies": lambda unit, _: ("PATCH", f"/api/ad/organization-units/{unit}", {"replace": {"gPOptions": "1"}}),
}


@pytest.mark.parametrize("way", HOLDERS)
def test_what_holds_the_account(
    way: str, limited: Integration, integration: Integration, directory: Directory, world: World, make_person_of: Any
) -> None:
    outer = directory.add_unit(random_name("outer"), parent=world.unit)
    inner = directory.add_unit(random_name("inner"), parent=outer)
    make_person_of(directory.add_user(parent=inner), *ADMINISTRATOR)
    method, path, body = HOLDERS[way](str(directory.guid(outer)), directory.add_unit("Other", parent=world.unit))
    assert limited.call(method, path, body).status == 403
    assert directory.exists(outer)
    answer = integration.call(method, f"{path}{'&' if '?' in path else '?'}dryRun=true", body)
    assert "it holds the account of a person" in str(answer.body["warnings"])
    assert integration.call(method, path, body).status in (200, 204)


def test_a_run_leaves_it_out(
    limited: Integration, integration: Integration, directory: Directory, world: World, make_person_of: Any
) -> None:
    account = world.add("users")
    make_person_of(account, *ADMINISTRATOR)
    path = f"/api/ad/organization-units/{directory.guid(world.unit)}/accounts/plan?action=disable"
    for key in (limited, integration):  # a run never takes a protected one, whoever asks
        (planned,) = key.get(path).body["accounts"]
        assert planned["effect"] == "protected"


PEOPLE: dict[str, Callable[[MakePerson, UUID], object]] = {
    "inactive": lambda make, ada: make(ada, *ADMINISTRATOR, is_active=False),
    "superuser": lambda make, ada: make(ada, is_superuser=True),
    "approver": lambda make, ada: make(ada, "approvals.decide_change"),
}


@pytest.mark.parametrize("who", PEOPLE)
def test_who_is_protected(
    who: str, connection: DirectoryConnection, make_person_of: MakePerson, ada: UUID, directory: Directory
) -> None:
    helpdesk = make_integration(connection, may=["directory.reset_password"])
    PEOPLE[who](make_person_of, ada)
    path, body = f"/api/ad/users/{ada}/reset-password", {"newPassword": "Another-Horse-10"}
    assert helpdesk.post(path, body).status == 403
    assert not directory.can_sign_in(ada, "Another-Horse-10")


def test_a_permission_of_a_group_protects(limited: Integration, make_person_of: MakePerson, ada: UUID) -> None:
    group = Group.objects.create(name=random_name("administrators"))
    group.permissions.set(permissions(ADMINISTRATOR))
    make_person_of(ada).groups.add(group)
    assert limited.post(f"/api/ad/users/{ada}/disable").status == 403


def test_through_another_connection_to_the_same_domain(
    limited: Integration, domain: Domain, make_person_of: MakePerson, ada: UUID
) -> None:
    make_person_of(ada, *ADMINISTRATOR, of=make_connection(domain))
    assert limited.post(f"/api/ad/users/{ada}/disable").status == 403


def test_not_against_who_holds_as_much(limited: Integration, make_person_of: MakePerson, ada: UUID) -> None:
    make_person_of(ada, "directory.read_object", "directory.reset_password")
    assert limited.post(f"/api/ad/users/{ada}/disable").status == 200


def test_a_key_below_its_owner_does_not_take_the_owners_account(
    connection: DirectoryConnection, make_person_of: MakePerson, ada: UUID
) -> None:
    owner = make_person_of(ada, "directory.reset_password", *ADMINISTRATOR)
    key = make_integration(connection, may=["directory.reset_password"], owner=owner)
    answer = key.post(f"/api/ad/users/{ada}/reset-password", {"generate": True})
    assert answer.status == 403


def test_people_are_bound_likewise(connection: DirectoryConnection, make_person_of: MakePerson, ada: UUID) -> None:
    held = set(all_permissions()) - {"directory.manage_protected"}
    make_person_of(ada, *ADMINISTRATOR)
    path = f"/rest/ad/users/{ada}/disable"
    assert Console(make_person(may=held)).post(path).status == 403
    assert Console(make_person(may=[*held, *ADMINISTRATOR])).post(path).status == 200


def test_only_a_superuser_writes_the_account_of_a_superuser(
    connection: DirectoryConnection, make_person_of: MakePerson, ada: UUID
) -> None:
    make_person_of(ada, is_superuser=True)
    almost = make_person()
    almost.user_permissions.set(Permission.objects.exclude(codename="manage_protected"))
    assert Console(almost).post(f"/rest/ad/users/{ada}/disable").status == 403
    assert Console(make_person(superuser=True)).post(f"/rest/ad/users/{ada}/disable").status == 200


def test_an_approved_change_is_judged_by_what_is_held_then(
    connection: DirectoryConnection, make_person_of: MakePerson, ada: UUID, directory: Directory
) -> None:
    key = make_integration(
        connection, may=["directory.disable_account"], level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY
    )
    person = make_person_of(ada)
    request = approve_only(key.post(f"/api/ad/users/{ada}/disable"))
    person.user_permissions.set(permissions(ADMINISTRATOR))
    pipeline.apply_change_request(request.id)
    request.refresh_from_db()
    assert request.status == "failed"
    assert directory.is_enabled(ada)
