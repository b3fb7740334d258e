"""Whoever tries passwords in somebody's name does not keep them out where they have signed in before."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.test import Client

from keys.models import Person
from keys.sign_in import login_throttle
from keys.sign_in.login_throttle import COOKIE
from lab.directory import PASSWORD as DOMAIN_PASSWORD
from lab.directory import Directory
from lab.domain import Domain
from tests.keys.sign_in.locking import locking_policy
from tests.support.cast import PASSWORD, make_connection, make_person, send


def sign_in(client: Client, person: Person | str, password: str = PASSWORD, **more: str) -> int:
    name = person if isinstance(person, str) else person.username
    return send(client, "POST", "/rest/session", {"username": name, "password": password, **more}).status


def device_of(person: Person) -> Client:
    """A browser in which the person has signed in and out."""
    client = Client()
    assert sign_in(client, person) == 200
    return known_by(client.cookies[COOKIE].value)


def known_by(cookie: str) -> Client:
    client = Client()
    client.cookies[COOKIE] = cookie
    return client


def lock_out(person: Person) -> None:
    stranger = Client(REMOTE_ADDR="192.0.2.7")
    for _ in range(login_throttle.MAX_FAILURES_OF_NAME):
        assert sign_in(stranger, person, "wrong") == 401
    assert sign_in(Client(), person) == 401, "on an unknown device the name is locked"


def test_a_known_device_is_not_locked_by_others(db: None) -> None:
    person = make_person()
    device = device_of(person)
    lock_out(person)
    assert sign_in(device, person) == 200


def test_nor_by_what_others_try_from_its_address(db: None) -> None:
    person = make_person()
    device = device_of(person)
    for _ in range(login_throttle.MAX_FAILURES_OF_ADDRESS):
        sign_in(Client(), make_person().username, "wrong")
    assert sign_in(Client(), person) == 401
    assert sign_in(device, person) == 200


def test_on_a_known_device_passwords_are_counted_too(db: None) -> None:
    person = make_person()
    device = device_of(person)
    for _ in range(login_throttle.MAX_FAILURES_OF_NAME):
        assert sign_in(device, person, "wrong") == 401
    assert sign_in(device, person) == 401
    assert sign_in(device_of(person), person) == 200, "another one is counted for itself"


def test_a_device_is_known_for_its_person_alone(db: None) -> None:
    person, other = make_person(), make_person()
    device = device_of(other)
    lock_out(person)
    assert sign_in(device, person) == 401
    for forged in (
        "",
        "x",
        f"{person.pk}.device.mark",
        device.cookies[COOKIE].value.replace(f"{other.pk}.", f"{person.pk}.", 1),
    ):
        assert sign_in(known_by(forged), person) == 401


@pytest.mark.parametrize("ending", ["password", "sessions"])
def test_a_new_password_or_the_end_of_all_sessions_makes_it_unknown(db: None, ending: str) -> None:
    person = make_person()
    device = device_of(person)
    if ending == "password":
        person.set_password(PASSWORD)
    else:
        person.session_epoch += 1
    person.save()
    lock_out(person)
    assert sign_in(device, person) == 401


def test_the_cookie_is_for_the_server_alone(db: None) -> None:
    client = Client()
    assert sign_in(client, make_person(), "wrong") == 401
    assert COOKIE not in client.cookies
    assert (
        send(client, "POST", "/rest/session", {"username": make_person().username, "password": PASSWORD}).status == 200
    )
    cookie = client.cookies[COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["max-age"], cookie["path"]) == (True, "Lax", 90 * 86400, "/")
    assert client.get("/console/", secure=True).status_code == 200
    assert PASSWORD not in cookie.value


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> Iterator[UUID]:
    """Her account is locked at the fifth wrong password."""
    guid = directory.add_user(parent=organizational_unit, password=DOMAIN_PASSWORD, sAMAccountName="ada.known")
    with locking_policy(directory, guid):
        yield guid


def test_in_a_directory_the_last_try_is_for_a_known_device(
    db: None, domain: Domain, directory: Directory, ada: UUID
) -> None:
    connection = make_connection(domain)
    device, stranger, where = Client(), Client(REMOTE_ADDR="192.0.2.7"), {"directory": connection.name}
    assert sign_in(device, "ada.known", DOMAIN_PASSWORD, **where) == 200
    for _ in range(6):
        assert sign_in(stranger, "ada.known", "wrong", **where) == 401
    assert sign_in(stranger, "ada.known", DOMAIN_PASSWORD, **where) == 401
    assert int(directory.text(ada, "badPwdCount") or 0) == 3
    assert sign_in(device, "ada.known", DOMAIN_PASSWORD, **where) == 200
    for _ in range(6):
        assert sign_in(device, "ada.known", "wrong", **where) == 401
    assert int(directory.text(ada, "badPwdCount") or 0) == 4
    assert directory.can_sign_in(ada, DOMAIN_PASSWORD)
