"""What the log tells of every change of the directory there is, read through the front door.

A new operation needs its line in `every_change`.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from active_directory import Client, Modify, Write
from audit.models import Reversible
from core.call import Call, SupervisionLevel
from core.operation import Operation, find_operation
from directory.changes.revert import reversibility
from directory.shapes.proposal import AttributeChange, Proposal
from gateway.pipeline import membership_rules
from lab.directory import Directory
from lab.gateway import LiveGateway
from tests.audit.every_change import BATCHABLE, CHANGES, RUNS, Attempt, World, attempt, named, records_of, require_told
from tests.directory.supervised import approve
from tests.support.cast import make_integration


@pytest.fixture
def judged_by_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All that is sent was in a proposal that the membership rules have judged: no operation adds members by itself."""
    judged: list[Write] = []
    sent: list[Write] = []
    judge, write, write_many = membership_rules.with_rules, Client.write, Client.write_many

    def watched(call: Call, proposal: Proposal) -> Proposal:
        writes = [proposal.write, *(each.write for each in proposal.dependent_changes)]
        judged.extend(write for write in writes if write is not None)
        return judge(call, proposal)

    def noted(write: Any) -> Any:
        sent.append(write)
        return write

    monkeypatch.setattr(membership_rules, "with_rules", watched)
    monkeypatch.setattr(Client, "write", lambda self, each: write(self, noted(each)))
    monkeypatch.setattr(Client, "write_many", lambda self, writes: write_many(self, map(noted, writes)))
    yield
    assert sent
    assert {*map(_what_is_written, sent)} <= {*map(_what_is_written, judged)}


def _what_is_written(write: Write) -> tuple[str, ...]:
    steps = write.modifications if isinstance(write, Modify) else ()
    return (type(write).__name__, *(step.attribute for step in steps))


def require_done(record: dict[str, Any], change: Attempt, directory: Directory) -> None:
    """What it tells besides when the change was made."""
    assert (record["outcome"], record["code"]) == ("succeeded", None)
    assert record["at"] <= record["completedAt"]
    target = change.target or directory.guid(change.dn)
    assert record["target"]["id"] == str(target)
    assert record["target"]["kind"] == change.kind
    assert record["target"]["distinguishedName"].lower() == change.dn.lower()
    assert record["server"]
    assert record["reversible"] == change.reversible


@pytest.mark.usefixtures("judged_by_rules")
@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_a_change(operation: Operation, world: World) -> None:
    change = attempt(operation, world)
    request_id = str(uuid4())
    assert not change.is_done()

    answer = change.ask(world.integration, **{"X-Request-Id": request_id, "X-Change-Reason": "Ticket"})

    assert answer.status in (200, 201, 204), answer
    assert change.is_done()
    (record,) = records_of(world.integration, request_id)
    require_told(record, change, world.integration)
    require_done(record, change, world.directory)
    assert (record["surface"], record["batchIndex"], record["runId"]) == ("api", None, None)
    assert (record["changeRequestId"], record["approvedBy"]) == (None, None)
    assert record["reason"].endswith("Ticket")


@pytest.mark.usefixtures("judged_by_rules")
@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_an_approved_change(operation: Operation, world: World) -> None:
    change = attempt(operation, world)
    asking = make_integration(world.integration.key.links.get().connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    request_id = str(uuid4())
    request = approve(change.ask(asking, **{"X-Request-Id": request_id}))
    assert request.status == "applied", request.problem
    assert change.is_done()
    queued, applied = records_of(world.integration, request_id)
    for record in (queued, applied):
        require_told(record, change, asking)
        assert record["changeRequestId"] == str(request.id)
    assert (queued["surface"], queued["outcome"], queued["approvedBy"]) == ("api", "queued", None)
    assert (applied["surface"], applied["approvedBy"]) == ("worker", request.decided_by)
    require_done(applied, change, world.directory)


@pytest.mark.usefixtures("judged_by_rules")
@pytest.mark.parametrize("operation", BATCHABLE, ids=named)
def test_a_batch(operation: Operation, world: World) -> None:
    changes = [attempt(operation, world) for _ in range(3)]
    path = f"/api/{operation.path}".removesuffix("/{id}") + f"/batch/{operation.action}"
    request_id = str(uuid4())
    body = {"items": [change.item for change in changes]}
    answer = world.integration.post(path, body, **{"X-Request-Id": request_id})
    assert answer.status == 200, answer
    records = records_of(world.integration, request_id)
    for index, (record, change) in enumerate(zip(records, changes, strict=True)):
        assert change.is_done()
        assert record["batchIndex"] == index
        require_told(record, change, world.integration)
        require_done(record, change, world.directory)


@pytest.mark.parametrize("name", RUNS)
def test_a_run(
    name: str, transactional_db: None, live_gateway: LiveGateway, world: World, organizational_unit: str
) -> None:
    operation = find_operation(name)
    action = operation.action.removesuffix("-accounts")
    accounts = [world.add("users", enabled=action == "disable") for _ in range(3)]
    before = world.directory.text(accounts[0], "userAccountControl")
    unit = world.directory.guid(organizational_unit)
    request_id = str(uuid4())
    answer = world.integration.post(
        f"/api/{operation.path}".replace("{id}", str(unit)), {"kinds": ["user"]}, **{"X-Request-Id": request_id}
    )
    assert answer.status == 200, answer
    records = records_of(world.integration, request_id)
    assert {record["target"]["id"] for record in records} == {str(account) for account in accounts}
    for record in records:
        assert (record["operation"], record["outcome"], record["surface"]) == (name, "succeeded", "worker")
        assert (record["runId"], record["reversible"]) == (answer.body["runId"], "full")
        assert record["server"]
        assert record["changes"] == [
            {"attribute": "userAccountControl", "before": [before], "after": [str(int(before or 0) ^ 2)]}
        ]


@pytest.mark.parametrize("operation", [*CHANGES, *map(find_operation, RUNS)], ids=named)
def test_it_is_known_whether_it_can_be_reverted(operation: Operation) -> None:
    if operation.action == "revert":
        return  # recorded as the change that it is
    inverse = operation.inverse
    if inverse == "restore":
        assert find_operation("deleted-objects.restore")
    elif inverse is not None:
        resource = "users" if operation.name in RUNS or operation.action == "restore" else operation.resource
        assert find_operation(f"{resource}.{inverse}")


@pytest.mark.parametrize(
    ("attributes", "reversible"),
    [
        (["mail"], Reversible.FULL),
        (["mail", "title"], Reversible.FULL),
        (["mail", "pwdLastSet"], Reversible.PARTIAL),
        (["mail", "unicodePwd"], Reversible.PARTIAL),
        (["lockoutTime"], Reversible.NONE),
        (["userPassword", "pwdLastSet"], Reversible.NONE),
        ([], Reversible.NONE),
    ],
)
def test_how_far_an_update_can_be_reverted(attributes: list[str], reversible: str) -> None:
    changes = [AttributeChange(name, ("before",), ("after",)) for name in attributes]
    assert reversibility("users.update", changes) == reversible


@pytest.mark.parametrize("value", ["a\x00b", "a␀b", "<secret>"])
def test_what_the_log_does_not_hold_as_it_was(value: str) -> None:
    changes = [AttributeChange("info", (value,), ("after",)), AttributeChange("mail", (), ("after",))]
    assert reversibility("users.update", changes) == Reversible.PARTIAL
