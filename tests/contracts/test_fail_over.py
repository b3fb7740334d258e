"""After a fail-over nothing is made of an earlier state, and what is only shown says that it may be one.

Every operation there is, asked at a domain controller that lacks, by the log, a change of the object. A new operation
comes here by the registry, a new change by `tests.audit.every_change`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from approvals.models import ChangeRequest
from audit import log
from core.call import SupervisionLevel, Surface
from core.operation import Effect, Operation, operations
from directory import changes
from directory.models import DirectoryConnection
from directory.models.runs import Run
from gateway import pipeline
from lab.directory import Directory, random_name, split_dn
from lab.domain import Domain
from lab.proxy import FaultyProxy
from lab.redis import RedisServer
from tests.audit.calls import make_call
from tests.audit.every_change import BATCHABLE, CHANGES, RUNS, Attempt, World, attempt, named
from tests.contracts.test_confinement import QUERIES
from tests.support.agent_tools import call_tool
from tests.support.agents import make_agent
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person

HEADER = "Gateway-Replication"
READS = [item for item in operations() if item.effect is Effect.READ and item.needs_directory]
KEPT_HERE = {"runs", "change-templates", "saved-filters", "schema", "membership-rules"}
"""The gateway's own tables, and what no change of the gateway is about."""


_KINDS = {name: name for name in ("users", "groups", "computers", "contacts", "objects")}


@dataclass
class TwoServers:
    """A connection to two domain controllers, of which the second does not answer any more."""

    connection: DirectoryConnection
    lost: str

    def note_change(self, target: UUID | None, dn: str) -> None:
        """Let the log know of a change that was begun at the lost one."""
        evidence = {"write": "modify", "server": self.lost, "versions": {}}
        reference = log.TargetRef(id=target, kind="user", distinguished_name=dn)
        log.record_intent(make_call(), log.Intent(operation="users.update", target=reference, evidence=evidence))

    def note_that_of(self, change: Attempt) -> None:
        self.note_change(change.target, change.dn)


@pytest.fixture
def servers(db: None, domain: Domain, redis_server: RedisServer) -> Iterator[TwoServers]:
    proxy = FaultyProxy(domain.controller.address, 636)
    proxy.cut()
    yield TwoServers(make_connection(domain, urls=[domain.url, proxy.url]), proxy.url)
    proxy.close()


@pytest.fixture
def world(servers: TwoServers, directory: Directory, organizational_unit: str) -> World:
    return World(make_integration(servers.connection), directory, organizational_unit)


def previewed(change: Attempt, integration: Integration) -> Answer:
    method, path, body = change.request
    return integration.call(method, f"{path}?dryRun=true", body)


def require_not_arrived(answer: Answer) -> None:
    assert (answer.status, answer.code) == (503, "AD.Directory.Unavailable"), answer
    assert "not arrived" in answer.body["detail"]


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_no_preview_is_made_of_an_earlier_state(operation: Operation, servers: TwoServers, world: World) -> None:
    asking, change = make_integration(servers.connection), attempt(operation, world)
    assert previewed(change, asking).status == 200
    servers.note_that_of(change)
    require_not_arrived(previewed(change, asking))


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_no_change_is_unneeded_or_refused_by_an_earlier_state(
    operation: Operation, servers: TwoServers, world: World
) -> None:
    """It is made already, as far as this domain controller shows."""
    asking, change = make_integration(servers.connection), attempt(operation, world)
    assert change.ask(world.integration).status < 300
    made = change.target or world.directory.guid(change.dn)
    servers.note_change(made, change.dn)
    require_not_arrived(change.ask(asking))


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_nobody_decides_about_an_earlier_state(operation: Operation, servers: TwoServers, world: World) -> None:
    asking = make_integration(servers.connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    change = attempt(operation, world)
    servers.note_that_of(change)
    require_not_arrived(change.ask(asking))
    assert not ChangeRequest.objects.exists()


@pytest.mark.parametrize("operation", BATCHABLE, ids=named)
def test_one_item_that_has_not_arrived_is_not_the_others_affair(
    operation: Operation, servers: TwoServers, world: World
) -> None:
    asking, changes = make_integration(servers.connection), [attempt(operation, world) for _ in range(2)]
    servers.note_that_of(changes[0])
    batch, body = f"/api/ad/{operation.resource}/batch/{operation.action}", {"items": [each.item for each in changes]}
    done = 201 if operation.creates else 204 if operation.output is None else 200
    for query, expected in (("?dryRun=true", 200), ("", done)):
        answer = asking.post(f"{batch}{query}", body)
        assert [result["status"] for result in answer.body["results"]] == [503, expected], answer


@pytest.mark.parametrize("name", RUNS)
def test_no_run_is_unneeded_by_an_earlier_state_of_an_account(name: str, servers: TwoServers, world: World) -> None:
    is_done = name == "organization-units.enable-accounts"
    accounts = [world.directory.add_user(parent=world.unit, enabled=is_done) for _ in range(2)]
    asking = make_integration(servers.connection)
    unit = f"/api/ad/organization-units/{world.directory.guid(world.unit)}/accounts"
    action = name.rpartition(".")[2].removesuffix("-accounts")
    forms: tuple[dict[str, Any], ...] = ({"accounts": [str(each) for each in accounts]}, {"kinds": ["user"]})
    assert {asking.post(f"{unit}/{action}", body).status for body in forms} == {200}
    runs = Run.objects.count()
    servers.note_change(accounts[1], world.directory.dn(accounts[1]))
    for body in forms:
        require_not_arrived(asking.post(f"{unit}/{action}", body))
        require_not_arrived(asking.post(f"{unit}/{action}?dryRun=true", body))
    absent = uuid4()
    servers.note_change(absent, f"CN={random_name('new')},{world.unit}")
    require_not_arrived(asking.post(f"{unit}/{action}", {"accounts": [str(accounts[0]), str(absent)]}))
    assert Run.objects.count() == runs


def test_a_version_of_an_earlier_state_is_no_other_version(servers: TwoServers, world: World) -> None:
    asking, user = make_integration(servers.connection), world.add("users")
    path, later = f"/api/ad/users/{user}", {"If-Match": '"later"'}
    assert asking.patch(path, {"replace": {"title": "Duke"}}, **later).status == 412
    servers.note_change(user, world.directory.dn(user))
    require_not_arrived(asking.patch(path, {"replace": {"title": "Duke"}}, **later))


def test_a_member_that_has_not_arrived_is_not_missing(servers: TwoServers, world: World) -> None:
    asking, group, absent = make_integration(servers.connection), world.add("groups"), uuid4()
    path, body = f"/api/ad/groups/{group}/members", {"add": [str(absent)]}
    assert asking.post(path, body).status == 404
    servers.note_change(absent, f"CN={random_name('new')},{world.unit}")
    require_not_arrived(asking.post(path, body))


@pytest.mark.parametrize("action", ["create", "rename", "restore"])
def test_a_name_that_may_be_given_up_elsewhere_is_not_taken(action: str, servers: TwoServers, world: World) -> None:
    asking, other, deleted = world.integration, world.add("users"), world.add("users")
    dn, name = world.directory.dn(other), split_dn(world.directory.dn(other))[0].removeprefix("CN=")
    if action == "restore":
        world.directory.delete(deleted)
    path, body = {
        "create": ("users", {"name": name, "parent": world.unit}),
        "rename": (f"users/{deleted}/rename", {"name": name}),
        "restore": (f"deleted-objects/{deleted}/restore", {"name": name}),
    }[action]
    assert asking.post(f"/api/ad/{path}", body).status == 409
    servers.note_change(other, dn)
    require_not_arrived(asking.post(f"/api/ad/{path}", body))


def test_an_identifier_that_may_be_given_up_elsewhere_is_not_taken(servers: TwoServers, world: World) -> None:
    taken = random_name("taken")
    other = world.directory.add_user(parent=world.unit, sAMAccountName=taken)
    body = {"name": random_name("new"), "parent": world.unit, "replace": {"sAMAccountName": taken}}
    assert world.integration.post("/api/ad/users", body).status == 409
    servers.note_change(other, world.directory.dn(other))
    require_not_arrived(world.integration.post("/api/ad/users", body))


def test_every_refusal_of_a_taken_name_asks_whether_it_is_taken_still() -> None:
    """Whatever in `directory.changes` finds a name or identifier in use."""
    silent = []
    for file in sorted(Path(changes.__file__).parent.glob("*.py")):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef):
                text = ast.unparse(ast.Module(function.body[ast.get_docstring(function) is not None :], []))
                if "raise errors.AlreadyExists" in text and "require_name_still_taken(" not in text:
                    silent.append(f"{file.name}: {function.name}")
    assert silent == []


def test_an_approved_change_waits_for_what_has_not_arrived(servers: TwoServers, world: World) -> None:
    asking = make_integration(servers.connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    user = world.add("users", title="Duke")
    held = asking.patch(f"/api/ad/users/{user}", {"replace": {"title": "Earl"}})
    change_request = ChangeRequest.objects.get(pk=held.body["changeRequest"]["id"])
    ChangeRequest.objects.update(status="approved")
    world.directory.modify(user, title="Baron")  # by an earlier state it is another change now
    servers.note_change(user, world.directory.dn(user))
    pipeline.apply_change_request(change_request.pk)
    change_request.refresh_from_db()
    assert change_request.status == "approved", "it is not stale, and is tried again"


@pytest.mark.parametrize("operation", READS, ids=named)
def test_every_read_says_that_it_may_be_behind(operation: Operation, servers: TwoServers, world: World) -> None:
    if operation.resource in KEPT_HERE:
        return
    unit = world.directory.add_unit(random_name("unit"), parent=world.unit)
    inner = World(world.integration, world.directory, unit)
    is_unit = operation.resource == "organization-units"
    target = world.directory.guid(unit) if is_unit else inner.add(_KINDS.get(operation.resource, "users"))
    if operation.resource == "deleted-objects":
        world.directory.delete(target)
    servers.note_change(uuid4(), f"CN={random_name('new')},{unit}")
    path = operation.path.replace("{id}", str(target)) + QUERIES.get(operation.name, "")
    if operation.name == "accounts.search":
        path += "?state=disabled"
    if operation.action == "read-by":
        target = inner.add("users") if operation.resource == "objects" else target
        path = path.replace("{identifier}/{value}", f"sid/{world.directory.sid(target)}")
    if operation.action == "read-by-dn":
        path += f"?dn={quote(world.directory.dn(target))}"
    caller: Integration | Console = Console(make_person(superuser=True))
    surface = "rest"
    if Surface.API in operation.surfaces:
        caller, surface = make_integration(servers.connection), "api"
    answers = [
        caller.call(operation.method, f"/{surface}/{path}", **headers) for headers in ({}, {"If-None-Match": "*"})
    ]
    assert {answer.status for answer in answers} <= {200, 304, 404}, answers
    assert [answer.headers.get(HEADER) for answer in answers] == ["pending"] * len(answers)


@pytest.mark.parametrize("form", ["application/x-ndjson", "text/csv"])
def test_a_stream_says_so(form: str, servers: TwoServers, world: World) -> None:
    servers.note_change(uuid4(), f"CN={random_name('new')},{world.unit}")
    response = world.integration.client.get(
        f"/api/ad/users?base={quote(world.unit)}", headers={"X-API-Key": world.integration.value, "Accept": form}
    )
    assert response.headers[HEADER] == "pending"
    assert response.streaming
    response.close()


def test_nothing_is_said_where_all_is_there(servers: TwoServers, world: World) -> None:
    asking, user = make_integration(servers.connection), world.add("users")
    assert asking.patch(f"/api/ad/users/{user}", {"replace": {"title": "Duke"}}).status == 200
    for path in (f"users/{user}", "users", f"users/{uuid4()}"):
        assert HEADER not in asking.get(f"/api/ad/{path}").headers


def test_agents_and_people_are_told(servers: TwoServers, world: World) -> None:
    user = world.add("users")
    servers.note_change(uuid4(), f"CN={random_name('new')},{world.unit}")
    read = call_tool(make_agent(servers.connection), "read_object", kind="users", id=str(user))
    assert "may be missing" in read.said
    page = Console(make_person(superuser=True)).client.get(f"/console/directory/objects/{user}")
    assert b"may be missing" in page.content
