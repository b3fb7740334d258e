"""Holding changes, and taking approved ones up."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import connection, transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from approvals import drift, queue
from approvals.models import ChangeRequest
from approvals.review import decisions
from audit import log
from audit.models import OperationRecord, WebhookDelivery, WebhookEndpoint
from core.call import Surface
from directory.shapes.proposal import AttributeChange
from gateway import pipeline
from lab.waiting import wait_until
from tests.approvals.proposals import APPROVER, MAIL, SECURITY, hold, make_proposal
from tests.audit.calls import CALL, make_call

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

OTHER_KEY = "b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItISE="


def approved(**fields: Any) -> ChangeRequest:
    change_request = hold(**fields)
    decisions.approve(make_call(person=APPROVER), change_request.id, digest=change_request.digest)
    return change_request


def claimed() -> ChangeRequest:
    change_request = queue.claim(approved().id)
    assert change_request is not None
    return change_request


def status_of(change_request: ChangeRequest) -> str:
    return ChangeRequest.objects.values_list("status", flat=True).get(id=change_request.id)


def intent_of(change_request: ChangeRequest, *, run: Any = None) -> OperationRecord:
    call = make_call(surface=Surface.WORKER, change_request_id=change_request.id)
    intent = log.Intent(operation=change_request.operation, run_id=run)
    return log.record_intents(call, [intent])[0]


def let_the_lease_run_out(change_request: ChangeRequest) -> None:
    ChangeRequest.objects.filter(id=change_request.id).update(lease_until=timezone.now())


class TestHolding:
    def test_everything_is_frozen(self) -> None:
        held = ChangeRequest.objects.get(id=hold(make_call(if_match=frozenset({"b", "a"}))).id)
        assert (held.status, held.risk, held.operation) == ("pending", "security", "users.update")
        assert (held.requester_id, held.requester, held.key_name, held.key_id) == (
            CALL.person.id,
            "ada",
            "crm",
            CALL.credential.id,
        )
        assert (held.client_address, held.request_id, held.reason) == ("192.0.2.7", "request-1", "Ticket 4711")
        assert held.changes == [dict(MAIL.as_json())]
        assert held.if_match == ["a", "b"]
        assert held.expires_at - held.created_at == timedelta(hours=168)
        assert held.kept_input() == {
            "arguments": {"id": str(held.target_id)},
            "query": {},
            "document": {"replace": {"mail": ["new@example.test"]}},
            "references": {},
            "meantByNames": [],
            "versions": None,
        }

    def test_the_answer(self) -> None:
        held = hold()
        answer = queue.queued_answer(held)["changeRequest"]
        assert list(answer) == ["id", "status", "operation", "risk", "target", "createdAt", "expiresAt"]
        assert answer["target"] == {"id": str(held.target_id), "distinguishedName": "CN=Ada,OU=Sales,DC=corp"}

    def test_secrets_are_encrypted_and_not_shown(self) -> None:
        password = AttributeChange("unicodePwd", (), ("Pa55word!",))
        held = queue.hold(
            CALL,
            operation="users.reset-password",
            arguments={},
            query={},
            document={"newPassword": "Pa55word!"},
            proposal=make_proposal(password),
            assessment=SECURITY,
        )
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM approvals_changerequest")
            assert "Pa55word!" not in str(cursor.fetchall())
        assert held.changes[0]["after"] == ["<secret>"]
        assert ChangeRequest.objects.get(id=held.id).kept_input()["document"] == {"newPassword": "Pa55word!"}

    def test_it_joins_the_callers_transaction(self) -> None:
        with transaction.atomic():
            hold()
            transaction.set_rollback(True)
        assert not ChangeRequest.objects.exists()


class TestDigest:
    @pytest.mark.parametrize(
        "alteration",
        [
            {"operation": "users.delete"},
            {"input": '{"arguments": {}, "query": {}, "document": {}}'},
            {"target_dn": "CN=Administrator,CN=Users,DC=corp"},
            {"changes": []},
            {"requester_id": 8_000_008},
            {"key_id": "another"},
            {"if_match": ["*"]},
        ],
    )
    def test_an_altered_row_is_not_applied(self, alteration: dict[str, Any]) -> None:
        change_request = approved()
        ChangeRequest.objects.filter(id=change_request.id).update(**alteration)
        assert queue.claim(change_request.id) is None
        change_request.refresh_from_db()
        assert (change_request.status, change_request.problem["code"]) == ("failed", "Approvals.Changed")

    def test_it_outlives_a_rotation_of_the_encryption_keys(self, settings: LazySettings) -> None:
        change_request = approved()
        settings.ENCRYPTION_KEYS = [OTHER_KEY, *settings.ENCRYPTION_KEYS]
        assert queue.claim(change_request.id) is not None

    def test_without_its_key_the_request_fails(self, settings: LazySettings) -> None:
        change_request = approved()
        settings.ENCRYPTION_KEYS = [OTHER_KEY]
        assert queue.claim(change_request.id) is None
        assert status_of(change_request) == "failed"

    def test_the_same_change_has_another_digest_each_time(self) -> None:
        assert hold().digest != hold().digest


class TestClaiming:
    def test_only_what_is_approved(self) -> None:
        change_request = hold()
        assert queue.claim(change_request.id) is None
        decisions.reject(make_call(person=APPROVER), change_request.id, comment="no")
        assert queue.claim(change_request.id) is None

    def test_once(self) -> None:
        change_request = approved()
        first = queue.claim(change_request.id)
        assert first is not None
        assert (first.status, first.attempt) == ("applying", 1)
        assert queue.claim(change_request.id) is None

    @pytest.mark.django_db(transaction=True)
    def test_one_of_many_workers(self) -> None:
        change_request = approved()
        together = threading.Barrier(6)
        won: list[ChangeRequest | None] = []

        def work() -> None:
            together.wait()
            won.append(queue.claim(change_request.id))
            connection.close()

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len([claim for claim in won if claim is not None]) == 1

    @pytest.mark.django_db(transaction=True)
    def test_a_slow_worker_keeps_its_claim(self, monkeypatch: pytest.MonkeyPatch) -> None:
        change_request = approved()
        monkeypatch.setattr(queue, "LEASE", timedelta(seconds=0.3))

        def work(claimed: ChangeRequest) -> str:
            let_the_lease_run_out(claimed)
            wait_until(ChangeRequest.objects.filter(lease_until__gt=timezone.now()).exists)
            return "applied"

        monkeypatch.setattr("gateway.pipeline.approved._apply", work)
        pipeline.apply_change_request(change_request.id)
        assert status_of(change_request) == "applied"

    def test_the_sweep_finds_what_nobody_claimed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queue, "SWEEP_AFTER", timedelta(minutes=10))
        change_request = approved()
        assert queue.take_unclaimed() == [], "its message has just been sent"
        ChangeRequest.objects.update(decided_at=timezone.now() - timedelta(minutes=11))
        assert queue.take_unclaimed() == [change_request.id]
        assert queue.take_unclaimed() == [], "it waits for its turn"
        queue.claim(change_request.id)
        assert queue.take_unclaimed() == []


class TestFinishing:
    @pytest.mark.parametrize("status", ["applied", "failed", "stale"])
    def test_the_input_is_gone(self, status: str) -> None:
        change_request = claimed()
        queue.finish(change_request, status=status, problem={"code": "X"})
        change_request.refresh_from_db()
        assert (change_request.status, change_request.input, change_request.problem) == (status, "", {"code": "X"})

    def test_a_worker_whose_request_went_to_another_one_changes_nothing(self) -> None:
        slow = claimed()
        let_the_lease_run_out(slow)
        queue.settle_applying()
        fast = queue.claim(slow.id)
        assert fast is not None
        queue.finish(slow, status="failed")
        assert status_of(slow) == "applying"
        queue.finish(fast, status="applied")
        assert status_of(slow) == "applied"

    def test_a_worker_that_came_too_late_does_not_contradict_the_log(self) -> None:
        """The first worker woke up and wrote; the second was refused its intent and would call it a failure."""
        slow = claimed()
        let_the_lease_run_out(slow)
        queue.settle_applying()
        fast = queue.claim(slow.id)
        assert fast is not None
        record = intent_of(slow)
        queue.finish(fast, status="failed", problem={"code": "Service.Unavailable"})
        assert status_of(slow) == "applying", "it is being written"
        log.complete(record.id, outcome="succeeded")
        queue.finish(fast, status="failed", problem={"code": "Service.Unavailable"})
        assert status_of(slow) == "applied"


class TestSettling:
    def test_not_before_the_lease_is_over(self) -> None:
        change_request = claimed()
        assert queue.settle_applying() == 0
        assert status_of(change_request) == "applying"

    def test_without_a_record_it_is_taken_up_again(self, enqueued: list[Any]) -> None:
        change_request = claimed()
        let_the_lease_run_out(change_request)
        enqueued.clear()
        assert queue.settle_applying() == 1
        assert status_of(change_request) == "approved"
        assert enqueued == [("gateway.tasks.apply_change_request", [str(change_request.id)])]

    def test_what_takes_every_worker_down_is_given_up(self) -> None:
        change_request = claimed()
        for _ in range(queue.MAX_LOST_WORKERS):
            let_the_lease_run_out(change_request)
            queue.settle_applying()
            queue.claim(change_request.id)
        change_request.refresh_from_db()
        assert (change_request.status, change_request.attempt) == ("failed", queue.MAX_LOST_WORKERS)
        assert change_request.problem["code"] == "AD.Directory.NotApplied"

    @pytest.mark.parametrize(
        ("outcome", "status"), [("succeeded", "applied"), ("failed", "failed"), ("unknown", "unknown")]
    )
    def test_the_record_decides(self, outcome: str, status: str) -> None:
        change_request = claimed()
        record = intent_of(change_request)
        let_the_lease_run_out(change_request)
        assert queue.settle_applying() == 0, "its write is still to be looked for"
        log.complete(record.id, outcome=outcome, code="AD.X" if outcome == "failed" else None)
        assert queue.settle_applying() == 1
        change_request.refresh_from_db()
        assert change_request.status == status
        if outcome == "failed":
            assert change_request.problem["code"] == "AD.X"

    @pytest.mark.parametrize(("outcome", "status"), [("succeeded", "applied"), ("failed", "failed")])
    def test_an_unknown_one_follows_its_record(self, outcome: str, status: str) -> None:
        change_request = claimed()
        record = intent_of(change_request)
        log.complete(record.id, outcome="unknown")
        queue.finish(change_request, status="unknown")
        assert queue.settle_applying() == 0
        log.complete(record.id, outcome=outcome)
        assert queue.settle_applying() == 1
        assert status_of(change_request) == status

    def test_a_run_that_has_begun_is_applied(self) -> None:
        change_request = claimed()
        intent_of(change_request, run=change_request.id)
        let_the_lease_run_out(change_request)
        queue.settle_applying()
        assert status_of(change_request) == "applied"


class TestDrift:
    def drifted(self, *changes: AttributeChange) -> bool:
        return drift.has_drifted(hold(), make_proposal(*changes))

    def test_the_same_values_in_another_order_and_case(self) -> None:
        assert not self.drifted(AttributeChange("MAIL", MAIL.before, MAIL.after))
        held = queue.hold(
            CALL,
            operation="groups.change-members",
            arguments={},
            query={},
            document={},
            proposal=make_proposal(AttributeChange("member", ("a", "b"), ("c", "d"))),
            assessment=SECURITY,
        )
        assert not drift.has_drifted(held, make_proposal(AttributeChange("member", ("b", "a"), ("d", "c"))))

    def test_another_value_now(self) -> None:
        assert self.drifted(AttributeChange("mail", ("third@example.test",), MAIL.after))

    def test_somebody_made_the_change_already(self) -> None:
        assert self.drifted(AttributeChange("department", (), ("Sales",)))

    def test_more_would_change_than_was_shown(self) -> None:
        assert self.drifted(MAIL, AttributeChange("department", (), ("Sales",)))


def test_overdue_requests_expire() -> None:
    overdue, waiting = hold(), hold()
    ChangeRequest.objects.filter(id=overdue.id).update(expires_at=timezone.now())
    assert queue.expire_overdue() == 1
    overdue.refresh_from_db()
    assert (overdue.status, overdue.input) == ("expired", "")
    assert status_of(waiting) == "pending"


def test_a_broker_that_is_away_does_not_stop_the_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    def be_away(*_: Any, **__: Any) -> None:
        raise OperationalError("no route to the broker")

    monkeypatch.setattr("core.redis.broker.current_app.send_task", be_away)
    queue.enqueue(approved().id)


def test_webhooks_are_told_of_every_step() -> None:
    WebhookEndpoint.objects.create(name="chat", url="https://chat.example.test/", events=["change-requests"])
    change_request = claimed()
    queue.finish(change_request, status="failed", problem={"code": "AD.Object.NotFound"})
    told = WebhookDelivery.objects.order_by("created_at")
    assert [delivery.event for delivery in told] == [
        *("change-request.pending", "change-request.approved", "change-request.applying", "change-request.failed"),
    ]
    last = json.loads(told[3].body)["data"]
    assert (last["id"], last["status"], last["problem"]["code"]) == (
        str(change_request.id),
        "failed",
        "AD.Object.NotFound",
    )
    queue.finish(change_request, status="applied")
    assert told.count() == 4, "nothing has moved"
