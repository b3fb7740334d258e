"""What is told of keys, roles and people besides their records: what they may do now, why not more, and their use."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from audit.models import OperationRecord
from audit.read_buffer import reads
from directory.models import DirectoryConnection
from keys.models import ApiKey, Person, Role
from keys.permission_catalogue import GRANTABLE, MEANINGS
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import Answer, Console, make_connection, make_integration, make_person, permissions

pytestmark = pytest.mark.sqlite

READ, UNLOCK, DELETE = "directory.read_object", "directory.unlock_account", "directory.delete_user"


def by_name(answer: Answer, member: str) -> dict[str, Any]:
    assert answer.status == 200, answer
    return {item["name"]: item[member] for item in answer.body["permissions"]}


def found(console: Console, path: str) -> list[str]:
    answer = console.get(path)
    assert answer.status == 200, answer
    return sorted(item.get("name", item.get("username")) for item in answer.body["items"])


def test_every_permission_is_explained(console: Console) -> None:
    items = console.get("/rest/permissions?pageSize=1000").body["items"]
    assert [item["name"] for item in items] == sorted(MEANINGS)
    assert all(item["title"] and item["meaning"].endswith(".") and item["group"] for item in items)
    titles = [item["title"] for item in items]
    assert len(set(titles)) == len(titles)
    reset = next(item for item in items if item["name"] == "directory.reset_password")
    assert "sign in as that person" in reset["danger"]


# --- what a key may do


def test_what_a_key_may_do_and_who_keeps_it_from_more(console: Console) -> None:
    key = make_integration(None, may=[READ, UNLOCK], owner_may=[READ, DELETE, "keys.view_role"]).key
    told = console.get(f"/rest/api-keys/{key.id}/permissions")
    assert by_name(told, "missing") == {READ: None, UNLOCK: "owner", DELETE: "role"}
    assert told.body["scopes"] == []
    Person.objects.filter(pk=key.owner.pk).update(is_active=False)
    told = console.get(f"/rest/api-keys/{key.id}/permissions")
    assert by_name(told, "missing") == {READ: "owner", UNLOCK: "owner"}


def test_the_role_limits_the_key_of_a_superuser(console: Console, superuser: Person) -> None:
    key = make_integration(None, may=[READ], owner=superuser).key
    missing = by_name(console.get(f"/rest/api-keys/{key.id}/permissions"), "missing")
    assert missing.keys() == GRANTABLE
    assert [name for name, who in missing.items() if who is None] == [READ]


def test_scopes_have_their_names_of_now(
    console: Console, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    connection = make_connection(domain)
    kept, gone = (directory.guid(directory.add_unit(name, parent=organizational_unit)) for name in ("Kept", "Gone"))
    integration = make_integration(connection, scopes=[kept, gone])
    directory.rename(kept, "Renamed")
    directory.delete(gone)
    told = console.get(f"/rest/api-keys/{integration.key.id}/permissions").body["scopes"]
    assert told == console.get(f"/rest/roles/{integration.key.role_id}/scopes").body["items"]
    assert [(item["id"], item["state"], item["distinguishedName"]) for item in told] == [
        (str(kept), "found", f"OU=Renamed,{organizational_unit}"),
        (str(gone), "gone", ""),
    ]
    assert {item["directoryName"] for item in told} == {connection.name}


def test_a_scope_in_a_directory_that_is_down_is_shown_as_last_known(
    console: Console, connection: DirectoryConnection
) -> None:
    scope = {"guid": str(UUID(int=7)), "distinguishedName": "OU=Staff,DC=corp", "directoryId": str(connection.id)}
    role = Role.objects.create(name="Staff only", scopes=[scope])
    [told] = console.get(f"/rest/roles/{role.id}/scopes").body["items"]
    assert (told["state"], told["distinguishedName"]) == ("unknown", "OU=Staff,DC=corp")


# --- what a person may do


def test_what_a_person_may_do_and_by_what(console: Console) -> None:
    person = make_person(may=[READ])
    group = Group.objects.create(name="Help desk")
    group.permissions.set(permissions([READ, UNLOCK]))
    person.groups.add(group)
    path = f"/rest/users/{person.public_id}/permissions"
    told = console.get(path)
    assert by_name(told, "direct") == {READ: True, UNLOCK: False}
    assert by_name(told, "groups") == {READ: ["Help desk"], UNLOCK: ["Help desk"]}
    Person.objects.filter(pk=person.pk).update(is_active=False)
    assert console.get(path).body["permissions"] == []
    all_of_them = by_name(console.get(f"/rest/users/{console.person.public_id}/permissions"), "direct")
    assert all_of_them.keys() == MEANINGS.keys()


def test_permissions_of_other_apps_are_kept(console: Console) -> None:
    person = make_person(may=[READ, "auth.view_group"])
    path = f"/rest/users/{person.public_id}"
    assert console.get(path).body["permissions"] == [READ]
    assert console.patch(path, {"permissions": [UNLOCK]}).body["permissions"] == [UNLOCK]
    assert person.user_permissions.filter(codename="view_group").exists()


# --- lists


def test_keys_are_filtered(console: Console, make_directory: Callable[..., DirectoryConnection]) -> None:
    connection, other = make_directory(), make_directory()
    soon, old = timezone.now() + timedelta(days=3), timezone.now() - timedelta(days=100)
    linked = make_integration(connection, expires_at=soon).key
    unused = make_integration(other, created_at=old).key
    expired = make_integration(other, expires_at=old).key
    revoked = make_integration(None, revoked_at=old, created_at=old).key
    expectations = {
        "state=active": [linked, unused],
        "state=expired": [expired],
        "state=revoked": [revoked],
        "due=expiring": [linked],
        "due=unused": [unused],
        f"directory={connection.id}": [linked],
        f"directory={other.id}&state=active": [unused],
        f"owner={linked.owner.username}": [linked],
        f"role={revoked.role_id}": [revoked],
        f"name={expired.name[1:].upper()}": [expired],
        "name=%25": [],
    }
    for query, keys in expectations.items():
        assert found(console, f"/rest/api-keys?{query}") == sorted(key.name for key in keys), query
    assert console.get("/rest/api-keys?state=lost").status == 400


def test_roles_and_people_are_filtered(console: Console) -> None:
    Role.objects.create(name="Help desk")
    Role.objects.create(name="Human resources")
    assert found(console, "/rest/roles?name=DESK") == ["Help desk"]
    make_person("ada")
    grace = make_person("grace")
    Person.objects.filter(pk=grace.pk).update(is_active=False, display_name="Admiral Hopper")
    assert found(console, "/rest/users?name=hopper") == ["grace"]
    assert found(console, "/rest/users?active=false") == ["grace"]
    assert "ada" in found(console, "/rest/users?active=true")


# --- use


@pytest.mark.usefixtures("within_a_day")
def test_use_is_counted_by_key(console: Console) -> None:
    integration, other = make_integration(None), make_integration(None)
    ApiKey.objects.filter(pk=other.key.pk).update(name=integration.key.name)  # a name is no identity
    for path in ("/api/me", "/api/me", "/api/ad/users"):
        integration.get(path)
    other.get("/api/me")
    reads.flush()
    told = console.get(f"/rest/api-keys/{integration.key.id}/usage?days=3").body
    today = OperationRecord.objects.latest("id").at.date()
    days = [(today - timedelta(days=age)).isoformat() for age in (2, 1, 0)]
    nothing = dict.fromkeys(("succeeded", "failed", "queued", "pending", "unknown"), 0)
    assert told["days"] == [
        {"day": days[0], **nothing},
        {"day": days[1], **nothing},
        {"day": days[2], **nothing, "succeeded": 2, "failed": 1},
    ]
