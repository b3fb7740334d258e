"""The pages of signing in and out: who gets in, what they are told, and where they come out."""

from collections.abc import Callable
from html import unescape
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from structlog.testing import capture_logs

from keys.models import FailedSignIn, Person, PersonSession
from keys.sign_in import second_factor
from lab import directory as accounts
from lab.directory import Directory, filetime
from lab.domain import Domain
from lab.samba.database import age_passwords
from tests.audit.calls import CALL
from tests.keys.authenticator import code_of
from tests.support.cast import PASSWORD, Console, make_connection, make_person
from tests.support.markup import markup_of

pytestmark = pytest.mark.django_db

WRONG = "The user name or the password is wrong."


def sign_in(client: Client, username: str, password: str = PASSWORD, **more: str) -> Any:
    return client.post("/console/sign-in", {"username": username, "password": password, **more})


def told(response: Any) -> str:
    """What stands in the box above the form."""
    text = unescape(response.content.decode())
    return text.partition('role="alert" id="refusal">')[2].partition("</div>")[0]


def is_signed_in(client: Client) -> bool:
    return client.get("/rest/session").status_code == 200


@pytest.fixture
def ada() -> Person:
    return make_person("ada")


def test_it_works(client: Client, ada: Person) -> None:
    response = sign_in(client, " ada ", next="/console/changes/?status=applied")
    assert (response.status_code, response["Location"]) == (302, "/console/changes/?status=applied")
    assert is_signed_in(client)
    assert PersonSession.objects.get().person == ada
    again = client.get("/console/sign-in?next=/console/changes/")
    assert (again.status_code, again["Location"]) == (302, "/console/changes/")


def test_a_wrong_password_says_nothing_more(client: Client, ada: Person) -> None:
    Person.objects.filter(pk=make_person("grace").pk).update(is_active=False)
    answers = [sign_in(client, name, "wrong") for name in ("ada", "grace", "nobody")]
    for _ in range(10):
        sign_in(client, "ada", "wrong")
    answers += [sign_in(client, "ada"), sign_in(client, "ada", "")]
    assert {answer.status_code for answer in answers} == {403}
    assert {told(answer).startswith(WRONG) for answer in answers} == {True}
    assert len({told(answer) for answer in answers}) == 1
    assert 'value="ada"' in answers[0].content.decode()
    assert "wrong" not in answers[0].content.decode().partition("<form")[2].replace(told(answers[0]), "")
    assert not is_signed_in(client)


def test_whoever_knew_the_password_hears_that_they_are_deactivated(client: Client, ada: Person) -> None:
    Person.objects.filter(pk=ada.pk).update(is_active=False)
    assert "switched off" in told(sign_in(client, "ada"))


def test_a_form_needs_its_token(ada: Person) -> None:
    client = Client(enforce_csrf_checks=True)
    assert sign_in(client, "ada").status_code == 403
    client.get("/console/sign-in")
    token = client.cookies["csrftoken"].value
    assert sign_in(client, "ada", csrfmiddlewaretoken=token).status_code == 302


# --- people of a directory


@pytest.fixture
def ada_of_corp(domain: Domain, directory: Directory, organizational_unit: str) -> UUID:
    make_connection(domain, name="corp")
    return directory.add_user(
        "Ada Lovelace", parent=organizational_unit, password=accounts.PASSWORD, sAMAccountName="ada.l"
    )


def test_a_person_of_a_directory_signs_in(client: Client, ada_of_corp: UUID) -> None:
    page = client.get("/console/sign-in").content.decode()
    assert 'value="corp"' in page
    assert sign_in(client, "ada.l", accounts.PASSWORD, directory="corp").status_code == 302
    assert client.get("/rest/session").json()["user"]["username"] == "corp\\ada.l"
    client.post("/console/sign-out")
    page = markup_of(client.get("/console/sign-in").content)
    assert 'value="corp" checked' in page  # as the last time
    assert client.cookies["sign-in-with"]["httponly"]


STATES: dict[str, Callable[[Directory, Domain, UUID], Any]] = {
    "Your account is disabled": lambda directory, _, ada: directory.modify(ada, userAccountControl="514"),
    "Your account has expired": lambda directory, _, ada: directory.modify(ada, accountExpires=filetime(-60)),
    "You have to change your password": lambda directory, _, ada: directory.modify(ada, pwdLastSet="0"),
    "Your password has expired": lambda directory, domain, ada: age_passwords(domain, directory, {ada: 1000}),
    WRONG: lambda directory, _, ada: directory.modify(ada, lockoutTime=filetime(-1)),
}


@pytest.mark.parametrize("text", STATES)
def test_what_the_directory_says_is_told_to_whoever_knew_the_password(
    text: str, client: Client, ada_of_corp: UUID, directory: Directory, domain: Domain
) -> None:
    STATES[text](directory, domain, ada_of_corp)
    assert told(sign_in(client, "ada.l", accounts.PASSWORD, directory="corp")).startswith(text)
    assert told(sign_in(client, "ada.l", "wrong", directory="corp")).startswith(WRONG)
    assert not is_signed_in(client)


def test_a_directory_that_is_down(client: Client, domain: Domain, ada: Person) -> None:
    make_connection(domain, name="corp", url="ldaps://127.0.0.1:1")
    response = sign_in(client, "ada.l", accounts.PASSWORD, directory="corp")
    assert (response.status_code, told(response)) == (503, "No domain controller answers")
    assert not FailedSignIn.objects.exists()
    assert sign_in(client, "ada").status_code == 302


# --- the second factor


@pytest.fixture
def secret(ada: Person) -> str:
    secret = second_factor.enrol(ada).secret
    second_factor.confirm(CALL, ada, code_of(secret, steps=-1))
    return secret


def test_the_code_comes_second(client: Client, secret: str) -> None:
    response = sign_in(client, "ada", next="/console/changes/")
    assert response["Location"] == "/console/sign-in/code?next=%2Fconsole%2Fchanges%2F"
    assert not is_signed_in(client)
    assert client.get("/console/")["Location"].startswith("/console/sign-in")
    assert client.get(response["Location"]).status_code == 200
    wrong = client.post("/console/sign-in/code", {"code": "12"})
    assert (wrong.status_code, "This code is wrong" in told(wrong)) == (403, True)
    done = client.post("/console/sign-in/code", {"code": code_of(secret), "next": "/console/changes/"})
    assert (done.status_code, done["Location"]) == (302, "/console/changes/")
    assert is_signed_in(client)


def test_too_many_wrong_codes(client: Client, secret: str) -> None:
    sign_in(client, "ada")
    for _ in range(5):
        client.post("/console/sign-in/code", {"code": "12"})
    assert "quarter of an hour" in told(client.post("/console/sign-in/code", {"code": code_of(secret)}))


TOO_LATE: dict[str, Callable[[Client, Person, pytest.MonkeyPatch], Any]] = {
    "after some minutes": lambda _client, _ada, patch: patch.setattr("keys.sign_in.sessions.time.time", lambda: 2e10),
    "after the password was changed": lambda _client, ada, _patch: (ada.set_password("another one"), ada.save()),
    "after deactivation": lambda _client, ada, _patch: Person.objects.filter(pk=ada.pk).update(is_active=False),
    "after signing out": lambda client, _ada, _patch: client.logout(),
}


@pytest.mark.parametrize("case", TOO_LATE)
def test_a_code_that_comes_too_late(
    case: str, client: Client, ada: Person, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(client, "ada")
    code = code_of(secret)
    TOO_LATE[case](client, ada, monkeypatch)
    response = client.post("/console/sign-in/code", {"code": code})
    monkeypatch.undo()
    assert response["Location"].startswith("/console/sign-in?next=")
    assert not is_signed_in(client)
    assert "That took too long." in client.get("/console/sign-in").content.decode()


def test_a_code_without_a_password_is_nothing(client: Client, secret: str) -> None:
    assert client.post("/console/sign-in/code", {"code": code_of(secret)})["Location"].startswith("/console/sign-in?")
    assert not is_signed_in(client)


# --- the back office, and out


def test_the_back_office_has_no_door_of_its_own(client: Client, ada: Person, secret: str) -> None:
    Person.objects.filter(pk=ada.pk).update(is_staff=True, is_superuser=True)
    closed = client.get("/admin/keys/person/", follow=True)
    assert closed.redirect_chain[-1][0] == "/console/sign-in?next=%2Fadmin%2Fkeys%2Fperson%2F"
    client.post("/admin/login/", {"username": "ada", "password": PASSWORD, "next": "/admin/"})
    assert not is_signed_in(client)
    assert not client.login(username="ada", password=PASSWORD)
    sign_in(client, "ada", next="/admin/keys/person/")
    done = client.post("/console/sign-in/code", {"code": code_of(secret), "next": "/admin/keys/person/"}, follow=True)
    assert (done.status_code, done.redirect_chain) == (200, [("/admin/keys/person/", 302)])
    assert client.get("/admin/password_change/")["Location"] == "/console/account"


def test_whoever_may_not_use_the_back_office_is_told_so(client: Client, ada: Person) -> None:
    sign_in(client, "ada")
    response = client.get("/admin/", follow=True)
    assert response.status_code == 403


@pytest.mark.parametrize("path", ["/console/sign-out", "/admin/logout/"])
def test_signing_out(path: str) -> None:
    console = Console(make_person("ada", superuser=True))
    with capture_logs() as logs:
        answer = console.submit(path)
    assert (answer.status, answer.headers["Location"]) == (302, "/console/sign-in")
    assert [line["person"] for line in logs if line["event"] == "signed out"] == ["ada"]
    assert not is_signed_in(console.client)
    assert "You are signed out." in console.client.get("/console/sign-in").content.decode()
    assert console.client.get(path).status_code in (302, 405)
