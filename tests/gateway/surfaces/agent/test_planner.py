"""An agent at work, without a model: a program that on-boards, moves and off-boards people through the tools alone.

It knows of the gateway what the tools tell it. It is held, asks again in vain, comes back when a person has decided and
goes on. In the end the directory is as it was meant to be, and the log tells every step.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from approvals.models import ChangeRequest, Status
from audit.models import OperationRecord
from audit.read_buffer import reads
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory
from tests.support.agent_tools import Result, call_tool
from tests.support.agents import Agent, make_agent
from tests.support.cast import Console, make_person

PEOPLE = 8


@dataclass
class Planner:
    """Works through steps, remembers which of them wait for a person, and looks after those."""

    agent: Agent
    waiting: dict[str, Callable[[], None]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def call(self, tool: str, /, **arguments: Any) -> Result:
        self.calls[tool] += 1
        result = call_tool(self.agent, tool, **arguments)
        assert not result.is_error, result
        return result

    def change(self, tool: str, then: Callable[[], Any] = lambda: None, /, **arguments: Any) -> dict[str, Any]:
        """Change something and go on with `then` when it is done: now, or after a person has decided."""
        answer = self.call(tool, **arguments).structured
        if "changeRequest" in answer:
            assert self.call(tool, **arguments).structured == answer  # an impatient model asks again
            self.waiting[answer["changeRequest"]["id"]] = then
        else:
            then()
        return answer

    def look_after_what_waits(self) -> None:
        """Go on with what has been decided meanwhile."""
        for request_id in list(self.waiting):
            if self.call("my_change_requests", id=request_id).structured["status"] == "applied":
                self.waiting.pop(request_id)()


def decide(approver: Console) -> int:
    """A person approves what waits, and a worker applies it; how many there were."""
    waiting = list(ChangeRequest.objects.filter(status=Status.PENDING).order_by("id"))
    for request in waiting:
        assert request.agent
        assert request.reason
        answer = approver.post(f"/rest/change-requests/{request.id}/approve", {"digest": request.digest})
        assert answer.status == 200, answer
        pipeline.apply_change_request(request.id)
    return len(waiting)


def test_people_come_move_and_go(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    staff, sales, leavers = (
        directory.add_unit(name, parent=organizational_unit) for name in ("Staff", "Sales", "Left")
    )
    team = directory.add_group(parent=organizational_unit)
    group = str(team)
    agent = make_agent(connection)
    planner = Planner(agent)
    approver = Console(make_person(may=["approvals.decide_change"]))
    names = [f"Newcomer {number:02}" for number in range(PEOPLE)]
    begins, moves, leaves = "Begins on Monday.", "Goes to Sales.", "Leaves the company."

    # They come: made at once, enabled and put into the group when a person agrees.
    ids: dict[str, str] = {}
    for name in names:
        attributes = {"displayName": name, "title": "Trainee"}
        made = planner.change(
            "create_object", kind="users", name=name, parent=staff, password="Welcome-Aboard-7", replace=attributes,
            reason=begins,
        )  # fmt: skip
        ids[name] = made["id"]
    enabled: list[str] = []
    for id in ids.values():
        planner.change(
            "change_account", partial(enabled.append, id), kind="users", id=id, action="enable", reason=begins
        )
    assert (enabled, len(planner.waiting)) == ([], PEOPLE)
    planner.look_after_what_waits()
    assert enabled == []
    assert decide(approver) == PEOPLE
    planner.look_after_what_waits()
    assert enabled == list(ids.values())
    planner.change("change_members", id=group, add=enabled, reason=begins)
    assert decide(approver) == 1
    planner.look_after_what_waits()
    assert len(directory.members(team)) == PEOPLE

    # They move, found by what the directory says of them; nobody has to agree.
    found: list[str] = []
    cursor: str | None = None
    while cursor is not None or not found:
        more = {} if cursor is None else {"cursor": cursor}
        page = planner.call("search_directory", kind="users", base=staff, filter="(title=Trainee)", limit=3, **more)
        found += [item["id"] for item in page.structured["items"]]
        cursor = page.structured.get("nextCursor")
    assert sorted(found) == sorted(ids.values())
    for id in found:
        planner.change("move_or_rename_object", kind="users", id=id, parent=sales, reason=moves)
        planner.change("update_object", kind="users", id=id, replace={"title": "Agent"}, reason=moves)
    assert planner.waiting == {}

    # They go: disabled when a person agrees, and only then moved away.
    for id in found:
        planner.change(
            "change_account",
            partial(planner.change, "move_or_rename_object", kind="users", id=id, parent=leavers, reason=leaves),
            kind="users", id=id, action="disable", reason=leaves,
        )  # fmt: skip
    assert directory.search("(objectClass=user)", base=leavers) == {}
    assert decide(approver) == PEOPLE
    planner.look_after_what_waits()
    planner.change("change_members", id=group, remove=found, reason=leaves)
    assert decide(approver) == 1
    planner.look_after_what_waits()

    assert planner.waiting == {}
    gone = directory.search("(objectClass=user)", "userAccountControl", base=leavers)
    assert len(gone) == PEOPLE
    assert all(int(entry["userAccountControl"][0]) & 2 for entry in gone.values())
    assert directory.members(team) == set()
    require_complete_log(planner)


def require_complete_log(planner: Planner) -> None:
    """Each call has its record, and each approved change one more of the worker who applied it."""
    reads.flush()
    records = list(OperationRecord.objects.exclude(surface="rest"))
    asked = Counter((item.operation, item.outcome) for item in records if item.surface == "agent")
    worked = Counter((item.operation, item.outcome) for item in records if item.surface == "worker")
    assert asked == {
        ("users.create", "succeeded"): PEOPLE,
        ("users.enable", "queued"): 2 * PEOPLE,
        ("users.disable", "queued"): 2 * PEOPLE,
        ("users.move", "succeeded"): 2 * PEOPLE,
        ("users.update", "succeeded"): PEOPLE,
        ("groups.change-members", "queued"): 4,
        ("users.search", "succeeded"): 3,
        ("change-requests.read", "succeeded"): planner.calls["my_change_requests"],
    }
    assert sum(asked.values()) == planner.calls.total()
    assert worked == {
        ("users.enable", "succeeded"): PEOPLE,
        ("users.disable", "succeeded"): PEOPLE,
        ("groups.change-members", "succeeded"): 2,
    }
    for record in records:
        assert record.owner == planner.agent.person.username
        assert record.key_name == planner.agent.grant.client.name
        if record.operation not in {"users.search", "change-requests.read"}:
            assert record.reason
