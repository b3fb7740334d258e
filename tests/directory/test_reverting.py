"""Reverting recorded changes: every kind of change taken back, and every reason why it cannot be."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from audit import log
from audit.models import OperationRecord
from directory.models import DirectoryConnection
from directory.reverting import propose_revert
from gateway.core.call import SupervisionLevel
from tests.audit.calls import CALL, make_call
from tests.directory.supervised import approve, just_before_the_write
from tests.support.cast import Answer, Console, Integration, make_connection, make_integration, make_person
from tests.support.directory import PASSWORD, Directory, random_name
from tests.support.domain import Domain

NOT_REVERTIBLE = (409, "Operations.NotRevertible")


def latest(integration: Integration, **filters: Any) -> dict[str, Any]:
    """The newest record of the log with these properties, as the front door shows it."""
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    items = integration.get(f"/api/operations?pageSize=1&{query}").body["items"]
    assert items, f"no record with {query}"
    found: dict[str, Any] = items[0]
    return found


def revert(integration: Integration, record: dict[str, Any], query: str = "", **headers: str) -> Answer:
    return integration.post(f"/api/operations/{record['id']}/revert{query}", **headers)


def succeeded(answer: Answer) -> Answer:
    assert answer.status in (200, 201, 204), answer
    return answer


def refused(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer.code


class TestUpdates:
    def test_it_works(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        bags = {"replace": {"title": "Countess"}, "add": {"otherTelephone": ["1", "2"]}, "clear": ["displayName"]}
        directory.modify(ada, displayName="Ada", otherTelephone=["2", "3"])
        succeeded(integration.patch(f"/api/ad/users/{ada}", bags))
        made = latest(integration, target=ada)
        assert made["reversible"] == "full"

        answer = revert(integration, made, **{"X-Change-Reason": "Ticket 4711"})

        assert answer.status == 200, answer
        assert answer.body["reverts"] == made["id"]
        assert answer.body["operation"] == "users.update"
        assert answer.body["object"]["attributes"]["title"] == ["Analyst"]
        assert (directory.text(ada, "title"), directory.text(ada, "displayName")) == ("Analyst", "Ada")
        assert sorted(directory.read(ada, "otherTelephone")["otherTelephone"]) == [b"2", b"3"]
        record = latest(integration, target=ada)
        assert (record["operation"], record["outcome"], record["reversible"]) == ("users.update", "succeeded", "full")
        assert record["reason"] == f"Reverts {made['id']}: Ticket 4711"
        assert record["server"]
        assert changes_of(record) == {name: (after, before) for name, (before, after) in changes_of(made).items()}

    def test_once_only(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        succeeded(revert(integration, made))
        answer = revert(integration, made)
        assert refused(answer) == NOT_REVERTIBLE
        assert answer.body["differences"] == [{"attribute": "title", "expected": ["Countess"], "current": ["Analyst"]}]

    def test_a_revert_can_be_reverted(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        succeeded(revert(integration, made))
        succeeded(revert(integration, latest(integration, target=ada)))
        assert directory.text(ada, "title") == "Countess"

    def test_values_that_others_changed_stay(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        bags = {"replace": {"title": "Countess", "mail": "ada@corp.example.test"}}
        succeeded(integration.patch(f"/api/ad/users/{ada}", bags))
        made = latest(integration, target=ada)
        directory.modify(ada, title="Queen", department="Engines")
        answer = revert(integration, made)
        assert refused(answer) == NOT_REVERTIBLE
        assert answer.body["differences"] == [{"attribute": "title", "expected": ["Countess"], "current": ["Queen"]}]
        assert (directory.text(ada, "title"), directory.text(ada, "mail")) == ("Queen", "ada@corp.example.test")
        directory.modify(ada, title="Countess")
        succeeded(revert(integration, made))
        assert directory.text(ada, "department") == "Engines"

    def test_a_change_between_check_and_write(
        self, integration: Integration, ada: UUID, directory: Directory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}))
        made = latest(integration, target=ada)
        just_before_the_write(monkeypatch, lambda: directory.modify(ada, title="Queen"))
        assert refused(revert(integration, made)) == NOT_REVERTIBLE
        assert directory.text(ada, "title") == "Queen"

    def test_account_options(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        options = {"expiresAt": "2031-01-01T00:00:00Z", "passwordNeverExpires": True, "mustChangePassword": True}
        before = directory.read(ada, "userAccountControl", "accountExpires")
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"account": options}))
        made = latest(integration, target=ada)
        assert made["reversible"] in ("full", "partial")
        may = ["audit.revert_change", "directory.update_user"]
        answer = succeeded(revert(make_integration(connection_of(integration), may=may), made))
        assert answer.body["object"]["account"]["expiresAt"] is None
        assert directory.read(ada, "userAccountControl")["userAccountControl"] == before["userAccountControl"]

    def test_what_only_the_directory_writes_is_left_out(
        self, integration: Integration, ada: UUID, directory: Directory
    ) -> None:
        directory.modify(ada, pwdLastSet="-1")
        bags = {"account": {"mustChangePassword": True}, "replace": {"title": "Countess"}}
        succeeded(integration.patch(f"/api/ad/users/{ada}", bags))
        made = latest(integration, target=ada)
        assert made["reversible"] == "partial"
        warnings = revert(integration, made, "?dryRun=true").body["warnings"]
        assert any("pwdLastSet" in warning for warning in warnings)
        succeeded(revert(integration, made))
        assert (directory.text(ada, "title"), directory.text(ada, "pwdLastSet")) == ("Analyst", "0")

        directory.modify(ada, pwdLastSet="-1")
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"account": {"mustChangePassword": True}}))
        made = latest(integration, target=ada)
        assert made["reversible"] == "none"
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

    def test_a_link_of_one_value(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        first, second = (directory.dn(directory.add_user(parent=organizational_unit)) for _ in range(2))
        directory.modify(ada, manager=first)
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"replace": {"manager": second}}))
        made = latest(integration, target=ada)
        succeeded(revert(integration, made))
        assert directory.text(ada, "manager") == first
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

    def test_what_it_refers_to_is_gone(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        manager = directory.add_user(parent=organizational_unit)
        directory.modify(ada, manager=directory.dn(manager))
        succeeded(integration.patch(f"/api/ad/users/{ada}", {"clear": ["manager"]}))
        made = latest(integration, target=ada)
        directory.delete(manager)
        answer = revert(integration, made)
        assert refused(answer) == NOT_REVERTIBLE
        assert "errors" not in answer.body

    def test_scope_and_type_of_a_group(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        group = directory.add_group(parent=organizational_unit)
        succeeded(integration.patch(f"/api/ad/groups/{group}", {"group": {"scope": "universal"}}))
        made = latest(integration, target=group)
        plan = revert(integration, made, "?dryRun=true").body
        assert plan["risk"] == "security"
        succeeded(revert(integration, made))
        assert integration.get(f"/api/ad/groups/{group}").body["group"]["scope"] == "global"

    def test_an_item_of_a_batch(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        items = [{"id": str(ada), "replace": {"title": "Countess"}}, {"id": str(ada), "replace": {"mail": "a@b.c"}}]
        succeeded(integration.post("/api/ad/users/batch/update", {"items": items}))
        made = latest(integration, target=ada)
        assert made["batchIndex"] == 1
        succeeded(revert(integration, made))
        assert (directory.text(ada, "title"), directory.text(ada, "mail")) == ("Countess", None)


def changes_of(record: dict[str, Any]) -> dict[str, tuple[list[str], list[str]]]:
    return {item["attribute"]: (sorted(item["before"]), sorted(item["after"])) for item in record["changes"]}


def connection_of(integration: Integration) -> DirectoryConnection:
    return integration.key.links.get().connection


class TestAccounts:
    @pytest.mark.parametrize(
        ("verb", "inverse", "risk"), [("disable", "enable", "security"), ("enable", "disable", "destructive")]
    )
    def test_enabling_and_disabling(
        self,
        integration: Integration,
        directory: Directory,
        organizational_unit: str,
        verb: str,
        inverse: str,
        risk: str,
    ) -> None:
        user = directory.add_user(parent=organizational_unit, enabled=verb == "disable")
        before = directory.read(user, "userAccountControl")
        succeeded(integration.post(f"/api/ad/users/{user}/{verb}"))
        made = latest(integration, target=user)
        assert made["reversible"] == "full"
        assert revert(integration, made, "?dryRun=true").body["risk"] == risk
        answer = succeeded(revert(integration, made))
        assert answer.body["operation"] == f"users.{inverse}"
        assert directory.read(user, "userAccountControl") == before
        assert latest(integration, target=user)["operation"] == f"users.{inverse}"
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

    def test_other_bits_that_changed_since(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.post(f"/api/ad/users/{ada}/disable"))
        made = latest(integration, target=ada)
        control = int(directory.text(ada, "userAccountControl") or 0)
        directory.modify(ada, userAccountControl=str(control | 0x10000))
        answer = revert(integration, made)
        assert refused(answer) == NOT_REVERTIBLE
        assert answer.body["differences"][0]["current"] == [str(control | 0x10000)]

    def test_it_needs_the_permissions_of_the_inverse(
        self, integration: Integration, ada: UUID, directory: Directory
    ) -> None:
        succeeded(integration.post(f"/api/ad/users/{ada}/disable"))
        made = latest(integration, target=ada)
        connection = connection_of(integration)
        for missing in ("audit.revert_change", "directory.enable_account"):
            may = {"audit.revert_change", "directory.enable_account", "directory.disable_account"} - {missing}
            assert refused(revert(make_integration(connection, may=may), made)) == (403, "Auth.Forbidden")
            record = latest(integration, operation="operations.revert")
            assert (record["outcome"], record["code"]) == ("failed", "Auth.Forbidden")
            assert record["target"] == {"id": made["id"], "kind": "operations", "distinguishedName": None}
        assert not directory.is_enabled(ada)
        may = {"audit.revert_change", "directory.enable_account"}
        succeeded(revert(make_integration(connection, may=may), made))

    def test_passwords_and_lock_outs(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        succeeded(integration.post(f"/api/ad/users/{ada}/reset-password", {"newPassword": PASSWORD}))
        made = latest(integration, target=ada)
        assert made["reversible"] == "none"
        assert refused(revert(integration, made)) == NOT_REVERTIBLE
        directory.modify(ada, lockoutTime="1")
        succeeded(integration.post(f"/api/ad/users/{ada}/unlock"))
        made = latest(integration, target=ada)
        assert (made["operation"], made["reversible"]) == ("users.unlock", "none")
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

    def test_one_account_of_a_run(
        self,
        transactional_db: None,
        integration: Integration,
        directory: Directory,
        organizational_unit: str,
        live_gateway: object,
    ) -> None:
        users = [directory.add_user(parent=organizational_unit) for _ in range(2)]
        computer = directory.add_computer(parent=organizational_unit)
        path = f"/api/ad/organization-units/{directory.guid(organizational_unit)}/accounts/disable"
        run = succeeded(integration.post(path, {"kinds": ["user", "computer"]})).body
        for account, operation in ((users[0], "users.enable"), (computer, "computers.enable")):
            made = latest(integration, target=account)
            assert (made["runId"], made["reversible"]) == (run["runId"], "full")
            assert made["server"]
            assert succeeded(revert(integration, made)).body["operation"] == operation
            assert directory.is_enabled(account)
        assert not directory.is_enabled(users[1])


class TestCreatingAndDeleting:
    def test_a_create_is_reverted_by_a_delete(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        body = {"name": "New One", "parent": organizational_unit}
        created = UUID(succeeded(integration.post("/api/ad/users", body)).body["id"])
        made = latest(integration, target=created)
        assert made["reversible"] == "full"
        answer = succeeded(revert(integration, made))
        assert answer.body == {"reverts": made["id"], "operation": "users.delete", "object": None}
        assert not directory.exists(created)
        record = latest(integration, target=created)
        assert (record["operation"], record["reversible"]) == ("users.delete", "partial")
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

        succeeded(revert(integration, record))
        assert directory.exists(created)

    def test_as_a_delete_is_refused(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        body = {"name": "Inner", "parent": organizational_unit}
        unit = succeeded(integration.post("/api/ad/organization-units", body)).body
        made = latest(integration, target=unit["id"])
        directory.add_user(parent=unit["distinguishedName"])
        assert refused(revert(integration, made)) == (409, "AD.Object.NotEmpty")

    def test_a_delete_is_reverted_by_a_restore(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        group = directory.add_group(parent=organizational_unit, members=[ada])
        before, dn = directory.read(ada), directory.dn(ada)
        succeeded(integration.delete(f"/api/ad/users/{ada}"))
        made = latest(integration, target=ada)
        assert made["reversible"] == "partial"
        answer = succeeded(revert(integration, made))
        assert (answer.body["operation"], answer.body["object"]["distinguishedName"]) == ("deleted-objects.restore", dn)
        after = directory.read(ada)
        for name in ("objectSid", "title", "userAccountControl", "memberOf"):
            assert after[name] == before[name], name
        assert directory.members(group) == {dn}
        record = latest(integration, target=ada)
        assert (record["operation"], record["reversible"]) == ("deleted-objects.restore", "full")
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

        succeeded(integration.delete(f"/api/ad/users/{ada}"))
        again = revert(integration, made)
        assert refused(again) == NOT_REVERTIBLE, "that is another deletion"
        assert "deleted again" in again.body["detail"]

    def test_a_restore_is_reverted_by_a_delete(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        directory.delete(ada)
        succeeded(integration.post(f"/api/ad/deleted-objects/{ada}/restore"))
        made = latest(integration, target=ada)
        assert succeeded(revert(integration, made)).body["operation"] == "users.delete"
        assert not directory.exists(ada)
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

    def test_the_place_is_taken(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        succeeded(integration.delete(f"/api/ad/users/{ada}"))
        made = latest(integration, target=ada)
        directory.add_user("Ada Lovelace", parent=organizational_unit)
        assert refused(revert(integration, made)) == (409, "AD.Object.AlreadyExists")


class TestTombstones:
    @pytest.fixture
    def elsewhere(self, domain_without_recycle_bin: Domain) -> Iterator[Directory]:
        domain = domain_without_recycle_bin
        client = Directory(
            url=domain.url,
            ca_file=str(domain.ca_file),
            bind_dn=domain.admin_dn,
            bind_password=domain.admin_password,
            base_dn=domain.base_dn,
        )
        yield client
        client.close()

    def test_a_delete_is_refilled(self, db: None, domain_without_recycle_bin: Domain, elsewhere: Directory) -> None:
        integration = make_integration(make_connection(domain_without_recycle_bin))
        unit = elsewhere.add_unit(random_name("unit"))
        user = elsewhere.add_user(parent=unit, title="Analyst", mail="ada@corp.example.test")
        group = elsewhere.add_group(parent=unit, members=[user])
        succeeded(integration.delete(f"/api/ad/users/{user}"))
        made = latest(integration, target=user)
        succeeded(revert(integration, made))
        assert (elsewhere.text(user, "title"), elsewhere.text(user, "mail")) == ("Analyst", "ada@corp.example.test")
        assert elsewhere.members(group) == {elsewhere.dn(user)}
        joined = latest(integration, target=group)
        assert (joined["operation"], joined["reversible"]) == ("groups.update", "full")
        succeeded(revert(integration, joined))
        assert not elsewhere.members(group)


class TestPlaces:
    def test_a_move(self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str) -> None:
        inner = directory.add_unit("Inner", parent=organizational_unit)
        before = directory.dn(ada)
        succeeded(integration.post(f"/api/ad/users/{ada}/move", {"parent": inner}))
        made = latest(integration, target=ada)
        assert made["reversible"] == "full"
        directory.rename(ada, "Countess")  # its name is not what the move was about
        assert succeeded(revert(integration, made)).body["operation"] == "users.move"
        assert directory.dn(ada) == before.replace("Ada Lovelace", "Countess")
        answer = revert(integration, made)
        assert refused(answer) == NOT_REVERTIBLE
        assert answer.body["differences"][0]["current"] == [directory.dn(ada)]

    def test_a_move_from_where_nothing_is_any_more(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        inner = directory.add_unit("Inner", parent=organizational_unit)
        user = directory.add_user(parent=inner)
        succeeded(integration.post(f"/api/ad/users/{user}/move", {"parent": organizational_unit}))
        made = latest(integration, target=user)
        directory.delete(inner)
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

    def test_a_rename(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        succeeded(integration.post(f"/api/ad/users/{ada}/rename", {"name": "Lovelace, Ada"}))
        made = latest(integration, target=ada)
        inner = directory.add_unit("Inner", parent=organizational_unit)
        directory.move(ada, parent=inner)
        assert succeeded(revert(integration, made)).body["operation"] == "users.rename"
        assert directory.dn(ada) == f"CN=Ada Lovelace,{inner}"
        assert refused(revert(integration, made)) == NOT_REVERTIBLE


class TestMembers:
    @pytest.fixture
    def people(self, directory: Directory, organizational_unit: str) -> list[UUID]:
        return [directory.add_user(f"User {number}", parent=organizational_unit) for number in range(4)]

    @pytest.fixture
    def group(self, directory: Directory, organizational_unit: str, people: list[UUID]) -> UUID:
        return directory.add_group(parent=organizational_unit, members=people[:2])

    def change(self, integration: Integration, group: UUID, **lists: list[UUID]) -> dict[str, Any]:
        body = {name: [str(guid) for guid in guids] for name, guids in lists.items()}
        succeeded(integration.post(f"/api/ad/groups/{group}/members", body))
        return latest(integration, target=group)

    def test_it_works(self, integration: Integration, directory: Directory, group: UUID, people: list[UUID]) -> None:
        made = self.change(integration, group, add=people[2:], remove=people[:1])
        assert made["reversible"] == "full"
        assert revert(integration, made, "?dryRun=true").body["risk"] == "security"
        may = ["audit.revert_change", "directory.manage_membership"]
        answer = succeeded(revert(make_integration(connection_of(integration), may=may), made))
        assert answer.body["operation"] == "groups.change-members"
        assert answer.body["object"]["id"] == str(group)
        assert directory.members(group) == {directory.dn(guid) for guid in people[:2]}
        answer = revert(integration, made)
        assert refused(answer) == NOT_REVERTIBLE
        (difference,) = answer.body["differences"]
        assert sorted(difference["expected"]) == sorted(directory.dn(guid) for guid in people[2:])
        assert difference["current"] == [directory.dn(people[0])]

    def test_as_far_as_it_is_still_so(
        self, integration: Integration, directory: Directory, group: UUID, people: list[UUID]
    ) -> None:
        made = self.change(integration, group, add=people[2:], remove=people[:2])
        gone = directory.dn(people[1])
        directory.remove_values(group, member=directory.dn(people[2]))
        directory.delete(people[1])
        warnings = revert(integration, made, "?dryRun=true").body["warnings"]
        (warning,) = [text for text in warnings if text.startswith("member:")]
        assert gone in warning
        assert directory.dn(people[2]) in warning
        assert directory.dn(people[3]) not in warning
        succeeded(revert(integration, made))
        assert directory.members(group) == {directory.dn(people[0])}

    @pytest.mark.parametrize("bag", ["add", "replace"])
    def test_by_bags(
        self, integration: Integration, directory: Directory, group: UUID, people: list[UUID], bag: str
    ) -> None:
        names = [directory.dn(guid) for guid in people]
        succeeded(integration.patch(f"/api/ad/groups/{group}", {bag: {"member": names[1:3], "description": "x"}}))
        made = latest(integration, target=group)
        directory.add_values(group, member=names[3])
        succeeded(revert(integration, made))
        assert directory.members(group) == {names[0], names[1], names[3]}
        assert directory.text(group, "description") is None


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


def call_of(integration: Integration) -> Any:
    """A call in the integration's directory, for records that cannot be had otherwise."""
    connection = connection_of(integration)
    return make_call(directory=CALL.directory.__class__(id=connection.id, name=connection.name, client_id="c"))


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
