"""Fifteen everyday tasks (docs/everyday-tasks.md), each done by an agent through the tools alone.

What the right answer is, says a client of the directory of its own. `MOST` is what each may cost: calls, and tokens of
their arguments and results.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Final
from uuid import UUID

import pytest
from django.db import connection as database

from active_directory.codecs import sid_to_text
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from directory.models.runs import Run
from gateway import tasks
from lab.directory import PASSWORD, Directory, filetime, random_name
from tests.gateway.surfaces.agent.test_planner import decide
from tests.gateway.surfaces.agent.test_size import count_tokens
from tests.support.agent_tools import call_tool
from tests.support.agents import Agent, make_agent
from tests.support.cast import Console, Integration, make_person
from tests.support.descriptors import add_entries

DAY: Final = 86_400
MOST: Final = {
    "who is locked out": (1, 1_000),
    "members with nested ones": (1, 1_500),
    "why somebody cannot sign in": (1, 1_000),
    "count by department": (1, 500),
    "accounts that expire soon": (1, 1_000),
    "reset a password": (2, 1_500),
    "joiner": (6, 5_000),
    "leaver": (6, 5_000),
    "change of department": (3, 5_000),
    "undo all of that": (2, 6_000),
    "who changed it": (1, 1_500),
    "delegated rights": (1, 1_500),
    "stale computers": (3, 2_500),
    "restore a user": (3, 2_500),
    "wait for a decision": (3, 2_500),
}


@dataclass
class Assistant:
    """An agent at work on one task, whose calls are noted as its model would read and write them."""

    agent: Agent
    words: list[str]

    def call(self, tool: str, /, **arguments: Any) -> Any:
        result = call_tool(self.agent, tool, **arguments)
        assert not result.is_error, result
        self.words.append(json.dumps({"name": tool, "arguments": arguments}) + result.said + result.copy)
        return result.structured


@contextmanager
def task(name: str, agent: Agent) -> Iterator[Assistant]:
    """A task, which must not cost more than it may."""
    assistant = Assistant(agent, [])
    yield assistant
    calls, tokens = MOST[name]
    assert len(assistant.words) <= calls
    assert count_tokens("\n".join(assistant.words)) <= tokens


@pytest.fixture
def trusted(connection: DirectoryConnection) -> Agent:
    """What it does is done at once."""
    return make_agent(connection, level=SupervisionLevel.ACT)


@pytest.fixture
def approver(db: None) -> Console:
    return Console(make_person(may=["approvals.decide_change"]))


def ids(answer: Any) -> set[str]:
    return {item["id"] for item in answer["items"]}


def found(directory: Directory, query: str, unit: str) -> set[str]:
    """The ids of what the directory itself finds."""
    entries = directory.search(query, "objectGUID", base=unit).values()
    return {str(UUID(bytes_le=entry["objectGUID"][0])) for entry in entries}


def account_name(directory: Directory, user: UUID) -> str:
    name = directory.text(user, "sAMAccountName")
    assert name is not None
    return name


def test_the_tasks_are_cheap() -> None:
    calls, tokens = zip(*MOST.values(), strict=True)
    assert len(MOST) == 15
    assert median(calls) <= 3
    assert median(tokens) <= 5_000
    assert max(calls) <= 8


def test_who_is_locked_out(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    locked, _ = (directory.add_user(parent=organizational_unit, password=PASSWORD) for _ in range(2))
    directory.lock_out(locked)
    with task("who is locked out", agent) as assistant:
        answer = assistant.call("search_directory", kind="users", state="locked-out", base=organizational_unit)
    assert ids(answer) == found(directory, "(lockoutTime>=1)", organizational_unit) == {str(locked)}


def test_members_with_nested_ones(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    people = [directory.add_user(parent=organizational_unit) for _ in range(4)]
    inner = directory.add_group(parent=organizational_unit, members=people[:2])
    outer = directory.add_group(parent=organizational_unit, members=[inner, people[2]])
    with task("members with nested ones", agent) as assistant:
        answer = assistant.call("read_object", kind="groups", id=directory.dn(outer), include=["nested-members"])
    chain = f"(memberOf:1.2.840.113556.1.4.1941:={directory.dn(outer)})"
    assert ids(answer["nested-members"]) == found(directory, chain, organizational_unit)
    assert {str(person) for person in people[:3]} <= ids(answer["nested-members"])


def test_why_somebody_cannot_sign_in(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(
        parent=organizational_unit, enabled=False, password=PASSWORD, accountExpires=filetime(-DAY)
    )
    assert not directory.can_sign_in(user, PASSWORD)
    with task("why somebody cannot sign in", agent) as assistant:
        answer = assistant.call("explain_sign_in", id=account_name(directory, user))
    assert {item["code"] for item in answer["obstacles"]} >= {"disabled", "expired"}


def test_count_by_department(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    for department in ("Sales", "Sales", "Research"):
        directory.add_user(parent=organizational_unit, department=department)
    with task("count by department", agent) as assistant:
        answer = assistant.call("count_objects", kind="users", by="department", base=organizational_unit)
    entries = directory.search("(objectClass=user)", "department", base=organizational_unit).values()
    expected = Counter(entry["department"][0].decode() for entry in entries)
    assert {item["value"]: item["count"] for item in answer["values"]} == expected == {"Sales": 2, "Research": 1}


def test_accounts_that_expire_soon(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    for expires in (filetime(5 * DAY), filetime(20 * DAY), filetime(-DAY), filetime(50 * DAY), "0"):
        directory.add_user(parent=organizational_unit, accountExpires=expires)
    with task("accounts that expire soon", agent) as assistant:
        answer = assistant.call("search_directory", kind="users", state="expiring", base=organizational_unit)
    soon = f"(&(accountExpires>={filetime()})(accountExpires<={filetime(30 * DAY)}))"
    assert ids(answer) == found(directory, soon, organizational_unit)
    assert len(ids(answer)) == 2


def test_reset_a_password(agent: Agent, approver: Console, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, password=PASSWORD)
    before = directory.text(user, "pwdLastSet")
    with task("reset a password", agent) as assistant:
        asked = {"kind": "users", "id": account_name(directory, user), "action": "reset-password", "generate": True}
        held = assistant.call("change_account", **asked, reason="forgotten")["changeRequest"]
        assert decide(approver) == 1
        assert assistant.call("my_change_requests", id=held["id"], wait=60)["status"] == "applied"
    # The old password goes on working for a while.
    assert directory.text(user, "pwdLastSet") != before


def test_joiner(agent: Agent, approver: Console, directory: Directory, organizational_unit: str) -> None:
    like = directory.add_user(parent=organizational_unit, department="Sales", title="Clerk")
    groups = [directory.add_group(parent=organizational_unit, members=[like]) for _ in range(2)]
    name = random_name("new")
    with task("joiner", agent) as assistant:
        model = assistant.call("read_object", kind="users", id=account_name(directory, like), include=["memberships"])
        parent = model["distinguishedName"].partition(",")[2]
        replace = {member: model["attributes"][member][0] for member in ("department", "title")}
        made = assistant.call(
            "create_object",
            kind="users",
            name=name,
            parent=parent,
            replace=replace,
            reason="joins",
            enabled=True,
            generatePassword=True,
        )
        if "changeRequest" in made:
            decide(approver)
            assistant.call("my_change_requests", id=made["changeRequest"]["id"], wait=60)
        for item in model["memberships"]["items"]:
            if item["name"] != "Domain Users":
                assistant.call("change_members", id=item["id"], add=[name], reason="joins")
        decide(approver)
        asked = assistant.call("my_change_requests", status="applied")["items"]
    assert len(asked) >= len(groups)
    user = directory.guid(f"CN={name},{organizational_unit}")
    assert directory.is_enabled(user)
    assert directory.text(user, "department") == "Sales"
    assert all(directory.members(group) == {directory.dn(like), directory.dn(user)} for group in groups)


def test_leaver(agent: Agent, approver: Console, directory: Directory, organizational_unit: str) -> None:
    left = directory.add_unit("Left", parent=organizational_unit)
    user = directory.add_user(parent=organizational_unit)
    groups = [directory.add_group(parent=organizational_unit, members=[user]) for _ in range(2)]
    with task("leaver", agent) as assistant:
        who: dict[str, Any] = {"kind": "users", "id": str(user)}
        record = assistant.call("read_object", **who, include=["memberships"])
        assistant.call("change_account", **who, action="disable", reason="leaves")
        assistant.call("move_or_rename_object", **who, parent=left, reason="leaves")
        for item in record["memberships"]["items"]:
            if item["name"] != "Domain Users":
                assistant.call("change_members", id=item["id"], remove=[str(user)], reason="leaves")
        decide(approver)
        assistant.call("my_change_requests", status="applied")
    assert not directory.is_enabled(user)
    assert directory.dn(user).endswith(left)
    assert not any(directory.members(group) for group in groups)


def test_change_of_department_and_back(trusted: Agent, directory: Directory, organizational_unit: str) -> None:
    people = [directory.add_user(parent=organizational_unit, department="Sales") for _ in range(20)]
    with task("change of department", trusted) as assistant:
        search = {"kind": "users", "filter": "(department=Sales)", "base": organizational_unit}
        who = sorted(ids(assistant.call("search_directory", **search)))
        update = {"kind": "users", "replace": {"department": "Sales East"}}
        changes = [{"tool": "update_object", "arguments": update, "ids": who}]
        shown = assistant.call("plan_changes", changes=changes)
        assert found(directory, "(department=Sales East)", organizational_unit) == set()
        assistant.call("plan_changes", changes=changes, digest=shown["digest"], reason="the team has moved")
    assert found(directory, "(department=Sales East)", organizational_unit) == {str(person) for person in people}
    with task("undo all of that", trusted) as assistant:
        mine = assistant.call("my_changes", limit=50)["items"]
        assistant.call("my_changes", undo=[item["id"] for item in mine], reason="it has not moved")
    assert found(directory, "(department=Sales)", organizational_unit) == {str(person) for person in people}


def test_who_changed_it(agent: Agent, integration: Integration, directory: Directory, ada: UUID) -> None:
    assert integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}).status == 200
    with task("who changed it", agent) as assistant:
        answer = assistant.call("read_object", kind="users", id=str(ada), include=["history"])
    (change,) = answer["history"]["items"]
    assert change["keyName"] == integration.key.name
    assert change["changes"][0]["after"] == [directory.text(ada, "title")] == ["Countess"]


def test_delegated_rights(agent: Agent, directory: Directory, organizational_unit: str) -> None:
    helpdesk = directory.add_group(parent=organizational_unit)
    sid = directory.sid(helpdesk)
    entry = f"(OA;CIIO;CR;00299570-246d-11d0-a768-00aa006e0529;bf967aba-0de6-11d0-a285-00aa003049e2;{sid})"
    domain_sid = sid_to_text(directory.read(directory.base_dn, "objectSid")["objectSid"][0])
    add_entries(directory, organizational_unit, entry, domain_sid=domain_sid)
    with task("delegated rights", agent) as assistant:
        unit = {"kind": "organization-units", "id": organizational_unit}
        (item,) = assistant.call("read_object", **unit, include=["delegations"])["delegations"]["items"]
    assert (item["principal"]["id"], len(item["tasks"])) == (str(helpdesk), 1)


def test_stale_computers(agent: Agent, approver: Console, directory: Directory, organizational_unit: str) -> None:
    stale = [
        directory.add_computer(parent=organizational_unit, lastLogonTimestamp=filetime(-200 * DAY)) for _ in range(2)
    ]
    fresh = directory.add_computer(parent=organizational_unit, lastLogonTimestamp=filetime(-DAY))
    with task("stale computers", agent) as assistant:
        asked = {"kind": "computers", "state": "inactive", "days": 90, "base": organizational_unit}
        old = sorted(ids(assistant.call("search_directory", **asked)))
        run = {"kind": "organization-units", "id": organizational_unit, "action": "disable", "accounts": old}
        held = assistant.call("change_account", **run, reason="not seen for 90 days")["changeRequest"]
        decide(approver)
        tasks.execute_run(str(Run.objects.get().id))
        assert assistant.call("my_change_requests", id=held["id"], wait=60)["status"] == "applied"
    assert [directory.is_enabled(computer) for computer in (*stale, fresh)] == [False, False, True]


def test_restore_a_user(agent: Agent, approver: Console, directory: Directory, organizational_unit: str) -> None:
    name = random_name("gone")
    user = directory.add_user(name, parent=organizational_unit)
    directory.delete(user)
    with task("restore a user", agent) as assistant:
        (item,) = assistant.call("search_directory", kind="deleted-objects", q=name)["items"]
        held = assistant.call("restore_object", id=item["id"], reason="deleted by mistake")["changeRequest"]
        decide(approver)
        assert assistant.call("my_change_requests", id=held["id"], wait=60)["status"] == "applied"
    assert directory.dn(user) == f"CN={name},{organizational_unit}"


def test_wait_for_a_decision(
    transactional_db: None, agent: Agent, approver: Console, directory: Directory, ada: UUID
) -> None:
    def approve() -> None:
        try:
            decide(approver)
        finally:
            database.close()

    with task("wait for a decision", agent) as assistant:
        who: dict[str, Any] = {"kind": "users", "id": str(ada), "reason": "long leave"}
        held = assistant.call("change_account", **who, action="disable")["changeRequest"]
        deciding = threading.Timer(0.2, approve)
        deciding.start()
        assert assistant.call("my_change_requests", id=held["id"], wait=60)["status"] == "applied"
        deciding.join()
        assistant.call("update_object", **who, replace={"description": "On leave"})
    assert (directory.is_enabled(ada), directory.text(ada, "description")) == (False, "On leave")
