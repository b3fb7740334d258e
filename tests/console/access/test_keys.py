"""API keys in the console: what the pages show and to whom, and what their forms do. Clicking is the browser's."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from keys.models import ApiKey, Link, Role
from lab.directory import random_name
from tests.console.access_pages import fields_of, followed, make_unreachable, text_of
from tests.support.cast import Console, Integration, make_integration, make_person, permissions, send

pytestmark = pytest.mark.django_db

READ, UNLOCK = "directory.read_object", "directory.unlock_account"
SEES = ("keys.view_apikey",)
MANAGES = (*SEES, "keys.add_apikey", "keys.change_apikey", "keys.delete_apikey", "keys.view_role", "keys.add_role")


@pytest.fixture
def console() -> Console:
    return Console(make_person("grace", superuser=True))


@pytest.fixture
def integration() -> Integration:
    return make_integration(make_unreachable(name="Corp"), may=[READ, UNLOCK], owner_may=[READ])


@pytest.fixture
def path(integration: Integration) -> str:
    return f"/console/keys/{integration.key.id}"


def works(integration: Integration) -> bool:
    return integration.get("/api/me").status == 200


# --- the list


def test_the_list_says_how_each_key_stands(console: Console) -> None:
    now = timezone.now()
    ends = make_integration(None, expires_at=now + timedelta(days=5)).key
    idle = make_integration(None, created_at=now - timedelta(days=200)).key
    gone = make_integration(None, revoked_at=now).key
    page = text_of(console.get("/console/keys/"))
    for key, state in ((ends, "Active Expires soon"), (idle, "Active Unused"), (gone, "Revoked")):
        assert f"{key.name} {key.role.name} {state} {key.owner.username}" in page
    assert "1 key expires within 30 days, the first in 5 days" in page
    assert "1 key was not used for 90 days" in page
    unused = text_of(console.get("/console/keys/?due=unused&name=&owner="))
    assert idle.name in unused
    assert ends.name not in unused
    assert console.get("/console/keys/?state=lost").status == 400


def test_every_role_can_be_chosen(console: Console) -> None:
    """However many there are: a page of an operation has a thousand at most."""
    Role.objects.bulk_create(Role(name=f"role {number:04}") for number in range(1001))
    page = text_of(console.get("/console/keys/"))
    assert "role 0000" in page
    assert "role 1000" in page


def test_the_list_goes_on(console: Console) -> None:
    for _ in range(51):
        make_integration(None, owner=console.person)
    page = fields_of(console.get("/console/keys/"))
    assert page.count('href="/console/keys/') > 50
    assert "Next page" in page


@pytest.mark.parametrize("place", ["keys", "keys/new/role", "keys/new/key", "roles", "people"])
def test_many_cost_no_more_queries_than_one(console: Console, place: str) -> None:
    address = f"/console/{place}/" if "/" not in place else f"/console/{place}"

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert console.get(address).status == 200
        return len(queries)

    make_integration(None)
    console.get(address)  # what is read once a process is read now
    one = count()
    for _ in range(10):
        make_integration(None)
    assert count() < one + 5  # what is kept for a second alone may be read by either


# --- a key


def test_a_key_with_what_it_may_do_and_why_not_more(console: Console, integration: Integration, path: str) -> None:
    page = text_of(console.get(path))
    for shown in (integration.key.name, "Act without asking", "Nothing waits.", "from anywhere", integration.client_id):
        assert shown in page
    assert integration.value not in page
    told = text_of(console.get(f"{path}/permissions"))
    assert f"gives 1 permission that {integration.key.owner.username} does not hold. The key does not have it." in told
    assert "Unlock accounts End a lock-out after wrong passwords. gives it does not hold it May not" in told
    assert "Read objects" in told
    assert "Everywhere" in told


def test_a_key_whose_owner_is_deactivated_can_do_nothing(console: Console, integration: Integration, path: str) -> None:
    integration.key.owner.is_active = False
    integration.key.owner.save()
    assert "Active Owner deactivated" in text_of(console.get(path))
    assert "The key can do nothing until they are active again." in text_of(console.get(f"{path}/permissions"))


def test_the_use_of_a_key_and_its_records(console: Console, integration: Integration, path: str) -> None:
    assert "Nothing in the last 14 days." in text_of(console.get(f"{path}/use"))
    integration.patch(f"/api/ad/users/{uuid4()}", {"replace": {"title": "x"}})
    told = text_of(console.get(f"{path}/use"))
    assert "1 operation in 14 days (UTC), reads included: 1 failed." in told
    assert "users.update Failed Auth.Forbidden" in told
    reader = Console(make_person(may=SEES))
    assert "Newest records" not in text_of(reader.get(f"{path}/use"))


def test_a_key_is_edited(console: Console, integration: Integration, path: str) -> None:
    role = Role.objects.create(name=random_name("role"))
    ends = timezone.now() + timedelta(days=400)
    ApiKey.objects.update(expires_at=ends)
    form = console.get(f"{path}/edit")
    version = console.get(f"/rest/api-keys/{integration.key.id}").body["version"]
    assert f'value="{version}"' in fields_of(form)
    fields = {"name": "HR import", "role": str(role.id), "supervisionLevel": "ask_every_change", "version": version}
    typed = {**fields, "allowedAddresses": "192.0.2.10\n\n 2001:db8::/32 ", "expiresAt": f"{ends:%Y-%m-%d}"}
    assert "Saved." in followed(console, console.submit(f"{path}/edit", **typed))
    key = ApiKey.objects.get()
    assert (key.name, key.role, key.supervision_level) == ("HR import", role, "ask_every_change")
    assert key.allowed_addresses == ["192.0.2.10", "2001:db8::/32"]
    assert key.expires_at == ends  # the day was not touched, so the hour is not either
    version = console.get(f"/rest/api-keys/{integration.key.id}").body["version"]
    console.submit(f"{path}/edit", **{**typed, "version": version, "expiresAt": ""})
    assert ApiKey.objects.get().expires_at is None


def test_what_is_wrong_in_a_form_is_said_beside_its_field(console: Console, path: str) -> None:
    version = console.get(f"/rest/api-keys/{path.removeprefix('/console/keys/')}").body["version"]
    fields = {
        "name": "",
        "allowedAddresses": "10.1.2.3/8",
        "supervisionLevel": "act",
        "version": version,
        "expiresAt": "1999-01-01",
    }
    answer = console.submit(f"{path}/edit", **fields)
    assert answer.status == 400
    assert 'id="name-error"' in fields_of(answer)
    assert "10.1.2.3/8 is not the beginning of a block" in text_of(answer)
    assert ">10.1.2.3/8</textarea>" in fields_of(answer)
    past = console.submit(f"{path}/edit", **{**fields, "name": "x", "allowedAddresses": ""})
    assert "Choose a future date." in text_of(past)


def test_nobody_writes_over_what_somebody_else_has_changed(
    console: Console, integration: Integration, path: str
) -> None:
    version = console.get(f"/rest/api-keys/{integration.key.id}").body["version"]
    console.patch(f"/rest/api-keys/{integration.key.id}", {"name": "Somebody else's"})
    fields = {"name": "Mine", "allowedAddresses": "", "supervisionLevel": "act", "version": version}
    answer = console.submit(f"{path}/edit", **fields)
    assert answer.status == 412
    assert "Somebody else changed the key while you were editing it." in text_of(answer)
    assert 'value="Mine"' in fields_of(answer)
    assert ApiKey.objects.get().name == "Somebody else's"


def test_a_key_is_linked_and_unlinked(console: Console, integration: Integration, path: str) -> None:
    other = make_unreachable(name="Lab")
    disabled = make_unreachable(name="Old", enabled=False)
    page = fields_of(console.get(path))
    assert f'<option value="{other.id}">Lab' in page
    assert str(disabled.id) not in page
    assert "Linked." in followed(console, console.submit(f"{path}/links", directory=str(other.id)))
    link = Link.objects.get(connection=other)
    assert str(link.client_id) in text_of(console.get(path))
    assert console.submit(f"{path}/links", directory=str(other.id)).status == 409
    assert "The link is removed." in followed(console, console.submit(f"{path}/links/{link.client_id}/remove"))
    assert list(integration.key.links.values_list("connection__name", flat=True)) == ["Corp"]


def test_rotating_shows_the_new_value_once(console: Console, integration: Integration, path: str) -> None:
    shown = console.submit(f"{path}/rotate", grace="3600").headers["Location"]
    page = fields_of(console.get(shown))
    value = page.split('id="key-value"')[1].split('value="')[1].split('"')[0]
    assert send(console.client, "GET", "/api/me", **{"X-API-Key": value}).status == 200
    assert works(integration), "the value before is in its grace"
    assert f'curl -H "X-API-Key: {value}" -H "X-Client-Id: {integration.client_id}"' in page
    again = text_of(console.get(shown))
    assert value not in again
    assert "If it was lost, rotate the key." in again
    assert "The old value ends in" in followed(console, console.submit(f"{path}/rotate", grace="86400"))
    assert not works(integration), "at most two are ever valid"
    assert console.submit(f"{path}/rotate", grace="soon").status == 400
    assert console.get(f"{path}/rotate").status == 302
    assert value not in fields_of(console.get(path))


def test_a_key_is_revoked_then_deleted(console: Console, integration: Integration, path: str) -> None:
    assert console.submit(f"{path}/delete").status == 409
    assert "Revoked." in followed(console, console.submit(f"{path}/revoke"))
    assert not works(integration)
    page = fields_of(console.get(path))
    for form in ("edit", "rotate", "revoke"):
        assert f'{path}/{form}"' not in page
    assert "Deleted." in followed(console, console.submit(f"{path}/delete"))
    assert console.get(path).status == 404


# --- whom it is shown


def test_who_may_only_look_sees_no_forms(integration: Integration, path: str) -> None:
    reader = Console(make_person(may=SEES))
    page = fields_of(reader.get(path))
    assert integration.key.name in page
    assert "<form" not in page.split("<main")[1]
    for form in ("rotate", "revoke", "delete", "links"):
        assert reader.submit(f"{path}/{form}").status == 403
    assert reader.submit(f"{path}/edit", name="x", supervisionLevel="act", version="").status == 403
    assert works(integration)
    assert "Set up an integration" not in fields_of(reader.get("/console/keys/"))


def test_a_key_of_somebody_else_can_be_revoked_and_no_more(integration: Integration, path: str) -> None:
    manager = Console(make_person(may=MANAGES))
    page = fields_of(manager.get(path))
    assert f'{path}/revoke"' in page
    assert f'{path}/edit"' not in page
    assert f'{path}/rotate"' not in page
    assert manager.submit(f"{path}/rotate", grace="0").status == 403


def test_an_owner_manages_their_own(integration: Integration, path: str) -> None:
    integration.key.owner.user_permissions.set(permissions([*MANAGES, READ]))
    owner = Console(integration.key.owner)
    page = fields_of(owner.get(path))
    for form in ("edit", "rotate", "revoke"):
        assert f'{path}/{form}"' in page


def test_who_may_not_see_keys_gets_neither_link_nor_page(path: str) -> None:
    stranger = Console(make_person())
    assert "/console/keys/" not in fields_of(stranger.get("/console/"))
    for place in ("/console/keys/", path, f"{path}/permissions", f"{path}/use", f"{path}/edit"):
        assert stranger.get(place).status == 403, place
