"""Restoring deleted objects where there is no recycle bin: the operations log gives back what was lost."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client, ServerSettings
from active_directory.writes import reanimate
from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import MembershipRule
from directory.outcomes.evidence import evidence_of, find_outcome
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.directory.changes.restoring import PATH, refused, restore
from tests.directory.supervised import approve
from tests.support.cast import Integration, make_connection, make_integration
from tests.support.mishaps import just_before_the_write, lose_the_answer


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

    def test_memberships_come_back_for_a_while(
        self, everything: Integration, other_connection: Any, grace: UUID, tombstone_directory: Directory
    ) -> None:
        """Where their groups have a rule."""
        groups = [tombstone_directory.guid(name.decode()) for name in tombstone_directory.read(grace)["memberOf"]]
        rule = {"connection": other_connection, "max_duration": timedelta(hours=1)}
        MembershipRule.objects.create(group_guid=groups[0], group_dn="CN=First", **rule)
        assert everything.delete(f"/api/ad/users/{grace}").status == 204
        assert restore(everything, grace).status == 200
        (end,) = ChangeRequest.objects.filter(ends__isnull=False)
        assert (end.target_id, end.operation) == (groups[0], "groups.change-members")
        assert OperationRecord.objects.get(id=end.ends).target_id == groups[0]
        assert len(tombstone_directory.read(grace)["memberOf"]) == 2

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
        may = ["directory.restore_deleted", "directory.manage_membership", "directory.read_object"]
        member_manager = make_integration(other_connection, may=may)
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
