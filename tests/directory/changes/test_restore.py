"""Restoring deleted objects from the recycle bin: what comes back, what is refused, what is recorded."""

from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest

from audit.models import OperationRecord
from core.call import SupervisionLevel
from gateway.pipeline import execute
from lab.directory import PASSWORD, Directory
from tests.directory.changes.restoring import PATH, refused, restore
from tests.directory.supervised import approve
from tests.support.cast import Integration, all_permissions, make_integration
from tests.support.mishaps import Killed, just_before_the_write, settle


class TestRecycleBin:
    """The directory keeps what a deleted object had."""

    def test_it_works(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        group = directory.add_group(parent=organizational_unit, members=[ada])
        before, dn = directory.read(ada), directory.dn(ada)
        directory.delete(ada)
        version = integration.get(f"{PATH}/{ada}").headers["ETag"]
        answer = integration.post(f"{PATH}/{ada}/restore", **{"If-Match": version})
        assert answer.status == 200, answer
        assert (answer.body["id"], answer.body["distinguishedName"]) == (str(ada), dn)
        assert answer.body["attributes"]["memberOf"] == [directory.dn(group)]
        assert integration.get(f"/api/ad/users/{ada}").status == 200
        assert refused(integration.get(f"{PATH}/{ada}")) == (404, "AD.Object.NotFound")
        after = directory.read(ada)
        for name in ("objectSid", "sAMAccountName", "title", "userAccountControl", "accountExpires", "memberOf"):
            assert after[name] == before[name], name
        assert "isDeleted" not in after
        assert "isRecycled" not in after
        (record,) = OperationRecord.objects.exclude(outcome="failed")
        assert (record.operation, record.outcome) == ("deleted-objects.restore", "succeeded")
        assert (record.target_id, record.target_dn) == (ada, dn)
        changes = {change["attribute"]: change for change in record.changes}
        assert changes["distinguishedName"]["after"] == [dn]
        assert "ADEL" in changes["distinguishedName"]["before"][0]
        assert integration.delete(f"/api/ad/users/{ada}").status == 204, "and again"
        assert restore(integration, ada).status == 200

    def test_the_password_still_opens_the_account(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        user = directory.add_user(parent=organizational_unit, password=PASSWORD)
        dn = directory.dn(user)
        directory.delete(user)
        warnings = restore(integration, user, query="?dryRun=true").body["warnings"]
        assert "Its password counts as set at the moment of the restore." in warnings, "as Samba has it"
        answer = restore(integration, user)
        assert (answer.status, answer.body["account"]["mustChangePassword"]) == (200, False)
        assert directory.can_sign_in(user, PASSWORD)
        assert {"adminCount", "operatorCount"}.isdisjoint(directory.read(user))
        first, second = OperationRecord.objects.order_by("id")
        assert (first.operation, first.outcome) == ("deleted-objects.restore", "succeeded")
        assert (second.operation, second.outcome, second.target_id) == ("users.update", "succeeded", user)
        assert second.target_dn == dn
        assert [(change["attribute"], change["before"]) for change in second.changes] == [("pwdLastSet", ["never"])]

    def test_who_had_to_change_the_password_still_has_to(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        user = directory.add_user(parent=organizational_unit, password=PASSWORD, pwdLastSet="0")
        directory.delete(user)
        answer = restore(integration, user)
        assert (answer.status, answer.body["account"]["mustChangePassword"]) == (200, True)
        assert OperationRecord.objects.count() == 1

    def test_whether_the_password_was_kept_is_found_out(
        self, integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The process is killed between the two writes: the restore's own change of pwdLastSet is not taken for it."""
        user = directory.add_user(parent=organizational_unit, password=PASSWORD)
        directory.delete(user)
        with monkeypatch.context() as patch:
            patch.setattr(execute, "execute_dependent_changes", Mock(side_effect=Killed))
            with pytest.raises(Killed):
                restore(integration, user)
        settle(nothing_under_way=True)
        outcomes = dict(OperationRecord.objects.values_list("operation", "outcome"))
        assert outcomes == {"deleted-objects.restore": "succeeded", "users.update": "failed"}

    def test_a_server_that_keeps_it_is_left_alone(
        self, integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As Windows: nothing but the restore itself is written."""
        user = directory.add_user(parent=organizational_unit, password=PASSWORD)
        directory.delete(user)
        monkeypatch.setattr("directory.changes.restore.is_samba", lambda _: False)
        warnings = restore(integration, user, query="?dryRun=true").body["warnings"]
        assert not any("password" in warning for warning in warnings)
        assert restore(integration, user).status == 200
        assert [record.operation for record in OperationRecord.objects.all()] == ["deleted-objects.restore"]

    def test_every_kind(self, integration: Integration, directory: Directory, organizational_unit: str) -> None:
        member = directory.add_user(parent=organizational_unit)
        guids = [
            directory.add_group(parent=organizational_unit, members=[member], description="x"),
            directory.add_computer(parent=organizational_unit, description="x"),
            directory.guid(directory.add_unit("Inner", parent=organizational_unit, description="x")),
            directory.add(f"CN=c,{organizational_unit}", {"objectClass": "contact", "description": "x"}),
            directory.add_user(parent=organizational_unit, password=PASSWORD, adminCount="1", description="x"),
        ]
        for guid in guids:
            dn = directory.dn(guid)
            directory.delete(guid)
            answer = restore(integration, guid)
            assert (answer.status, directory.dn(guid)) == (200, dn), answer
            assert directory.text(guid, "description") == "x"
        assert directory.members(guids[0]) == {directory.dn(member)}

    def test_the_dry_run(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        directory.delete(ada)
        body = restore(integration, ada, query="?dryRun=true").body
        assert (body["dryRun"], body["risk"]) == (True, "security")
        assert body["warnings"][1:] == [
            "The recycle bin has kept the object's attributes and memberships: they come back with it."
        ]
        assert not directory.exists(ada)

    def test_what_was_in_it_stays_deleted(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        unit = directory.guid(directory.add_unit("Inner", parent=organizational_unit))
        user = directory.add_user(parent=directory.dn(unit))
        directory.delete(unit, recursive=True)
        assert refused(restore(integration, user)) == (409, "AD.Object.ParentDeleted")
        warnings = restore(integration, unit, query="?dryRun=true").body["warnings"]
        assert "1 objects directly below it stay deleted: restore them afterwards." in warnings
        assert restore(integration, unit).status == 200
        assert restore(integration, user).status == 200
        assert directory.dn(user).endswith(f",OU=Inner,{organizational_unit}")

    def test_a_name_that_looks_like_a_deleted_ones(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        name = r"x\0ADEL:y"
        user = directory.add_user(name, parent=organizational_unit)
        directory.delete(user)
        assert integration.get(f"{PATH}/{user}").body["lastKnownName"] == name
        answer = restore(integration, user)
        assert (answer.status, answer.body["name"]) == (200, name), answer

    def test_elsewhere_and_otherwise(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        inner = directory.guid(directory.add_unit("Inner", parent=organizational_unit))
        directory.delete(ada)
        answer = restore(integration, ada, {"parent": str(inner), "name": "King, Ada #2"})
        assert (answer.status, answer.body["name"]) == (200, "King, Ada #2")
        assert directory.text(ada, "cn") == "King, Ada #2"
        assert directory.dn(ada).endswith(f",OU=Inner,{organizational_unit}")

    def test_names_in_use(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        account_name = directory.text(ada, "sAMAccountName") or ""
        directory.delete(ada)
        other = directory.add_group("ada lovelace", parent=organizational_unit)
        answer = restore(integration, ada)
        assert refused(answer) == (409, "AD.Object.AlreadyExists")
        assert "under another name" in answer.body["detail"]
        directory.modify(other, sAMAccountName=account_name)
        answer = restore(integration, ada, {"name": "Ada King"})
        assert refused(answer) == (409, "AD.Object.AlreadyExists")
        assert "sAMAccountName" in answer.body["detail"]
        directory.delete(other)
        user = directory.add_user(parent=organizational_unit, userPrincipalName="countess@corp.example.test")
        directory.delete(user)
        directory.add_user(parent=organizational_unit, userPrincipalName="Countess@corp.example.test")
        answer = restore(integration, user)
        assert "userPrincipalName" in answer.body["detail"]
        assert restore(integration, ada, {"name": "Ada King"}).status == 200

    def test_what_cannot_be(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        assert refused(restore(integration, ada)) == (404, "AD.Object.NotFound")
        directory.delete(ada)
        assert refused(restore(integration, uuid4())) == (404, "AD.Object.NotFound")
        assert refused(restore(integration, ada, {"name": ""})) == (400, "Request.Invalid")
        assert refused(restore(integration, ada, {"name": "a" * 65})) == (400, "Request.Invalid")
        assert refused(restore(integration, ada, {"parent": "nowhere"})) == (400, "Request.Invalid")
        assert refused(restore(integration, ada, {"parent": str(uuid4())})) == (404, "AD.Object.NotFound")
        assert refused(restore(integration, ada, {"where": "x"})) == (400, "Request.UnknownMember")
        group = directory.add_group(parent=organizational_unit)
        assert refused(restore(integration, ada, {"parent": str(group)})) == (422, "AD.Directory.Rejected")
        answer = integration.post(f"{PATH}/{ada}/restore", **{"If-Match": '"0"'})
        assert refused(answer) == (412, "AD.Object.VersionMismatch")
        assert not directory.exists(ada)

    def test_scopes(self, connection: Any, ada: UUID, directory: Directory, organizational_unit: str) -> None:
        inner = directory.guid(directory.add_unit("Inner", parent=organizational_unit))
        user = directory.add_user(parent=directory.dn(inner))
        directory.delete(user)
        directory.delete(ada)
        confined = make_integration(connection, scopes=[inner])
        assert refused(restore(confined, ada)) == (403, "Auth.Forbidden")
        assert refused(restore(confined, ada, {"parent": str(inner)})) == (403, "Auth.Forbidden")
        assert refused(restore(confined, user, {"parent": organizational_unit})) == (403, "Auth.Forbidden")
        assert restore(confined, user).status == 200

    def test_a_restored_membership_of_administrators_needs_the_permission(
        self, connection: Any, ada: UUID, directory: Directory
    ) -> None:
        operators = f"CN=Print Operators,CN=Builtin,{directory.base_dn}"
        directory.add_values(operators, member=directory.dn(ada))
        directory.delete(ada)
        ordinary = make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})
        assert refused(restore(ordinary, ada)) == (403, "Auth.Forbidden")
        assert restore(make_integration(connection), ada).status == 200
        assert directory.dn(ada) in directory.members(operators)

    def test_permission(self, connection: Any, ada: UUID, directory: Directory) -> None:
        directory.delete(ada)
        reader = make_integration(connection, may=["directory.read_deleted", "directory.create_user"])
        assert refused(restore(reader, ada)) == (403, "Auth.Forbidden")
        assert restore(make_integration(connection, may=["directory.restore_deleted"]), ada).status == 200

    def test_a_person_approves(self, connection: Any, ada: UUID, directory: Directory) -> None:
        careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
        directory.delete(ada)
        held = restore(careful, ada)
        assert (held.status, held.body["changeRequest"]["risk"]) == (202, "security")
        assert not directory.exists(ada)
        assert approve(held).status == "applied"
        assert directory.exists(ada)

    def test_restored_by_somebody_else(
        self, integration: Integration, ada: UUID, directory: Directory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory.delete(ada)
        just_before_the_write(monkeypatch, lambda: restore(integration, ada))
        assert refused(restore(integration, ada)) == (404, "AD.Object.NotFound")
