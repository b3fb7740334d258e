"""Wherever a form, a query or a header says where to go on, nobody is sent away from this gateway."""

import re
from collections.abc import Callable
from urllib.parse import parse_qs, quote, urlsplit
from uuid import UUID

import pytest
from django.test import Client

from directory.models import DirectoryConnection
from keys.models import Person
from lab.directory import Directory
from tests.support.cast import PASSWORD, Console, make_person

pytestmark = pytest.mark.django_db

FOREIGN = [
    *("https://evil.example/", "//evil.example", "///evil.example", "////evil.example", "/\\evil.example"),
    *("\\\\evil.example", "\\/evil.example", "http:evil.example", "http:/evil.example", "http:///evil.example"),
    *("https:\\\\evil.example", "javascript:alert(1)", "data:text/html,x", "mailto:a@evil.example"),
    *("//testserver@evil.example/", "http://testserver@evil.example/", "http://testserver.evil.example/"),
    *("http://testserver:80@evil.example", "http://testserver\\@evil.example/", "//evil.example\\@testserver/"),
    *("\thttps://evil.example", "\x00//evil.example", "/\t/evil.example", "ht\ntps://evil.example", " //evil.example"),
    *("http://testserver//evil.example", "http://testserver/\\evil.example", "//testserver//evil.example/", ""),
    *("http://[::1]:x/", "https://[evil.example", "//[evil.example]/", "evil.example", "?next=//evil.example"),
]
OWN = {
    "/console/log/?from=2026-01-01T00%3A00": "/console/log/?from=2026-01-01T00%3A00",
    "http://testserver/console/log/": "/console/log/",
    "//testserver/console/log/#top": "/console/log/#top",
}


@pytest.fixture
def person() -> Person:
    return make_person("ada", superuser=True)


def sign_in(person: Person, there: str) -> str:
    form = {"username": person.username, "password": PASSWORD, "next": there}
    return Client().post("/console/sign-in", form)["Location"]


def sign_in_by_query(person: Person, there: str) -> str:
    form = {"username": person.username, "password": PASSWORD}
    return Client().post(f"/console/sign-in?next={quote(there)}", form)["Location"]


def signed_in_already(person: Person, there: str) -> str:
    return Console(person).client.get("/console/sign-in", {"next": there})["Location"]


def choose_directory(person: Person, there: str) -> str:
    return Console(person).submit("/console/choose-directory", **{"from": there}).headers["Location"]


def choose_directory_by_htmx(person: Person, there: str) -> str:
    console = Console(person)
    form = {"csrfmiddlewaretoken": console.token, "from": there}
    return console.client.post("/console/choose-directory", form, headers={"HX-Request": "true"})["HX-Redirect"]


def choose_columns(person: Person, there: str) -> str:
    return (
        Console(person)
        .submit("/console/directory/columns", kind="users", usual="", **{"from": there})
        .headers["Location"]
    )


def next_of(address: str) -> str:
    """The address that a sign-in page is told to go on to."""
    parts = urlsplit(address)
    assert (parts.scheme, parts.netloc, parts.path) == ("", "", "/console/sign-in")
    return parse_qs(parts.query).get("next", ["/console/"])[0]


def session_over(_: Person, there: str) -> str:
    """What was being looked at when a session ended."""
    headers = {"HX-Request": "true", "HX-Current-URL": there.replace("\n", "").replace("\x00", "")}
    return next_of(Client().get("/console/home/runs", headers=headers)["HX-Redirect"])


def admin_sign_in(_: Person, there: str) -> str:
    return next_of(Client().get("/admin/login/", {"next": there})["Location"])


def admin_sign_out(person: Person, there: str) -> str:
    console = Console(person)
    answer = console.client.post("/admin/logout/", {"csrfmiddlewaretoken": console.token, "from": there})
    return answer.headers.get("Location", "/")


Way = Callable[[Person, str], str]
WAYS: list[Way] = [
    *(sign_in, sign_in_by_query, signed_in_already, choose_directory, choose_directory_by_htmx, choose_columns),
    *(session_over, admin_sign_in, admin_sign_out),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nobody_is_sent_away(way: Way, person: Person) -> None:
    for there in FOREIGN:
        place = way(person, there)
        assert place.startswith("/"), (there, place)
        assert "evil" not in place, (there, place)
        assert not place.startswith(("//", "/\\")), (there, place)


@pytest.mark.parametrize("way", WAYS[:-1], ids=lambda way: way.__name__)
def test_the_way_on_is_a_path_of_this_gateway(way: Way, person: Person) -> None:
    assert {there: way(person, there) for there in OWN} == OWN


def test_the_way_back_from_a_group(
    person: Person, connection: DirectoryConnection, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    group = directory.add_group(parent=organizational_unit)
    console = Console(person)
    for there in FOREIGN[::4]:
        page = console.submit(f"/console/directory/objects/{group}/members/change", add=str(ada), back=there)
        assert page.status == 200
        links = re.findall(r'(?:href|action)="([^"]*)"', page.body.decode())
        assert not [link for link in links if "evil" in link], there
