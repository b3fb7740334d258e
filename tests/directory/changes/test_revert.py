"""Reverting changes of attributes, accounts and members."""

from typing import Any
from uuid import UUID

import pytest

from lab.directory import PASSWORD, Directory
from tests.directory.changes.reverting import (
    NOT_REVERTIBLE,
    changes_of,
    connection_of,
    latest,
    refused,
    revert,
    succeeded,
)
from tests.support.cast import Integration, make_integration
from tests.support.mishaps import just_before_the_write


class TestUpdates:
    def test_it_works(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        updates = {"replace": {"title": "Countess"}, "add": {"otherTelephone": ["1", "2"]}, "clear": ["displayName"]}
        directory.modify(ada, displayName="Ada", otherTelephone=["2", "3"])
        succeeded(integration.patch(f"/api/ad/users/{ada}", updates))
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
        updates = {"replace": {"title": "Countess", "mail": "ada@corp.example.test"}}
        succeeded(integration.patch(f"/api/ad/users/{ada}", updates))
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
        may = ["audit.revert_change", "directory.update_user", "directory.read_object"]
        assert revert(make_integration(connection_of(integration), may=may), made).status == 403
        may += ["directory.enable_account", "directory.reset_password"]  # its password is due now
        answer = succeeded(revert(make_integration(connection_of(integration), may=may), made))
        assert answer.body["object"]["account"]["expiresAt"] is None
        assert directory.read(ada, "userAccountControl")["userAccountControl"] == before["userAccountControl"]

    def test_what_only_the_directory_writes_is_left_out(
        self, integration: Integration, ada: UUID, directory: Directory
    ) -> None:
        directory.modify(ada, pwdLastSet="-1")
        updates = {"account": {"mustChangePassword": True}, "replace": {"title": "Countess"}}
        succeeded(integration.patch(f"/api/ad/users/{ada}", updates))
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


class TestAccounts:
    @pytest.mark.parametrize(
        ("action", "inverse", "risk"), [("disable", "enable", "security"), ("enable", "disable", "destructive")]
    )
    def test_enabling_and_disabling(
        self,
        integration: Integration,
        directory: Directory,
        organizational_unit: str,
        action: str,
        inverse: str,
        risk: str,
    ) -> None:
        user = directory.add_user(parent=organizational_unit, enabled=action == "disable")
        before = directory.read(user, "userAccountControl")
        succeeded(integration.post(f"/api/ad/users/{user}/{action}"))
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

    @pytest.mark.parametrize("update", ["add", "replace"])
    def test_by_bags(
        self, integration: Integration, directory: Directory, group: UUID, people: list[UUID], update: str
    ) -> None:
        names = [directory.dn(guid) for guid in people]
        succeeded(integration.patch(f"/api/ad/groups/{group}", {update: {"member": names[1:3], "description": "x"}}))
        made = latest(integration, target=group)
        directory.add_values(group, member=names[3])
        succeeded(revert(integration, made))
        assert directory.members(group) == {names[0], names[1], names[3]}
        assert directory.text(group, "description") is None
