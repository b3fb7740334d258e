"""Setting up an integration without scripts: what is kept between the steps, made at the last, and refused."""

import re
from typing import Any

import pytest

from directory.models import DirectoryConnection
from keys.models import ApiKey, Link, Role
from lab.directory import random_name
from tests.console.access_pages import fields_of, followed, make_unreachable, text_of
from tests.support.cast import Answer, Console, make_person, permissions, send

pytestmark = pytest.mark.django_db

PATH = "/console/keys/new"
READ, UNLOCK = "directory.read_object", "directory.unlock_account"
ADMITTED = ("keys.view_apikey", "keys.add_apikey", "keys.change_apikey", "keys.view_role", "keys.add_role")


@pytest.fixture
def corp() -> DirectoryConnection:
    return make_unreachable(name="Corp")


@pytest.fixture
def console(corp: DirectoryConnection) -> Console:
    return Console(make_person("grace", superuser=True))


@pytest.fixture
def role() -> Role:
    role = Role.objects.create(name="Readers")
    role.permissions.set(permissions([READ]))
    return role


def go(console: Console, step: str, expected: str, **fields: Any) -> None:
    """Send a step and be led to the expected one."""
    answer = console.submit(f"{PATH}/{step}", **{"go": "on", **fields})
    assert answer.status == 302, text_of(answer)
    assert answer.headers["Location"] == f"{PATH}/{expected}"


def go_all_the_way(console: Console, role: Role | None, **fields: Any) -> None:
    if role is None:
        go(console, "role", "key", choice="new", name="HR", permissions=[READ, UNLOCK], scopes="")
    else:
        go(console, "role", "key", choice="existing", role=str(role.id))
    go(console, "key", "directory", name=fields.get("name", "HR import"), owner=fields.get("owner", "grace"))
    directory = DirectoryConnection.objects.first()
    assert directory is not None
    go(console, "directory", "addresses", directory=fields.get("directory", str(directory.id)))
    go(console, "addresses", "level", allowedAddresses=fields.get("addresses", "127.0.0.1"))
    passwords = {"passwordsToRequester": "true", "aggregatesReads": "true"} if fields.get("passwords") else {}
    go(console, "level", "check", supervisionLevel=fields.get("level", "ask_destructive_security"), **passwords)


def make(console: Console) -> Answer:
    digest = re.findall(r'name="digest" value="(\w+)"', fields_of(console.get(f"{PATH}/check")))[0]
    return console.submit(f"{PATH}/check", go="on", digest=digest)


def test_it_works_with_a_new_role(console: Console) -> None:
    go_all_the_way(console, None, passwords=True)
    assert "checked" in fields_of(console.get(f"{PATH}/level")).partition('name="passwordsToRequester"')[2][:40]
    said = text_of(console.get(f"{PATH}/check"))
    assert "Generated passwords go to grace. Reads are recorded together." in said
    for shown in ("HR New", "unlock accounts", "everywhere", "HR import , acting as grace, without an end", "Corp"):
        assert shown in said
    assert not Role.objects.exists(), "nothing is made before the last step"
    page = console.get(make(console).headers["Location"])
    key = ApiKey.objects.get()
    assert key.passwords_to_requester
    assert key.aggregates_reads
    assert "Reads are recorded together." in text_of(console.get(f"/console/keys/{key.id}"))
    assert (key.name, key.owner, key.role.name, key.allowed_addresses) == (
        *("HR import", console.person, "HR"),
        ["127.0.0.1"],
    )
    value = re.findall(r'id="key-value".*? value="(dgk_\w+)"', fields_of(page))[0]
    client_id = str(Link.objects.get(api_key=key, connection__name="Corp").client_id)
    headers = {"X-API-Key": value, "X-Client-Id": client_id}
    assert send(console.client, "GET", "/api/me", **headers).body["permissions"] == [READ, UNLOCK]
    line = f'curl -H "X-API-Key: {value}" -H "X-Client-Id: {client_id}" "http://testserver/api/ad/users?pageSize=1"'
    assert line in fields_of(page)


def test_sending_the_last_step_again_makes_nothing_again(console: Console, role: Role) -> None:
    go_all_the_way(console, role)
    assert make(console).headers["Location"].startswith(f"/console/keys/{ApiKey.objects.get().id}/value?")
    assert console.submit(f"{PATH}/check", go="on", digest="x").headers["Location"] == "/console/keys/"
    assert ApiKey.objects.count() == 1


def test_going_back_loses_nothing(console: Console) -> None:
    go(console, "role", "key", choice="new", name="HR", description="For HR", permissions=[UNLOCK], scopes="OU=x,DC=y")
    go(console, "key", "role", name="half", owner="grace", go="back")
    page = fields_of(console.get(f"{PATH}/role"))
    assert 'value="HR"' in page
    assert "OU=x,DC=y</textarea>" in page
    assert f'value="{UNLOCK}" checked' in page
    assert f'value="{READ}">' in page
    assert 'value="half"' in fields_of(console.get(f"{PATH}/key"))
    assert console.get(PATH).headers["Location"] == f"{PATH}/role"  # as does coming back later
    assert console.submit(f"{PATH}/anew").status == 302
    assert 'value="HR"' not in fields_of(console.get(f"{PATH}/role"))


def test_a_role_may_be_chosen_beforehand(console: Console, role: Role) -> None:
    assert console.get(f"{PATH}?role={role.id}").status == 302
    assert f'value="{role.id}" selected' in fields_of(console.get(f"{PATH}/role"))


@pytest.mark.parametrize(
    ("step", "fields", "told"),
    [
        ("role", {"choice": "existing", "role": ""}, "Choose a role, or create one."),
        ("role", {"choice": "new", "name": ""}, "Fill this in."),
        ("key", {"name": " ", "owner": "grace"}, "Fill this in."),
        ("key", {"name": "x", "owner": "grace", "expiresAt": "tomorrow"}, "Choose a date and a time"),
        ("addresses", {"allowedAddresses": "10.0.0.1/8"}, "is not the beginning of a block"),
        ("level", {"supervisionLevel": "none"}, "Choose one of these"),
    ],
)
def test_what_makes_no_sense_is_said_at_its_own_step(
    console: Console, role: Role, step: str, fields: dict[str, Any], told: str
) -> None:
    answer = console.submit(f"{PATH}/{step}", go="on", **fields)
    assert answer.status == 400
    assert told in text_of(answer)
    assert 'aria-current="step"' in fields_of(answer)


def test_a_role_that_is_refused_leaves_nothing_behind(console: Console, role: Role) -> None:
    go_all_the_way(console, None)
    Role.objects.create(name="HR")
    answer = make(console)
    assert answer.status == 409
    page = text_of(answer)
    assert "There is a role called HR already." in page
    assert "Nothing was made." in page
    assert "It is about the step Role ." in page
    assert not ApiKey.objects.exists()


def test_a_key_that_is_refused_says_that_its_role_is_there(console: Console) -> None:
    go_all_the_way(console, None)
    go(console, "key", "directory", name="HR import", owner="grace", expiresAt="2001-01-01")
    answer = make(console)
    assert answer.headers["Location"] == f"{PATH}/key", "the step that it is about"
    page = followed(console, answer)
    assert "The role HR was created and is chosen now. The key has not been created yet." in page
    assert "Choose a future date." in page
    assert Role.objects.count() == 1
    go(console, "key", "directory", name="HR import", owner="grace", expiresAt="")
    assert "Key created: HR import" in followed(console, make(console))
    assert (ApiKey.objects.get().role, Role.objects.count()) == (Role.objects.get(), 1)


def test_a_link_that_is_refused_does_not_cost_the_value(console: Console, role: Role) -> None:
    lost = make_unreachable(name="Zoo")
    go_all_the_way(console, role, directory=str(lost.id))
    digest = re.findall(r'name="digest" value="(\w+)"', fields_of(console.get(f"{PATH}/check")))[0]
    lost.delete()
    page = console.get(console.submit(f"{PATH}/check", go="on", digest=digest).headers["Location"])
    assert "It is not linked to a directory. #/directory: there is no such directory" in text_of(page)
    value = re.findall(r'id="key-value".*? value="(dgk_\w+)"', fields_of(page))[0]
    assert send(console.client, "GET", "/api/me", **{"X-API-Key": value}).status == 200


def test_what_was_changed_in_another_window_is_looked_at_again(console: Console, role: Role) -> None:
    go_all_the_way(console, role)
    seen = re.findall(r'name="digest" value="(\w+)"', fields_of(console.get(f"{PATH}/check")))[0]
    go(console, "level", "check", supervisionLevel="act")
    page = console.submit(f"{PATH}/check", go="on", digest=seen)
    assert "Something was changed since you saw this" in text_of(page)
    assert not ApiKey.objects.exists()
    assert "Key created: HR import" in followed(console, make(console))
    assert ApiKey.objects.get().supervision_level == "act"


def test_what_to_think_about_before_it_is_made(console: Console, role: Role) -> None:
    owner = make_person(random_name("owner"))
    go_all_the_way(console, role, owner=owner.username, level="act", addresses="")
    page = text_of(console.get(f"{PATH}/check"))
    assert f"{owner.username} does not hold all that the role gives. The key will not have: read objects." in page
    assert "It acts without asking, from anywhere." in page


def test_whoever_is_no_superuser_makes_keys_of_their_own(corp: DirectoryConnection, role: Role) -> None:
    person = make_person("ada", may=[*ADMITTED, READ])
    ada = Console(person)
    make_person("grace")
    page = fields_of(ada.get(f"{PATH}/key"))
    assert "grace" not in page
    assert "Only superusers can create keys for others." in page
    choices = fields_of(ada.get(f"{PATH}/role"))
    assert f'value="{READ}">' in choices
    assert f'value="{UNLOCK}" disabled' in choices
    assert "You do not hold it yourself, so you cannot give it." in choices
    go_all_the_way(ada, role, owner="grace")
    assert make(ada).status == 403
    go(ada, "key", "directory", name="mine", owner="ada")
    assert "Key created: mine" in followed(ada, make(ada))


def test_whoever_may_not_make_keys_gets_no_step(role: Role) -> None:
    reader = Console(make_person(may=["keys.view_apikey"]))
    assert "API keys" in followed(reader, reader.get(f"{PATH}/role"))
    assert Console(make_person()).get(f"{PATH}/role").status == 403
    assert Console(make_person(superuser=True)).get(f"{PATH}/nonsense").status == 404
