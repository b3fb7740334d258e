"""What comes back with a restored object: shown to whoever restores or approves it, and allowed to nobody else."""

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.directory.changes.reverting import latest, revert, succeeded
from tests.directory.supervised import approve
from tests.support.cast import Answer, Integration, all_permissions, make_connection, make_integration

MEMBERSHIP = "directory.manage_membership"
PROTECTED = "directory.manage_protected"


@pytest.fixture
def group(directory: Directory, organizational_unit: str, ada: UUID) -> UUID:
    return directory.add_group(parent=organizational_unit, members=[ada])


def restore(integration: Integration, guid: UUID, query: str = "") -> Answer:
    return integration.post(f"/api/ad/deleted-objects/{guid}/restore{query}")


def without(connection: DirectoryConnection, *missing: str, **fields: Any) -> Integration:
    return make_integration(connection, may=set(all_permissions()) - set(missing), **fields)


@pytest.fixture(params=["restore", "revert"])
def bring_back(
    request: pytest.FixtureRequest, integration: Integration
) -> Callable[[Integration, str, UUID], Callable[[str], Answer]]:
    """Delete an object, and the ways to make it live again."""

    def delete(caller: Integration, resource: str, guid: UUID) -> Callable[[str], Answer]:
        succeeded(integration.delete(f"/api/ad/{resource}/{guid}"))
        made = latest(integration, target=guid)
        if request.param == "restore":
            return lambda query: restore(caller, guid, query)
        return lambda query: revert(caller, made, query)

    return delete


def shown(changes: Any, attribute: str) -> list[str]:
    (change,) = [each for each in changes if each["attribute"] == attribute]
    values: list[str] = change.get("after", change.get("proposed"))
    return values


class TestMemberships:
    def test_they_are_shown_and_recorded(
        self, integration: Integration, directory: Directory, ada: UUID, group: UUID
    ) -> None:
        directory.delete(ada)
        plan = restore(integration, ada, "?dryRun=true").body
        assert shown(plan["changes"], "memberOf") == [directory.dn(group)]
        assert restore(integration, ada).status == 200
        assert shown(latest(integration, target=ada)["changes"], "memberOf") == [directory.dn(group)]

    def test_whoever_approves_sees_them(
        self, connection: DirectoryConnection, directory: Directory, ada: UUID, group: UUID
    ) -> None:
        careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
        directory.delete(ada)
        held = restore(careful, ada)
        shown_request = careful.get(f"/api/change-requests/{held.body['changeRequest']['id']}").body
        assert shown(shown_request["changes"], "memberOf") == [directory.dn(group)]
        joined = [each for each in shown_request["references"] if each["attribute"] == "memberOf"]
        account_name = directory.text(group, "sAMAccountName")
        assert [(each["id"], each["accountName"]) for each in joined] == [(str(group), account_name)]
        directory.rename(group, random_name("renamed"))
        assert approve(held).status == "applied"

    def test_one_that_others_ended_meanwhile(
        self, connection: DirectoryConnection, directory: Directory, ada: UUID, group: UUID
    ) -> None:
        careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
        directory.delete(ada)
        held = restore(careful, ada)
        directory.delete(group)
        assert approve(held).status == "stale"

    def test_they_need_the_permission(
        self,
        connection: DirectoryConnection,
        directory: Directory,
        ada: UUID,
        group: UUID,
        bring_back: Callable[..., Callable[[str], Answer]],
    ) -> None:
        back = bring_back(without(connection, MEMBERSHIP), "users", ada)
        assert (back("?dryRun=true").status, back("").status) == (403, 403)
        assert not directory.exists(ada)

    def test_groups_outside_the_scopes(
        self,
        connection: DirectoryConnection,
        directory: Directory,
        organizational_unit: str,
        bring_back: Callable[..., Callable[[str], Answer]],
    ) -> None:
        inner = directory.add_unit("Inner", parent=organizational_unit)
        user = directory.add_user(parent=inner)
        outside = directory.add_group(parent=organizational_unit, members=[user])
        inside = directory.add_group(parent=inner, members=[user])
        confined = make_integration(connection, scopes=[directory.guid(inner)])
        back = bring_back(confined, "users", user)
        assert back("").status == 403
        directory.delete(outside)
        assert back("").status == 200
        assert directory.members(inside) == {directory.dn(user)}

    def test_an_administrative_group(
        self,
        connection: DirectoryConnection,
        directory: Directory,
        ada: UUID,
        group: UUID,
        bring_back: Callable[..., Callable[[str], Answer]],
    ) -> None:
        operators = f"CN=Print Operators,CN=Builtin,{directory.base_dn}"
        directory.add_values(operators, member=directory.dn(group))
        back = bring_back(without(connection, PROTECTED), "users", ada)
        assert back("").status == 403
        careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
        held = restore(careful, ada)
        assert ChangeRequest.objects.get(id=held.body["changeRequest"]["id"]).protected

    def test_the_members_of_a_group(
        self,
        connection: DirectoryConnection,
        integration: Integration,
        directory: Directory,
        ada: UUID,
        group: UUID,
        bring_back: Callable[..., Callable[[str], Answer]],
    ) -> None:
        back = bring_back(without(connection, MEMBERSHIP), "groups", group)
        assert back("").status == 403
        plan = restore(integration, group, "?dryRun=true").body
        assert shown(plan["changes"], "member") == [directory.dn(ada)]

    def test_a_primary_group(
        self, connection: DirectoryConnection, integration: Integration, directory: Directory, ada: UUID, group: UUID
    ) -> None:
        (sid,) = directory.read(group, "objectSid")["objectSid"]
        directory.modify(ada, primaryGroupID=str(struct.unpack("<I", sid[-4:])[0]))
        directory.delete(ada)
        assert restore(without(connection, MEMBERSHIP), ada).status == 403
        assert directory.dn(group) in shown(restore(integration, ada, "?dryRun=true").body["changes"], "memberOf")

    def test_none_to_come_back_needs_nothing(
        self, connection: DirectoryConnection, directory: Directory, ada: UUID
    ) -> None:
        directory.delete(ada)
        assert restore(make_integration(connection, may=["directory.restore_deleted"]), ada).status == 200


def test_other_links_are_shown(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    boss = directory.add_user(parent=organizational_unit)
    report = directory.add_user(parent=organizational_unit, manager=directory.dn(ada))
    managed = directory.add_group(parent=organizational_unit, managedBy=directory.dn(ada))
    gone = directory.add_user(parent=organizational_unit, manager=directory.dn(ada))
    directory.modify(ada, manager=directory.dn(boss))
    directory.delete(gone)
    directory.delete(ada)
    changes = restore(integration, ada, "?dryRun=true").body["changes"]
    assert shown(changes, "manager") == [directory.dn(boss)]
    assert shown(changes, "directReports") == [directory.dn(report)]
    assert shown(changes, "managedObjects") == [directory.dn(managed)]


def test_a_refilled_membership_of_administrators_is_a_change_of_a_protected_object(
    db: None, domain_without_recycle_bin: Domain, tombstone_directory: Directory
) -> None:
    connection = make_connection(domain_without_recycle_bin)
    unit = tombstone_directory.add_unit(random_name("unit"))
    user = tombstone_directory.add_user(parent=unit)
    operators = f"CN=Print Operators,CN=Builtin,{tombstone_directory.base_dn}"
    tombstone_directory.add_values(operators, member=tombstone_directory.dn(user))
    everything = make_integration(connection)
    succeeded(everything.delete(f"/api/ad/users/{user}"))
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    held = restore(careful, user)
    request = ChangeRequest.objects.get(id=held.body["changeRequest"]["id"])
    assert request.protected
    assert shown(request.changes, "memberOf") == [operators]
