"""The way of a revert, which is that of any change, and every reason why there is none."""

from uuid import UUID, uuid4

import pytest

from audit import log
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.changes.revert import propose_revert
from lab.directory import Directory
from lab.domain import Domain
from tests.audit.calls import make_call
from tests.directory.changes.reverting import NOT_REVERTIBLE, call_of, connection_of, latest, refused, revert, succeeded
from tests.directory.supervised import approve
from tests.support.cast import Console, Integration, make_connection, make_integration, make_person


class TestTheWay:
    """Supervision, scopes, versions, idempotency and the console: as for any change."""

    def test_the_dry_run(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        answer = revert(integration, made, "?dryRun=true")
        assert answer.body == {
            "dryRun": True,
            "wouldQueue": False,
            "risk": "ordinary",
            "changes": [{"attribute": "title", "before": ["Countess"], "after": ["Analyst"]}],
            "warnings": [],
        }
        assert latest(integration, target=ada)["id"] == made["id"]
        assert directory.text(ada, "title") == "Countess"

    def test_held_and_approved(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.post(f"/api/ad/users/{ada}/disable"))
        made = latest(integration, target=ada)
        asking = make_integration(connection_of(integration), level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
        held = revert(asking, made, **{"X-Change-Reason": "By mistake"})
        assert held.status == 202, held
        queued = latest(integration, target=ada)
        assert (queued["operation"], queued["outcome"], queued["reversible"]) == ("users.enable", "queued", "none")
        assert refused(revert(integration, queued)) == NOT_REVERTIBLE
        request = approve(held)
        assert (request.status, request.operation) == ("applied", "operations.revert")
        assert request.reason == f"Reverts {made['id']}: By mistake"
        assert directory.is_enabled(ada)
        applied = latest(integration, target=ada)
        assert (applied["operation"], applied["surface"], applied["outcome"]) == ("users.enable", "worker", "succeeded")
        assert applied["reason"] == f"Reverts {made['id']}: By mistake"
        assert applied["changeRequestId"] == queued["changeRequestId"] == str(request.id)
        assert applied["approvedBy"] == request.decided_by

    def test_held_and_drifted(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        asking = make_integration(connection_of(integration), level=SupervisionLevel.ASK_EVERY_CHANGE)
        held = revert(asking, made)
        directory.modify(ada, title="Queen")
        request = approve(held)
        assert request.status == "failed"
        assert request.problem["code"] == "Operations.NotRevertible"
        assert directory.text(ada, "title") == "Queen"

    def test_versions(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        answer = revert(integration, made, **{"If-Match": '"0"'})
        assert refused(answer) == (412, "AD.Object.VersionMismatch")
        version = integration.get(f"/api/ad/users/{ada}").headers["ETag"]
        succeeded(revert(integration, made, **{"If-Match": version}))

    def test_idempotency(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        first = succeeded(revert(integration, made, **{"Idempotency-Key": "k"}))
        again = succeeded(revert(integration, made, **{"Idempotency-Key": "k"}))
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.body == first.body

    def test_scopes(self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        inner = directory.add_unit("Inner", parent=organizational_unit)
        connection = connection_of(integration)
        outside = make_integration(connection, scopes=[directory.guid(inner)])
        assert refused(revert(outside, made)) == (404, "Request.NotFound"), "it cannot see the record"
        inside = make_integration(connection, scopes=[directory.guid(organizational_unit)])
        succeeded(revert(inside, made))

    def test_protected_objects(self, integration: Integration, directory: Directory, organizational_unit: str) -> None:
        admin = directory.add_user(parent=organizational_unit, adminCount="1", title="x")
        succeeded(integration.patch(f"/api/ad/users/{admin}", {"replace": {"title": "y"}}))
        made = latest(integration, target=admin)
        may = ["audit.revert_change", "directory.update_user"]
        answer = revert(make_integration(connection_of(integration), may=may), made)
        assert refused(answer) == (403, "Auth.Forbidden")
        assert revert(integration, made, "?dryRun=true").body["risk"] == "security"

    def test_from_the_console(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        console = Console(make_person(superuser=True))
        answer = console.post(f"/rest/operations/{made['id']}/revert")
        assert answer.status == 200, answer
        assert directory.text(ada, "title") == "Analyst"
        assert latest(integration, target=ada)["surface"] == "rest"

    def test_only_by_a_key_of_that_directory(
        self, integration: Integration, ada: UUID, directory: Directory, domain: Domain
    ) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        other = make_integration(make_connection(domain))
        assert refused(revert(other, made)) == (403, "Auth.Forbidden")
        without = make_integration(None)
        assert refused(revert(without, made)) == (403, "Auth.Forbidden")
        assert directory.text(ada, "title") == "Countess"


class TestWhatHasNoInverse:
    def test_unknown(self, integration: Integration) -> None:
        answer = revert(integration, {"id": str(uuid4())})
        assert refused(answer) == (404, "Request.NotFound")

    @pytest.mark.parametrize("outcome", ["pending", "unknown", "failed"])
    def test_what_is_not_known_to_be_done(
        self, integration: Integration, ada: UUID, directory: Directory, outcome: str
    ) -> None:
        call = call_of(integration)
        target = log.TargetRef(id=ada, kind="user", distinguished_name=directory.dn(ada))
        changes = [{"attribute": "title", "before": ["x"], "after": ["Analyst"]}]
        intent = log.Intent(operation="users.update", target=target, changes=changes, reversible="full")
        record = log.record_intent(call, intent)
        if outcome != "pending":
            log.complete(record.id, outcome=outcome, code="X")
        shown = integration.get(f"/api/operations/{record.id}").body
        assert shown["reversible"] == "none"
        answer = revert(integration, shown)
        assert refused(answer) == NOT_REVERTIBLE
        assert "differences" not in answer.body
        assert directory.text(ada, "title") == "Analyst"

    def test_reads_and_the_gateways_own_tables(self, integration: Integration, ada: UUID) -> None:
        call = call_of(integration)
        filter = {"name": "x", "kind": "users", "filter": "(cn=*)"}
        succeeded(integration.post("/api/ad/saved-filters", filter))
        answer = revert(integration, latest(integration, operation="saved-filters.create"))
        assert refused(answer) == NOT_REVERTIBLE
        record = log.record_refusal(call, operation="users.read", code="X")
        assert refused(revert(integration, {"id": str(record.id)})) == NOT_REVERTIBLE
        record = log.record_refusal(call, operation="users.vanished", code="X")
        assert refused(revert(integration, {"id": str(record.id)})) == NOT_REVERTIBLE

    def test_an_object_that_is_gone(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        directory.delete(ada)
        assert refused(revert(integration, made)) == NOT_REVERTIBLE


def test_a_long_reason_is_kept_whole(integration: Integration, ada: UUID, directory: Directory) -> None:
    succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
    made = latest(integration, target=ada)
    asking = make_integration(connection_of(integration), level=SupervisionLevel.ASK_EVERY_CHANGE)
    approve(revert(asking, made, **{"X-Change-Reason": "x" * 500}))
    record = latest(integration, target=ada)
    assert (record["outcome"], record["reason"]) == ("succeeded", f"Reverts {made['id']}: {'x' * 500}")


def test_the_reason_is_said_once(integration: Integration, ada: UUID, directory: Directory) -> None:
    succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
    record = OperationRecord.objects.get(operation="users.update")
    call = call_of(integration)
    said = f"Reverts {record.id}"
    for given, told in ((None, said), ("Why", f"{said}: Why"), (f"{said}: Why", f"{said}: Why")):
        asked = make_call(directory=call.directory, permissions=frozenset({"directory.update_user"}), reason=given)
        assert propose_revert(asked, record).reason == told


def test_no_other_change_says_that_it_reverts_one(integration: Integration, ada: UUID) -> None:
    """The log would call a change reverted that stands, and no longer offer to revert it."""
    succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
    made = latest(integration, target=ada)
    forged = {"X-Change-Reason": f"Reverts {made['id']}: no, it does not"}
    refused = integration.patch(f"/api/ad/users/{ada}", {"replace": {"department": "Sales"}}, **forged)
    assert (refused.status, refused.body["errors"][0]["parameter"]) == (400, "X-Change-Reason"), refused.body
    assert "revertedBy" not in integration.get(f"/api/operations/{made['id']}").body
