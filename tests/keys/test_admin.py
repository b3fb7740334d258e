"""What Django admin shows of keys, roles, people and connections, and the little that it changes."""

import re
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from directory.models import DirectoryConnection
from keys.models import Person
from tests.contracts.own_tables import contents
from tests.support.cast import Integration, make_integration, make_person

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


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return response.content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/admin/keys/person/",
        "/admin/keys/role/?q=read",
        "/admin/keys/apikey/?q=HR",
        "/admin/keys/apikey/?supervision_level__exact=act",
        "/admin/keys/link/",
        "/admin/directory/directoryconnection/?q=corp",
        "/admin/auth/group/",
    ],
)
def test_pages_open(path: str, admin: Client, connection: DirectoryConnection) -> None:
    make_integration(connection)
    text = page(admin, path)
    assert not re.search(
        r"<script(?![^>]*\bsrc=)[^>]*>\s*[^\s<]", re.sub(r'type="application/json".*?</script>', "", text)
    )


def rows_of(integration: Integration) -> dict[str, Any]:
    """The rows that the console changes, by their place in the back office."""
    key = integration.key
    link = key.links.get()
    return {
        "keys/apikey": key,
        "keys/link": link,
        "keys/role": key.role,
        "directory/directoryconnection": link.connection,
    }


def test_what_the_console_changes_is_only_shown(admin: Client, connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    before = contents()
    for path, row in rows_of(integration).items():
        shown = page(admin, f"/admin/{path}/{row.pk}/change/")
        assert not re.search(r'<(input|select|textarea)[^>]*name="(?!csrf)', shown.partition('id="content-main"')[2])
        for secret in (integration.key.digest, connection.bind_password):
            assert secret not in shown
        for place in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/"):
            assert admin.post(f"/admin/{path}/{place}", {"name": "x", "post": "yes"}).status_code == 403, (path, place)
        chosen = {"action": "delete_selected", "_selected_action": [str(row.pk)], "post": "yes"}
        admin.post(f"/admin/{path}/", chosen)
    assert contents() == before


def test_whoever_may_only_change_does_not_look_here(connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    clerk = staff("keys.change_apikey", "keys.change_role", "directory.change_directoryconnection")
    for path, row in rows_of(integration).items():
        assert clerk.get(f"/admin/{path}/{row.pk}/change/").status_code == 403, path


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
