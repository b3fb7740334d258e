"""Roles in the console: what each gives, how it is made and changed, and to whom it is shown."""

from typing import Any

import pytest

from keys.models import Role
from lab.directory import random_name
from tests.console.access_pages import fields_of, followed, make_unreachable, text_of
from tests.support.cast import Console, Integration, make_integration, make_person, permissions

pytestmark = pytest.mark.django_db

READ, UNLOCK, DELETE = "directory.read_object", "directory.unlock_account", "directory.delete_user"
MANAGES = ("keys.view_role", "keys.add_role", "keys.change_role", "keys.delete_role")


@pytest.fixture
def console() -> Console:
    return Console(make_person("grace", superuser=True))


@pytest.fixture
def role() -> Role:
    role = Role.objects.create(name="Help desk", description="For the first line.")
    role.permissions.set(permissions([READ, DELETE]))
    return role


@pytest.fixture
def path(role: Role) -> str:
    return f"/console/roles/{role.id}"


@pytest.fixture
def integration(role: Role) -> Integration:
    integration = make_integration(make_unreachable())
    integration.key.role = role
    integration.key.save()
    return integration


def version_of(console: Console, role: Role) -> str:
    version: str = console.get(f"/rest/roles/{role.id}").body["version"]
    return version


def test_what_a_role_gives_and_to_which_keys(console: Console, integration: Integration, path: str) -> None:
    listed = text_of(console.get("/console/roles/"))
    assert "Help desk For the first line. 2 of high risk: delete users everywhere 1" in listed
    assert "No role has this name." in text_of(console.get("/console/roles/?name=nobody"))
    page = text_of(console.get(path))
    for shown in ("Users Delete users High risk", "Reading Read objects", "Everywhere", integration.key.name):
        assert shown in page
    assert "1 key has it: give it another role first." in page
    refused = console.submit(f"{path}/delete")
    assert (refused.status, "API keys have this role." in text_of(refused)) == (409, True)


def test_a_role_is_made_from_its_groups_of_permissions(console: Console) -> None:
    form = fields_of(console.get("/console/roles/new"))
    groups = [part.partition("<")[0] for part in form.split("<legend>")[1:]]
    assert groups[0] == "What it gives"
    assert {"Reading", "Users", "Groups", "Accounts"} <= set(groups)
    made = console.submit("/console/roles/new", name=" HR ", description="", scopes="", permissions=[READ, UNLOCK])
    assert "The role was created." in followed(console, made)
    again = console.submit("/console/roles/new", name="HR", scopes="", permissions=[UNLOCK])
    assert (again.status, Role.objects.filter(name="HR").count()) == (409, 1)
    assert f'value="{UNLOCK}" checked' in fields_of(again), "what was chosen is kept"
    nameless = console.submit("/console/roles/new", name="", scopes="nowhere")
    assert nameless.status == 400
    assert 'id="name-error"' in fields_of(nameless)
    assert ">nowhere</textarea>" in fields_of(nameless)


def test_a_change_of_a_role_is_told_before_it_holds_for_its_keys(
    console: Console, integration: Integration, role: Role, path: str
) -> None:
    fields: dict[str, Any] = {"name": role.name, "description": "", "scopes": "", "permissions": [READ, UNLOCK]}
    told = text_of(console.submit(f"{path}/preview", **fields))
    assert f"Saved, this changes what 1 key may do: {integration.key.name}." in told
    assert "No longer: delete users." in told
    assert "From now on too, as far as their owners may: unlock accounts." in told
    same = console.submit(f"{path}/preview", **{**fields, "permissions": [READ, DELETE]})
    assert "Nothing changes for the 1 key with this role." in text_of(same)

    seen = fields_of(console.submit(f"{path}/preview", **fields)).partition('name="consequences" value="')[2]
    fields["consequences"] = seen.partition('"')[0]
    saved = console.submit(f"{path}/edit", version=version_of(console, role), **fields)
    assert "Saved. It applies to every key" in followed(console, saved)
    assert integration.get("/api/me").body["permissions"] == [READ, UNLOCK]


def test_nobody_writes_over_what_somebody_else_has_changed(console: Console, role: Role, path: str) -> None:
    seen = version_of(console, role)
    console.patch(f"/rest/roles/{role.id}", {"description": "Somebody else's"})
    answer = console.submit(f"{path}/edit", version=seen, name="Mine", scopes="", permissions=[READ])
    assert answer.status == 412
    assert "Somebody else changed the role while you were editing it." in text_of(answer)
    assert 'value="Mine"' in fields_of(answer)
    assert f'value="{seen}"' in fields_of(answer), "sending it again is refused again"
    assert Role.objects.get().name == "Help desk"


def test_a_role_that_no_key_has_is_deleted(console: Console, path: str) -> None:
    assert "The role is deleted." in followed(console, console.submit(f"{path}/delete"))
    assert console.get(path).status == 404


def test_nobody_gives_what_they_do_not_hold(role: Role, path: str) -> None:
    ada = Console(make_person("ada", may=[*MANAGES, READ]))
    page = fields_of(ada.get(path))
    assert "You cannot change this role: it gives what you do not hold yourself (delete users)." in page
    assert f'{path}/edit"' not in page
    form = fields_of(ada.get("/console/roles/new"))
    assert f'value="{READ}">' in form
    assert f'value="{UNLOCK}" disabled' in form
    assert ada.submit("/console/roles/new", name=random_name("r"), scopes="", permissions=[UNLOCK]).status == 403
    assert ada.submit(f"{path}/edit", name="Mine", scopes="", permissions=[READ]).status == 403
    assert Role.objects.get().name == "Help desk"


def test_who_may_only_look_sees_no_forms(path: str) -> None:
    reader = Console(make_person(may=["keys.view_role"]))
    page = fields_of(reader.get(path))
    assert "Help desk" in page
    assert "<form" not in page.split("<main")[1]
    assert "/console/roles/new" not in fields_of(reader.get("/console/roles/"))
    for form in ("edit", "delete"):
        assert reader.submit(f"{path}/{form}", name="x", scopes="").status == 403
    assert reader.submit("/console/roles/new", name="x", scopes="").status == 403


def test_who_may_not_see_roles_gets_neither_link_nor_page(path: str) -> None:
    stranger = Console(make_person(may=["keys.view_apikey"]))
    assert "/console/roles/" not in fields_of(stranger.get("/console/"))
    for place in ("/console/roles/", "/console/roles/new", path, f"{path}/edit", f"{path}/scopes"):
        assert stranger.get(place).status == 403, place
