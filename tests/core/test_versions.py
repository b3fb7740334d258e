"""Versions of the gateway's own records: reads carry one, and a change meant for another one is refused."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from audit.models import OperationRecord
from core.call import Surface
from core.operation import Effect, operations
from directory.models import DirectoryConnection
from gateway.management.openapi import document
from keys.models import Role
from lab.directory import random_name
from lab.domain import Domain
from lab.gateway import LiveGateway
from lab.http import Http
from tests.support.agents import make_agent
from tests.support.cast import PASSWORD, Answer, Console, make_connection, make_integration, make_person

MISMATCH = (412, "AD.Object.VersionMismatch")
MATCHING = 20


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(superuser=True))


def make_directory(console: Console) -> str:
    connection = {"urls": ["ldaps://192.0.2.1"], "baseDn": "DC=corp", "bindDn": "CN=gateway,DC=corp"}
    return made(console, "/rest/directories", {"name": random_name("d"), "bindPassword": "secret", **connection})


def make_saved_filter(console: Console) -> str:
    return made(console, "/rest/ad/saved-filters", {"name": random_name("filter"), "filter": "(cn=*)"})


def make_change_template(console: Console) -> str:
    return made(console, "/rest/ad/change-templates", {"name": random_name("template"), "occasion": "leaver"})


def make_membership_rule(console: Console) -> str:
    group = f"CN=Guests,CN=Builtin,{DirectoryConnection.objects.get().base_dn}"
    return made(console, "/rest/membership-rules", {"group": group, "maxDuration": "PT8H"})


def make_role(console: Console) -> str:
    return made(console, "/rest/roles", {"name": random_name("role"), "permissions": ["directory.read_object"]})


def make_key(console: Console) -> str:
    body = {"name": random_name("key"), "owner": console.person.username, "role": make_role(console).split("/")[-1]}
    return made(console, "/rest/api-keys", body)


def make_user(console: Console) -> str:
    return made(console, "/rest/users", {"username": random_name("p"), "password": "an unusual phrase"})


def make_permission_group(console: Console) -> str:
    return made(console, "/rest/permission-groups", {"name": random_name("group"), "permissions": []})


def made(console: Console, path: str, body: dict[str, Any]) -> str:
    answer = console.post(path, body)
    assert answer.status == 201, answer
    assert answer.headers["ETag"] == f'"{answer.body["version"]}"'
    return f"{path}/{answer.body['id']}"


Make = Callable[[Console], str]
MAKERS: dict[str, Make] = {
    "api-keys": make_key,
    "change-templates": make_change_template,
    "directories": make_directory,
    "membership-rules": make_membership_rule,
    "people": make_user,
    "permission-groups": make_permission_group,
    "roles": make_role,
    "saved-filters": make_saved_filter,
}
each_resource = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def version(answer: Answer) -> str:
    assert answer.status in (200, 201), answer
    assert answer.headers["ETag"] == f'"{answer.body["version"]}"'
    return answer.headers["ETag"]


def refused(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer.code


def test_every_record_that_is_updated_has_a_version() -> None:
    updated = {item.resource for item in operations() if item.effect is Effect.ADMINISTER and item.method == "PATCH"}
    assert updated == {*MAKERS, "agents"}


def test_an_agents_level_is_changed_for_the_version_that_was_seen(
    console: Console, connection: DirectoryConnection
) -> None:
    path = f"/rest/agents/{make_agent(connection).grant.id}"
    seen = version(console.get(path))
    free = {"supervisionLevel": "act"}
    assert refused(console.call("PATCH", path, free, If_Match='"other"')) == MISMATCH
    assert version(console.get(path)) == seen
    assert version(console.call("PATCH", path, free, If_Match=seen)) != seen
    assert refused(console.call("PATCH", path, free, If_Match=seen)) == MISMATCH


@each_resource
def test_it_works(console: Console, make: Make) -> None:
    path = make(console)
    seen = version(console.get(path))
    assert version(console.get(path)) == seen
    assert console.call("GET", path, If_None_Match=seen).status == 304
    changed = console.call("PATCH", path, renamed(path), If_Match=f'"x", {seen}')
    assert version(changed) != seen
    assert version(console.get(path)) == version(changed)
    assert console.call("GET", path, If_None_Match=seen).status == 200


@each_resource
def test_a_change_meant_for_another_version_is_refused(console: Console, make: Make) -> None:
    path = make(console)
    seen = version(console.get(path))
    body = renamed(path)
    before = OperationRecord.objects.count()
    for other in ('"other"', f"W/{seen}", seen.strip('"')):
        assert refused(console.call("PATCH", path, body, If_Match=other)) == MISMATCH
        assert refused(console.call("DELETE", path, If_Match=other)) == MISMATCH
    assert version(console.get(path)) == seen
    codes = OperationRecord.objects.order_by("id").values_list("outcome", "code")[before:]
    assert set(codes) == {("failed", MISMATCH[1])}
    assert console.call("PATCH", path, body, If_Match="*").status == 200
    assert refused(console.call("DELETE", path, If_Match=seen)) == MISMATCH
    assert console.call("DELETE", path, If_Match=version(console.get(path))).status == 204
    assert console.call("DELETE", path, If_Match=seen).status == 404


def renamed(path: str) -> dict[str, str]:
    """A body that gives a record another name, or a rule another time."""
    if "/membership-rules/" in path:
        return {"maxDuration": "PT1H"}
    return {"displayName" if "/users/" in path else "name": random_name("other")}


def test_what_a_key_says_is_its_version_and_its_use_is_not(console: Console, connection: DirectoryConnection) -> None:
    path = make_key(console)
    value = console.post(f"{path}/rotate", {"graceSeconds": 60}, If_Match=version(console.get(path))).body["value"]
    assert value
    rotated = version(console.get(path))
    link = console.post(f"{path}/links", {"directory": str(connection.id)}, If_Match=rotated)
    assert link.status == 201, link
    assert refused(console.call("DELETE", f"{path}/links/{link.body['clientId']}", If_Match=rotated)) == MISMATCH
    linked = version(console.get(path))
    assert refused(console.post(f"{path}/revoke", If_Match=rotated)) == MISMATCH
    revoked = console.post(f"{path}/revoke", If_Match=linked)
    assert len({rotated, linked, version(revoked)}) == 3


def test_a_permission_belongs_to_the_version_of_a_role(console: Console) -> None:
    path = make_role(console)
    seen = version(console.get(path))
    role = Role.objects.get(id=path.split("/")[-1])
    role.permissions.clear()  # as a page of the back office does, beside the row itself
    assert refused(console.call("PATCH", path, {"description": "x"}, If_Match=seen)) == MISMATCH


def test_nothing_is_made_in_a_version(console: Console, organizational_unit: str) -> None:
    unit = {"name": random_name("unit"), "parent": organizational_unit}
    bodies = {"/rest/roles": {"name": random_name("role")}, "/rest/ad/organization-units": unit}
    for path, body in bodies.items():
        for nothing in ('"any"', 'W/"any"', "any", ""):
            assert refused(console.post(path, body, If_Match=nothing)) == MISMATCH
        assert console.post(path, body, If_Match="*").status == 201, path  # so none was made before


@pytest.mark.parametrize("surface", [Surface.API, Surface.REST])
def test_every_change_is_documented_to_compare_versions(surface: Surface) -> None:
    paths = document(surface)["paths"]
    for operation in operations(surface):
        told = paths[f"/{surface}/{operation.path}"][operation.method.lower()]
        headers = {item["name"]: item["description"] for item in told["parameters"] if item["in"] == "header"}
        compares = operation.effect is not Effect.READ
        assert ("If-Match" in headers, "412" in told["responses"]) == (compares, compares), operation.name
        if compares:
            assert ("What is still to be made has no version" in headers["If-Match"]) == operation.is_creation


def test_the_machine_surface_compares_saved_filters(connection: DirectoryConnection) -> None:
    integration = make_integration(connection)
    saved = integration.post("/api/ad/saved-filters", {"name": "Everybody", "filter": "(cn=*)"})
    path = f"/api/ad/saved-filters/{saved.body['id']}"
    changed = integration.patch(path, {"shared": True}, If_Match=saved.headers["ETag"])
    assert changed.body["shared"] is True
    assert refused(integration.patch(path, {"shared": False}, If_Match=saved.headers["ETag"])) == MISMATCH
    assert integration.get(path).body["shared"] is True


def test_of_many_at_once_one_is_first(transactional_db: None, live_gateway: LiveGateway) -> None:
    """All have read the same version, in several processes."""
    person = make_person(superuser=True)
    http = Http(live_gateway.base_url)
    signed_in = http.send("POST", "/rest/session", {"username": person.username, "password": PASSWORD})
    headers = signed_in.session
    role = http.send("POST", "/rest/roles", {"name": random_name("role")}, headers=headers)
    path = f"/rest/roles/{role.body['id']}"

    def describe(number: int) -> int:
        seen = {**headers, "If-Match": f'"{role.body["version"]}"'}
        return live_gateway.request("PATCH", path, body={"description": f"No. {number}"}, headers=seen)[0]

    with ThreadPoolExecutor(MATCHING) as pool:
        statuses = list(pool.map(describe, range(MATCHING)))
    assert sorted(statuses) == [200] + [412] * (MATCHING - 1)
