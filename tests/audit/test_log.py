"""Writing the operations log."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone

from audit import log
from audit.models import OperationRecord, Outcome
from audit.redact import SECRET, is_credential, redacted
from core.call import Surface
from core.errors import ServiceUnavailable
from tests.audit.calls import CALL, DIRECTORY, make_call

pytestmark = pytest.mark.sqlite

TARGET = log.TargetRef(id=uuid4(), kind="user", distinguished_name="CN=Ada,DC=corp")
CHANGES = [{"attribute": "mail", "before": ["a@example.test"], "after": ["b@example.test"]}]


@pytest.mark.django_db
def test_an_intent_and_its_outcome() -> None:
    record = log.record_intent(
        CALL,
        log.Intent(operation="users.update", target=TARGET, changes=CHANGES, evidence={"mail": 3}, reversible="full"),
    )
    assert record.may_be_written()
    found = OperationRecord.objects.get(id=record.id)
    assert (found.outcome, found.completed_at, found.owner, found.owner_id) == ("pending", None, "ada", CALL.person.id)
    assert (found.key_name, found.credential_id) == ("crm", CALL.credential.id)
    assert (found.directory, found.directory_id, found.reason) == ("corp", DIRECTORY.id, "Ticket 4711")
    assert (found.target_id, found.target_kind, found.target_dn) == (TARGET.id, "user", TARGET.distinguished_name)
    assert (found.changes, found.evidence, found.reversible) == (CHANGES, {"mail": 3}, "full")

    assert log.complete(record.id, outcome="succeeded", server="dc1.corp")
    found.refresh_from_db()
    assert (found.outcome, found.server, found.code) == ("succeeded", "dc1.corp", None)
    assert found.completed_at is not None
    assert found.completed_at >= found.at
    assert not log.complete(record.id, outcome="failed"), "a closed record stays closed"


@pytest.mark.django_db
def test_a_create_learns_the_identity_of_its_object() -> None:
    planned = log.TargetRef(id=None, kind="user", distinguished_name="CN=New,DC=corp")
    record = log.record_intent(CALL, log.Intent(operation="users.create", target=planned))
    log.complete(record.id, outcome="succeeded", target=TARGET)
    record.refresh_from_db()
    assert record.target_id == TARGET.id
    assert record.target_dn == "CN=New,DC=corp", "what was known stays"


@pytest.mark.django_db
def test_many_intents_keep_their_order_and_are_closed_together() -> None:
    run = uuid4()
    records = log.record_intents(
        CALL, [log.Intent(operation="users.disable", run_id=run, batch_index=index) for index in range(100)]
    )
    assert [item.batch_index for item in OperationRecord.objects.filter(run_id=run).order_by("id")] == list(range(100))
    completions = [
        log.Completion(
            record_id=record.id, outcome="failed" if record.batch_index == 3 else "succeeded", server="dc1", code=None
        )
        for record in records
    ]
    assert log.complete_many(completions) == 100
    assert OperationRecord.objects.filter(run_id=run, outcome="succeeded").count() == 99
    assert OperationRecord.objects.get(run_id=run, outcome="failed").batch_index == 3


@pytest.mark.django_db
def test_refusals_queued_changes_and_administration() -> None:
    refusal = log.record_refusal(CALL, operation="users.delete", code="Auth.Forbidden", target=TARGET)
    assert (refusal.outcome, refusal.code) == ("failed", "Auth.Forbidden")
    change_request = uuid4()
    queued = log.record_queued(
        CALL, operation="users.delete", target=TARGET, changes=CHANGES, change_request_id=change_request
    )
    assert (queued.outcome, queued.change_request_id) == ("queued", change_request)
    role = uuid4()
    done = log.record_administration(
        CALL,
        operation="roles.update",
        target=log.TargetRef(id=role, kind="roles", distinguished_name="Help desk"),
        changes=[{"attribute": "description", "before": [], "after": ["Reads"]}],
    )
    assert (done.outcome, done.target_id, done.target_kind, done.target_dn) == (
        *("succeeded", role, "roles", "Help desk"),
    )
    assert done.raised_access is None


@pytest.mark.django_db(transaction=True)
def test_an_intent_refuses_a_transaction_that_could_take_it_back() -> None:
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        log.record_intent(CALL, log.Intent(operation="users.update"))
    assert not OperationRecord.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_intent_is_committed_when_the_call_returns() -> None:
    record = log.record_intent(CALL, log.Intent(operation="users.update"))
    seen: list[bool] = []

    def look_from_elsewhere() -> None:
        seen.append(OperationRecord.objects.filter(id=record.id).exists())
        connection.close()

    thread = threading.Thread(target=look_from_elsewhere)
    thread.start()
    thread.join()
    assert seen == [True]


@pytest.fixture
def unwritable_log() -> Iterator[None]:
    """The log's table is gone: the bluntest way in which a database refuses."""
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE audit_operationrecord RENAME TO audit_away", None)
    yield
    with connection.schema_editor() as editor:
        editor.execute("ALTER TABLE audit_away RENAME TO audit_operationrecord", None)


@pytest.mark.django_db(transaction=True)
def test_an_unwritable_log_stops_the_change(unwritable_log: None) -> None:
    with pytest.raises(ServiceUnavailable):
        log.record_intent(CALL, log.Intent(operation="users.update"))
    with pytest.raises(ServiceUnavailable):
        log.record_refusal(CALL, operation="users.update", code="X")


@contextmanager
def database_away() -> Iterator[None]:
    """No new connection to the database can be made, in any thread."""
    known = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = "/nowhere/at/all"
    try:
        yield
    finally:
        connection.settings_dict["NAME"] = known


@pytest.mark.django_db(transaction=True)
def test_an_outcome_that_cannot_be_written_is_written_when_the_database_is_back() -> None:
    record = log.record_intent(CALL, log.Intent(operation="users.update"))
    with database_away():
        assert not log.complete(record.id, outcome="succeeded", server="dc1")
    deadline = time.monotonic() + 120
    while record.outcome == "pending" and time.monotonic() < deadline:
        time.sleep(0.05)
        record.refresh_from_db()
    assert (record.outcome, record.server) == ("succeeded", "dc1")


@pytest.mark.django_db(transaction=True)
def test_an_outcome_that_the_database_never_takes_is_left_to_the_settler(unwritable_log: None) -> None:
    assert not log.complete(uuid4(), outcome="succeeded")


@pytest.mark.django_db(transaction=True)
def test_an_approved_change_has_one_intent() -> None:
    call = make_call(surface=Surface.WORKER, change_request_id=uuid4())
    log.record_intent(call, log.Intent(operation="users.update"))
    with pytest.raises(ServiceUnavailable):
        log.record_intent(call, log.Intent(operation="users.update"))
    run = uuid4()
    log.record_intents(call, [log.Intent(operation="users.disable", run_id=run, batch_index=i) for i in range(2)])
    assert OperationRecord.objects.count() == 3


class TestSettling:
    """Open records are closed by what the directory says, each by one settler, none before its writer's deadline."""

    pytestmark = pytest.mark.django_db(transaction=True)

    @pytest.fixture(autouse=True)
    def nothing_is_under_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No directory is asked: what `settle_pending` is told is told it at once."""
        monkeypatch.setattr(log, "SECONDS_OF_ABSENCE", 0)

    @staticmethod
    def overdue(**outcome: Any) -> OperationRecord:
        record = log.record_intents(CALL, [log.Intent(operation="users.update")], seconds_until_write=-60)[0]
        if outcome:
            log.complete(record.id, **outcome)
            OperationRecord.objects.filter(id=record.id).update(settle_at=timezone.now())
        return record

    def test_a_live_request_is_let_alone(self) -> None:
        record = log.record_intent(CALL, log.Intent(operation="users.update"))
        asked: list[OperationRecord] = []
        assert log.settle_pending(asked.append) == 0
        assert not asked
        assert record.may_be_written()

    def test_a_writer_that_was_held_up_must_not_write(self) -> None:
        assert not self.overdue().may_be_written()

    @pytest.mark.parametrize(
        ("applied", "outcome", "code"), [(True, "succeeded", None), (False, "failed", "AD.Directory.NotApplied")]
    )
    def test_what_the_directory_says(self, applied: bool, outcome: str, code: str | None) -> None:
        record = self.overdue()
        assert log.settle_pending(lambda _: applied) == 1
        record.refresh_from_db()
        assert (record.outcome, record.code, record.settle_at) == (outcome, code, None)
        assert record.completed_at is not None

    def test_what_cannot_be_known_is_tried_again(self) -> None:
        record = self.overdue()
        begun = timezone.now()
        assert log.settle_pending(lambda _: None) == 0
        record.refresh_from_db()
        assert (record.outcome, record.code) == ("unknown", "AD.Directory.OutcomeUnknown")
        assert record.settle_at is not None
        assert begun < record.settle_at < timezone.now() + timedelta(seconds=30)
        OperationRecord.objects.filter(id=record.id).update(settle_at=timezone.now() + timedelta(minutes=10))
        assert log.settle_pending(lambda _: True) == 0, "not before its time"
        OperationRecord.objects.filter(id=record.id).update(settle_at=timezone.now())
        assert log.settle_pending(lambda _: True) == 1
        record.refresh_from_db()
        assert (record.outcome, record.code) == ("succeeded", None)

    def test_an_outcome_known_to_be_unknown_is_settled(self) -> None:
        record = self.overdue(outcome="unknown", code="AD.Directory.OutcomeUnknown")
        assert log.settle_pending(lambda _: False) == 1
        record.refresh_from_db()
        assert record.outcome == Outcome.FAILED

    def test_many_settlers_ask_once_for_each_record(self) -> None:
        records = {self.overdue().id for _ in range(12)}
        asked = []
        together = threading.Barrier(4)

        def settle() -> None:
            together.wait()
            log.settle_pending(lambda record: asked.append(record.id) or True)
            connection.close()

        threads = [threading.Thread(target=settle) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(asked) == sorted(records)
        assert OperationRecord.objects.filter(outcome="succeeded").count() == 12

    def test_a_settler_that_died_loses_its_lease(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log, "SETTLER_LEASE", timedelta(minutes=10))
        record = self.overdue()

        def die(_: OperationRecord) -> bool:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            log.settle_pending(die)
        assert log.settle_pending(lambda _: True) == 0
        OperationRecord.objects.filter(id=record.id).update(settle_at=timezone.now())
        assert log.settle_pending(lambda _: True) == 1


class TestSecrets:
    @pytest.mark.parametrize(
        "name", ["unicodePwd", "USERPASSWORD", "userPassword;x-old", "ms-Mcs-AdmPwd", "msLAPS-EncryptedPassword"]
    )
    def test_credential_attributes(self, name: str) -> None:
        assert is_credential(name)
        [change] = redacted([{"attribute": name, "before": ["old"], "after": ["new"]}])
        assert (change["before"], change["after"]) == ([SECRET], [SECRET])

    @pytest.mark.parametrize("name", ["mail", "pwdLastSet", "msDS-PhoneticDisplayName", "passwordHint"])
    def test_other_attributes(self, name: str) -> None:
        assert not is_credential(name)

    @pytest.mark.django_db
    def test_no_secret_reaches_the_database(self) -> None:
        change = {"attribute": "unicodePwd", "before": [], "after": ["Pa55word!"]}
        log.record_intent(CALL, log.Intent(operation="users.reset-password", changes=[change]))
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM audit_operationrecord")
            assert "Pa55word!" not in str(cursor.fetchall())

    @pytest.mark.django_db
    def test_a_value_that_the_database_cannot_hold_does_not_stop_the_record(self) -> None:
        record = log.record_intent(
            CALL,
            log.Intent(operation="users.update", changes=[{"attribute": "info", "before": ["a\x00b"], "after": []}]),
        )
        record.refresh_from_db()
        assert record.changes[0]["before"] == ["a␀b"]
