"""Processes killed in the middle of a change, before its write and after it: the log ends right all the same."""

from typing import Any
from uuid import uuid4

import pytest

from active_directory import Client, Unavailable
from core.operation import Operation
from gateway import tasks
from tests.audit.every_change import CHANGES, World, attempt, named, records_of, require_told
from tests.support.mishaps import killed_at_the_write, settle


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_a_killed_process(operation: Operation, when: str, world: World) -> None:
    change = attempt(operation, world)
    request_id = str(uuid4())
    with killed_at_the_write(after_write=when == "after"):
        change.ask(world.integration, **{"X-Request-Id": request_id})
    (record,) = records_of(world.integration, request_id)
    assert record["outcome"] == "pending"
    tasks.sweep()
    (record,) = records_of(world.integration, request_id)
    assert record["outcome"] == "pending", "its writer may still be at it"

    settle(nothing_under_way=True)

    (record,) = records_of(world.integration, request_id)
    require_told(record, change, world.integration)
    assert record["server"] is None
    if when == "before":
        assert (record["outcome"], record["code"]) == ("failed", "AD.Directory.NotApplied")
        assert not change.is_done()
        assert record["target"]["id"] == (str(change.target) if change.target else None)
        assert record["reversible"] == "none"
    else:
        assert (record["outcome"], record["code"]) == ("succeeded", None)
        assert change.is_done()
        assert record["target"]["id"] == str(change.target or world.directory.guid(change.dn))
        assert record["reversible"] == change.reversible


def test_a_settled_create_can_be_reverted(world: World) -> None:
    operation = next(item for item in CHANGES if item.name == "users.create")
    change = attempt(operation, world)
    request_id = str(uuid4())
    with killed_at_the_write(after_write=True):
        change.ask(world.integration, **{"X-Request-Id": request_id})
    settle(nothing_under_way=True)
    (record,) = records_of(world.integration, request_id)
    assert world.integration.post(f"/api/operations/{record['id']}/revert").status == 200
    assert not change.is_done()


def test_a_create_whose_answer_cannot_be_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The object is there, but who asked could not be told: its identity is found later."""
    operation = next(item for item in CHANGES if item.name == "users.create")
    change = attempt(operation, world)
    request_id = str(uuid4())
    original = Client.write

    def cannot_read(*_: Any, **__: Any) -> Any:
        raise Unavailable("The domain controller has gone")

    with monkeypatch.context() as patched:

        def write_and_lose_sight(self: Client, write: Any) -> str:
            server = original(self, write)
            patched.setattr(Client, "read", cannot_read)
            return server

        patched.setattr(Client, "write", write_and_lose_sight)
        answer = change.ask(world.integration, **{"X-Request-Id": request_id})
    assert (answer.status, answer.code) == (504, "AD.Directory.OutcomeUnknown")
    settle(nothing_under_way=True)
    (record,) = records_of(world.integration, request_id)
    assert (record["outcome"], record["target"]["id"]) == ("succeeded", str(world.directory.guid(change.dn)))
