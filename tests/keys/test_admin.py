"""People, roles and API keys in Django admin, by its pages."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from directory.models import DirectoryConnection
from keys.api_keys import lifecycle
from keys.models import ApiKey, Link, Person, Role, SecondFactor
from keys.models.assignable import GRANTABLE
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
NO_LINKS = {
    "links-TOTAL_FORMS": "0",
    "links-INITIAL_FORMS": "0",
    "links-MIN_NUM_FORMS": "0",
    "links-MAX_NUM_FORMS": "1000",
}


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


def test_it_works(admin: Client, superuser: Person, role: Role, connection: DirectoryConnection) -> None:
    """A key is made with a link, shown once, and works."""
    form = {
        **NO_LINKS,
        "name": "HR import",
        "owner": superuser.pk,
        "role": str(role.pk),
        "expires_at_0": "",
        "expires_at_1": "",
        "allowed_addresses": "127.0.0.1\r\n 10.0.0.0/8 \r\n",
        "supervision_level": "ask_destructive_security",
        "links-TOTAL_FORMS": "1",
        "links-0-connection": str(connection.pk),
    }
    response = admin.post("/admin/keys/apikey/add/", form)
    assert response.status_code == 302, response.content.decode()
    shown = admin.get(response.headers["Location"])
    assert "no-store" in shown.headers["Cache-Control"]
    value = value_on(shown.content.decode())
    assert 'data-copy="value-1"' in shown.content.decode()
    assert "dgk_" not in page(admin, response.headers["Location"])
    key = ApiKey.objects.get()
    assert key.allowed_addresses == ["127.0.0.1", "10.0.0.0/8"]
    assert (key.created_by, key.owner) == (superuser, superuser)
    me = send(Client(), "GET", "/api/me", X_API_Key=value).body
    assert me["directory"]["clientId"] == str(Link.objects.get().client_id)
    change = page(admin, f"/admin/keys/apikey/{key.pk}/change/")
    for text in (
        me["directory"]["clientId"],
        "Ask before every change",
        "Ask before destructive and security changes",
        "Act without asking",
        "192.0.2.0/24",
        "Read and search directory objects",
    ):
        assert text in change
    assert key.digest not in change
    assert value not in change


@pytest.mark.parametrize(
    "path",
    [
        "/admin/keys/person/",
        "/admin/keys/person/add/",
        "/admin/keys/role/?q=read",
        "/admin/keys/role/add/",
        "/admin/keys/apikey/?q=HR",
        "/admin/keys/apikey/?state=active",
        "/admin/keys/apikey/?state=expired",
        "/admin/keys/apikey/?state=revoked",
        "/admin/keys/apikey/add/",
        "/admin/auth/group/add/",
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
    visitor = Person.objects.create(
        username=f"{connection.name}\\ada", connection=connection, object_guid="0c3a6f5e-1111-4222-8333-944455556666"
    )
    text = page(admin, f"/admin/keys/person/{visitor.pk}/change/")
    assert 'name="username"' not in text
    assert admin.get(f"/admin/keys/person/{visitor.pk}/password/").status_code == 403


def change_form(key: ApiKey, **values: Any) -> dict[str, Any]:
    return {
        **NO_LINKS,
        "name": key.name,
        "role": str(key.role_id),
        "expires_at_0": "",
        "expires_at_1": "",
        "allowed_addresses": "",
        "supervision_level": key.supervision_level,
        **values,
    }


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
        ({"allowed_addresses": "10.1.2.3/8"}, "has host bits set"),
        ({"expires_at_0": "2020-01-01", "expires_at_1": "00:00:00"}, "in the past"),
    ):
        assert complaint in admin.post(path, change_form(key, **values)).content.decode()


def test_a_key_is_rotated(admin: Client, connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    path = f"/admin/keys/apikey/rotate/?ids={integration.key.pk}"
    assert path in page(admin, f"/admin/keys/apikey/{integration.key.pk}/change/")
    assert "no time at all" in page(admin, path)
    response = admin.post(path, {"grace": "3600"})
    value = value_on(page(admin, response.headers["Location"]))
    assert integration.get("/api/me").status == 200
    assert send(Client(), "GET", "/api/me", X_API_Key=value).status == 200
    admin.post(path, {"grace": "0"})
    assert integration.get("/api/me").status == 401
    assert LogEntry.objects.filter(change_message="Rotated.").count() == 2


def test_keys_are_revoked(admin: Client, connection: DirectoryConnection) -> None:
    first, second = make_integration(connection), make_integration(connection)
    chosen = {"action": "revoke_selected", "_selected_action": [str(first.key.pk), str(second.key.pk)]}
    asked = admin.post("/admin/keys/apikey/", chosen).headers["Location"]
    assert first.key.name in page(admin, asked)
    assert first.get("/api/me").status == 200
    assert admin.post(asked).status_code == 302
    assert [item.get("/api/me").status for item in (first, second)] == [401, 401]
    path = f"/admin/keys/apikey/{first.key.pk}/change/"
    assert 'name="name"' not in page(admin, path)
    assert admin.post(path, change_form(first.key, name="x")).status_code == 403
    assert admin.get(f"/admin/keys/apikey/rotate/?ids={first.key.pk}").status_code == 403


def test_a_key_in_use_is_not_deleted(admin: Client, connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    path = f"/admin/keys/apikey/{integration.key.pk}/delete/"
    assert admin.post(path, {"post": "yes"}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [str(integration.key.pk)], "post": "yes"}
    admin.post("/admin/keys/apikey/", chosen)
    assert ApiKey.objects.exists()
    lifecycle.revoke(integration.key, revoked_by_id=integration.key.owner_id)
    assert admin.post(path, {"post": "yes"}).status_code == 302
    assert not ApiKey.objects.exists()


def test_another_ones_key_is_revoked_at_most(connection: DirectoryConnection) -> None:
    integration: Integration = make_integration(connection)
    clerk = staff("keys.view_apikey", "keys.change_apikey", "keys.add_apikey", "keys.delete_apikey")
    path = f"/admin/keys/apikey/{integration.key.pk}/change/"
    assert 'name="name"' not in page(clerk, path)
    assert clerk.post(path, change_form(integration.key, name="x")).status_code == 403
    assert clerk.post(f"/admin/keys/apikey/rotate/?ids={integration.key.pk}", {"grace": "0"}).status_code == 403
    form = {**change_form(integration.key), "owner": integration.key.owner_id}
    assert clerk.post("/admin/keys/apikey/add/", form).status_code == 200  # the form again: not one of the choices
    assert ApiKey.objects.count() == 1
    assert clerk.post(f"/admin/keys/apikey/revoke/?ids={integration.key.pk}").status_code == 302
    assert integration.get("/api/me").status == 401


def test_a_role_offers_what_roles_may_grant(admin: Client) -> None:
    offered = set(re.findall(r"<option[^>]*>[^<]*\(([a-z]+\.[a-z_]+)\)</option>", page(admin, "/admin/keys/role/add/")))
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
    (read,) = permissions([READ])
    form = {"name": "Staff", "description": "", "permissions": [read.pk], "scopes": organizational_unit}
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
    assert "no enabled directory has such an object" in wrong.content.decode()


def test_people_are_not_made_mightier_than_their_maker(superuser: Person) -> None:
    clerk = staff(READ, "keys.view_person", "keys.change_person", "keys.add_person", "keys.delete_person")
    mighty = f"/admin/keys/person/{superuser.pk}"
    assert clerk.post(f"{mighty}/change/", {"username": "x"}).status_code == 403
    assert clerk.get(f"{mighty}/password/").status_code == 403
    assert clerk.post(f"{mighty}/delete/", {"post": "yes"}).status_code == 403
    weaker = make_person()
    text = page(clerk, f"/admin/keys/person/{weaker.pk}/change/")
    assert READ in text
    assert "directory.delete_user" not in text
    assert 'name="is_superuser"' not in text
    form = {"username": weaker.username, "display_name": "", "email": "", "is_active": "on", "is_superuser": "on"}
    clerk.post(f"/admin/keys/person/{weaker.pk}/change/", form)
    assert not Person.objects.get(pk=weaker.pk).is_superuser
    assert clerk.get("/admin/auth/group/add/").status_code == 403


def test_a_new_person_signs_in(admin: Client) -> None:
    form = {
        "username": "grace",
        "display_name": "Grace Hopper",
        "usable_password": "true",
        "password1": "a long and unusual phrase",
        "password2": "a long and unusual phrase",
    }
    assert admin.post("/admin/keys/person/add/", form).status_code == 302
    body = {"username": "grace", "password": form["password1"]}
    assert send(Client(), "POST", "/rest/session", body).body["user"]["displayName"] == "Grace Hopper"
    wrong = admin.post("/admin/keys/person/add/", {**form, "username": "corp\\grace"})
    assert wrong.status_code == 200
    assert Person.objects.filter(username__contains="\\").count() == 0


def test_the_second_factor_of_people_is_reset(admin: Client, superuser: Person) -> None:
    ada = make_person("ada")
    for person in (ada, superuser):
        SecondFactor.objects.create(person=person, secret="A" * 32, confirmed_at=timezone.now())
    chosen = {"action": "reset_second_factor", "_selected_action": [ada.pk, superuser.pk]}
    told = admin.post("/admin/keys/person/", chosen, follow=True).content.decode()
    assert "The second factor of ada is reset." in told
    assert "Your own second factor is removed on your account" in told
    assert [factor.person for factor in SecondFactor.objects.all()] == [superuser]
    clerk = staff("keys.view_person", "keys.change_person")
    told = clerk.post("/admin/keys/person/", chosen, follow=True).content.decode()
    assert f"You do not hold all that {superuser} may do." in told
    assert SecondFactor.objects.filter(person=superuser).exists()
