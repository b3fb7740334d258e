"""Groups of a directory that stand for permission groups: who is in them gets and loses what these give."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from gateway import tasks
from keys.models import Person
from keys.models.people import DirectoryGroup, keep_scopes
from keys.people import account_status
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import (
    Answer,
    Console,
    all_permissions,
    as_scopes,
    make_connection,
    make_integration,
    make_person,
    permissions,
    send,
)

READ, ADMINISTERS = "directory.read_object", "keys.view_person"
LATER = timedelta(seconds=61)


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="corp")


@pytest.fixture(autouse=True)
def directories_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds a directory taken for silent because another one's was."""
    monkeypatch.setattr(account_status, "_lookups", {})


class Desk:
    """A group of the directory with one inside it, and the permission group that it stands for."""

    def __init__(self, connection: DirectoryConnection, directory: Directory, unit: str) -> None:
        self.directory, self.unit, self.connection = directory, unit, connection
        self.name = random_name("ada")
        self.ada = directory.add_user(parent=unit, password=PASSWORD, sAMAccountName=self.name)
        self.inner = directory.add_group(parent=unit)
        self.outer = directory.add_group(parent=unit, members=[self.inner])
        self.group = Group.objects.create(name=random_name("desk"))
        self.group.permissions.set(permissions([READ, ADMINISTERS]))
        self.browser = Client()

    def map(self, *groups: UUID) -> None:
        DirectoryGroup.objects.filter(group=self.group).delete()
        for guid in groups:
            DirectoryGroup.objects.create(
                group=self.group,
                connection=self.connection,
                object_guid=guid,
                distinguished_name=self.directory.dn(guid),
            )

    def sign_in(self) -> Answer:
        body = {"username": self.name, "password": PASSWORD, "directory": self.connection.name}
        return send(self.browser, "POST", "/rest/session", body)

    @property
    def person(self) -> Person:
        return Person.objects.get(object_guid=self.ada)

    @property
    def groups(self) -> set[str]:
        return set(self.person.groups.values_list("name", flat=True))

    def look(self) -> None:
        """As the sweep does, when a minute is over."""
        Person.objects.filter(pk=self.person.pk).update(directory_checked_at=timezone.now() - LATER)
        tasks.check_people()

    def join(self, group: UUID) -> None:
        self.directory.add_values(group, member=self.directory.dn(self.ada))

    def leave(self, group: UUID) -> None:
        self.directory.modify(group, member=[])


@pytest.fixture
def desk(connection: DirectoryConnection, directory: Directory, organizational_unit: str) -> Desk:
    return Desk(connection, directory, organizational_unit)


def records_of(person: Person) -> list[OperationRecord]:
    return list(OperationRecord.objects.filter(target_id=person.public_id, operation="people.update").order_by("id"))


def test_it_works(desk: Desk) -> None:
    desk.map(desk.outer)
    desk.join(desk.inner)
    answer = desk.sign_in()
    assert (answer.status, answer.body["user"]["permissions"]) == (200, [READ, ADMINISTERS])
    assert send(desk.browser, "GET", "/rest/users").status == 200
    (record,) = records_of(desk.person)
    assert (record.owner, record.raised_access[0]) == ("(gateway)", "the person joins a group")
    assert record.changes[0]["after"] == [desk.group.name]
    desk.look()
    assert len(records_of(desk.person)) == 1, "nothing has changed"
    desk.leave(desk.inner)
    desk.look()
    assert desk.groups == set()
    assert send(desk.browser, "GET", "/rest/users").status == 403
    assert [change["before"] for change in records_of(desk.person)[1].changes] == [[desk.group.name]]
    desk.join(desk.outer)
    desk.look()
    assert desk.groups == {desk.group.name}


def test_groups_by_hand_stay(desk: Desk) -> None:
    by_hand = Group.objects.create(name=random_name("by hand"))
    desk.map(desk.outer)
    desk.join(desk.outer)
    assert desk.sign_in().status == 200
    desk.person.groups.add(by_hand)
    desk.look()
    assert desk.groups == {desk.group.name, by_hand.name}
    both = Group.objects.create(name=random_name("both"))
    desk.person.groups.add(both)
    DirectoryGroup.objects.create(group=both, connection=desk.connection, object_guid=desk.outer, distinguished_name="")
    desk.look()
    desk.leave(desk.outer)
    desk.look()
    assert desk.groups == {by_hand.name, both.name}


def test_the_primary_group_counts(desk: Desk) -> None:
    desk.map(desk.directory.guid(f"CN=Domain Users,CN=Users,{desk.directory.base_dn}"))
    desk.sign_in()
    assert desk.groups == {desk.group.name}


GONE: dict[str, Callable[[Desk], object]] = {
    "deleted": lambda desk: desk.directory.delete(desk.outer),
    "no security group any more": lambda desk: desk.directory.modify(desk.outer, groupType="2"),
    "not mapped any more": lambda desk: desk.map(),
    "made anew": lambda desk: (
        desk.directory.rename(desk.outer, random_name("old")),
        desk.map(desk.directory.add_group(parent=desk.unit)),
    ),
}


@pytest.mark.parametrize("way", GONE)
def test_a_group_that_is_gone_has_nobody(way: str, desk: Desk) -> None:
    desk.map(desk.outer)
    desk.join(desk.outer)
    desk.sign_in()
    assert desk.groups == {desk.group.name}
    GONE[way](desk)
    desk.look()
    assert desk.groups == set()
    assert desk.person.is_active


def test_a_silent_directory_changes_nothing(
    domain: Domain, directory: Directory, organizational_unit: str, directory_proxy: FaultyProxy, db: None
) -> None:
    desk = Desk(make_connection(domain, url=directory_proxy.url, name="far"), directory, organizational_unit)
    desk.map(desk.outer)
    desk.join(desk.outer)
    assert desk.sign_in().status == 200
    desk.leave(desk.outer)
    directory_proxy.cut()
    desk.look()
    assert desk.groups == {desk.group.name}
    assert send(desk.browser, "GET", "/rest/users").status == 200
    directory_proxy.restore()
    deadline = time.monotonic() + 120
    while desk.groups:
        assert time.monotonic() < deadline
        desk.look()


def test_it_is_set_by_superusers(desk: Desk) -> None:
    admin, clerk = Console(make_person(superuser=True)), Console(make_person(may=["keys.change_person"]))
    directory = str(desk.connection.pk)
    path = f"/rest/permission-groups/00000000-0000-0000-0000-{desk.group.pk:012x}"
    body = {"directoryGroups": [{"directory": directory, "group": desk.directory.dn(desk.outer)}]}
    assert clerk.patch(path, body).status == 403
    made = admin.patch(path, body)
    assert made.body["directoryGroups"][0]["id"] == str(desk.outer)
    record = OperationRecord.objects.get(operation="permission-groups.update", outcome="succeeded")
    assert record.raised_access == ["members of a further group of a directory are in it"]
    mails = desk.directory.add_group(parent=desk.unit, groupType="2")
    for wrong in (str(desk.ada), str(mails), "CN=Nobody,DC=corp", "no name"):
        refused = admin.patch(path, {"directoryGroups": [{"directory": directory, "group": wrong}]})
        assert (refused.status, refused.body["errors"][0]["pointer"]) == (400, "#/directoryGroups/0/group")
    assert admin.delete(f"/rest/directories/{directory}").status == 409
    browser = PlainBrowser(admin).open(f"/console/people/groups/00000000-0000-0000-0000-{desk.group.pk:012x}")
    field = f"groups-of-{directory}"
    browser.press("Save", **{field: f"{desk.directory.dn(desk.outer)}\n{desk.inner}"})
    mapped = DirectoryGroup.objects.filter(group=desk.group)
    assert set(mapped.values_list("object_guid", flat=True)) == {desk.outer, desk.inner}
    desk.join(desk.inner)
    desk.sign_in()
    shown = admin.get(f"/rest/users/{desk.person.public_id}").body
    assert shown["groups"] == shown["directoryGroups"] == [desk.group.name]
    assert "by their directory" in admin.client.get(f"/console/people/{desk.person.public_id}").content.decode()


def test_the_groups_and_their_members_are_protected(desk: Desk, directory: Directory) -> None:
    """Or whoever may change members, or reset a password, gives themselves what the groups stand for."""
    may = set(all_permissions()) - {"directory.manage_protected"}
    key = make_integration(desk.connection, may=may)
    eve = directory.add_user(parent=desk.unit)
    holder = directory.add_unit("Holder", parent=desk.unit)
    moved = directory.add_user(parent=holder)
    directory.add_values(desk.inner, member=[directory.dn(desk.ada), directory.dn(moved)])
    holder_id = directory.guid(holder)
    attacks: list[tuple[str, str, Any]] = [
        ("POST", f"groups/{desk.outer}/members", {"add": [str(eve)]}),
        ("POST", f"groups/{desk.inner}/members", {"add": [str(eve)]}),
        ("PATCH", f"groups/{desk.inner}", {"add": {"member": directory.dn(eve)}}),
        ("PATCH", f"groups/{desk.outer}", {"replace": {"managedBy": directory.dn(eve)}}),
        ("POST", f"groups/{desk.outer}/rename", {"name": random_name("x")}),
        ("DELETE", f"groups/{desk.inner}", None),
        ("POST", f"users/{desk.ada}/reset-password", {"generate": True}),
        ("PATCH", f"users/{desk.ada}", {"replace": {"userPrincipalName": "eve@corp.example.test"}}),
        ("DELETE", f"organization-units/{holder_id}?recursive=true", None),
        ("PATCH", f"organization-units/{holder_id}", {"replace": {"gPOptions": "1"}}),
    ]

    def ask(caller: Any, method: str, path: str, body: Any) -> int:
        status: int = caller.call(method, f"/api/ad/{path}{'&' if '?' in path else '?'}dryRun=true", body).status
        return status

    def answers(caller: Any) -> set[int]:
        return {ask(caller, *attack) for attack in attacks}

    assert answers(key) == {200}
    desk.map(desk.outer)
    assert answers(key) == {403}, "keys never hold what administers the gateway"
    run = key.get(f"/api/ad/organization-units/{directory.guid(desk.unit)}/accounts/plan?action=disable").body
    assert {item["effect"] for item in run["accounts"] if item["id"] == str(desk.ada)} == {"protected"}
    assert answers(make_integration(desk.connection)) == {200}, "with directory.manage_protected"
    desk.group.permissions.set(permissions([READ]))
    assert answers(key) == {200}
    assert answers(make_integration(desk.connection, may=may - {READ})) == {403}
    keep_scopes(desk.group, as_scopes([holder_id]))
    assert answers(key) == {403}, "who leaves the group is confined no more"
    keep_scopes(Group.objects.get(pk=desk.group.pk), [])
    confined = make_integration(desk.connection, may=may, scopes=[directory.guid(desk.unit)])
    assert answers(confined) == {403}
    DirectoryGroup.objects.all().delete()
    assert answers(confined) == {200}
    directory.delete(moved)
    desk.map(desk.outer)
    back = key.post(f"/api/ad/deleted-objects/{moved}/restore?dryRun=true", {})
    assert back.status == 200
    desk.group.permissions.set(permissions([ADMINISTERS]))
    assert key.post(f"/api/ad/deleted-objects/{moved}/restore?dryRun=true", {}).status == 403
