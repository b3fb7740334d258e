"""Signing in and out: local accounts, people of a real directory, and who may not try any more."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone

from directory.models import DirectoryConnection
from keys.models import FailedSignIn, Person
from lab import directory as accounts
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import PASSWORD, Answer, Console, make_connection, make_person, permissions, send

pytestmark = pytest.mark.sqlite


def sign_in(username: str, password: str = PASSWORD, *, client: Client | None = None, **more: str) -> Answer:
    body = {"username": username, "password": password, **more}
    return send(client or Client(enforce_csrf_checks=True), "POST", "/rest/session", body)


def test_it_works(db: None) -> None:
    person = make_person(may=["directory.read_object"])
    client = Client(enforce_csrf_checks=True)
    answer = sign_in(person.username, client=client)
    assert answer.status == 200
    assert answer.body["user"]["username"] == person.username
    assert answer.body["user"]["permissions"] == ["directory.read_object"]
    assert send(client, "GET", "/rest/session").body["user"] == answer.body["user"]
    assert send(client, "GET", "/rest/me").body["credential"]["kind"] == "session"
    assert send(client, "DELETE", "/rest/session", X_CSRFToken=answer.body["csrfToken"]).status == 204
    assert send(client, "GET", "/rest/session").status == 401


def test_signing_in_gives_the_session_another_key(db: None) -> None:
    person = make_person()
    client = Client(enforce_csrf_checks=True)
    sign_in(person.username, client=client)
    first = client.cookies["sessionid"].value
    sign_in(person.username, client=client)
    assert client.cookies["sessionid"].value != first
    planted = Client()
    planted.cookies["sessionid"] = first
    assert send(planted, "GET", "/rest/session").status == 401


def test_a_change_needs_the_csrf_token(console: Console) -> None:
    answer = send(console.client, "POST", "/rest/roles", {"name": "Help desk"})
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert console.post("/rest/roles", {"name": "Help desk"}).status == 201


def test_deactivation_ends_a_session_at_once(console: Console) -> None:
    assert console.get("/rest/me").status == 200
    Person.objects.filter(pk=console.person.pk).update(is_active=False)
    assert console.get("/rest/me").status == 401
    assert sign_in(console.person.username).status == 401


@pytest.mark.parametrize(
    ("username", "password"),
    [("somebody", PASSWORD), ("ada", "wrong"), ("ada", ""), ("ADA", PASSWORD), ("nowhere\\ada", PASSWORD)],
)
def test_a_wrong_name_or_password_is_refused(username: str, password: str, db: None) -> None:
    make_person("ada")
    answer = sign_in(username, password)
    assert (answer.status, answer.code) == (401, "Auth.Unauthorized")


def test_ten_failures_lock_a_name_for_a_while(db: None) -> None:
    make_person("ada")
    make_person("grace")
    for _ in range(10):
        assert sign_in("Ada", "wrong").status == 401  # counted whatever the spelling
    assert sign_in("ada").status == 401
    assert sign_in("grace").status == 200
    assert FailedSignIn.objects.count() == 10  # an attempt that is not made does not prolong the lock
    FailedSignIn.objects.update(at=timezone.now() - timedelta(minutes=15))
    assert sign_in("ada").status == 200


def test_failures_spread_over_hours_lock_nothing(db: None) -> None:
    make_person("ada")
    for minutes in range(9):
        sign_in("ada", "wrong")
        FailedSignIn.objects.update(at=timezone.now() - timedelta(minutes=16 + minutes))
    sign_in("ada", "wrong")
    assert sign_in("ada").status == 200


def test_thirty_failures_lock_an_address(db: None) -> None:
    make_person("ada")
    for number in range(30):
        sign_in(f"somebody{number}", "wrong")
    assert sign_in("ada").status == 401
    elsewhere = Client(REMOTE_ADDR="192.0.2.7")
    assert sign_in("ada", client=elsewhere).status == 200


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="corp")


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(
        "Ada Lovelace",
        parent=organizational_unit,
        password=accounts.PASSWORD,
        sAMAccountName="ada.lovelace",
        userPrincipalName="ada@corp.example.test",
        displayName="Ada Lovelace",
    )


@pytest.mark.parametrize("name", ["ada.lovelace", "ADA.Lovelace", "ada@corp.example.test", "CORP\\ada.lovelace"])
def test_a_person_of_a_directory_signs_in(name: str, connection: DirectoryConnection, ada: UUID) -> None:
    answer = sign_in(name, accounts.PASSWORD, directory="corp")
    assert answer.status == 200
    assert answer.body["user"] == {
        "username": "corp\\ada.lovelace",
        "displayName": "Ada Lovelace",
        "permissions": [],
    }
    person = Person.objects.get(connection=connection, object_guid=ada)
    assert not person.has_usable_password()
    assert not person.is_staff


def test_a_person_of_a_directory_is_nobody_else(
    connection: DirectoryConnection, ada: UUID, directory: Directory
) -> None:
    local = make_person("ada.lovelace", may=["directory.read_object"])
    assert sign_in("ada.lovelace", accounts.PASSWORD).status == 401
    assert sign_in("ada.lovelace", PASSWORD, directory="corp").status == 401
    assert sign_in("ada.lovelace", accounts.PASSWORD, directory="corp").body["user"]["permissions"] == []
    assert sign_in("corp\\ada.lovelace", accounts.PASSWORD).status == 200
    assert local.username == "ada.lovelace"
    directory.modify(ada, sAMAccountName="ada.king")
    assert sign_in("ada.king", accounts.PASSWORD, directory="corp").body["user"]["username"] == "corp\\ada.king"
    assert Person.objects.filter(connection=connection).count() == 1


def test_another_account_under_the_old_name_is_another_person(
    connection: DirectoryConnection, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    sign_in("ada.lovelace", accounts.PASSWORD, directory="corp")
    first = Person.objects.get(object_guid=ada)
    first.user_permissions.set(permissions(["directory.read_object"]))
    directory.delete(ada)
    again = directory.add_user(
        "Another Ada", parent=organizational_unit, password=accounts.PASSWORD, sAMAccountName="ada.lovelace"
    )
    answer = sign_in("ada.lovelace", accounts.PASSWORD, directory="corp")
    assert answer.body["user"] == {
        "username": "corp\\ada.lovelace",
        "displayName": "Another Ada",
        "permissions": [],
    }
    assert Person.objects.get(object_guid=again).pk != first.pk
    first.refresh_from_db()
    assert first.username == f"corp\\{ada}"


@pytest.mark.parametrize("name", ["*", "ada*", "ada.lovelace)(objectClass=*", "", "nobody", "corp\\", "CN=x"])
def test_a_name_is_never_a_filter(name: str, connection: DirectoryConnection, ada: UUID) -> None:
    assert sign_in(name or " ", accounts.PASSWORD, directory="corp").status == 401


def test_what_the_directory_refuses_is_refused(
    connection: DirectoryConnection, ada: UUID, directory: Directory
) -> None:
    assert sign_in("ada.lovelace", "wrong", directory="corp").status == 401
    assert sign_in("ada.lovelace", "", directory="corp").status == 401
    assert sign_in("ada.lovelace", accounts.PASSWORD, directory="elsewhere").status == 401
    directory.modify(ada, userAccountControl="514")
    assert sign_in("ada.lovelace", accounts.PASSWORD, directory="corp").status == 401
    directory.modify(ada, userAccountControl="512")
    connection.enabled = False
    connection.save()
    assert sign_in("ada.lovelace", accounts.PASSWORD, directory="corp").status == 401


def test_a_directory_that_is_down_is_no_failure_of_the_name(db: None, domain: Domain) -> None:
    make_connection(domain, name="corp", url="ldaps://127.0.0.1:1")
    answer = sign_in("ada.lovelace", accounts.PASSWORD, directory="corp")
    assert (answer.status, answer.code) == (503, "AD.Directory.Unavailable")
    assert not FailedSignIn.objects.exists()


def test_a_person_works_on_the_directory_they_signed_in_with(
    connection: DirectoryConnection, ada: UUID, domain: Domain
) -> None:
    make_connection(domain)  # a second one, which a local account would have to choose from
    client = Client(enforce_csrf_checks=True)
    token = sign_in("ada.lovelace", accounts.PASSWORD, client=client, directory="corp").body["csrfToken"]
    assert send(client, "GET", "/rest/me").body["directory"]["name"] == "corp"
    issued = send(client, "POST", "/rest/session/access-token", X_CSRFToken=token).body["accessToken"]
    assert send(Client(), "GET", "/api/me", Authorization=f"Bearer {issued}").body["directory"]["name"] == "corp"
