"""A domain controller that is busy for longer than anybody waits: a time-out is no loss, and absence no proof."""

import os
import signal
import threading
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from active_directory import LateAnswers
from audit import log
from audit.models import OperationRecord
from directory.outcomes import evidence
from directory.outcomes.writer import late_writes
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.samba.database import busy_with_a_write, waiting_writers
from lab.waiting import wait_until
from tests.support.cast import Integration, make_connection, make_integration
from tests.support.configuration import Configure
from tests.support.mishaps import settle

pytestmark = pytest.mark.django_db(transaction=True)  # the answers are waited for, and recorded, by another thread


@pytest.fixture
def integration(domain: Domain, configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Integration:
    """With little patience. What the directory needs beforehand is read."""
    configure("Directory", OperationSeconds=2, SubtreeSeconds=120)
    monkeypatch.setattr(evidence, "RECOVERY_SECONDS", 0.5)
    key = make_integration(make_connection(domain))
    assert key.get("/api/ad/users?q=Administrator").status == 200
    return key


def outcomes(operation: str) -> list[tuple[str, str | None]]:
    found = OperationRecord.objects.filter(operation=operation).order_by("id")
    return [(record.outcome, record.code) for record in found]


UNKNOWN = ("unknown", "AD.Directory.OutcomeUnknown")


def test_what_is_done_in_the_end_was_never_recorded_as_failed(
    integration: Integration, domain: Domain, directory: Directory, ada: UUID
) -> None:
    with busy_with_a_write(domain):
        answer = integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}, Idempotency_Key="one")
        assert (answer.status, answer.code) == (504, "AD.Directory.OutcomeUnknown")
        assert outcomes("users.update") == [UNKNOWN]
        assert answer.body["recordId"] == str(OperationRecord.objects.get(operation="users.update").id)
        settle()
        assert outcomes("users.update") == [UNKNOWN], "the directory shows the state from before"
        again = integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}, Idempotency_Key="one")
        assert again.code == "Idempotency.InProgress"
    wait_until(lambda: outcomes("users.update") == [("succeeded", None)])
    assert directory.text(ada, "title") == "Countess"
    (record,) = OperationRecord.objects.filter(operation="users.update")
    assert record.server is not None
    assert record.server in domain.url
    again = integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}, Idempotency_Key="one")
    assert again.status == 200
    assert len(outcomes("users.update")) == 1


def test_what_is_refused_in_the_end_failed(integration: Integration, domain: Domain, ada: UUID) -> None:
    with busy_with_a_write(domain):
        answer = integration.post(f"/api/ad/users/{ada}/reset-password", {"newPassword": "x"})
        assert answer.status == 504
        assert outcomes("users.reset-password") == [UNKNOWN]
    wait_until(lambda: outcomes("users.reset-password") == [("failed", "AD.Password.PolicyViolation")])


def test_a_creation_is_known_by_its_object(
    integration: Integration, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    name = random_name("late")
    with busy_with_a_write(domain):
        assert integration.post("/api/ad/users", {"name": name, "parent": organizational_unit}).status == 504
    wait_until(lambda: outcomes("users.create") == [("succeeded", None)])
    (record,) = OperationRecord.objects.filter(operation="users.create")
    assert record.target_id == directory.guid(f"CN={name},{organizational_unit}")


def test_a_move_waits_for_the_domain_controller(
    integration: Integration, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    unit = directory.guid(directory.add_unit(random_name("large"), parent=organizational_unit))
    there = directory.add_unit(random_name("there"), parent=organizational_unit)
    with busy_with_a_write(domain) as finish:
        finishing = threading.Thread(target=lambda: (wait_until(lambda: late_writes._awaited), finish()))
        finishing.start()
        answer = integration.post(f"/api/ad/organization-units/{unit}/move", {"parent": there})
        finishing.join()
    assert (answer.status, answer.body["parentId"]) == (200, str(directory.guid(there)))
    assert outcomes("organization-units.move") == [("succeeded", None)]


def test_items_of_a_batch(
    integration: Integration, domain: Domain, directory: Directory, organizational_unit: str
) -> None:
    users = [directory.add_user(parent=organizational_unit) for _ in range(3)]
    body: Any = {"items": [{"id": str(user), "replace": {"title": "Countess"}} for user in users]}
    with busy_with_a_write(domain):
        results = integration.post("/api/ad/users/batch/update", body).body["results"]
        assert {result["problem"]["code"] for result in results} == {"AD.Directory.OutcomeUnknown"}
        settle()
        assert outcomes("users.update") == [UNKNOWN] * 3
        records = OperationRecord.objects.filter(operation="users.update").order_by("batch_index")
        assert [result["problem"]["recordId"] for result in results] == [str(record.id) for record in records]
    wait_until(lambda: outcomes("users.update") == [("succeeded", None)] * 3)
    assert {directory.text(user, "title") for user in users} == {"Countess"}


@pytest.mark.parametrize("action", ["update", "create"])
def test_a_killed_process_leaves_it_to_the_settler_who_waits_too(
    integration: Integration, domain: Domain, directory: Directory, organizational_unit: str, ada: UUID, action: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Nobody waits on the connection any more, and the domain controller is still at it."""

    def end(_: object, __: object, answers: LateAnswers) -> None:
        answers.give_up()

    monkeypatch.setattr(late_writes, "follow", end)
    name = random_name("late")
    with busy_with_a_write(domain):
        if action == "update":
            answer = integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}})
        else:
            answer = integration.post("/api/ad/users", {"name": name, "parent": organizational_unit})
        assert answer.status == 504
        settle()
        assert outcomes(f"users.{action}") == [UNKNOWN]

    def is_closed() -> bool:
        settle()
        return outcomes(f"users.{action}") != [UNKNOWN]

    wait_until(is_closed)
    is_made = (
        directory.exists(f"CN={name},{organizational_unit}")
        if action == "create"
        else directory.text(ada, "title") == "Countess"
    )
    assert outcomes(f"users.{action}") == [("succeeded", None) if is_made else ("failed", "AD.Directory.NotApplied")]


def test_a_write_whose_turn_comes_after_the_settlers_is_not_given_up(
    integration: Integration, domain: Domain, directory: Directory, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits until a domain controller has finished is done in any order: here, the settler's question first."""
    monkeypatch.setattr(late_writes, "follow", lambda _, __, answers: answers.give_up())

    def ask() -> None:
        integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}})
        connection.close()

    with busy_with_a_write(domain):
        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: waiting_writers(domain))
        (writer_process,) = waiting_writers(domain)
        os.kill(writer_process, signal.SIGSTOP)
        asking.join()

    def let_it_have_its_turn(_: float) -> None:
        os.kill(writer_process, signal.SIGCONT)
        wait_until(lambda: directory.text(ada, "title") == "Countess")

    def is_closed() -> bool:
        settle()
        return outcomes("users.update") != [UNKNOWN]

    monkeypatch.setattr(log, "sleep", let_it_have_its_turn)
    try:
        wait_until(is_closed)
    finally:
        os.kill(writer_process, signal.SIGCONT)
    assert outcomes("users.update") == [("succeeded", None)]
