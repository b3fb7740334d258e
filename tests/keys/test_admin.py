"""People, roles and API keys in Django admin, by its pages."""

import re
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.test import Client

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from keys import api_keys
from keys.models import ApiKey, Link, Person, Role
from keys.permission_catalogue import GRANTABLE
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import (
    Integration,
    make_connection,
    make_integration,
    make_person,
    permissions,
    send,
)

READ = "directory.read_object"


def staff(*may: str) -> Client:
    person = make_person(may=may)
    Person.objects.filter(pk=person.pk).update(is_staff=True)
    return signed_in(person)


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def admin(superuser: Person) -> Client:
    return signed_in(superuser)


@pytest.fixture
def role(db: None) -> Role:
    role = Role.objects.create(name="Readers")
    role.permissions.set(permissions([READ]))
    return role


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return response.content.decode()


def value_on(text: str) -> str:
    found = re.search(r'value="(dgk_\w+)"', text)
    assert found is not None
    return found[1]


def key_form(owner: Person, role: Role, **values: str) -> dict[str, str]:
    return {
        "name": "HR import",
        "owner": owner.username,
        "role": str(role.pk),
        "supervisionLevel": "ask_destructive_security",
        **values,
    }


def test_it_works(admin: Client, superuser: Person, role: Role, connection: DirectoryConnection) -> None:
    """A key is made, its value is shown once, and it works where it is linked."""
    form = key_form(superuser, role, allowedAddresses="127.0.0.1\r\n 10.0.0.0/8 \r\n")
    response = admin.post("/admin/keys/apikey/add/", form)
    assert response.status_code == 302, response.content.decode()
    shown = admin.get(response.headers["Location"])
    assert "no-store" in shown.headers["Cache-Control"]
    value = value_on(shown.content.decode())
    assert "dgk_" not in page(admin, response.headers["Location"])
    key = ApiKey.objects.get()
    assert key.allowed_addresses == ["127.0.0.1", "10.0.0.0/8"]
    assert (key.created_by, key.owner) == (superuser, superuser)
    link = {"key": str(key.pk), "directory": str(connection.pk)}
    assert admin.post("/admin/keys/link/add/", link).status_code == 302
    me = send(Client(), "GET", "/api/me", X_API_Key=value).body
    assert me["directory"]["clientId"] == str(Link.objects.get().client_id)
    assert me["directory"]["clientId"] in page(admin, "/admin/keys/link/")
    change = page(admin, f"/admin/keys/apikey/{key.pk}/change/")
    for text in (
        f"/console/keys/{key.pk}",
        "Ask before every change",
        "Ask before destructive and security changes",
        "Act without asking",
        "10.0.0.0/8",
    ):
        assert text in change
    assert key.digest not in change
    assert value not in change


def test_what_operations_say_of_a_form_is_beside_its_fields(admin: Client, superuser: Person, role: Role) -> None:
    for values, complaint in (
        ({"allowedAddresses": "10.1.2.3/8"}, "has host bits set"),
        ({"expiresAt": "2020-01-01"}, "must be in the future"),
    ):
        answer = admin.post("/admin/keys/apikey/add/", key_form(superuser, role, **values))
        assert complaint in answer.content.decode()
    assert not ApiKey.objects.exists()
    [first, second] = OperationRecord.objects.all()
    assert {(record.operation, record.outcome) for record in (first, second)} == {("api-keys.create", "failed")}


@pytest.mark.parametrize(
    "path",
    [
        "/admin/keys/person/",
        "/admin/keys/role/?q=read",
        "/admin/keys/role/add/",
        "/admin/keys/apikey/?q=HR",
        "/admin/keys/apikey/?supervision_level__exact=act",
        "/admin/keys/apikey/add/",
        "/admin/keys/link/",
        "/admin/keys/link/add/",
        "/admin/auth/group/",
    ],
)
def test_pages_open(path: str, admin: Client, connection: DirectoryConnection) -> None:
    make_integration(connection)
    text = page(admin, path)
    assert not re.search(
        r"<script(?![^>]*\bsrc=)[^>]*>\s*[^\s<]", re.sub(r'type="application/json".*?</script>', "", text)
    )


def test_pages_of_single_objects_open(admin: Client, connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    page(admin, f"/admin/keys/role/{integration.key.role.pk}/change/")
    page(admin, f"/admin/keys/person/{integration.key.owner.pk}/change/")


def change_form(key: ApiKey, **values: Any) -> dict[str, Any]:
    return {"name": key.name, "role": str(key.role_id), "supervisionLevel": key.supervision_level, **values}


def test_a_key_is_changed(admin: Client, connection: DirectoryConnection) -> None:
    integration = make_integration(None)
    key = integration.key
    path = f"/admin/keys/apikey/{key.pk}/change/"
    forged = {"digest": "0" * 64, "lookup_id": "000000000000", "owner": "1", "created_at": "2020-01-01"}
    assert admin.post(path, change_form(key, name="Payroll", **forged)).status_code == 302
    after = ApiKey.objects.get(pk=key.pk)
    assert after.name == "Payroll"
    assert (after.digest, after.lookup_id, after.owner_id) == (key.digest, key.lookup_id, key.owner_id)
    for values, complaint in (
        ({"allowedAddresses": "10.1.2.3/8"}, "has host bits set"),
        ({"expiresAt": "2020-01-01"}, "must be in the future"),
    ):
        assert complaint in admin.post(path, change_form(key, **values)).content.decode()
    [record] = OperationRecord.objects.filter(outcome="succeeded", operation="api-keys.update")
    assert [change["attribute"] for change in record.changes] == ["name"]


def test_what_is_not_touched_stays(admin: Client, connection: DirectoryConnection) -> None:
    """The moment of an expiry is finer than the day that the form shows."""
    key = make_integration(None).key
    ApiKey.objects.filter(pk=key.pk).update(expires_at="2099-01-01T12:34:56Z", passwords_to_requester=True)
    form = change_form(key, expiresAt="2099-01-01", passwordsToRequester="on")
    form |= {"name": "Payroll", "aggregatesReads": "on"}
    assert admin.post(f"/admin/keys/apikey/{key.pk}/change/", form).status_code == 302
    after = ApiKey.objects.get(pk=key.pk)
    assert (after.name, after.passwords_to_requester, after.aggregates_reads) == ("Payroll", True, True)
    record = OperationRecord.objects.get(operation="api-keys.update")
    assert record.raised_access == ["reads of the key are recorded together"]
    assert str(after.expires_at) == "2099-01-01 12:34:56+00:00"


def test_keys_are_revoked(admin: Client, connection: DirectoryConnection) -> None:
    first, second = make_integration(connection), make_integration(connection)
    chosen = {"action": "revoke", "_selected_action": [str(first.key.pk), str(second.key.pk)]}
    assert admin.post("/admin/keys/apikey/", chosen).status_code == 302
    assert [item.get("/api/me").status for item in (first, second)] == [401, 401]
    assert LogEntry.objects.filter(change_message="Revoked.").count() == 2
    path = f"/admin/keys/apikey/{first.key.pk}/change/"
    assert "The key is revoked" in admin.post(path, change_form(first.key, name="x")).content.decode()
    assert ApiKey.objects.get(pk=first.key.pk).name == first.key.name


def test_a_key_in_use_is_not_deleted(admin: Client, connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    path = f"/admin/keys/apikey/{integration.key.pk}/delete/"
    assert admin.post(path, {"post": "yes"}).status_code == 409
    chosen = {"action": "delete_selected", "_selected_action": [str(integration.key.pk)], "post": "yes"}
    assert admin.post("/admin/keys/apikey/", chosen).status_code == 409
    assert ApiKey.objects.exists()
    api_keys.revoke(integration.key, revoked_by_id=integration.key.owner_id)
    assert admin.post(path, {"post": "yes"}).status_code == 302
    assert not ApiKey.objects.exists()
    operations = OperationRecord.objects.order_by("id").values_list("operation", "outcome")
    assert list(operations) == [("api-keys.delete", outcome) for outcome in ("failed", "failed", "succeeded")]


def test_another_ones_key_is_revoked_at_most(connection: DirectoryConnection) -> None:
    integration: Integration = make_integration(connection)
    clerk = staff("keys.view_apikey", "keys.change_apikey", "keys.add_apikey", "keys.delete_apikey")
    path = f"/admin/keys/apikey/{integration.key.pk}/change/"
    assert clerk.post(path, change_form(integration.key, name="x")).status_code == 403
    form = key_form(integration.key.owner, integration.key.role)
    assert clerk.post("/admin/keys/apikey/add/", form).status_code == 403
    assert ApiKey.objects.count() == 1
    chosen = {"action": "revoke", "_selected_action": [str(integration.key.pk)]}
    assert clerk.post("/admin/keys/apikey/", chosen).status_code == 302
    assert integration.get("/api/me").status == 401


def test_a_role_offers_what_roles_may_grant(admin: Client) -> None:
    text = page(admin, "/admin/keys/role/add/")
    offered = set(re.findall(r'type="checkbox" name="permissions" value="([a-z]+\.[a-z_]+)"', text))
    assert offered == GRANTABLE
    clerk = staff(READ, "keys.view_role", "keys.add_role", "keys.change_role")
    text = page(clerk, "/admin/keys/role/add/")
    assert READ in text
    assert "directory.delete_user" not in text


def test_a_role_of_others_rights_is_not_widened(db: None) -> None:
    role = Role.objects.create(name="More")
    role.permissions.set(permissions(["directory.delete_user"]))
    clerk = staff(READ, "keys.view_role", "keys.change_role")
    answer = clerk.post(f"/admin/keys/role/{role.pk}/change/", {"name": "x", "scopes": "", "permissions": []})
    assert answer.status_code == 403


def test_scopes_are_entered_as_names(
    admin: Client, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    make_connection(domain)
    guid = directory.guid(organizational_unit)
    form = {"name": "Staff", "description": "", "permissions": [READ], "scopes": organizational_unit}
    assert admin.post("/admin/keys/role/add/", form).status_code == 302
    role = Role.objects.get()
    assert [scope["guid"] for scope in role.scopes] == [str(guid)]
    assert [item.codename for item in role.permissions.all()] == ["read_object"]
    directory.rename(guid, "renamed")
    path = f"/admin/keys/role/{role.pk}/change/"
    assert organizational_unit in page(admin, path)
    assert admin.post(path, form).status_code == 302  # untouched, it is the object it was
    role.refresh_from_db()
    assert [scope["guid"] for scope in role.scopes] == [str(guid)]
    wrong = admin.post(path, {**form, "scopes": "OU=nowhere,DC=corp,DC=example,DC=test"})
    assert "is in none of the enabled directories" in wrong.content.decode()


def test_people_and_groups_are_only_shown(admin: Client, superuser: Person) -> None:
    """All but who is a superuser, or enters the back office: that is said nowhere else."""
    ada, group = make_person("ada"), Group.objects.create(name="Desk")
    for path in (
        "keys/person/add/",
        "auth/group/add/",
        f"auth/group/{group.pk}/delete/",
        f"keys/person/{ada.pk}/delete/",
    ):
        assert admin.post(f"/admin/{path}", {"post": "yes"}).status_code == 403, path
    assert admin.post(f"/admin/auth/group/{group.pk}/change/", {"name": "x"}).status_code == 403
    path = f"/admin/keys/person/{ada.pk}/change/"
    assert f"/console/people/{ada.public_id}" in page(admin, path)
    assert admin.post(path, {"is_staff": "on", "username": "eve", "is_active": ""}).status_code == 302
    ada.refresh_from_db()
    assert (ada.username, ada.is_active, ada.is_staff, ada.is_superuser) == ("ada", True, True, False)
    clerk = staff(READ, "keys.view_person", "keys.change_person", "keys.add_person", "keys.delete_person")
    assert 'name="is_superuser"' not in page(clerk, path)
    assert clerk.post(path, {"is_superuser": "on"}).status_code == 403
    assert "Desk" in page(clerk, "/admin/auth/group/")


def test_nobody_confined_becomes_a_superuser(admin: Client) -> None:
    ada = make_person("ada")
    scope = {"guid": str(uuid4()), "distinguishedName": "OU=a", "directoryId": str(uuid4())}
    Person.objects.filter(pk=ada.pk).update(scopes=[scope])
    answer = admin.post(f"/admin/keys/person/{ada.pk}/change/", {"is_superuser": "on"})
    assert "A superuser cannot be restricted to scopes." in answer.content.decode()
    assert not Person.objects.get(pk=ada.pk).is_superuser
