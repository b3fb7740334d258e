"""Where everybody needs a second factor, somebody without one can do nothing but set it up."""

import re

import pytest
from django.test import Client

from keys.models import Person
from keys.sign_in import second_factor
from tests.audit.calls import CALL
from tests.keys.authenticator import code_of
from tests.support.cast import PASSWORD, Console, make_integration, make_person, send
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db

SET_UP = "/console/account/second-factor"


@pytest.fixture
def required(configure: Configure) -> None:
    configure("SignIn", RequireSecondFactor=True)


@pytest.fixture
def ada() -> Person:
    return make_person("ada", superuser=True)


def test_it_works(ada: Person, required: None) -> None:
    """From the sign-in to the set-up, and on."""
    console = Console(ada, by_password=True)
    assert console.client.get("/console/").headers["Location"] == SET_UP
    assert "Everybody needs one here" in console.get(SET_UP).body.decode()
    assert console.submit(f"{SET_UP}/set-up", password=PASSWORD).status == 302
    page = console.get(SET_UP).body.decode()
    assert "Not now" not in page
    secret = "".join(re.findall(r"<span>(\w{1,4})</span>", page))
    assert console.submit(f"{SET_UP}/confirm", code=code_of(secret)).status == 302
    assert console.client.get("/console/").status_code == 200
    assert console.get("/rest/roles").status == 200


@pytest.mark.parametrize(
    "path",
    ["/rest/roles", "/rest/me", "/rest/ad/users", "/rest/sessions", "/rest/change-requests", "/rest/permissions"],
)
def test_nothing_else_on_rest(path: str, ada: Person, required: None) -> None:
    console = Console(ada)
    refused = console.get(path)
    assert (refused.status, refused.code) == (403, "Auth.Forbidden")
    assert "second factor" in refused.body["title"]


def test_nothing_is_changed_on_rest(ada: Person, required: None) -> None:
    console = Console(ada)
    assert console.post("/rest/roles", {"name": "x"}).status == 403
    assert console.post("/rest/session/access-token").status == 403
    assert console.delete("/rest/sessions").status == 403


def test_the_session_itself(ada: Person, required: None) -> None:
    console = Console(ada)
    assert console.get("/rest/session").body["user"]["permissions"] == []
    assert console.delete("/rest/session").status == 204
    assert console.get("/rest/session").status == 401


@pytest.mark.parametrize("path", ["/console/", "/console/changes/", "/console/account", "/console/people/"])
def test_every_page_leads_there(path: str, ada: Person, required: None) -> None:
    console = Console(ada)
    assert console.client.get(path).headers["Location"] == SET_UP
    partial = console.client.get(path, headers={"HX-Request": "true"})
    assert (partial.status_code, partial.headers["HX-Redirect"]) == (204, SET_UP)


def test_the_back_office_leads_there(ada: Person, required: None) -> None:
    client = Client()
    client.force_login(ada)
    response = client.get("/admin/keys/role/", follow=True)
    assert response.redirect_chain[-1][0] == SET_UP
    assert client.post("/admin/keys/role/add/", {"name": "x"}).status_code == 302


def test_tokens_of_before(ada: Person, configure: Configure) -> None:
    token = Console(ada).post("/rest/session/access-token").body["accessToken"]
    assert send(Client(), "GET", "/api/me", Authorization=f"Bearer {token}").status == 200
    configure("SignIn", RequireSecondFactor=True)
    assert send(Client(), "GET", "/api/me", Authorization=f"Bearer {token}").status == 401


def test_keys_go_on(required: None) -> None:
    assert make_integration(None).get("/api/me").status == 200


def test_a_reset_leads_there_too(ada: Person, required: None) -> None:
    secret = second_factor.enrol(ada).secret
    codes = second_factor.confirm(CALL, ada, code_of(secret, steps=-1))
    signed_in = {"username": "ada", "password": PASSWORD, "code": codes[0]}
    client = Client()
    assert send(client, "POST", "/rest/session", signed_in).status == 200
    assert client.get("/rest/roles").status_code == 200
    Console(make_person(superuser=True))  # who does it has none themselves: below the front door, then
    second_factor.reset(ada, by=CALL.person)
    assert client.get("/rest/roles").status_code == 403


def test_nobody_turns_it_off(ada: Person, required: None) -> None:
    secret = second_factor.enrol(ada).secret
    codes = second_factor.confirm(CALL, ada, code_of(secret, steps=-1))
    console = Console.__new__(Console)
    console.person, console.client = ada, Client(enforce_csrf_checks=True)
    answer = send(console.client, "POST", "/rest/session", {"username": "ada", "password": PASSWORD, "code": codes[0]})
    console.token = answer.body["csrfToken"]
    assert console.submit(f"{SET_UP}/remove", code=code_of(secret)).status == 409
    assert second_factor.is_on(ada)


def test_not_required_by_default(ada: Person) -> None:
    assert Console(ada).get("/rest/roles").status == 200
