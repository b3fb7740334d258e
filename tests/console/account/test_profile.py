"""A person's own account, by its pages: what the password, the second factor and the sessions refuse."""

from html import unescape

import pytest
from django.test import Client
from structlog.testing import capture_logs

from keys.models import FailedSignIn, PersonSession
from keys.sign_in import second_factor
from lab import directory as accounts
from lab.directory import Directory
from lab.domain import Domain
from tests.keys.authenticator import code_of
from tests.support.cast import PASSWORD, Answer, Console, make_connection, make_person, send
from tests.support.markup import markup_of, text_of

pytestmark = pytest.mark.django_db

NEW = "one more horse, one more battery"


@pytest.fixture
def ada() -> Console:
    return Console(make_person("ada"))


def error_of(answer: Answer) -> str:
    """What stands beside a field."""
    text = unescape(answer.body.decode())
    return text.partition('<span class="error"')[2].partition(">")[2].partition("</span>")[0]


def change_password(console: Console, current: str = PASSWORD, new: str = NEW, again: str | None = None) -> Answer:
    return console.submit("/console/account/password", current=current, new=new, again=new if again is None else again)


def sign_in(password: str) -> int:
    return send(Client(), "POST", "/rest/session", {"username": "ada", "password": password}).status


def test_a_new_password_ends_all_but_this_session(ada: Console) -> None:
    token = ada.post("/rest/session/access-token").body["accessToken"]
    elsewhere = Console(ada.person)
    (own,) = [item["id"] for item in ada.get("/rest/sessions").body["items"] if item["current"]]
    with capture_logs() as logs:
        assert change_password(ada).status == 302
    assert "ada" in [line["person"] for line in logs if line["event"] == "password changed"]
    assert NEW not in str(logs)
    assert elsewhere.get("/rest/me").status == 401
    assert send(Client(), "GET", "/api/me", Authorization=f"Bearer {token}").status == 401
    items = ada.get("/rest/sessions").body["items"]
    assert [(item["id"], item["current"]) for item in items] == [(own, True)]
    assert PersonSession.objects.count() == 1
    assert (sign_in(PASSWORD), sign_in(NEW)) == (401, 200)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"current": "wrong"}, "This is not your present password."),
        ({"current": ""}, "This is not your present password."),
        ({"new": "ada ada"}, "too short"),
        ({"new": "1234567890"}, "too common"),
        ({"new": ""}, "too short"),
        ({"again": "another"}, "not the same"),
    ],
)
def test_a_password_that_is_refused(given: dict[str, str], told: str, ada: Console) -> None:
    answer = change_password(ada, **given)
    assert (answer.status, told in error_of(answer)) == (400, True)
    assert sign_in(PASSWORD) == 200


def test_the_present_password_cannot_be_guessed(ada: Console) -> None:
    for _ in range(10):
        change_password(ada, current="wrong")
    answer = change_password(ada)
    assert (answer.status, "too many wrong passwords" in error_of(answer)) == (400, True)
    assert FailedSignIn.objects.count() == 10


def test_a_person_of_a_directory_changes_theirs_there(
    domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    make_connection(domain, name="corp")
    directory.add_user(parent=organizational_unit, password=accounts.PASSWORD, sAMAccountName="ada.l")
    client = Client()
    client.post("/console/sign-in", {"username": "ada.l", "password": accounts.PASSWORD, "directory": "corp"})
    page = client.get("/console/account").content.decode()
    assert "of corp" in page
    assert "Present password" not in page
    given = {"current": accounts.PASSWORD, "new": NEW, "again": NEW}
    assert client.post("/console/account/password", given).status_code == 409


def test_the_second_factor_needs_its_code(ada: Console) -> None:
    place = "/console/account/second-factor"
    assert ada.get(place).headers["Location"] == "/console/account"  # none is being set up
    assert ada.submit(f"{place}/confirm", code="123456").status == 409
    assert ada.submit(f"{place}/set-up", password=PASSWORD).status == 302
    secret = second_factor.find_enrolment(ada.person)
    assert secret is not None
    assert error_of(ada.submit(f"{place}/confirm", code="12")).startswith("This code is wrong")
    done = ada.submit(f"{place}/confirm", code=code_of(secret.secret))
    codes = ada.get(done.headers["Location"])
    assert len(text_of(codes.body).partition("worthless now.")[2].partition("Copy")[0].split()) == 10
    assert "no-store" in codes.headers["Cache-Control"]
    again = text_of(ada.get(done.headers["Location"]).body)
    assert "Recovery codes are shown once" in again
    assert "worthless now." not in again
    assert ada.submit(f"{place}/set-up").status == 409
    for change in ("replace", "remove"):
        assert error_of(ada.submit(f"{place}/{change}", code="")) == "Type the code that your authenticator shows."
    assert second_factor.is_on(ada.person)
    assert ada.submit(f"{place}/remove", code=code_of(secret.secret, steps=1)).status == 302
    assert not second_factor.is_on(ada.person)


def test_a_session_alone_sets_up_no_second_factor(ada: Console) -> None:
    """With it passkeys could be added, which sign in without the password."""
    place = "/console/account/second-factor"
    assert "Present password" in text_of(ada.get(f"{place}/set-up").body)
    for wrong in ({}, {"password": ""}, {"password": "Wrong-Horse-9"}, {"code": "123456", "passkey": "{}"}):
        assert error_of(ada.submit(f"{place}/set-up", **wrong)) == "This is not your present password."
    assert second_factor.find_enrolment(ada.person) is None
    assert ada.submit(f"{place}/set-up", password=PASSWORD).headers["Location"] == place
    assert second_factor.find_enrolment(ada.person) is not None


def test_the_secret_is_nobody_elses(ada: Console) -> None:
    ada.submit("/console/account/second-factor/set-up", password=PASSWORD)
    grace = Console(make_person("grace"))
    assert grace.get("/console/account/second-factor").status == 302
    enrolment = second_factor.find_enrolment(ada.person)
    assert enrolment is not None
    assert grace.submit("/console/account/second-factor/confirm", code=code_of(enrolment.secret)).status == 409


def test_other_peoples_sessions_are_not_ended(ada: Console) -> None:
    grace = Console(make_person("grace"))
    (session,) = grace.get("/rest/sessions").body["items"]
    assert ada.submit(f"/console/account/sessions/{session['id']}/end").status == 404
    assert grace.get("/rest/me").status == 200


def test_ending_this_very_session_leads_to_the_door(ada: Console) -> None:
    (session,) = ada.get("/rest/sessions").body["items"]
    assert ada.submit(f"/console/account/sessions/{session['id']}/end").status == 302
    assert ada.get("/console/account").headers["Location"].startswith("/console/sign-in")


FORMS = (
    *("password", "access-token", "sessions/end-others"),
    *("second-factor/confirm", "second-factor/replace", "second-factor/remove"),
)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_needs_a_session_and_its_token(form: str, ada: Console) -> None:
    path = f"/console/account/{form}"
    assert ada.client.post(path, {}).status_code == 403
    assert ada.get(path).status == 405
    assert Client().post(path, {})["Location"].startswith("/console/sign-in")


@pytest.mark.parametrize(
    ("user_agent", "shown"),
    [
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) … Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0", "Edge on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) … Version/26.0 Safari/605.1.15", "Safari on macOS"),
        ("Mozilla/5.0 (Linux; Android 10; K) … Chrome/142.0.0.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8.0", "curl"),
        ("<b>", "<b>"),
        ("", "Unknown"),
    ],
)
def test_how_browsers_are_called(user_agent: str, shown: str, ada: Console) -> None:
    PersonSession.objects.update(user_agent=user_agent)
    text = markup_of(ada.get("/console/account").body)
    head = text.partition('<th scope="row"')[2].partition(">")[2]
    assert unescape(head.partition("<")[0]) == shown
    assert "<b>" not in text


def test_what_one_may_do_is_said(ada: Console) -> None:
    assert "No permissions" in ada.get("/console/account").body.decode()
    everything = Console(make_person(superuser=True)).get("/console/account").body.decode()
    assert "may do everything" in everything
    assert "directory.manage_protected" in everything
