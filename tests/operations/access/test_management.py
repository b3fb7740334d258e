"""Roles, API keys and people through the browser surface: what can be done, and by whom it cannot."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from directory.models import DirectoryConnection
from keys.models import ApiKey, Person, Role
from keys.people.local_accounts import set_email
from keys.permission_catalogue import GRANTABLE
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import PASSWORD, Answer, Console, make_connection, make_person, send

READ = "directory.read_object"
ABSENT = "0c3a6f5e-1111-4222-8333-944455556666"


def pointers(answer: Answer) -> list[str]:
    assert answer.status == 400, answer
    return [error["pointer"] for error in answer.body["errors"]]


def make_role(console: Console, name: str = "Readers", **more: Any) -> dict[str, Any]:
    answer = console.post("/rest/roles", {"name": name, "permissions": [READ], **more})
    assert answer.status == 201, answer
    return answer.body


def make_key(console: Console, **more: Any) -> dict[str, Any]:
    body = {"name": "HR import", "owner": console.person.username, **more}
    answer = console.post("/rest/api-keys", body if "role" in body else {**body, "role": make_role(console)["id"]})
    assert answer.status == 201, answer
    return answer.body


def uses(value: str) -> int:
    return send(Client(), "GET", "/api/me", X_API_Key=value).status


def test_it_works(console: Console, connection: DirectoryConnection) -> None:
    """The steps of setting up an integration."""
    role = make_role(console)
    key = make_key(console, role=role["id"], allowedAddresses=["::ffff:127.0.0.1", "10.0.0.0/8", "127.0.0.1"])
    assert key["allowedAddresses"] == ["127.0.0.1", "10.0.0.0/8"]
    assert key["supervisionLevel"] == "ask_destructive_security"
    link = console.post(f"/rest/api-keys/{key['id']}/links", {"directory": str(connection.id)})
    assert link.status == 201
    me = send(Client(), "GET", "/api/me", X_API_Key=key["value"], X_Client_Id=link.body["clientId"])
    assert me.body["permissions"] == [READ]
    assert me.body["directory"] == {"name": connection.name, "clientId": link.body["clientId"]}
    record = console.get(f"/rest/api-keys/{key['id']}").body
    assert "value" not in record
    assert record["links"] == [link.body]
    assert record["createdBy"] == console.person.username


def test_every_grantable_permission_exists(db: None) -> None:
    names = {f"{item.content_type.app_label}.{item.codename}" for item in Permission.objects.all()}
    assert names >= GRANTABLE


def test_permissions_are_listed(console: Console) -> None:
    items = console.get("/rest/permissions?pageSize=1000").body["items"]
    assert {item["name"] for item in items if item["grantable"]} == GRANTABLE
    assert {"keys.add_role", "keys.view_apikey", "directory.add_directoryconnection"} <= {
        item["name"] for item in items if not item["grantable"]
    }


# --- roles


def test_a_role_is_changed_and_deleted(console: Console) -> None:
    role = make_role(console)
    changed = console.patch(f"/rest/roles/{role['id']}", {"name": "Log readers", "permissions": ["audit.read_log"]})
    assert (changed.body["name"], changed.body["permissions"]) == ("Log readers", ["audit.read_log"])
    assert console.get("/rest/roles").body["items"] == [changed.body]
    assert console.delete(f"/rest/roles/{role['id']}").status == 204
    assert console.get(f"/rest/roles/{role['id']}").status == 404


def test_a_role_that_is_wrong_is_refused(console: Console) -> None:
    make_role(console)
    assert console.post("/rest/roles", {"name": "Readers"}).status == 409
    assert pointers(console.post("/rest/roles", {"name": ""})) == ["#/name"]
    assert pointers(console.post("/rest/roles", {"name": "x", "permissions": [READ, "keys.add_role"]})) == [
        "#/permissions/1"
    ]
    assert pointers(console.post("/rest/roles", {"name": "x", "permissions": ["nonsense"]})) == ["#/permissions/0"]
    unknown = console.post("/rest/roles", {"name": "x", "colour": "red"})
    assert unknown.code == "Request.UnknownMember"
    assert console.patch(f"/rest/roles/{ABSENT}", {"name": "y"}).status == 404


def test_nobody_grants_what_they_do_not_hold(console: Console) -> None:
    clerk = Console(make_person(may=[READ, "keys.add_role", "keys.change_role", "keys.view_role"]))
    own = make_role(clerk)
    assert clerk.post("/rest/roles", {"name": "More", "permissions": ["directory.delete_user"]}).status == 403
    grow = {"permissions": [READ, "directory.delete_user"]}
    assert clerk.patch(f"/rest/roles/{own['id']}", grow).status == 403
    more = make_role(console, "More", permissions=["directory.delete_user"])
    assert clerk.patch(f"/rest/roles/{more['id']}", {"scopes": []}).status == 403
    assert clerk.delete(f"/rest/roles/{own['id']}").status == 403


def test_what_is_in_use_is_not_deleted(console: Console, connection: DirectoryConnection) -> None:
    role = make_role(console)
    key = make_key(console, role=role["id"])
    console.post(f"/rest/api-keys/{key['id']}/links", {"directory": str(connection.id)})
    assert console.delete(f"/rest/roles/{role['id']}").status == 409
    assert console.delete(f"/rest/api-keys/{key['id']}").status == 409
    assert console.post(f"/rest/api-keys/{key['id']}/revoke").status == 200
    assert console.delete(f"/rest/api-keys/{key['id']}").status == 204
    assert console.delete(f"/rest/roles/{role['id']}").status == 204


def test_scopes_are_kept_by_guid(
    console: Console, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    connection = make_connection(domain)
    guid = directory.guid(organizational_unit)
    role = make_role(console, scopes=[organizational_unit.lower(), str(guid)])
    assert [scope.lower() for scope in role["scopes"]] == [organizational_unit.lower()]
    assert [scope["id"] for scope in role["scopeObjects"]] == [str(guid)]
    key = make_key(console, role=role["id"])
    console.post(f"/rest/api-keys/{key['id']}/links", {"directory": str(connection.id)})
    assert send(Client(), "GET", "/api/me", X_API_Key=key["value"]).body["scopes"] == [str(guid)]
    missing = console.post("/rest/roles", {"name": "x", "scopes": [organizational_unit, f"OU=no,{domain.base_dn}"]})
    assert pointers(missing) == ["#/scopes/1"]
    for none in ("nonsense", "OU=", "OU=,DC=test"):
        refused = console.patch(f"/rest/roles/{role['id']}", {"scopes": [none]})
        assert (refused.status, pointers(refused)) == (400, ["#/scopes/0"]), none


def test_a_scope_in_a_directory_that_is_down_is_no_missing_one(console: Console, connection: Any) -> None:
    answer = console.post("/rest/roles", {"name": "x", "scopes": ["OU=x,DC=corp,DC=example,DC=test"]})
    assert (answer.status, answer.code) == (503, "AD.Directory.Unavailable")
    assert not Role.objects.exists()


# --- API keys


def test_a_key_is_changed(console: Console) -> None:
    key = make_key(console)
    path = f"/rest/api-keys/{key['id']}"
    later = (timezone.now() + timedelta(days=1)).isoformat()
    answer = console.patch(path, {"name": "Payroll", "expiresAt": later, "supervisionLevel": "act"})
    assert (answer.status, answer.body["name"], answer.body["supervisionLevel"]) == (200, "Payroll", "act")
    assert answer.body["expiresAt"].endswith("Z")
    assert console.patch(path, {"expiresAt": None}).body["expiresAt"] is None
    assert console.patch(path, {}).status == 200
    assert uses(key["value"]) == 200


@pytest.mark.parametrize(
    ("member", "value", "where"),
    [
        ("role", ABSENT, ["#/role"]),
        ("role", None, ["#/role"]),
        ("expiresAt", "2031-01-01T00:00:00", ["#/expiresAt"]),
        ("expiresAt", "2021-01-01T00:00:00Z", ["#/expiresAt"]),
        ("expiresAt", "9999-12-31T23:59:59-01:00", ["#/expiresAt"]),
        ("allowedAddresses", ["192.0.2.1", "10.1.2.3/8"], ["#/allowedAddresses/1"]),
        ("allowedAddresses", ["fe80::1%eth0"], ["#/allowedAddresses/0"]),
        ("allowedAddresses", "192.0.2.1", ["#/allowedAddresses"]),
        ("supervisionLevel", "never", ["#/supervisionLevel"]),
        ("name", None, ["#/name"]),
        ("owner", "nobody", ["#/owner"]),
    ],
)
def test_a_key_that_is_wrong_is_refused(member: str, value: Any, where: list[str], console: Console) -> None:
    body = {"name": "x", "owner": console.person.username, "role": make_role(console)["id"], member: value}
    assert pointers(console.post("/rest/api-keys", body)) == where
    if member != "owner":
        key = make_key(console, role=make_role(console, "Others")["id"])
        assert pointers(console.patch(f"/rest/api-keys/{key['id']}", {member: value})) == where


def test_a_key_is_rotated_and_revoked(console: Console) -> None:
    key = make_key(console)
    path = f"/rest/api-keys/{key['id']}"
    second = console.post(f"{path}/rotate")
    assert (second.status, second.body["previousValidUntil"]) == (200, None)
    assert (uses(key["value"]), uses(second.body["value"])) == (401, 200)
    third = console.post(f"{path}/rotate", {"graceSeconds": 60}).body
    assert (uses(second.body["value"]), uses(third["value"])) == (200, 200)
    assert pointers(console.post(f"{path}/rotate", {"graceSeconds": -1})) == ["#/graceSeconds"]
    revoked = console.post(f"{path}/revoke")
    assert (revoked.body["state"], revoked.body["revokedBy"]) == ("revoked", console.person.username)
    assert (uses(second.body["value"]), uses(third["value"])) == (401, 401)
    assert console.post(f"{path}/rotate").status == 409
    assert console.patch(path, {"name": "x"}).status == 409
    assert console.post(f"{path}/revoke").body["revokedAt"] == revoked.body["revokedAt"]


def test_links(console: Console, make_directory: Callable[..., DirectoryConnection]) -> None:
    key, first, second = make_key(console), make_directory(), make_directory()
    path = f"/rest/api-keys/{key['id']}/links"
    link = console.post(path, {"directory": str(first.id)}).body
    assert console.post(path, {"directory": str(first.id)}).status == 409
    assert pointers(console.post(path, {"directory": ABSENT})) == ["#/directory"]
    other = console.post(path, {"directory": str(second.id)}).body
    assert console.delete(f"{path}/{link['clientId']}").status == 204
    assert console.delete(f"{path}/{link['clientId']}").status == 404
    assert console.get(f"/rest/api-keys/{key['id']}").body["links"] == [other]


def test_only_a_superuser_gives_another_ones_key(console: Console) -> None:
    rights = ["keys.add_apikey", "keys.change_apikey", "keys.view_apikey"]
    clerk = Console(make_person(may=rights))
    role = make_role(console)
    body = {"name": "x", "owner": console.person.username, "role": role["id"]}
    assert clerk.post("/rest/api-keys", body).status == 403
    assert clerk.post("/rest/api-keys", {**body, "owner": "nobody"}).status == 403
    own = make_key(clerk, role=role["id"])
    assert clerk.post(f"/rest/api-keys/{own['id']}/rotate").status == 200
    key = make_key(console, role=role["id"])
    path = f"/rest/api-keys/{key['id']}"
    assert clerk.post(f"{path}/rotate").status == 403
    assert clerk.patch(path, {"allowedAddresses": []}).status == 403
    assert clerk.post(f"{path}/links", {"directory": ABSENT}).status == 403
    assert clerk.post(f"{path}/revoke").status == 200
    other = make_key(console, owner=clerk.person.username, role=role["id"])
    assert other["owner"] == clerk.person.username


def test_keys_are_paged_newest_first(console: Console) -> None:
    role = make_role(console)["id"]
    names = [make_key(console, role=role, name=f"key {number}")["name"] for number in range(5)]
    seen: list[str] = []
    cursor = ""
    for _ in range(3):
        page = console.get(f"/rest/api-keys?pageSize=2{cursor}").body
        assert (page["total"], page["truncated"]) == (5, False)
        seen += [item["name"] for item in page["items"]]
        cursor = f"&cursor={page['nextCursor']}"
        if len(seen) == 2:  # one that comes meanwhile makes no other appear twice
            make_key(console, role=role)
    assert seen == names[::-1]
    assert page["nextCursor"] is None


def test_a_cursor_is_good_for_its_list_and_caller_only(console: Console) -> None:
    role = make_role(console)["id"]
    make_role(console, "Others")
    for _ in range(3):
        make_key(console, role=role)
    cursor = console.get("/rest/api-keys?pageSize=1").body["nextCursor"]
    assert console.get(f"/rest/api-keys?pageSize=1&cursor={cursor}").status == 200
    other = Console(console.person)
    for caller, path in (
        (console, f"/rest/api-keys?pageSize=2&cursor={cursor}"),
        (console, f"/rest/roles?pageSize=1&cursor={cursor}"),
        (console, "/rest/api-keys?pageSize=1&cursor=nonsense"),
        (console, f"/rest/api-keys?pageSize=1&cursor={cursor[:-4]}AAA="),
        (other, f"/rest/api-keys?pageSize=1&cursor={cursor}"),
    ):
        answer = caller.get(path)
        assert (answer.status, answer.code) == (400, "Search.CursorInvalid"), path
    assert console.get("/rest/api-keys?pageSize=0").status == 400
    assert console.get("/rest/api-keys?pageSize=1001").status == 400


# --- people


def test_people(console: Console) -> None:
    body = {
        "username": "grace",
        "displayName": "Grace Hopper",
        "permissions": [READ],
        "active": True,
    }
    created = console.post("/rest/users", body)
    assert created.status == 201
    assert "password" not in created.body
    path = f"/rest/users/{created.body['id']}"
    assert created.headers["Location"] == path
    assert created.body.pop("invitationLink").startswith("/console/invitation#")
    assert console.get(path).body == created.body
    grace = Console(Person.objects.get(username="grace"))
    assert send(grace.client, "GET", "/rest/session").body["user"]["displayName"] == "Grace Hopper"
    assert console.patch(path, {"displayName": "Admiral", "permissions": []}).body["permissions"] == []
    assert send(grace.client, "GET", "/rest/me").body["permissions"] == []
    assert console.patch(path, {"active": False}).body["active"] is False
    assert send(grace.client, "GET", "/rest/me").status == 401
    assert [item["username"] for item in console.get("/rest/users").body["items"]] == sorted(
        ["grace", console.person.username]
    )
    assert console.delete(path).status == 204


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("username", "corp\\grace"),
        ("username", ""),
        ("username", None),
        ("password", "short"),
        ("password", "password123"),
        ("password", ""),
        ("permissions", ["directory.fly"]),
        ("permissions", ["admin.add_logentry"]),
        ("active", "yes"),
    ],
)
def test_a_person_that_is_wrong_is_refused(member: str, value: Any, console: Console) -> None:
    body = {"username": "grace", member: value}
    assert pointers(console.post("/rest/users", body))[0].startswith(f"#/{member}")
    person = make_person()
    assert pointers(console.patch(f"/rest/users/{person.public_id}", {member: value}))[0].startswith(f"#/{member}")


@pytest.mark.parametrize("path", ["users", "roles", "api-keys", "agent-clients"])
def test_names_are_searched_in_any_case(path: str, console: Console) -> None:
    """Also letters outside ASCII, whose case SQLite's LIKE does not know."""
    Person.objects.filter(pk=make_person("ada").pk).update(display_name="Ärger_Ö")
    make_key(console, role=make_role(console, "Ärger_Ö")["id"], name="Ärger_Ö")
    created = {"name": "Ärger_Ö", "redirectUris": ["http://127.0.0.1/back"]}
    assert console.post("/rest/agent-clients", created).status == 201
    found = [console.get(f"/rest/{path}?name={quote(name)}").body["items"] for name in ("ärger_ö", "rGER_", "är.er")]
    assert [len(items) for items in found] == [1, 1, 0]


def test_what_changes_meanwhile_is_not_overwritten(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway deactivates a person who has left the directory while an administrator corrects their address."""
    ada = make_person("ada")

    def deactivate_first(person: Person, address: str) -> None:
        Person.objects.filter(pk=ada.pk).update(is_active=False, session_epoch=7, left_directory_at=timezone.now())
        set_email(person, address)

    monkeypatch.setattr("operations.access.people.set_email", deactivate_first)
    changed = console.patch(f"/rest/users/{ada.public_id}", {"email": "ada@corp.example.test"})
    assert (changed.status, changed.body["email"], changed.body["active"]) == (200, "ada@corp.example.test", False)
    ada.refresh_from_db()
    assert (ada.session_epoch, ada.left_directory_at is None) == (7, False)


def test_a_persons_name_is_theirs_alone(console: Console) -> None:
    make_person("grace")
    answer = console.post("/rest/users", {"username": "grace"})
    assert answer.status == 409


def test_nobody_makes_somebody_mightier_than_themselves(console: Console) -> None:
    clerk = Console(make_person(may=[READ, "keys.add_person", "keys.change_person", "keys.delete_person"]))
    mighty = {"username": "grace", "permissions": ["audit.read_log"]}
    assert clerk.post("/rest/users", mighty).status == 403
    assert clerk.post("/rest/users", {**mighty, "permissions": [READ]}).status == 201
    for person in (console.person, make_person(may=["audit.read_log"])):
        for body in ({"password": PASSWORD}, {"active": False}, {"displayName": "x"}):
            assert clerk.patch(f"/rest/users/{person.public_id}", body).status == 403
        assert clerk.delete(f"/rest/users/{person.public_id}").status == 403
        assert clerk.post(f"/rest/users/{person.public_id}/invite").status == 403
    weaker = make_person(may=[READ])
    assert clerk.patch(f"/rest/users/{weaker.public_id}", {"active": False}).status == 200
    own = f"/rest/users/{clerk.person.public_id}"
    assert clerk.patch(own, {"permissions": [READ, "audit.read_log"]}).status == 403
    assert clerk.patch(own, {"active": False}).status == 409
    assert clerk.delete(own).status == 409


def test_an_owner_of_keys_is_not_deleted(console: Console) -> None:
    person = make_person()
    key = make_key(console, owner=person.username)
    path = f"/rest/users/{person.public_id}"
    assert console.delete(path).status == 409
    console.patch(path, {"active": False})
    assert uses(key["value"]) == 401


def test_a_person_of_a_directory_keeps_its_name(console: Console, connection: DirectoryConnection) -> None:
    person = Person.objects.create(username=f"{connection.name}\\ada", connection=connection, object_guid=ABSENT)
    path = f"/rest/users/{person.public_id}"
    assert pointers(console.patch(path, {"username": "ada"})) == ["#/username"]
    assert pointers(console.patch(path, {"password": PASSWORD})) == ["#/password"]
    assert console.post(f"{path}/invite").status == 409
    assert console.patch(path, {"permissions": [READ]}).body["directory"] == connection.name


# --- who may do it at all


@pytest.mark.parametrize(
    ("permission", "method", "path"),
    [
        ("keys.view_role", "GET", "/rest/roles"),
        ("keys.add_role", "POST", "/rest/roles"),
        ("keys.view_apikey", "GET", "/rest/api-keys"),
        ("keys.add_apikey", "POST", "/rest/api-keys"),
        ("keys.change_apikey", "POST", f"/rest/api-keys/{ABSENT}/revoke"),
        ("keys.delete_apikey", "DELETE", f"/rest/api-keys/{ABSENT}"),
        ("keys.view_person", "GET", "/rest/users"),
        ("keys.add_person", "POST", "/rest/users"),
        ("keys.delete_person", "DELETE", f"/rest/users/{ABSENT}"),
    ],
)
def test_each_needs_its_permission(permission: str, method: str, path: str, db: None) -> None:
    body: dict[str, Any] | None = {} if method == "POST" and not path.endswith("revoke") else None
    without, having = Console(make_person()), Console(make_person(may=[permission]))
    refused = without.call(method, path, body)
    assert (refused.status, refused.code) == (403, "Auth.Forbidden")
    assert having.call(method, path, body).status in (200, 400, 404)
    assert ApiKey.objects.count() == 0
