"""Deleting: alone or with everything below, and what stands in the way."""

import struct
from typing import Any
from uuid import UUID

import ldap
import pytest
from ldap.controls import LDAPControl

from audit.models import OperationRecord
from core.call import SupervisionLevel
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.support.cast import Integration, make_connection, make_integration

SD_FLAGS = LDAPControl("1.2.840.113556.1.4.801", True, encodedControlValue=b"\x30\x03\x02\x01\x04")
EVERYONE = bytes.fromhex("010100000000000100000000")
DENIED, DELETE_AND_DELETE_TREE = 1, 0x10040


@pytest.fixture
def unit(directory: Directory, organizational_unit: str) -> UUID:
    return directory.guid(directory.add_unit("Workshop", parent=organizational_unit))


def protect_from_deletion(directory: Directory, target: UUID) -> None:
    """Deny Everyone to delete it, as the domain's own tools do."""
    link = directory.connection
    (row,) = link.search_ext_s(
        directory.dn(target), ldap.SCOPE_BASE, attrlist=["nTSecurityDescriptor"], serverctrls=[SD_FLAGS]
    )
    old = row[1]["nTSecurityDescriptor"][0]
    revision, _, control, _, _, _, dacl = struct.unpack_from("<BBHIIII", old)
    acl_revision, _, size, count, _ = struct.unpack_from("<BBHHH", old, dacl)
    ace = struct.pack("<BBHI", DENIED, 0, 8 + len(EVERYONE), DELETE_AND_DELETE_TREE) + EVERYONE
    acl = struct.pack("<BBHHH", acl_revision, 0, size + len(ace), count + 1, 0) + ace + old[dacl + 8 : dacl + size]
    new = struct.pack("<BBHIIII", revision, 0, control, 0, 0, 0, 20) + acl
    link.modify_ext_s(directory.dn(target), [(ldap.MOD_REPLACE, "nTSecurityDescriptor", [new])], serverctrls=[SD_FLAGS])


def test_it_works(integration: Integration, ada: UUID, directory: Directory) -> None:
    answer = integration.delete(f"/api/ad/users/{ada}")
    assert (answer.status, answer.body) == (204, b"")
    assert not directory.exists(ada)
    assert integration.get(f"/api/ad/users/{ada}").status == 404


def test_the_log_keeps_what_was_there(integration: Integration, ada: UUID, directory: Directory) -> None:
    dn = directory.dn(ada)
    integration.delete(f"/api/ad/users/{ada}")
    (record,) = OperationRecord.objects.filter(operation="users.delete")
    changes = {change["attribute"]: change for change in record.changes}
    assert changes["distinguishedName"] == {"attribute": "distinguishedName", "before": [dn], "after": []}
    assert changes["title"]["before"] == ["Analyst"]
    assert "unicodePwd" not in changes


def test_a_container_with_something_in_it(integration: Integration, unit: UUID, directory: Directory) -> None:
    inside = directory.add_user(parent=directory.add_unit("Inner", parent=directory.dn(unit)))
    answer = integration.delete(f"/api/ad/organization-units/{unit}")
    assert (answer.status, answer.code) == (409, "AD.Object.NotEmpty")
    assert integration.delete(f"/api/ad/organization-units/{unit}?recursive=no").status == 400
    assert directory.exists(inside)
    assert integration.delete(f"/api/ad/organization-units/{unit}?recursive=true").status == 204
    assert not directory.exists(inside)


def test_protected_from_deletion(integration: Integration, unit: UUID, directory: Directory) -> None:
    protect_from_deletion(directory, unit)
    for query in ("", "?recursive=true"):
        answer = integration.delete(f"/api/ad/organization-units/{unit}{query}")
        assert (answer.status, answer.code) == (409, "AD.Object.DeletionProtected")
    assert directory.exists(unit)


def test_protected_from_deletion_below(integration: Integration, unit: UUID, directory: Directory) -> None:
    inner = directory.guid(directory.add_unit("Inner", parent=directory.dn(unit)))
    user = directory.add_user(parent=directory.dn(unit))
    protect_from_deletion(directory, inner)
    answer = integration.delete(f"/api/ad/organization-units/{unit}?recursive=true")
    assert (answer.status, answer.code) == (409, "AD.Object.DeletionProtected")
    assert directory.exists(user)


def test_recursion_needs_the_permissions_of_all_kinds(connection: Any, unit: UUID, directory: Directory) -> None:
    directory.add_user(parent=directory.dn(unit))
    path = f"/api/ad/organization-units/{unit}?recursive=true"
    for_units = make_integration(connection, may=["directory.delete_organizationalunit"])
    assert for_units.delete(path).status == 403
    assert directory.exists(unit)
    both = make_integration(connection, may=["directory.delete_organizationalunit", "directory.delete_user"])
    assert both.delete(path).status == 204


def test_the_dry_run_lists_what_would_go(integration: Integration, unit: UUID, directory: Directory) -> None:
    user = directory.add_user(parent=directory.dn(unit))
    path = f"/api/ad/organization-units/{unit}?recursive=true&dryRun=true"
    body = integration.delete(path).body
    assert body["risk"] == "destructive"
    assert body["changes"][0]["before"] == [directory.dn(unit), directory.dn(user)]
    assert body["warnings"][1:-1] == ["1 object below it is deleted too: 1 user."]
    assert body["warnings"][-1].startswith("The recycle bin keeps it and everything below it for 180 days")
    directory.add_user(parent=directory.dn(unit))
    directory.add_unit("Below", parent=directory.dn(unit))
    told = "3 objects below it are deleted too: 2 users, 1 organizational unit."
    assert integration.delete(path).body["warnings"][1:-1] == [told]
    assert directory.exists(user)


def test_the_dry_run_tells_what_is_lost(integration: Integration, ada: UUID, directory: Directory) -> None:
    parent = directory.dn(ada).partition(",")[2]
    group = directory.add_group("Analysts", parent=parent, members=[ada])
    directory.add_group("Engineers, first", parent=parent, members=[ada])
    _, *warnings, kept = integration.delete(f"/api/ad/users/{ada}?dryRun=true").body["warnings"]
    assert kept.startswith("The recycle bin keeps it for ")
    assert warnings == ["It is a member of 2 groups: Analysts, Engineers, first."]
    _, *warnings, _ = integration.delete(f"/api/ad/groups/{group}?dryRun=true").body["warnings"]
    assert warnings == ["Its 1 members lose the membership."]


def test_the_dry_run_tells_what_a_restore_could_not_bring_back(db: None, domain_without_recycle_bin: Domain) -> None:
    everything = make_integration(make_connection(domain_without_recycle_bin))
    unit = {"name": random_name("unit"), "parent": domain_without_recycle_bin.base_dn}
    guid = everything.post("/api/ad/organization-units", unit).body["id"]
    everything.post("/api/ad/users", {"name": random_name("u"), "parent": guid})
    path = f"/api/ad/organization-units/{guid}?recursive=true&dryRun=true"
    _, first, second, third = everything.delete(path).body["warnings"]
    assert first == "1 object below it is deleted too: 1 user."
    assert "password is lost" in second
    assert "keeps no attributes" in third


def test_the_primary_group_of_an_account(
    connection: Any, unit: UUID, directory: Directory, organizational_unit: str
) -> None:
    """Refused before it is held, and named: Samba's answer is that of a name in use."""
    user = directory.add_user(parent=organizational_unit)
    group = directory.add_group(parent=directory.dn(unit), members=[user])
    sid = directory.read(group, "objectSid")["objectSid"][0]
    directory.modify(user, primaryGroupID=str(int.from_bytes(sid[-4:], "little")))
    everything = make_integration(connection)
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    for integration in (everything, careful):
        for path in (f"groups/{group}", f"groups/{group}?dryRun=true", f"organization-units/{unit}?recursive=true"):
            answer = integration.delete(f"/api/ad/{path}")
            assert (answer.status, answer.code) == (409, "AD.Group.PrimaryGroup"), answer
            assert directory.dn(user) in answer.body["detail"]
    directory.move(user, parent=directory.dn(unit))
    whole = f"/api/ad/organization-units/{unit}?recursive=true"
    assert everything.delete(whole).code == "AD.Group.PrimaryGroup", "the group may be the first to go"
    assert everything.delete(f"/api/ad/users/{user}").status == 204
    assert everything.delete(whole).status == 204
