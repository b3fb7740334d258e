"""Who may be touched: the scopes of a role, and protected objects however they came to be protected."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from core.call import SupervisionLevel
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.directory.conftest import either_account
from tests.support.cast import Answer, Integration, all_permissions, make_connection, make_integration

pytestmark = either_account


@pytest.fixture
def inner(directory: Directory, organizational_unit: str) -> str:
    return directory.add_unit("Inner", parent=organizational_unit)


@pytest.fixture
def confined(connection: Any, directory: Directory, inner: str) -> Integration:
    """May do everything, inside one unit."""
    return make_integration(connection, scopes=[directory.guid(inner)])


@pytest.fixture
def ordinary(connection: Any) -> Integration:
    """May do everything but write protected objects."""
    return make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})


def test_outside_is_forbidden_whatever_is_asked(confined: Integration, ada: UUID, directory: Directory) -> None:
    path = f"/api/ad/users/{ada}"
    for answer in (
        confined.get(path),
        confined.get(f"/api/ad/objects/{ada}"),
        confined.get(f"/api/ad/users/by-dn?dn={directory.dn(ada)}"),
        confined.patch(path, {"replace": {"title": "Countess"}}),
        confined.post(f"{path}/disable"),
        confined.delete(path),
    ):
        assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert directory.text(ada, "title") == "Analyst"


def test_inside_is_allowed(confined: Integration, directory: Directory, inner: str) -> None:
    guid = directory.add_user(parent=inner)
    assert confined.get(f"/api/ad/users/{guid}").status == 200
    assert confined.patch(f"/api/ad/users/{guid}", {"replace": {"title": "x"}}).status == 200
    assert confined.get(f"/api/ad/organization-units/{directory.guid(inner)}").status == 200


def test_a_parent_outside(confined: Integration, organizational_unit: str) -> None:
    body = {"name": random_name("u"), "parent": organizational_unit}
    assert confined.post("/api/ad/users", body).status == 403


def test_a_member_outside(confined: Integration, ada: UUID, directory: Directory, inner: str) -> None:
    group = directory.add_group(parent=inner)
    path = f"/api/ad/groups/{group}"
    assert confined.patch(path, {"add": {"member": directory.dn(ada)}}).status == 403
    directory.add_values(group, member=directory.dn(ada))
    assert confined.patch(path, {"remove": {"member": directory.dn(ada)}}).status == 403
    assert confined.patch(path, {"clear": ["member"]}).status == 403
    body = {"name": random_name("g"), "parent": inner, "add": {"member": directory.dn(ada)}}
    assert confined.post("/api/ad/groups", body).status == 403
    assert directory.members(group) == {directory.dn(ada)}


@pytest.mark.parametrize(
    ("name", "is_protected"),
    [
        ("CN=Administrator,CN=Users", True),
        ("CN=krbtgt,CN=Users", True),
        ("CN=Domain Admins,CN=Users", True),
        ("CN=Administrators,CN=Builtin", True),
        ("CN=DC1,OU=Domain Controllers", True),
        ("OU=Domain Controllers", True),
        ("CN=Partitions,CN=Configuration", True),
        ("OU=Service Accounts", False),
    ],
)
def test_what_the_domain_rests_on(
    integration: Integration, directory: Directory, name: str, is_protected: bool
) -> None:
    guid = directory.guid(f"{name},{directory.base_dn}")
    assert integration.get(f"/api/ad/objects/{guid}").body["protected"] is is_protected


def test_nested_membership_protects_at_once(
    ordinary: Integration, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    path = f"/api/ad/users/{ada}"
    inner = directory.add_group("Domain Admins", parent=organizational_unit, members=[ada])  # a name proves nothing
    outer = directory.add_group(parent=organizational_unit, members=[inner])
    assert ordinary.get(path).body["protected"] is False
    admins = f"CN=Backup Operators,CN=Builtin,{directory.base_dn}"
    directory.add_values(admins, member=directory.dn(outer))
    try:
        assert ordinary.patch(path, {"replace": {"title": "Countess"}}).status == 403
        # What is only shown may be two seconds old; the refused write has just looked.
        assert ordinary.get(path).body["protected"] is True
        assert ordinary.get(f"/api/ad/users?base={ada}").body["items"][0]["protected"] is True
        assert ordinary.post(f"{path}/disable").status == 403
        assert ordinary.patch(f"/api/ad/groups/{inner}", {"replace": {"info": "x"}}).status == 403
        unit = f"/api/ad/organization-units/{directory.guid(organizational_unit)}"
        assert ordinary.delete(f"{unit}?recursive=true").status == 403
        assert ordinary.patch(unit, {"replace": {"gPLink": "[LDAP://CN=x;0]"}}).status == 403
        assert ordinary.patch(unit, {"replace": {"description": "x"}}).status == 200
    finally:
        directory.delete(outer)
    assert ordinary.patch(path, {"replace": {"title": "Countess"}}).status == 200
    assert ordinary.get(path).body["protected"] is False


def test_a_primary_group_protects(ordinary: Integration, ada: UUID, directory: Directory) -> None:
    admins = f"CN=Domain Admins,CN=Users,{directory.base_dn}"
    directory.add_values(admins, member=directory.dn(ada))
    directory.modify(ada, primaryGroupID="512")  # memberOf no longer shows it
    record = ordinary.get(f"/api/ad/users/{ada}?attributes=memberOf").body
    assert "Domain Admins" not in str(record["attributes"])
    assert record["protected"] is True


def test_a_group_of_the_domain_takes_members_with_the_permission_only(
    ordinary: Integration, integration: Integration, ada: UUID, directory: Directory
) -> None:
    path = f"/api/ad/groups/{directory.guid(f'CN=Print Operators,CN=Builtin,{directory.base_dn}')}"
    body = {"add": {"member": directory.dn(ada)}}
    assert ordinary.patch(path, body).status == 403
    answer = integration.patch(f"{path}?dryRun=true", body)
    assert (answer.status, answer.body["risk"]) == (200, "security")


@pytest.mark.parametrize(
    ("container", "object_class"),
    [
        ("CN=Services,CN=Configuration", "container"),
        ("CN=AdminSDHolder,CN=System", "container"),
        ("CN=Policies,CN=System", "groupPolicyContainer"),
        ("CN=System", "container"),
        ("OU=Domain Controllers", "computer"),
    ],
)
def test_what_governs_the_domain_takes_objects_with_the_permission_only(
    ordinary: Integration,
    connection: Any,
    directory: Directory,
    organizational_unit: str,
    container: str,
    object_class: str,
) -> None:
    parent = f"{container},{directory.base_dn}"
    body = {"name": random_name("o"), "parent": parent, "objectClass": object_class}
    assert ordinary.post("/api/ad/objects", body).status == 403
    supervised = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    answer = supervised.post("/api/ad/objects", body)
    assert (answer.status, answer.body["changeRequest"]["risk"]) == (202, "security")
    if "Configuration" not in container:
        guid = directory.add(f"CN={random_name('o')},{organizational_unit}", {"objectClass": object_class})
        assert ordinary.post(f"/api/ad/objects/{guid}/move", {"parent": parent}).status == 403
        assert supervised.post(f"/api/ad/objects/{guid}/move", {"parent": parent}).status == 202
        assert directory.dn(guid).endswith(organizational_unit)


@pytest.mark.parametrize("container", ["CN=Users,", "CN=Computers,", ""])
def test_what_is_there_for_everybody_takes_objects(
    ordinary: Integration, directory: Directory, organizational_unit: str, container: str
) -> None:
    parent = f"{container}{directory.base_dn}"
    created = ordinary.post("/api/ad/users", {"name": random_name("u"), "parent": parent})
    moved = directory.add_user(parent=organizational_unit)
    try:
        assert created.status == 201
        assert ordinary.post(f"/api/ad/users/{moved}/move", {"parent": parent}).status == 200
        assert directory.dn(moved).endswith(parent)
    finally:
        directory.delete(moved)
        directory.delete(UUID(created.body["id"]))


def test_what_is_shown_is_never_older_than_the_gateways_own_change(
    ordinary: Integration,
    domain: Domain,
    ada: UUID,
    directory: Directory,
    organizational_unit: str,
) -> None:
    """Whichever process, and whichever connection to the domain, the change was made by."""
    group = directory.add_group(parent=organizational_unit, members=[ada])
    operators = directory.guid(f"CN=Backup Operators,CN=Builtin,{directory.base_dn}")
    elsewhere = make_integration(make_connection(domain))
    unit = directory.guid(organizational_unit)

    def shown() -> set[bool]:
        seen = set()
        for caller in (ordinary, elsewhere):
            seen.add(caller.get(f"/api/ad/users/{ada}").body["protected"])
            seen.update(item["protected"] for item in caller.get(f"/api/ad/users?base={unit}").body["items"])
        return seen

    assert shown() == {False}
    administrator = make_integration(make_connection(domain))
    changes: tuple[tuple[Callable[[], Answer], bool], ...] = (
        (lambda: administrator.post(f"/api/ad/groups/{operators}/members", {"add": [str(group)]}), True),
        (lambda: administrator.post(f"/api/ad/groups/{group}/rename", {"name": random_name("group")}), True),
        (lambda: administrator.post(f"/api/ad/groups/{operators}/members", {"remove": [str(group)]}), False),
        (lambda: administrator.patch(f"/api/ad/groups/{operators}", {"add": {"member": directory.dn(group)}}), True),
        (lambda: administrator.delete(f"/api/ad/groups/{group}"), False),
    )
    for change, protected in changes:
        assert change().status in (200, 204)
        assert shown() == {protected}
