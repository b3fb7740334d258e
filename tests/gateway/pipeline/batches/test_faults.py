"""Batches when something breaks: the directory, the connection to it, the log, the web server."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection as database

from active_directory import Client, Modify, Written
from audit import log
from audit.models import OperationRecord
from directory.outcomes import evidence
from gateway.pipeline import batches
from gateway.pipeline.batches import Item
from lab.directory import Directory
from lab.domain import Domain
from lab.gateway import LiveGateway
from lab.proxy import FaultyProxy
from tests.gateway.pipeline.batches.sending import codes, records, send, statuses, titled
from tests.support.cast import Integration, make_connection, make_integration
from tests.support.mishaps import be_patient_with_lost_answers, settle

Users = Callable[[int], list[UUID]]

IN_FIRST_CHUNK = 17
"""A write with which no more can be on their way than are ready: nothing is read meanwhile that could be lost too."""


@pytest.fixture
def at_write(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """Arrange that something happens before the write of this number is sent, once."""

    def arrange(number: int, happens: Callable[[], None]) -> None:
        original = Client.write_many
        waiting = [happens]

        def write_many(self: Client, writes: Iterator[Modify]) -> Iterator[Written]:
            def watched() -> Iterator[Modify]:
                for position, write in enumerate(writes):
                    if position == number and waiting:
                        waiting.pop()()
                    yield write

            return original(self, watched())

        monkeypatch.setattr(Client, "write_many", write_many)

    return arrange


def changed(directory: Directory, users: list[UUID]) -> list[bool]:
    return [directory.text(guid, "title") == "x" for guid in users]


def test_a_directory_that_is_down_is_tried_once(
    through_proxy: Integration, directory_proxy: FaultyProxy, users: Users
) -> None:
    some = users(60)
    assert send(through_proxy, "update", [titled(some[0], "before")]).status == 200
    directory_proxy.cut()
    tried = directory_proxy.accepted
    for action in ("update", "delete"):
        answer = send(through_proxy, action, [{"id": str(guid)} for guid in some], X_Request_Id=action)
        assert (answer.status, set(statuses(answer)), set(codes(answer))) == (207, {503}, {"AD.Directory.Unavailable"})
        refused = records(request_id=action)
        assert [(item.batch_index, item.target_id) for item in refused] == list(enumerate(some))
        assert {(item.outcome, item.code) for item in refused} == {("failed", "AD.Directory.Unavailable")}
    assert directory_proxy.accepted - tried < 10
    directory_proxy.restore()
    assert send(through_proxy, "update", [titled(guid, "x") for guid in some]).status == 200


def test_lost_answers_are_found_out_together_and_the_rest_goes_on(
    through_proxy: Integration,
    directory_proxy: FaultyProxy,
    directory: Directory,
    users: Users,
    at_write: Callable[[int, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = users(120)
    be_patient_with_lost_answers(monkeypatch)

    def lose() -> None:
        directory_proxy.lose_answer()
        directory_proxy.restore_after(3)

    at_write(IN_FIRST_CHUNK, lose)
    answer = send(through_proxy, "update", [titled(guid, "x") for guid in some])
    # What had not left when the connection was lost was not done, and is said not to be.
    done = [status == 200 for status in statuses(answer)]
    assert changed(directory, some) == done
    assert all(done[batches.CHUNK :])
    assert {code for code in codes(answer) if code} <= {"AD.Directory.Unavailable"}
    assert [item.outcome == "succeeded" for item in records()] == done


def test_what_never_arrived_is_said_not_to_be_done(
    through_proxy: Integration,
    directory_proxy: FaultyProxy,
    directory: Directory,
    users: Users,
    at_write: Callable[[int, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = users(100)
    be_patient_with_lost_answers(monkeypatch)

    def cut() -> None:
        """Until the gateway has looked twice for what became of them."""
        directory_proxy.cut()
        directory_proxy.restore_after(2)

    def stall() -> None:
        directory_proxy.stall()
        directory_proxy.when_held(cut)

    at_write(IN_FIRST_CHUNK, stall)
    answer = send(through_proxy, "update", [titled(guid, "x") for guid in some])
    done = [status == 200 for status in statuses(answer)]
    assert changed(directory, some) == done
    assert not done[IN_FIRST_CHUNK]
    assert all(done[batches.CHUNK :])
    assert [item.outcome == "succeeded" for item in records()] == done


def test_what_cannot_be_known_is_said_and_settled_later(
    through_proxy: Integration,
    directory_proxy: FaultyProxy,
    directory: Directory,
    users: Users,
    at_write: Callable[[int, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = users(100)
    monkeypatch.setattr(evidence, "RECOVERY_SECONDS", 0.5)
    at_write(60, directory_proxy.lose_answer)
    answer = send(through_proxy, "update", [titled(guid, "x") for guid in some])
    assert answer.status == 207
    assert set(statuses(answer)) == {200, 503, 504}
    assert set(codes(answer)) == {None, "AD.Directory.Unavailable", "AD.Directory.OutcomeUnknown"}
    outcomes = {200: "succeeded", 503: "failed", 504: "unknown"}
    assert [item.outcome for item in records()] == [outcomes[status or 0] for status in statuses(answer)]
    directory_proxy.restore()
    settle()
    assert [item.outcome == "succeeded" for item in records()] == changed(directory, some)


def test_no_record_no_change(integration: Integration, users: Users, directory: Directory) -> None:
    some = users(60)
    with database.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_operationrecord RENAME TO audit_elsewhere")
    try:
        answers = {action: send(integration, action, [titled(guid, "x") for guid in some]) for action in ("update",)}
        answers["delete"] = send(integration, "delete", [{"id": str(guid)} for guid in some])
    finally:
        with database.cursor() as cursor:
            cursor.execute("ALTER TABLE audit_elsewhere RENAME TO audit_operationrecord")
    for answer in answers.values():
        assert (answer.status, set(statuses(answer)), set(codes(answer))) == (207, {503}, {"Service.Unavailable"})
    assert not any(changed(directory, some))


def test_a_log_that_goes_away_in_the_middle_ends_the_changes(
    integration: Integration, users: Users, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = users(120)
    original = log.record_intents
    calls = []

    def record_intents(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) > 1:
            raise log.NotRecorded
        return original(*args, **kwargs)

    monkeypatch.setattr(log, "record_intents", record_intents)
    answer = send(integration, "update", [titled(guid, "x") for guid in some])
    assert statuses(answer) == [200] * batches.CHUNK + [503] * (120 - batches.CHUNK)
    assert changed(directory, some) == [status == 200 for status in statuses(answer)]
    assert len(calls) == 2


def test_a_change_that_was_held_up_is_not_sent(
    integration: Integration, users: Users, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = users(3)
    original = OperationRecord.may_be_written
    monkeypatch.setattr(OperationRecord, "may_be_written", lambda self: self.batch_index != 1 and original(self))
    answer = send(integration, "update", [titled(guid, "x") for guid in some])
    assert (statuses(answer), codes(answer)[1]) == ([200, 503, 200], "Service.Unavailable")
    assert changed(directory, some) == [True, False, True]
    assert [item.outcome for item in records()] == ["succeeded", "failed", "succeeded"]


def test_what_nobody_foresaw_is_one_item_s_affair(
    integration: Integration, users: Users, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = users(3)
    original = Item.validate

    def validate(self: Item, *args: Any) -> Any:
        if self.id == some[1]:
            raise RuntimeError("secret internals")
        return original(self, *args)

    monkeypatch.setattr(Item, "validate", validate)
    answer = send(integration, "update", [titled(guid, "x") for guid in some])
    assert (statuses(answer), codes(answer)[1]) == ([200, 500, 200], "Server.Error")
    assert "internals" not in str(answer.body)
    assert changed(directory, some) == [True, False, True]


def test_a_killed_web_server_leaves_no_change_unrecorded(
    transactional_db: None,
    domain: Domain,
    live_gateway: LiveGateway,
    organizational_unit: str,
    directory: Directory,
) -> None:
    integration = make_integration(make_connection(domain))
    some = [directory.add_user(parent=organizational_unit) for _ in range(400)]
    body = {"items": [titled(guid, "x") for guid in some]}
    headers = {"X-API-Key": integration.value}

    def ask() -> None:
        try:
            live_gateway.request("POST", "/api/ad/users/batch/update", body=body, headers=headers)
        except OSError:
            pass
        except Exception as error:  # noqa: BLE001 - http.client says in several ways that nobody is there any more
            assert "disconnected" in str(error).lower() or "incomplete" in str(error).lower()  # noqa: PT017

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 300
    while OperationRecord.objects.filter(outcome="succeeded").count() < 50:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    live_gateway.web.kill()
    asking.join()
    try:
        done = changed(directory, some)
        assert sum(done) >= 50
        settle()
        outcomes = {item.target_id: item.outcome for item in records()}
        assert {outcomes[guid] for guid, is_done in zip(some, done, strict=True) if is_done} == {"succeeded"}
        assert {outcomes.get(guid) for guid, is_done in zip(some, done, strict=True) if not is_done} <= {None, "failed"}
    finally:
        live_gateway.web.start_and_wait()
