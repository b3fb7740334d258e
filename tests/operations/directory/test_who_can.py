"""Who can do what to an object: the answer is what happens when they try."""

from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from core.call import SupervisionLevel
from core.operation import Effect, operations
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person, permissions

SEES = ["keys.view_apikey", "keys.view_person", "directory.read_object"]
HELP_DESK = ["directory.read_object", "directory.disable_account", "directory.reset_password"]
BODIES: dict[str, Any] = {
    "update": {"replace": {"title": "x"}},
    "rename": {"name": "Other"},
    "reset-password": {"newPassword": "Engine-Number-2"},
}


@pytest.fixture
def console(db: None) -> Console:
    return Console(make_person("grace", may=SEES))


def ask(console: Console, target: UUID, resource: str = "users", query: str = "pageSize=1000") -> Answer:
    answer = console.get(f"/rest/ad/{resource}/{target}/who-can?{query}")
    assert answer.status == 200, answer
    return answer


def found_for(answer: Answer, who: Integration | str) -> dict[str, bool]:
    """What a key or a person can do: by action, whether it is held."""
    name = who if isinstance(who, str) else who.key.name
    items = [item for item in answer.body["items"] if item["name"] == name]
    return {action["action"]: action["held"] for item in items for action in item["actions"]}


def test_it_works(
    console: Console, connection: DirectoryConnection, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    held = make_integration(connection, may=HELP_DESK, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    free = make_integration(connection, may=HELP_DESK, scopes=[directory.guid(organizational_unit)])
    person = make_person("helper", may=["directory.enable_account"])
    answer = ask(console, ada)
    assert found_for(answer, held) == {"read": False, "disable": True, "reset-password": True}
    assert found_for(answer, free) == {"read": False, "disable": False, "reset-password": False}
    assert found_for(answer, person.username) == {"enable": False}
    shown = next(item for item in answer.body["items"] if item["name"] == held.key.name)
    assert (shown["kind"], shown["owner"], shown["role"]) == ("apiKey", held.key.owner.username, held.key.role.name)
    assert (shown["id"], shown["supervisionLevel"]) == (str(held.key.id), "ask_destructive_security")
    only = ask(console, ada, query="action=enable").body["items"]
    assert [item["name"] for item in only] == ["helper"]
    assert ask(console, ada, resource="objects").body == answer.body


def test_who_may_do_nothing_is_left_out(
    console: Console, connection: DirectoryConnection, domain: Domain, directory: Directory, ada: UUID
) -> None:
    elsewhere = directory.guid(f"CN=Users,{directory.base_dn}")
    now = timezone.now()
    others = {
        "scope": make_integration(connection, may=HELP_DESK, scopes=[elsewhere]),
        "revoked": make_integration(connection, may=HELP_DESK, revoked_at=now),
        "expired": make_integration(connection, may=HELP_DESK, expires_at=now),
        "owner": make_integration(connection, may=HELP_DESK, owner_may=[]),
        "unlinked": make_integration(None, may=HELP_DESK),
        "other": make_integration(make_connection(domain, enabled=False), may=HELP_DESK),
        "inactive": make_integration(connection, may=HELP_DESK),
    }
    others["inactive"].key.owner.is_active = False
    others["inactive"].key.owner.save()
    gone = make_person("gone", may=HELP_DESK)
    gone.is_active = False
    gone.save()
    answer = ask(console, ada)
    assert {reason: found_for(answer, key) for reason, key in others.items()} == {reason: {} for reason in others}
    assert found_for(answer, "gone") == {}


def test_a_protected_object(
    console: Console, connection: DirectoryConnection, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    directory.modify(ada, adminCount="1")
    without = make_integration(connection, may=[*HELP_DESK, "directory.update_user"])
    may = [*HELP_DESK, "directory.update_user", "directory.manage_protected"]
    with_it = make_integration(connection, may=may, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    answer = ask(console, ada)
    assert found_for(answer, without) == {"read": False}
    assert found_for(answer, with_it) == dict.fromkeys(("update", "rename", "disable", "reset-password"), True) | {
        "read": False
    }
    units = ["directory.update_organizationalunit", "directory.delete_organizationalunit", "directory.move_object"]
    of_units = make_integration(connection, may=units)
    unit = directory.guid(organizational_unit)
    assert found_for(ask(console, unit, "organization-units"), of_units).keys() == {"update"}, "it holds one"


@pytest.mark.parametrize("granted", ["directory.disable_account", "directory.update_user", "directory.reset_password"])
def test_the_answer_is_what_happens(console: Console, connection: DirectoryConnection, ada: UUID, granted: str) -> None:
    may = [granted, "directory.read_object"]  # a dry run shows values
    caller = make_integration(connection, may=may, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    said = found_for(ask(console, ada), caller)
    for action in ("update", "rename", "disable", "enable", "unlock", "reset-password"):
        method, path = ("PATCH", "") if action == "update" else ("POST", f"/{action}")
        answer = caller.call(method, f"/api/ad/users/{ada}{path}?dryRun=true", BODIES.get(action))
        assert (answer.status == 200) is (action in said), action
        if answer.status == 200:
            assert answer.body["wouldQueue"] is said[action]


@pytest.mark.parametrize("resource", ["users", "groups", "computers", "organization-units"])
def test_every_change_of_the_registry_is_among_them(
    console: Console, connection: DirectoryConnection, directory: Directory, organizational_unit: str, resource: str
) -> None:
    make = {
        "users": lambda: directory.add_user(parent=organizational_unit),
        "groups": lambda: directory.add_group(parent=organizational_unit),
        "computers": lambda: directory.add_computer(parent=organizational_unit),
        "organization-units": lambda: directory.guid(organizational_unit),
    }
    everything = make_integration(connection)
    changes = {
        item.action
        for item in operations()
        if item.resource == resource and item.effect is Effect.CHANGE and item.path.startswith(f"ad/{resource}/{{id}}")
    }
    assert found_for(ask(console, make[resource](), resource), everything).keys() == {"read", *changes}


def test_service_accounts_count_as_objects(
    console: Console, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    contact = directory.add(f"CN=Contact,{organizational_unit}", {"objectClass": "contact"})
    of_objects = make_integration(connection, may=["directory.update_object"])
    of_users = make_integration(connection, may=["directory.update_user"])
    answer = ask(console, contact, "objects")
    assert found_for(answer, of_objects) == {"update": False, "rename": False}
    assert found_for(answer, of_users) == {}


def test_people(console: Console, connection: DirectoryConnection, domain: Domain, ada: UUID) -> None:
    make_person("chief", superuser=True)
    group = Group.objects.create(name="Help desk")
    group.permissions.set(permissions(["directory.disable_account"]))
    make_person("by-group").groups.add(group)
    other = make_connection(domain)
    for name, own in (("ours", connection), ("theirs", other)):
        person = make_person(name, may=["directory.disable_account"])
        type(person).objects.filter(pk=person.pk).update(connection=own, object_guid=ada)
    answer = console.call("GET", f"/rest/ad/users/{ada}/who-can", **{"X-Client-Id": connection.client_id})
    assert found_for(answer, "by-group") == found_for(answer, "ours") == {"disable": False}
    assert "delete" in found_for(answer, "chief")
    assert found_for(answer, "theirs") == {}


def test_pages(console: Console, connection: DirectoryConnection, ada: UUID) -> None:
    keys = {make_integration(connection, may=HELP_DESK).key.name for _ in range(5)}
    seen: list[str] = []
    query = "pageSize=2&action=disable"
    while True:
        body = ask(console, ada, query=query).body
        seen += [item["name"] for item in body["items"] if item["kind"] == "apiKey"]
        if body["nextCursor"] is None:
            break
        query = f"pageSize=2&action=disable&cursor={body['nextCursor']}"
    assert (len(seen), set(seen)) == (5, keys)
    wrong = console.get(f"/rest/ad/users/{ada}/who-can?action=fly")
    assert (wrong.status, wrong.body["errors"][0]["parameter"]) == (400, "action")


@pytest.mark.parametrize("missing", SEES)
def test_it_needs_to_see_keys_people_and_objects(connection: DirectoryConnection, ada: UUID, missing: str) -> None:
    person = Console(make_person(may=[name for name in SEES if name != missing]))
    assert person.get(f"/rest/ad/users/{ada}/who-can").status == 403
    assert make_integration(connection).get(f"/api/ad/users/{ada}/who-can").status == 404


def test_in_the_console(console: Console, connection: DirectoryConnection, ada: UUID) -> None:
    key = make_integration(connection, may=HELP_DESK, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY).key
    path = f"/console/directory/objects/{ada}"
    assert "Who can" in console.get(path).body.decode()
    page = console.get(f"{path}/who-can").body.decode()
    assert key.name in page
    assert "held" in page
    assert "Show all" in console.get(f"{path}/who-can?action=disable").body.decode()
    reader = Console(make_person(may=["directory.read_object"]))
    assert "Who can" not in reader.get(path).body.decode()
    assert reader.get(f"{path}/who-can").status == 403
