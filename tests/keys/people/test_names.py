"""Names by which the log's readers and the approvers tell people apart."""

import importlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import IntegrityError, transaction
from django.test import Client

from directory.models import DirectoryConnection
from keys.models import ApiKey, Person, Role
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from tests.support.cast import Answer, Console, make_connection, make_integration, make_person, send

OVERRIDE, INVISIBLE, ISOLATE = "\u202e", "\u200b", "\u2066"

LIKE_GRACE = {
    "case": "GRACE.hopper",
    "full width": "ｇrace.hopper",
    "mathematical": "𝐠race.hopper",
    "dotless": "grace.hopper".replace("g", "ɡ"),
}
# "scope" and "peace" have a double of each letter in another script.
OTHER_SCRIPTS = {"scope": "ѕсоре", "peace": "реасе", "ox": "οχ"}
REFUSED = {
    "mixed scripts": "gаdmin",
    "mixed with Greek": "gοdmin",
    "capitals of another script": "МАША",
    "digits of another script": "ada٣",
    "no script of names": "ꓮꓓꓮ",
    "an override": f"ada{OVERRIDE}",
    "invisible": f"a{INVISIBLE}da",
    "a control character": "ada\x07",
}


def new_person(console: Console, username: str, **more: Any) -> Answer:
    return console.post("/rest/users", {"username": username, **more})


@pytest.mark.parametrize("how", LIKE_GRACE)
def test_no_second_person_of_a_name(how: str, console: Console) -> None:
    assert new_person(console, "grace.hopper").status == 201
    answer = new_person(console, LIKE_GRACE[how])
    assert answer.status == 409, answer
    assert "There is a person called" in answer.body["detail"]
    other = new_person(console, "ada").body
    assert console.patch(f"/rest/users/{other['id']}", {"username": LIKE_GRACE[how]}).status == 409
    page = console.submit("/console/people/new", username=LIKE_GRACE[how])
    assert page.status == 409
    assert Person.objects.filter(username__istartswith="g").count() == 1
    own = Person.objects.get(username="grace.hopper")
    assert console.patch(f"/rest/users/{own.public_id}", {"username": "Grace.Hopper"}).status == 200


@pytest.mark.parametrize("name", OTHER_SCRIPTS)
def test_no_double_in_another_script(name: str, console: Console) -> None:
    assert new_person(console, name).status == 201
    assert new_person(console, OTHER_SCRIPTS[name]).status == 409


@pytest.mark.parametrize("why", REFUSED)
def test_names_that_are_refused(why: str, console: Console) -> None:
    before = Person.objects.count()
    answer = new_person(console, REFUSED[why])
    assert (answer.status, answer.body["errors"][0]["pointer"]) == (400, "#/username"), answer
    assert console.submit("/console/people/new", username=REFUSED[why]).status == 400
    assert Person.objects.count() == before


@pytest.mark.parametrize("name", ["müller", "Grace.Hopper-2@x", "маша", "ニック", "김ada", "山田taro"])
def test_names_of_one_script_are_fine(name: str, console: Console) -> None:
    answer = new_person(console, name)
    assert (answer.status, answer.body["username"]) == (201, name)


def test_the_database_holds_it(db: None) -> None:
    make_person("grace")
    with pytest.raises(IntegrityError), transaction.atomic():
        Person.objects.create(username="GRACE")


def test_people_who_could_not_be_told_apart_before_stay(console: Console) -> None:
    """Such as were made before names were compared."""
    Person.objects.bulk_create([Person(username=name) for name in ("grace", "GRACE", "Grace", "ada")])
    importlib.import_module("keys.migrations.0005_people_told_apart").fill_name_keys(apps, None)
    people = {person.username: person for person in Person.objects.exclude(pk=console.person.pk)}
    assert {name: person.name_key for name, person in people.items()} == {
        "grace": "grace",
        "ada": "ada",
        "GRACE": f"grace {people['GRACE'].pk}",
        "Grace": f"grace {people['Grace'].pk}",
    }
    answer = console.patch(f"/rest/users/{people['GRACE'].public_id}", {"displayName": "Grace", "active": False})
    assert answer.status == 200
    assert new_person(console, "gracE").status == 409


LABELS: dict[str, Callable[[Console, str], Answer]] = {
    "displayName": lambda console, name: new_person(console, random_name("person"), displayName=name),
    "role": lambda console, name: console.post("/rest/roles", {"name": name, "permissions": []}),
    "key": lambda console, name: console.post(
        "/rest/api-keys",
        {"name": name, "owner": console.person.username, "role": str(Role.objects.create(name=random_name("r")).id)},
    ),
}


@pytest.mark.parametrize("where", LABELS)
@pytest.mark.parametrize("unseen", [OVERRIDE, INVISIBLE, ISOLATE, "\x1b", "\u2028"])
def test_labels_hide_nothing(where: str, unseen: str, console: Console) -> None:
    answer = LABELS[where](console, f"HR{unseen}import")
    assert (answer.status, answer.code) == (400, "Request.Invalid"), answer
    assert LABELS[where](console, "HR import – Zürich").status == 201


def test_the_back_office_refuses_them_too(console: Console) -> None:
    role = console.submit("/admin/keys/role/add/", name=f"HR{OVERRIDE}")
    assert (role.status, Role.objects.count()) == (400, 0)
    key = make_integration(None).key
    changed = console.submit(f"/admin/keys/apikey/{key.pk}/change/", name=f"HR{OVERRIDE}")
    assert changed.status == 400
    assert OVERRIDE not in ApiKey.objects.get(pk=key.pk).name


def test_a_reason_is_read_in_its_own_order(console: Console) -> None:
    answer = console.call("POST", "/rest/users", {"username": "x"}, **{"X-Change-Reason": "%E2%80%AEevorppa"})
    assert answer.status == 400


# People of a directory: their names are the directory's, and chosen by whoever may write there.


@pytest.fixture
def corp(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="corp")


def sign_in(username: str) -> str:
    body = {"username": username, "password": PASSWORD, "directory": "corp"}
    answer = send(Client(), "POST", "/rest/session", body)
    assert answer.status == 200, answer
    shown: str = answer.body["user"]["username"]
    return shown


def test_a_double_in_the_directory_is_shown_by_its_identity(
    corp: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    def add(name: str, **more: Any) -> UUID:
        return directory.add_user(parent=organizational_unit, password=PASSWORD, sAMAccountName=name, **more)

    add("scope")
    double = add(OTHER_SCRIPTS["scope"])
    hidden = add(f"scope{INVISIBLE}", displayName=f"Sco{OVERRIDE}pe")
    assert sign_in("scope") == "corp\\scope"
    assert sign_in(OTHER_SCRIPTS["scope"]) == f"corp\\{double}"
    assert sign_in(f"scope{INVISIBLE}") == f"corp\\scope⟨U+{ord(INVISIBLE):04X}⟩"
    assert sign_in("scope") == "corp\\scope"
    person = Person.objects.get(object_guid=hidden)
    assert person.display_name == f"Sco⟨U+{ord(OVERRIDE):04X}⟩pe"
