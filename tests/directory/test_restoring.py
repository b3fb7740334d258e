"""Restoring deleted objects, with and without the recycle bin: what comes back, what is refused, what is recorded."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest

from audit.models import OperationRecord
from directory.ldap import Client, ServerSettings
from directory.ldap.writes.reanimation import reanimate
from directory.outcomes.evidence import evidence_of, find_outcome
from gateway.core.call import SupervisionLevel
from gateway.pipeline import dependent_changes
from tests.directory.supervised import approve
from tests.support.cast import Integration, all_permissions, make_connection, make_integration
from tests.support.directory import PASSWORD, Directory, random_name
from tests.support.domain import Domain
from tests.support.mishaps import Killed, just_before_the_write, lose_the_answer, settle
from tests.support.proxy import FaultyProxy

PATH = "/api/ad/deleted-objects"


def restore(integration: Integration, guid: UUID, body: Any = None, *, query: str = "") -> Any:
    return integration.post(f"{PATH}/{guid}/restore{query}", body)


def refused(answer: Any) -> tuple[int, str | None]:
    return answer.status, answer.code


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
            patch.setattr(dependent_changes, "execute", Mock(side_effect=Killed))
            with pytest.raises(Killed):
                restore(integration, user)
        settle()
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


@pytest.fixture
def other_connection(db: None, domain_without_recycle_bin: Domain) -> Any:
    return make_connection(domain_without_recycle_bin)


class TestTombstones:
    """Without the recycle bin the operations log gives back what the directory lost."""

    @pytest.fixture
    def unit(self, tombstone_directory: Directory) -> str:
        return tombstone_directory.add_unit(random_name("unit"))

    @pytest.fixture
    def everything(self, other_connection: Any) -> Integration:
        return make_integration(other_connection)

    @pytest.fixture
    def grace(self, tombstone_directory: Directory, unit: str) -> UUID:
        boss = tombstone_directory.add_user("Boss", parent=unit)
        gone = tombstone_directory.add_user("Gone", parent=unit)
        user = tombstone_directory.add_user(
            "Hopper, Grace #1",
            parent=unit,
            password=PASSWORD,
            title="Admiral",
            mail="grace@corp.example.test",
            description="Compilers",
            userPrincipalName=f"{random_name('grace')}@corp.example.test",
            otherTelephone=["1", "2"],
            manager=tombstone_directory.dn(boss),
            secretary=[tombstone_directory.dn(gone), tombstone_directory.dn(boss)],
            servicePrincipalName=f"HTTP/{random_name('host')}",
        )
        for name in ("First", "Second"):
            tombstone_directory.add_group(f"{name} {random_name('g')}", parent=unit, members=[user])
        return user

    def test_it_works(self, everything: Integration, grace: UUID, tombstone_directory: Directory, unit: str) -> None:
        before = tombstone_directory.read(grace)
        dn = tombstone_directory.dn(grace)
        groups = {value.decode() for value in before["memberOf"]}
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        tombstone_directory.delete(f"CN=Gone,{unit}")
        dry = restore(everything, grace, query="?dryRun=true").body
        assert any("password is lost" in warning for warning in dry["warnings"])
        assert any(warning.startswith("secretary: 1 of 2 values") for warning in dry["warnings"])
        answer = restore(everything, grace)
        assert answer.status == 200, answer
        assert answer.body["distinguishedName"] == dn
        assert set(answer.body["attributes"]["memberOf"]) == groups
        after = tombstone_directory.read(grace)
        for name in ("objectSid", "title", "mail", "description", "userPrincipalName", "manager", "accountExpires"):
            assert after[name] == before[name], name
        assert set(after["otherTelephone"]) == {b"1", b"2"}
        assert after["servicePrincipalName"] == before["servicePrincipalName"]
        assert after["secretary"] == [f"CN=Boss,{unit}".encode()]
        assert {value.decode() for value in after["memberOf"]} == groups
        assert not tombstone_directory.can_sign_in(grace, PASSWORD)
        self.require_records(dn, groups, dry)
        assert everything.delete(f"/api/ad/users/{grace}").status == 204, "and again"
        assert restore(everything, grace).status == 200
        assert tombstone_directory.text(grace, "title") == "Admiral"

    def require_records(self, dn: str, groups: set[str], dry: Any) -> None:
        restored = OperationRecord.objects.get(operation="deleted-objects.restore")
        shown = {change["attribute"]: change["after"] for change in restored.changes}
        assert (shown["title"], set(shown["memberOf"])) == (["Admiral"], groups)
        memberships = OperationRecord.objects.filter(operation="groups.update")
        assert {(record.outcome, record.target_dn) for record in memberships} == {
            ("succeeded", name) for name in groups
        }
        assert all(record.changes == [{"attribute": "member", "before": [], "after": [dn]}] for record in memberships)
        assert {change["attribute"] for change in dry["changes"]} == set(shown)

    def test_rights_over_others_are_not_given_back(
        self, everything: Integration, grace: UUID, tombstone_directory: Directory
    ) -> None:
        tombstone_directory.modify(
            grace, **{"msDS-AllowedToDelegateTo": "CIFS/files", "altSecurityIdentities": "X509:x"}
        )
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        warnings = restore(everything, grace, query="?dryRun=true").body["warnings"]
        assert any("altSecurityIdentities, msDS-AllowedToDelegateTo" in text for text in warnings if "anew" in text), (
            warnings
        )
        assert restore(everything, grace).status == 200
        assert "msDS-AllowedToDelegateTo" not in tombstone_directory.read(grace)

    def test_a_group_and_its_members(
        self, everything: Integration, grace: UUID, tombstone_directory: Directory, unit: str
    ) -> None:
        group = tombstone_directory.add_group("Compilers", parent=unit, members=[grace], description="x")
        assert everything.delete(f"/api/ad/groups/{group}").status == 204
        assert restore(everything, group, {"name": "Compilers 2"}).status == 200
        assert tombstone_directory.members(group) == {tombstone_directory.dn(grace)}
        assert tombstone_directory.text(group, "description") == "x"

    def test_every_kind(self, everything: Integration, tombstone_directory: Directory, unit: str) -> None:
        kinds = {
            "computers": tombstone_directory.add_computer(parent=unit, description="x"),
            "organization-units": tombstone_directory.guid(
                tombstone_directory.add_unit("In", parent=unit, description="x")
            ),
            "objects": tombstone_directory.add(f"CN=c,{unit}", {"objectClass": "contact", "description": "x"}),
        }
        for resource, guid in kinds.items():
            assert everything.delete(f"/api/ad/{resource}/{guid}").status == 204
            answer = restore(everything, guid)
            assert answer.status == 200, answer
            assert tombstone_directory.text(guid, "description") == "x"

    def test_deleted_by_somebody_else(
        self, everything: Integration, grace: UUID, tombstone_directory: Directory
    ) -> None:
        tombstone_directory.delete(grace)
        warnings = restore(everything, grace, query="?dryRun=true").body["warnings"]
        assert any("no record of this deletion" in warning for warning in warnings)
        assert restore(everything, grace).status == 200
        assert tombstone_directory.text(grace, "title") is None

    def test_memberships_need_their_own_permissions(
        self, other_connection: Any, everything: Integration, grace: UUID, tombstone_directory: Directory, unit: str
    ) -> None:
        operators = f"CN=Print Operators,CN=Builtin,{tombstone_directory.base_dn}"
        tombstone_directory.add_values(operators, member=tombstone_directory.dn(grace))
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        restorer = make_integration(other_connection, may=["directory.restore_deleted", "directory.read_object"])
        (warning,) = [
            text
            for text in restore(restorer, grace, query="?dryRun=true").body["warnings"]
            if "memberships stay" in text
        ]
        assert "Print Operators" in warning
        member_manager = make_integration(
            other_connection, may=["directory.restore_deleted", "directory.manage_membership"]
        )
        answer = restore(member_manager, grace)
        assert answer.status == 200, answer
        assert len(answer.body["attributes"]["memberOf"]) == 2
        assert tombstone_directory.dn(grace) not in tombstone_directory.members(operators)

    def test_names_in_use(
        self, everything: Integration, grace: UUID, tombstone_directory: Directory, unit: str
    ) -> None:
        name = tombstone_directory.text(grace, "userPrincipalName") or ""
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        tombstone_directory.add_user(parent=unit, userPrincipalName=name)
        answer = restore(everything, grace)
        assert refused(answer) == (409, "AD.Object.AlreadyExists")
        assert "userPrincipalName" in answer.body["detail"]

    def test_a_person_approves_all_of_it(
        self, other_connection: Any, everything: Integration, grace: UUID, tombstone_directory: Directory
    ) -> None:
        careful = make_integration(other_connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        assert approve(restore(careful, grace)).status == "applied"
        assert len(tombstone_directory.read(grace)["memberOf"]) == 2
        followed = OperationRecord.objects.filter(operation="groups.update")
        assert {(record.outcome, record.surface) for record in followed} == {("succeeded", "worker")}
        assert all(record.approved_by for record in followed)

    def test_a_group_that_refuses_is_recorded(
        self,
        everything: Integration,
        grace: UUID,
        tombstone_directory: Directory,
        unit: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        groups = [value.decode() for value in tombstone_directory.read(grace)["memberOf"]]
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        just_before_the_write(monkeypatch, lambda: tombstone_directory.delete(groups[0]))
        answer = restore(everything, grace)
        assert (answer.status, answer.body["attributes"]["memberOf"]) == (200, [groups[1]])
        outcomes = dict(OperationRecord.objects.filter(operation="groups.update").values_list("target_dn", "outcome"))
        assert outcomes == {groups[0]: "failed", groups[1]: "succeeded"}

    def test_nothing_follows_a_restore_that_fails(
        self,
        everything: Integration,
        grace: UUID,
        tombstone_directory: Directory,
        unit: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        just_before_the_write(monkeypatch, lambda: tombstone_directory.add_group("Hopper, Grace #1", parent=unit))
        assert refused(restore(everything, grace)) == (409, "AD.Object.AlreadyExists")
        restoring = OperationRecord.objects.exclude(operation="users.delete")
        assert {record.outcome for record in restoring} == {"failed"}
        assert restoring.filter(operation="groups.update").count() == 2

    def test_a_lost_answer(
        self,
        domain_without_recycle_bin: Domain,
        everything: Integration,
        grace: UUID,
        tombstone_directory: Directory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        proxy = FaultyProxy(domain_without_recycle_bin.controller.address, 636)
        through_proxy = make_integration(make_connection(domain_without_recycle_bin, url=proxy.url))
        assert through_proxy.get(f"{PATH}/{grace}").status == 200
        lose_the_answer(monkeypatch, proxy)
        answer = restore(through_proxy, grace)
        assert answer.status == 200, answer
        assert tombstone_directory.exists(grace)
        assert OperationRecord.objects.get(operation="deleted-objects.restore").outcome == "succeeded"
        proxy.close()

    def test_the_evidence(
        self,
        everything: Integration,
        grace: UUID,
        tombstone_directory: Directory,
        domain_without_recycle_bin: Domain,
        server_settings: ServerSettings,
    ) -> None:
        domain = domain_without_recycle_bin
        client = Client(replace(server_settings, urls=(domain.url,), ca_certificate=domain.ca_pem))
        dn = tombstone_directory.dn(grace)
        tombstone_directory.delete(grace)
        entry = client.read(grace, ("objectGUID",), deleted=True)
        evidence = evidence_of(reanimate(entry.dn, dn), entry=entry)
        assert find_outcome(client, evidence) is False
        assert restore(everything, grace).status == 200
        assert find_outcome(client, evidence) is True
        tombstone_directory.rename(grace, "Amazing Grace")
        assert find_outcome(client, evidence) is None, "restored, but perhaps by somebody else"
        client.close()
