"""The first day: who makes the first administrator and who does not, and what the pages after it tell apart."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection as database
from django.test import Client

from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from keys import first_administrator
from keys.models import Person
from keys.sign_in import login_throttle
from lab.domain import Domain
from tests.console.access_pages import fields_of, followed, text_of
from tests.support.cast import Console, make_connection, make_integration, make_person
from tests.support.configuration import Configure

SET_UP = "/console/setup"
PASSWORD = "a long and unusual phrase"
TYPED = {
    "username": "grace",
    "displayName": "Grace Hopper",
    "email": "grace@example.com",
    "password": PASSWORD,
    "again": PASSWORD,
}


def send(client: Any = None, **typed: Any) -> Any:
    return (client or Client()).post(SET_UP, {"code": first_administrator.set_up_code(), **TYPED, **typed})


@pytest.mark.sqlite
@pytest.mark.django_db
def test_the_code_makes_one_administrator_and_then_no_more() -> None:
    client = Client()
    assert client.get("/console/", follow=True).request["PATH_INFO"] == SET_UP
    code = first_administrator.set_up_code()
    assert re.fullmatch("([A-Z2-7]{4}-){5}[A-Z2-7]{4}", code)
    page = client.get(SET_UP).content.decode()
    assert code not in page
    assert code.replace("-", "") not in page
    made = send(client, code=f" {code.lower().replace('-', ' ')} ")
    assert (made.status_code, made["Location"]) == (302, "/console/first-day")
    grace = Person.objects.get()
    assert (grace.username, grace.email, grace.is_superuser, grace.is_staff) == (
        *("grace", "grace@example.com", True, True),
    )
    assert client.get("/console/first-day", follow=True).status_code == 200, "and signed in"
    record = OperationRecord.objects.get()
    assert (record.operation, record.owner, record.target_id) == ("people.create", "(set-up)", grace.public_id)
    assert "the person becomes a superuser" in record.raised_access
    assert PASSWORD not in str(record.changes)
    again = send(username="mallory")
    assert (again.status_code, again["Location"]) == (302, "/console/first-day")
    grace.delete()
    assert send(username="mallory").status_code == 302, "closed for good"
    assert not Person.objects.exists()


@pytest.mark.django_db
def test_nothing_is_made_without_the_code() -> None:
    client = Client(REMOTE_ADDR="192.0.2.7")
    for code in ("", "AAAA-BBBB-CCCC-DDDD-EEEE-FFFF", first_administrator.set_up_code()[:-1], "\u00e4\0"):
        refused = send(client, code=code)
        assert (refused.status_code, "This is not the code." in refused.content.decode()) == (403, True), code
        assert PASSWORD not in refused.content.decode()
    assert send(client, code="x").status_code == 403
    late = send(client)
    assert "too many wrong codes" in late.content.decode(), "not even the right one is looked at"
    assert not Person.objects.exists()
    assert not OperationRecord.objects.exists()
    assert login_throttle.begin("\\grace", "127.0.0.1") is not None, "and signing in is not locked by it"


@pytest.mark.django_db
def test_what_is_typed_is_checked_beside_its_field() -> None:
    for field, value in (("again", "other"), ("email", "grace"), ("username", "gra ce"), ("password", "short")):
        typed = {field: value, **({"again": value} if field == "password" else {})}
        page = send(**typed)
        assert page.status_code == 400, field
        assert f'id="{field}-error"' in page.content.decode(), field
    assert not Person.objects.exists()


@pytest.mark.django_db
def test_over_plain_http_nothing_is_asked_for(settings: Any) -> None:
    settings.DEVELOPMENT = False
    page = Client().get(SET_UP, headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"})
    assert "came without TLS" in page.content.decode()
    assert "ForwardedHeaders:KnownProxies" in page.content.decode()
    assert "<form" not in page.content.decode()
    send()
    assert not Person.objects.exists()
    assert b"<form" in Client().get(SET_UP, secure=True).content


@pytest.mark.django_db(transaction=True)
def test_two_browsers_at_once_make_one_administrator() -> None:
    together = Barrier(4)

    def make(number: int) -> int:
        together.wait()
        try:
            return send(username=f"grace{number}").status_code
        finally:
            database.close()

    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(make, range(4))] == [302] * 4
    assert Person.objects.count() == 1
    assert OperationRecord.objects.filter(operation="people.create").count() == 1


@pytest.mark.django_db
def test_a_command_closes_it_and_a_person_of_a_directory_does_not(domain: Domain) -> None:
    of_directory = make_connection(domain, name="Corp")
    Person.objects.create(username="Corp\\ada", connection=of_directory, object_guid=of_directory.pk)
    assert first_administrator.is_open()
    call_command("createsuperuser", username="grace", email="", interactive=False, verbosity=0)
    assert not first_administrator.is_open()
    assert send(username="mallory").status_code == 302
    assert not Person.objects.filter(username="mallory").exists()


@pytest.fixture
def console(db: None) -> Console:
    return Console(make_person("grace", superuser=True))


def connect(console: Console, domain: Domain, **changed: str) -> Any:
    typed = {
        "name": "Corp",
        "enabled": "on",
        "urls": domain.url,
        "baseDn": domain.base_dn,
        "bindDn": domain.bind_dn,
        "bindPassword": domain.bind_password,
        "caCertificate": domain.ca_pem,
    }
    return console.submit("/console/first-day/directory", **{**typed, **changed})


@pytest.mark.parametrize(
    ("changed", "problem", "advice"),
    [
        ({"urls": "ldaps://dc1.nowhere.invalid"}, "no DNS server knows this name", "Check how it is spelled"),
        ({"urls": "ldaps://127.0.0.1:1"}, "nothing listens on port 1", "636 for ldaps://"),
        ({"caCertificate": ""}, "not issued by a trusted authority", "Paste the certificate of the authority"),
        ({"bindPassword": "wrong"}, "the name or the password is wrong", "lock-out"),
        ({"baseDn": "DC=other,DC=test"}, "does not exist or cannot be read", "This server's domain is DC="),
        ({"baseDn": "OU=nowhere,{base}"}, "does not exist or cannot be read", "It is in this domain"),
    ],
    ids=["host", "port", "tls", "bind", "other-domain", "base"],
)
def test_what_stands_in_the_way_is_told_apart_and_nothing_saved(
    console: Console, domain: Domain, changed: dict[str, str], problem: str, advice: str
) -> None:
    page = connect(console, domain, **{name: value.format(base=domain.base_dn) for name, value in changed.items()})
    assert page.status == 400
    assert problem in text_of(page)
    assert advice in text_of(page)
    assert domain.bind_password not in fields_of(page)
    assert not DirectoryConnection.objects.exists()


def test_the_steps_lead_from_nothing_to_a_key(console: Console, domain: Domain, configure: Configure) -> None:
    def left() -> list[str]:
        return re.findall(r'<a href="/console/first-day/(\w+)">', fields_of(console.get("/console/")))

    assert left() == ["address", "directory", "approver", "key"]
    assert 'BaseUrl = "http://testserver"' in text_of(console.get("/console/first-day/address"))
    configure("Approvals", BaseUrl="https://gateway.example.test")
    told = followed(console, connect(console, domain))
    assert "Corp is connected" in told
    assert "CA;Reset Password;user" in told, "with the least that its account needs"
    account = {"username": "ida", "displayName": "Ida"}
    assert "Give them this link now" in followed(console, console.submit("/console/first-day/approver", **account))
    ida = Person.objects.get(username="ida")
    assert (ida.has_perm("approvals.decide_change"), ida.has_perm("directory.delete_user")) == (True, False)
    assert left() == ["key"]
    make_integration(DirectoryConnection.objects.get(), level=SupervisionLevel.ACT)
    assert left() == []
    [connected] = OperationRecord.objects.filter(operation="directories.create")
    assert connected.target_dn == "Corp"


@pytest.mark.django_db
def test_the_steps_are_a_superusers() -> None:
    other = Console(make_person(may=["keys.add_person", "directory.add_directoryconnection"]))
    for step in ("address", "directory", "approver", "key"):
        assert other.get(f"/console/first-day/{step}").status == 403
    assert "Before the gateway is ready" not in text_of(other.get("/console/"))


@pytest.mark.django_db
def test_no_superuser_is_sent_to_an_administrator() -> None:
    superuser, other = Console(make_person(superuser=True)), Console(make_person(may=["audit.read_log"]))
    for path in ("/console/people/", "/console/first-day/key"):
        assert "administrator of the gateway can" in text_of(other.get(path))
    for path in ("/console/", "/console/account", "/console/runs/new", "/console/keys/new/role"):
        assert not re.search("(?:ask|tell) an administrator", text_of(superuser.get(path)), re.IGNORECASE), path
