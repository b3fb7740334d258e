"""Who may not read objects is shown no value of one, whatever they ask for and however; and what is shown is on record.

Every operation there is, with a word in every attribute of its objects that takes one. A new operation comes here by
the registry, a new change by `tests.audit.every_change`.
"""

from collections.abc import Callable
from typing import Any, ClassVar
from uuid import UUID, uuid4

import ldap
import pytest

from audit.read_buffer import reads
from core.call import SupervisionLevel, Surface
from core.operation import Effect, Operation, find_operation, operations
from directory.models import DirectoryConnection
from directory.shapes.record import ChangedObject, DirectoryObject
from gateway.surfaces.agent.tools import TOOLS
from keys.agents.scopes import SCOPES
from lab.directory import Directory, random_name
from tests.audit.every_change import CHANGES, RUNS, Attempt, World, attempt, named, records_of
from tests.contracts.test_agent_surface import arguments_for, ways
from tests.contracts.test_confinement import QUERIES
from tests.support.agent_tools import Result, call_tool, list_tools, served_operations
from tests.support.agents import Agent, make_agent
from tests.support.cast import Answer, Console, Integration, all_permissions, make_integration, make_person

CANARY = "Qx7canary"
SHOW_VALUES = {"directory.read_object", "directory.read_deleted", "directory.read_acl", "audit.read_log"}
"""The permissions that are for seeing values: of what is there, of what was deleted, of access, and in the log."""
IDENTITY = {"id", "kind", "distinguishedName", "version"}
READS = [item for item in operations() if item.effect is Effect.READ and item.needs_directory]
AGENTS = [item for item in CHANGES if item.name in served_operations()]
# What would change how an object is found, or what policies it is under.
_KEPT = {"samaccountname", "userprincipalname", "name", "cn", "ou", "gplink", "gpoptions", "objectclass"}


class Marked(World):
    """A world whose objects hold the canary in every attribute that takes it."""

    taken: ClassVar[dict[str, list[str]]] = {}
    """By class of objects: tried once, by whichever test is first."""

    def add(self, resource: str, **attributes: Any) -> UUID:
        given = {name: CANARY if name == "description" else value for name, value in attributes.items()}
        guid = super().add(resource, **given)
        if resource not in self.taken:
            self.taken[resource] = [name for name in self._writable(guid) if self._takes_a_word(guid, name)]
        self.directory.modify(guid, **dict.fromkeys(self.taken[resource], CANARY))
        return guid

    def _writable(self, guid: UUID) -> list[str]:
        allowed = self.directory.read(guid, "allowedAttributesEffective")["allowedAttributesEffective"]
        names = [name.decode() for name in allowed]
        return [name for name in names if name.lower() not in _KEPT and "pwd" not in name.lower()]

    def _takes_a_word(self, guid: UUID, name: str) -> bool:
        try:
            self.directory.modify(guid, **{name: CANARY})
        except ldap.LDAPError:
            return False
        return True


@pytest.fixture
def world(integration: Integration, directory: Directory, organizational_unit: str) -> Marked:
    return Marked(integration, directory, organizational_unit)


def others() -> list[str]:
    """Every permission but those for seeing values."""
    return [name for name in all_permissions() if name not in SHOW_VALUES]


def without_reading(connection: DirectoryConnection, **fields: Any) -> Integration:
    return make_integration(connection, may=others(), **fields)


def shows(answer: Answer | Result) -> bool:
    return CANARY in str(vars(answer))


def previewed(change: Attempt, integration: Integration, **headers: str) -> Answer:
    method, path, body = change.request
    return integration.call(method, f"{path}?dryRun=true", body, **headers)


def test_the_canary_sings(connection: DirectoryConnection, world: Marked) -> None:
    """What the other tests look for is there to be seen, in many attributes."""
    deletion = attempt(find_operation("users.delete"), world)
    seen = [change for change in previewed(deletion, world.integration).body["changes"] if CANARY in str(change)]
    assert len(seen) > 20
    assert len(world.taken["users"]) > 40


def test_the_document_says_which_members_are_always_there() -> None:
    of_record = {*DirectoryObject.__required_keys__, "generatedPassword"}
    assert ChangedObject.__annotations__.keys() == of_record
    assert ChangedObject.__required_keys__ == IDENTITY


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_no_change_shows_a_value(operation: Operation, connection: DirectoryConnection, world: Marked) -> None:
    asking = without_reading(connection)
    change = attempt(operation, world)
    for headers in ({}, {"If-None-Match": "*"}, {"Idempotency-Key": str(uuid4())}):
        preview = previewed(change, asking, **headers)
        assert (preview.status, preview.code) == (403, "Auth.Forbidden")
        assert not shows(preview)
    kept = {"Idempotency-Key": str(uuid4())}
    made, replayed, again = change.ask(asking, **kept), change.ask(asking, **kept), change.ask(asking)
    assert made.status < 300, made
    assert replayed.headers["Idempotency-Replayed"] == "true"
    assert not [answer for answer in (made, replayed, again) if shows(answer)]
    if operation.output is DirectoryObject:
        assert made.body.keys() == replayed.body.keys() == IDENTITY
        assert made.headers["ETag"] == f'"{made.body["version"]}"'
    if operation.batchable:
        items = [attempt(operation, world).item for _ in range(2)]
        batch = f"/api/ad/{operation.resource}/batch/{operation.action}"
        before = asking.post(f"{batch}?dryRun=true", {"items": items})
        assert {item["status"] for item in before.body["results"]} == {403}
        after = [asking.post(batch, {"items": items}) for _ in range(2)]
        assert after[0].status == 200, after[0]
        assert not [answer for answer in (before, *after) if shows(answer)]


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_a_kept_preview_is_shown_to_those_who_may_read_still(
    operation: Operation, connection: DirectoryConnection, world: Marked
) -> None:
    asking = make_integration(connection)
    change, kept = attempt(operation, world), {"Idempotency-Key": str(uuid4())}
    assert previewed(change, asking, **kept).status == 200
    asking.key.role.permissions.remove(asking.key.role.permissions.get(codename="read_object"))
    refused = previewed(change, asking, **kept)
    assert (refused.status, shows(refused)) == (403, False)


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_no_waiting_change_shows_a_value(operation: Operation, connection: DirectoryConnection, world: Marked) -> None:
    asking = without_reading(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    change = attempt(operation, world)
    held = change.ask(asking)
    assert held.status == 202, held
    id = held.body["changeRequest"]["id"]
    decider = Console(make_person(may=others()))
    waiting = "/rest/change-requests"
    answers = [
        held,
        asking.get("/api/change-requests"),
        asking.get(f"/api/change-requests/{id}"),
        *(decider.get(f"{waiting}/{id}{more}") for more in ("", "/review", "/forecast")),
        *(decider.get(f"{waiting}{more}") for more in ("", "/inbox", f"/together?ids={id}", f"/forecasts?ids={id}")),
        decider.post(f"{waiting}/{id}/comment", {"comment": "Why?"}),
        decider.post(f"{waiting}/{id}/reject", {"comment": "No."}),
    ]
    assert not [answer for answer in answers[1:] if answer.status not in (200, 201)]
    assert not [answer for answer in answers if shows(answer)]


def preview_by(agent: Agent, operation: Operation, change: Attempt) -> tuple[str, dict[str, Any]]:
    """The tool that makes a change, and the arguments that ask it to."""
    tool, kind, action = next(way for way in ways() if TOOLS[way[0]].serves[way[1:]] == operation.name)
    path, body = change.request[1], change.request[2] or {}
    given = {"id": path.removeprefix("/api/").split("/")[2]} if "{id}" in operation.path else {}
    return tool, arguments_for(TOOLS[tool], kind, action, **given, **body)


@pytest.mark.parametrize("operation", AGENTS, ids=named)
def test_no_agent_sees_a_value_that_may_not_read(
    operation: Operation, connection: DirectoryConnection, world: Marked
) -> None:
    """Its person may; they have not let it."""
    agent = make_agent(
        connection, scopes=[name for name, scope in SCOPES.items() if name != "read"], level=SupervisionLevel.ACT
    )
    agent.grant.permissions = [name for name in agent.grant.permissions if name not in SHOW_VALUES]
    agent.grant.save()
    change = attempt(operation, world)
    tool, arguments = preview_by(agent, operation, change)
    preview = call_tool(agent, "preview_change", tool=tool, arguments=arguments)
    assert (preview.code, shows(preview)) == ("Auth.Forbidden", False)
    assert "preview_change" not in list_tools(agent)
    answers = [call_tool(agent, tool, **arguments, reason="Ticket") for _ in range(2)]
    assert not answers[0].is_error, answers[0]
    assert not [answer for answer in answers if shows(answer)]


@pytest.mark.parametrize("operation", READS, ids=named)
def test_no_read_shows_a_value(operation: Operation, connection: DirectoryConnection, world: Marked) -> None:
    """With what permissions it asks for, if they are not for seeing values; a run's plan tells accounts by name."""
    made = world.integration
    unit = world.directory.add_unit(random_name("unit"), parent=world.unit)
    inner = Marked(made, world.directory, unit)
    target = {"organization-units": lambda: world.directory.guid(unit)}.get(
        operation.resource, lambda: inner.add(operation.resource if operation.resource in KINDS else "users")
    )()
    inner.add("users", sAMAccountName=f"{CANARY}{random_name('')[-6:]}")
    path = operation.path.replace("{id}", str(target)) + QUERIES.get(operation.name, "")
    answers = []
    if Surface.API in operation.surfaces:
        asking = without_reading(connection)
        for headers in ({}, {"If-None-Match": "*"}, {"Accept": "application/x-ndjson"}):
            answers += [asking.call(operation.method, f"/api/{path}", **headers)]
    answers.append(Console(make_person(may=others())).call(operation.method, f"/rest/{path}"))
    assert not [answer for answer in answers if shows(answer)]
    if operation.permission <= SHOW_VALUES:
        assert {answer.status for answer in answers} == {403}


KINDS = {"users", "groups", "computers", "organization-units", "contacts", "objects"}


@pytest.mark.parametrize("name", RUNS)
def test_no_run_shows_a_value(name: str, connection: DirectoryConnection, world: Marked) -> None:
    is_done = name == "organization-units.enable-accounts"
    account = world.directory.add_user(
        parent=world.unit, enabled=is_done, sAMAccountName=f"{CANARY}{random_name('')[-6:]}"
    )
    asking = without_reading(connection)
    path = f"/api/ad/organization-units/{world.directory.guid(world.unit)}/accounts"
    action, body = name.rpartition(".")[2].removesuffix("-accounts"), {"accounts": [str(account)]}
    answers = [asking.get(f"{path}/plan?action={action}"), asking.post(f"{path}/{action}", body)]
    assert [answer.status for answer in answers] == [200, 200]
    preview = asking.post(f"{path}/{action}?dryRun=true", body)
    assert preview.status == 403
    assert not [answer for answer in (*answers, preview) if shows(answer)]


@pytest.mark.parametrize("operation", [*CHANGES], ids=named)
def test_what_is_shown_is_on_record(operation: Operation, connection: DirectoryConnection, world: Marked) -> None:
    """A dry run, and a change that changes nothing: as reads, which are no changes of anybody's."""
    change = attempt(operation, world)
    asking = make_integration(connection)

    def recorded(answer: Answer) -> list[dict[str, Any]]:
        reads.flush()
        return records_of(world.integration, answer.headers["X-Request-Id"])

    (shown,) = recorded(previewed(change, asking))
    assert find_operation(shown["operation"]).effect is Effect.READ
    assert (shown["outcome"], shown["changes"]) == ("succeeded", [])
    assert shown["target"]["id"] == (str(change.target) if change.target else None)
    change.ask(asking)
    again = change.ask(asking)
    if again.status == 200 and operation.name not in ("users.reset-password", "operations.revert"):
        (repeated,) = recorded(again)
        assert find_operation(repeated["operation"]).effect is Effect.READ
        assert repeated["target"]["id"] == str(change.target)
    if operation.action in ("update", "enable", "disable", "unlock", "move", "rename", "change-members"):
        assert again.status == 200


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_what_is_shown_once_more_is_on_record(
    operation: Operation, connection: DirectoryConnection, world: Marked
) -> None:
    """The answer to a retry under an idempotency key: of a dry run, of a change, of a batch's dry run."""
    asking = make_integration(connection)
    change, batch = attempt(operation, world), f"/api/ad/{operation.resource}/batch/{operation.action}?dryRun=true"

    def again(ask: Callable[..., Answer]) -> tuple[Answer, list[dict[str, Any]]]:
        kept = {"Idempotency-Key": str(uuid4())}
        first, replayed = ask(asking, **kept), ask(asking, **kept)
        assert (first.status < 300, replayed.headers.get("Idempotency-Replayed")) == (True, "true"), first
        reads.flush()
        return replayed, records_of(world.integration, replayed.headers["X-Request-Id"])

    shown = [again(lambda *who, **kept: previewed(change, *who, **kept))]
    if operation.batchable:
        items = [attempt(operation, world).item for _ in range(2)]
        replayed, records = again(lambda who, **kept: who.post(batch, {"items": items}, **kept))
        told = [record["target"] and record["target"]["id"] for record in records]
        assert told == [each["id"] for each in replayed.body["results"]]
    shown.append(again(change.ask))
    for replayed, records in shown:
        if replayed.body and not replayed.body.keys().isdisjoint(("attributes", "changes", "object")):
            (record,) = records
            assert find_operation(record["operation"]).effect is Effect.READ
            assert (record["outcome"], record["changes"]) == ("succeeded", [])
