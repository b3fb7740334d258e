"""Nobody changes what is protected without the permission for it: every change that there is, on every protected kind.

The gateway's account is delegated, so that the directory itself would let much of it happen. The changes come from the
registry; what is asked for, from `tests.audit.every_change`, which a change without a request there fails.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from audit import log
from core.call import Surface
from core.operation import Operation, find_operation
from gateway.tasks import execute_run
from keys.permissions.effective import call_for_key
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.redis import RedisServer
from tests.audit.every_change import BATCHABLE, CHANGES, RUNS, Attempt, World, attempt, named
from tests.directory.conftest import DELEGATED
from tests.directory.protection.protected_kinds import Estate, Kind, protected_objects
from tests.support.cast import Answer, Integration, all_permissions, make_connection, make_integration
from tests.support.delegated import Delegated

pytestmark = pytest.mark.parametrize("bind", [DELEGATED], indirect=True)

ON_WHAT_HOLDS_PROTECTED = {
    "update": {"replace": {"gPLink": "[LDAP://CN={31B2F340-016D-11D2-945F-00C04FB984F9},CN=Policies,CN=System;0]"}},
    "delete": None,
    "move": None,
    "rename": None,
}
"""The changes of a container that count for what it holds, and a body of its own for one of them."""

Request = tuple[str, str, Any]


@pytest.fixture(scope="module")
def estate(domain: Domain, directory: Directory, delegated: Delegated) -> Iterator[Estate]:
    """An object of each protected kind."""
    with protected_objects(domain, directory, delegated) as made:
        yield made


@pytest.fixture(autouse=True)
def other_connection(connection: Any, domain: Domain, directory: Directory, estate: Estate) -> None:
    """A disabled connection that goes by another URL, with an account of its own."""
    account = directory.text(estate["bind account of a disabled connection"].target, "sAMAccountName")
    make_connection(domain, url="ldaps://dc9.corp.example.test", bind_dn=f"corp\\{account}", enabled=False)


@pytest.fixture
def ordinary(connection: Any) -> Integration:
    """May do everything but write protected objects."""
    return make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})


@pytest.fixture
def world(ordinary: Integration, directory: Directory, organizational_unit: str) -> World:
    return World(ordinary, directory, organizational_unit)


def requests_on(kind: Kind, operation: Operation, change: Attempt) -> Iterator[Request]:
    """What makes this change of an object of the kind, or puts another object into it; nothing where it cannot be."""
    method, path, body = change.request
    into = {**(body or {}), "parent": str(kind.target)}
    if kind.is_container and operation.action in ("create", "move", "restore"):
        yield method, path, into
    if operation.action in ("create", "restore", "revert"):
        return
    if kind.only_holds:
        if operation.action not in ON_WHAT_HOLDS_PROTECTED:
            return
        body = ON_WHAT_HOLDS_PROTECTED[operation.action] or body
    if operation.resource == "objects" or operation.resource in kind.resources:
        path = path.replace(str(change.target), str(kind.target))
        yield method, path, body
        if operation.action == "delete" and (kind.is_container or kind.only_holds):
            yield method, f"{path}?recursive=true", body


def states_of(directory: Directory, estate: Estate) -> dict[str, Any]:
    """All that somebody could have changed of the objects, their names among it. Signing in changes some, too."""
    volatile = {"lastLogon", "lastLogonTimestamp", "logonCount", "badPwdCount", "badPasswordTime", "uSNChanged"}
    states = {}
    for name, kind in estate.items():
        found = directory.read(kind.target)
        states[name] = {each: sorted(found[each]) for each in found.keys() - volatile - {"whenChanged"}}
    return states


def is_refused(answer: Answer) -> bool:
    return (answer.status, answer.code) == (403, "Auth.Forbidden")


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_no_change_of_a_protected_object(
    operation: Operation, ordinary: Integration, connection: Any, world: World, estate: Estate, directory: Directory
) -> None:
    change = attempt(operation, world)
    everything = make_integration(connection)
    before = states_of(directory, estate)
    permitted = []
    for name, kind in estate.items():
        for method, path, body in requests_on(kind, operation, change):
            answer = ordinary.call(method, path, body)
            if not is_refused(answer):
                permitted.append((name, path, answer))
            if operation.resource == "objects":  # it is refused for that alone
                allowed = everything.call(method, f"{path}{'&' if '?' in path else '?'}dryRun=true", body)
                assert allowed.status != 403, (name, path, allowed)
    assert not permitted
    assert states_of(directory, estate) == before
    assert not change.is_done()


@pytest.mark.parametrize("operation", BATCHABLE, ids=named)
def test_no_batch_of_protected_objects(
    operation: Operation, ordinary: Integration, world: World, estate: Estate, directory: Directory
) -> None:
    change = attempt(operation, world)
    items = [
        body if operation.action == "create" else {**(body or {}), "id": str(kind.target)}
        for kind in estate.values()
        for _, _, body in requests_on(kind, operation, change)
    ]
    before = states_of(directory, estate)
    path = f"/api/{operation.path}".removesuffix("/{id}") + f"/batch/{operation.action}"
    results = ordinary.post(path, {"items": items}).body["results"]
    assert [result["status"] for result in results] == [403] * len(items)
    assert states_of(directory, estate) == before
    assert not change.is_done()


@pytest.mark.parametrize("name", RUNS)
def test_no_run_over_protected_accounts(
    name: str, redis_server: RedisServer, ordinary: Integration, estate: Estate, directory: Directory
) -> None:
    unit = directory.dn(estate["nested administrator"].target).partition(",")[2]
    accounts = [
        kind.target
        for kind in estate.values()
        if kind.resources & {"users", "computers"} and directory.dn(kind.target).endswith(unit)
    ]
    assert len(accounts) > 20
    if "enable" in name:
        for account in accounts:
            directory.modify(account, userAccountControl=str(int(directory.text(account, "userAccountControl")) | 2))
    before = states_of(directory, estate)
    path = f"/api/{find_operation(name).path}".replace("{id}", str(directory.guid(unit)))
    body = {"accounts": [str(account) for account in accounts]}
    run = ordinary.post(path, body, Prefer="respond-async").body["runId"]
    execute_run(run)
    results = ordinary.get(f"/api/ad/runs/{run}").body["results"]
    assert [result["problem"]["status"] for result in results] == [403] * len(accounts)
    assert states_of(directory, estate) == before


def test_no_revert_on_a_protected_object(
    ordinary: Integration, connection: Any, estate: Estate, directory: Directory
) -> None:
    call = call_for_key(ordinary.key.id, connection_id=connection.id, surface=Surface.API, request_id="r")
    before = states_of(directory, estate)
    for name, kind in estate.items():
        if kind.only_holds:
            continue
        target = log.TargetRef(id=kind.target, kind="object", distinguished_name=directory.dn(kind.target))
        changes = [{"attribute": "description", "before": ["old"], "after": ["new"]}]
        record = log.record_intent(call, log.Intent(operation="objects.update", target=target, changes=changes))
        log.complete(record.id, outcome="succeeded")
        answer = ordinary.post(f"/api/operations/{record.id}/revert")
        assert is_refused(answer), name
    assert states_of(directory, estate) == before


def test_nothing_is_told_of_a_protected_object_before_the_refusal(
    ordinary: Integration, estate: Estate, directory: Directory, organizational_unit: str
) -> None:
    """What the directory would refuse anyway is refused as what it would not."""
    user, group = estate["nested administrator"].target, estate["group that may replicate"].target
    controller, policies = estate["domain controller"].target, estate["policies"].target
    unit = estate["unit that holds an administrator"].target
    holding = directory.guid(organizational_unit)
    nothing = "00000000-0000-4000-8000-000000000000"
    taken = directory.dn(estate["marked administrator"].target).partition(",")[0].removeprefix("CN=")
    for method, path, body in (
        ("DELETE", f"computers/{controller}", None),  # holds other objects
        ("DELETE", f"organization-units/{unit}", None),
        ("PATCH", f"users/{user}", {"replace": {"sAMAccountName": "Administrator"}}),
        ("PATCH", f"users/{user}", {"replace": {"primaryGroupID": "512"}}),
        ("PATCH", f"users/{user}", {"replace": {"manager": "CN=nobody,DC=corp,DC=example,DC=test"}}),
        ("PATCH", f"users/{user}", {"replace": {"groupType": "2"}}),
        ("POST", f"users/{user}/rename", {"name": taken}),
        ("POST", f"users/{user}/reset-password", {"newPassword": "a"}),
        ("POST", f"users/{user}/change-password", {"currentPassword": "a", "newPassword": "b"}),
        ("POST", f"groups/{group}/members", {"add": [nothing]}),
        ("POST", f"groups/{group}/members", {"add": [str(group)]}),
        ("POST", f"organization-units/{unit}/move", {"parent": str(unit)}),
        ("POST", f"objects/{holding}/move", {"parent": str(policies)}),
        ("POST", "users", {"name": "x", "parent": str(policies), "samAccountName": "Administrator"}),
    ):
        answer = ordinary.call(method, f"/api/ad/{path}", body)
        assert is_refused(answer), (path, answer)


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_everything_else_is_done(operation: Operation, world: World) -> None:
    """Delegation is enough for what the gateway does."""
    change = attempt(operation, world)
    answer = change.ask(world.integration)
    assert answer.status in (200, 201, 204), answer
    assert change.is_done()


def test_what_is_read_says_so(ordinary: Integration, estate: Estate) -> None:
    for name, kind in estate.items():
        assert ordinary.get(f"/api/ad/objects/{kind.target}").body["protected"] is not kind.only_holds, name


def test_no_restore_of_what_was_protected(
    ordinary: Integration, estate: Estate, directory: Directory, organizational_unit: str
) -> None:
    member, policy = directory.add_user(parent=organizational_unit), random_name("policy")
    directory.add_values(estate["group that may replicate"].target, member=directory.dn(member))
    administrator = directory.add_user(parent=organizational_unit)
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(administrator))
    policies = f"CN=Policies,CN=System,{directory.base_dn}"
    linked = directory.add(f"CN={policy},{policies}", {"objectClass": "groupPolicyContainer"})
    inside = directory.add(f"CN=Machine,CN={policy},{policies}", {"objectClass": "container"})
    for guid in (member, administrator, linked):
        directory.delete(guid, recursive=True)
    for guid in (member, administrator, linked, inside):
        for body in (None, {"parent": organizational_unit}):
            assert is_refused(ordinary.post(f"/api/ad/deleted-objects/{guid}/restore", body)), directory.read(
                guid, deleted=True
            )
        assert not directory.exists(guid)
