"""People in the console: who is shown with what they may do, and what may be done to whom."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from keys.models import Person
from keys.sign_in import second_factor
from tests.console.access_pages import fields_of, followed, text_of
from tests.keys.authenticator import code_of
from tests.support.cast import PASSWORD, Console, Integration, make_integration, make_person, permissions, send

pytestmark = pytest.mark.django_db

READ, UNLOCK = "directory.read_object", "directory.unlock_account"
SEES = ("keys.view_person",)
MANAGES = (*SEES, "keys.add_person", "keys.change_person", "keys.delete_person")


@pytest.fixture
def console() -> Console:
    return Console(make_person("grace", superuser=True))


@pytest.fixture
def ada() -> Person:
    return make_person("ada", may=[READ])


@pytest.fixture
def path(ada: Person) -> str:
    return f"/console/people/{ada.public_id}"


@pytest.fixture
def integration(ada: Person) -> Integration:
    return make_integration(None, owner=ada, may=[READ])


def set_up_second_factor(person: Person) -> None:
    """Have one set up as its owner does."""
    owner = Console(person)
    owner.submit("/console/account/second-factor/set-up", password=PASSWORD)
    enrolment = second_factor.find_enrolment(person)
    assert enrolment is not None
    owner.submit("/console/account/second-factor/confirm", code=code_of(enrolment.secret))
    assert second_factor.is_on(person)


def sign_in(username: str, password: str) -> int:
    return send(Client(), "POST", "/rest/session", {"username": username, "password": password}).status


def version_of(console: Console, person: Person) -> str:
    version: str = console.get(f"/rest/users/{person.public_id}").body["version"]
    return version


def test_the_list_says_who_may_what(console: Console, ada: Person) -> None:
    readers = Group.objects.create(name="Readers")
    ada.groups.add(readers)
    Person.objects.filter(pk=make_person("gone").pk).update(is_active=False)
    page = text_of(console.get("/console/people/"))
    assert "ada Active local 1 permission and those of Readers off has not signed in yet" in page
    assert "grace Active local Superuser off" in page
    assert "gone Deactivated" in page
    assert "gone" not in text_of(console.get("/console/people/?active=true&name="))
    assert "Nobody matches these filters." in text_of(console.get("/console/people/?name=nobody"))


def test_a_person_with_what_they_may_do_and_by_what(
    console: Console, ada: Person, integration: Integration, path: str
) -> None:
    helpers = Group.objects.create(name="Helpers")
    helpers.permissions.set(permissions([UNLOCK]))
    ada.groups.add(helpers)
    page = text_of(console.get(path))
    assert "Reading Read objects" in page
    assert "Unlock accounts by Helpers" in page
    assert integration.key.name in page
    assert "ada owns keys. Delete those first" in page
    assert console.submit(f"{path}/delete").status == 409
    assert "Everything: grace is a superuser." in text_of(console.get(f"/console/people/{console.person.public_id}"))


def test_a_person_is_made_named_and_given_permissions(console: Console) -> None:
    fields: dict[str, Any] = {
        "username": "alan",
        "displayName": "Alan Turing",
        "permissions": [READ],
    }
    weak = console.submit("/console/people/new", **{**fields, "email": "none"})
    assert weak.status == 400
    assert 'id="email-error"' in fields_of(weak)
    assert 'value="alan"' in fields_of(weak)
    shown = console.submit("/console/people/new", **fields).headers["Location"]
    assert "http://testserver/console/invitation#" in fields_of(console.get(shown))
    assert "/console/invitation" not in fields_of(console.get(shown)), "shown once"
    alan = Person.objects.get(username="alan")
    path, seen = f"/console/people/{alan.public_id}", version_of(console, alan)
    given = console.submit(f"{path}/permissions", version=seen, permissions=[READ, UNLOCK])
    assert "Saved." in followed(console, given)
    stale = console.submit(f"{path}/permissions", version=seen, permissions=[])
    assert (stale.status, "Somebody else changed this person" in text_of(stale)) == (412, True)
    assert len(console.get(f"/rest/users/{alan.public_id}").body["permissions"]) == 2
    named = console.submit(f"{path}/names", version=version_of(console, alan), username="turing", displayName="A. T.")
    assert "A. T." in followed(console, named)
    taken = console.submit(f"{path}/names", version=version_of(console, alan), username="grace", displayName="")
    assert taken.status == 409
    assert 'value="grace"' in fields_of(taken)


def test_deactivating_ends_sessions_and_keys(
    console: Console, ada: Person, integration: Integration, path: str
) -> None:
    elsewhere = Console(ada)
    assert "These keys stop working with them:" in text_of(console.get(path))
    assert "and with them all their keys" in followed(console, console.submit(f"{path}/deactivate"))
    assert elsewhere.get("/rest/me").status == 401
    assert integration.get("/api/me").status == 401
    assert "Nothing, until they are active again" in text_of(console.get(path))
    assert "Active again" in followed(console, console.submit(f"{path}/activate"))
    assert integration.get("/api/me").status == 200


def test_a_link_takes_the_place_of_a_lost_password(console: Console, ada: Person, path: str) -> None:
    assert "New link to sign in…" in text_of(console.get(path))
    shown = console.submit(f"{path}/invite").headers["Location"]
    assert "It is shown this once, and good once, for 72 hours." in text_of(console.get(shown))


def test_a_lost_second_factor_is_reset(console: Console, ada: Person, path: str) -> None:
    assert "Reset the second factor" not in text_of(console.get(path)), "there is none yet"
    set_up_second_factor(ada)
    assert "Second factor on" in text_of(console.get(path))
    assert "ada Active local 1 permission on" in text_of(console.get("/console/people/"))
    assert sign_in("ada", PASSWORD) == 401
    form = f"{path}/second-factor/reset"
    assert f'action="{form}"' in fields_of(console.get(path))
    assert "The second factor is off." in followed(console, console.submit(form))
    assert not second_factor.is_on(ada)
    assert sign_in("ada", PASSWORD) == 200


def test_nobody_changes_whoever_is_above_them(ada: Person, path: str) -> None:
    set_up_second_factor(ada)
    helper = Console(make_person("helper", may=MANAGES))
    page = fields_of(helper.get(path))
    assert "You cannot change ada, who may do what you may not." in page
    for form in ("permissions", "names", "invite", "deactivate", "second-factor/reset", "delete"):
        assert helper.submit(f"{path}/{form}").status == 403, form
        assert f'{path}/{form}"' not in page or form == "delete", form
    assert second_factor.is_on(ada)
    above = Console(make_person(may=[*MANAGES, READ]))
    assert f'action="{path}/second-factor/reset"' in fields_of(above.get(path))


def test_what_is_ones_own_is_done_on_the_own_page() -> None:
    ada = Console(make_person("ada", may=MANAGES))
    set_up_second_factor(ada.person)
    path = f"/console/people/{ada.person.public_id}"
    page = fields_of(ada.get(path))
    assert 'href="/console/account">Your own account</a>' in page
    for form in ("invite", "deactivate", "second-factor/reset", "delete"):
        assert f'{path}/{form}"' not in page
        assert ada.submit(f"{path}/{form}").status == 409, form
    assert Person.objects.get().is_active


def test_a_person_without_keys_is_deleted(console: Console, path: str) -> None:
    assert "Deleted." in followed(console, console.submit(f"{path}/delete"))
    assert console.get(path).status == 404


def test_who_may_only_look_sees_no_forms(path: str) -> None:
    reader = Console(make_person(may=[*SEES, READ]))
    page = fields_of(reader.get(path))
    assert "Read objects" in page
    assert "<form" not in page.split("<main")[1]
    assert "/console/people/new" not in fields_of(reader.get("/console/people/"))
    for form in ("names", "invite", "deactivate", "second-factor/reset", "delete"):
        assert reader.submit(f"{path}/{form}").status == 403, form
    assert reader.submit("/console/people/new", username="x").status == 403


def test_who_may_not_see_people_gets_neither_link_nor_page(path: str) -> None:
    stranger = Console(make_person(may=["keys.view_apikey"]))
    assert "/console/people/" not in fields_of(stranger.get("/console/"))
    for place in ("/console/people/", "/console/people/new", path, f"{path}/permissions"):
        assert stranger.get(place).status == 403, place
