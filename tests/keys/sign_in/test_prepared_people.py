"""People of a directory who are given permissions before they first sign in."""

from html import unescape
from uuid import UUID, uuid4

import pytest
from django.test import Client

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from keys.models import Person
from lab.directory import PASSWORD, Directory
from lab.domain import Domain
from tests.support.cast import Answer, Console, make_connection, make_person, send

READ = "directory.read_object"


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="corp")


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    guid = directory.add_user("Ada Byron", parent=organizational_unit, password=PASSWORD, sAMAccountName="ada.byron")
    directory.modify(guid, userAccountControl="512", sn="Byron")
    return guid


def prepare(console: Console, connection: DirectoryConnection, account: UUID) -> Answer:
    return console.post("/rest/users/prepare", {"directory": str(connection.pk), "account": str(account)})


def test_it_works(connection: DirectoryConnection, directory: Directory, ada: UUID) -> None:
    """Found by name, prepared in the console, renamed in the directory, and still the person who signs in."""
    console = Console(make_person("grace", superuser=True))
    found = unescape(console.get("/console/people/prepare?q=Byron").body.decode())
    assert f'name="account" value="{ada}"' in found
    sent = console.submit("/console/people/prepare?q=Byron", account=str(ada))
    person = Person.objects.get(object_guid=ada)
    path = f"/console/people/{person.public_id}/permissions"
    assert (sent.headers["Location"], person.username, person.last_login) == (path, "corp\\ada.byron", None)
    assert not person.has_usable_password()
    assert console.patch(f"/rest/users/{person.public_id}", {"permissions": [READ]}).status == 200
    listed = console.get("/rest/users?signedIn=false").body["items"]
    assert [each["username"] for each in listed if each["directory"]] == ["corp\\ada.byron"]
    assert "has not signed in yet" in console.get("/console/people/?signedIn=false").body.decode()

    directory.modify(ada, sAMAccountName="ada.lovelace")
    directory.rename(ada, "Ada Lovelace")
    body = {"username": "ada.lovelace", "password": PASSWORD, "directory": "corp"}
    client = Client()
    assert send(client, "POST", "/rest/session", body).status == 200
    assert send(client, "GET", "/rest/me").body["permissions"] == [READ]
    person.refresh_from_db()
    assert person.username == "corp\\ada.lovelace"
    assert Person.objects.filter(object_guid=ada).count() == 1
    assert "corp" not in console.get("/console/people/?signedIn=false").body.decode().split("<main")[1]
    [record] = OperationRecord.objects.filter(operation="people.prepare")
    assert (record.target_dn, record.owner) == ("corp\\ada.byron", "grace")


def test_who_is_refused(connection: DirectoryConnection, directory: Directory, ada: UUID) -> None:
    console = Console(make_person(superuser=True))
    assert prepare(console, connection, uuid4()).body["errors"][0]["pointer"] == "#/account"
    computer = directory.add_computer("pc", parent=directory.dn(ada).partition(",")[2])
    assert prepare(console, connection, computer).body["errors"][0]["pointer"] == "#/account"
    directory.modify(ada, userAccountControl="514")
    refused = prepare(console, connection, ada)
    assert (refused.status, refused.body["detail"]) == (409, "The account is disabled in the directory.")
    page = console.submit("/console/people/prepare?q=Byron", account=str(ada))
    assert (page.status, "The account is disabled in the directory." in page.body.decode()) == (409, True)
    directory.modify(ada, userAccountControl="512")
    for lacking in (["keys.add_person", "keys.view_person"], [READ, "keys.view_person"]):
        assert prepare(Console(make_person(may=lacking)), connection, ada).status == 403
    assert prepare(console, connection, ada).status == 201
    assert prepare(console, connection, ada).status == 409
    DirectoryConnection.objects.update(enabled=False)
    assert prepare(console, connection, ada).body["errors"][0]["pointer"] == "#/directory"
