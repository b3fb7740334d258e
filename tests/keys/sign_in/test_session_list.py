"""Where a person is signed in: the list of their sessions, ending them one by one and all at once."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from structlog.testing import capture_logs

from keys.models import Person, PersonSession
from keys.sign_in import sessions
from keys.sign_in.sessions import stored_key
from tests.support.cast import PASSWORD, Answer, make_person, send

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


class Browser:
    """A browser with a session of Ada's, and an access token made in it."""

    def __init__(self, username: str = "ada", *, address: str = "127.0.0.1", user_agent: str = "") -> None:
        self.client = Client(enforce_csrf_checks=True, REMOTE_ADDR=address, HTTP_USER_AGENT=user_agent)
        body = {"username": username, "password": PASSWORD}
        self.token = send(self.client, "POST", "/rest/session", body).body["csrfToken"]
        self.access_token = self.call("POST", "/rest/session/access-token").body["accessToken"]

    def call(self, method: str, path: str) -> Answer:
        return send(self.client, method, path, X_CSRFToken=self.token)

    def list(self) -> Any:
        answer = self.call("GET", "/rest/sessions")
        assert answer.status == 200, answer
        return answer.body["items"]

    @property
    def id(self) -> str:
        """The identifier of its session."""
        (own,) = [item["id"] for item in self.list() if item["current"]]
        return str(own)

    @property
    def lives(self) -> bool:
        """Whether its session is one; its access token is just as good."""
        answers = {
            self.call("GET", "/rest/session").status,
            send(Client(), "GET", "/api/me", Authorization=f"Bearer {self.access_token}").status,
        }
        assert len(answers) == 1
        return answers == {200}


@pytest.fixture
def ada(db: None) -> Person:
    return make_person("ada")


@pytest.fixture
def _each_request_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SEEN_EVERY", timedelta(0))


def test_it_works(ada: Person) -> None:
    here = Browser(address="192.0.2.7", user_agent=FIREFOX)
    there = Browser(user_agent="curl/8.0")
    Browser(make_person("grace").username)
    items = here.list()
    assert {(item["current"], item["address"], item["userAgent"]) for item in items} == {
        (True, "192.0.2.7", FIREFOX),
        (False, "127.0.0.1", "curl/8.0"),
    }
    for item in items:
        assert set(item) == {"id", "current", "startedAt", "lastSeenAt", "expiresAt", "address", "userAgent"}
        assert item["startedAt"] <= item["lastSeenAt"] < item["expiresAt"]
    assert here.call("DELETE", f"/rest/sessions/{there.id}").status == 204
    assert (here.lives, there.lives) == (True, False)
    assert [item["current"] for item in here.list()] == [True]


def test_signing_out_everywhere_else(ada: Person) -> None:
    here, *others = (Browser() for _ in range(4))
    stranger = Browser(make_person("grace").username)
    with capture_logs() as logs:
        assert here.call("DELETE", "/rest/sessions").status == 204
    assert [(line["person"], line["sessions"]) for line in logs if "another" in line["event"]] == [("ada", 3)]
    assert here.lives
    assert stranger.lives
    assert not any(other.lives for other in others)


def test_ending_the_own_session_signs_out(ada: Person) -> None:
    here = Browser()
    assert here.call("DELETE", f"/rest/sessions/{here.id.upper()}").status == 204
    assert not here.lives


def test_signing_out_ends_session_and_token(ada: Person) -> None:
    here = Browser()
    assert here.call("DELETE", "/rest/session").status == 204
    assert not here.lives
    assert not PersonSession.objects.exists()


def test_other_peoples_sessions_are_none(ada: Person) -> None:
    here, stranger = Browser(), Browser(make_person("grace").username)
    for id in (stranger.id, uuid4(), "nonsense"):
        answer = here.call("DELETE", f"/rest/sessions/{id}")
        assert (answer.status, answer.code) == (404, "Request.NotFound")
    assert stranger.lives


def test_who_is_not_signed_in_sees_nothing(ada: Person) -> None:
    here = Browser()
    for method, path in (("GET", ""), ("DELETE", ""), ("DELETE", f"/{here.id}")):
        assert send(Client(), method, f"/rest/sessions{path}").status == 401
        assert (
            send(Client(), method, f"/rest/sessions{path}", Authorization=f"Bearer {here.access_token}").status == 401
        )
    for path in ("", f"/{here.id}"):
        answer = send(here.client, "DELETE", f"/rest/sessions{path}")
        assert (answer.status, answer.code) == (403, "Auth.Forbidden")  # without its CSRF token
    assert here.lives


def test_the_list_is_a_page_like_any_other(ada: Person) -> None:
    here = Browser()
    for _ in range(2):
        Browser()
    first = here.call("GET", "/rest/sessions?pageSize=2").body
    assert (len(first["items"]), first["total"]) == (2, 3)
    rest = here.call("GET", f"/rest/sessions?pageSize=2&cursor={first['nextCursor']}").body
    assert len({item["id"] for item in first["items"] + rest["items"]}) == 3
    assert here.call("GET", "/rest/sessions?colour=red").code == "Request.UnknownParameter"


def test_a_session_that_is_over_is_not_listed(ada: Person) -> None:
    here, gone = Browser(), Browser()
    Session.objects.filter(session_key=stored_key(gone.client.cookies["sessionid"].value)).update(
        expire_date=timezone.now()
    )
    assert len(here.list()) == 1
    Browser()
    assert PersonSession.objects.count() == 2  # its row goes with the next sign-in


def test_a_session_is_seen_at_most_once_a_minute(ada: Person) -> None:
    here = Browser()
    started = here.list()[0]["lastSeenAt"]
    here.call("GET", "/rest/me")
    assert here.list()[0]["lastSeenAt"] == started


def test_where_a_session_was_last_seen(ada: Person, _each_request_is_noted: None) -> None:  # noqa: PT019
    here = Browser()
    started = here.list()[0]
    moved = send(here.client, "GET", "/rest/me")
    assert moved.status == 200
    here.client.defaults["REMOTE_ADDR"] = "192.0.2.7"
    seen = here.list()[0]
    assert seen["id"] == started["id"]
    assert seen["lastSeenAt"] > started["lastSeenAt"]
    assert seen["address"] == "192.0.2.7"


def test_what_the_log_says(ada: Person) -> None:
    with capture_logs() as logs:
        here = Browser()
        cookie = here.client.cookies["sessionid"].value
        here.call("DELETE", "/rest/session")
    told = [(line["event"], line["person"], line["client_address"]) for line in logs if "signed" in line["event"]]
    assert told == [("signed in", "ada", "127.0.0.1"), ("signed out", "ada", "127.0.0.1")]
    assert len({line["session"] for line in logs if "signed" in line["event"]}) == 1
    assert cookie not in str(logs)
