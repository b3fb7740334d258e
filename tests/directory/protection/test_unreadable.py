"""What the gateway's own account may list but not read: it protects, stands in the way of deletions, and shows nowhere.

An account that is an administrator of the domain is kept out only by a list that names nobody but the system.
"""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client, Entry
from directory.protection.rules import is_protected, protected_among
from directory.shapes.record import PROTECTION_ATTRIBUTES
from lab.directory import Directory, random_name
from tests.directory.conftest import either_account
from tests.support.cast import Integration, all_permissions, make_integration
from tests.support.descriptors import pack

pytestmark = [pytest.mark.django_db, either_account]

NOBODY_READS = "D:P(A;;GA;;;SY)"
OPEN = "D:P(A;;GA;;;WD)"
# schemaIDGUIDs ([MS-ADA2], [MS-ADA3]).
MEMBER_OF, OBJECT_GUID = "bf967991-0de6-11d0-a285-00aa003049e2", "bf9679e7-0de6-11d0-a285-00aa003049e2"

Hide = Callable[..., None]
IsRefused = Callable[[UUID], bool]


def without(attribute: str) -> str:
    """A list that lets everybody do everything but read one attribute."""
    return f"D:P(OD;;RP;{attribute};;WD)(A;;GA;;;WD)"


@pytest.fixture
def hide(directory: Directory, organizational_unit: str) -> Iterator[Hide]:
    """Keep the gateway's account out of an object until the end of the test."""
    hidden: list[UUID] = []

    def apply(target: UUID, sddl: str = NOBODY_READS) -> None:
        hidden.append(target)
        directory.set_access_control(target, pack(sddl)[0])

    yield apply
    (opened,) = pack(OPEN)
    for target in hidden:
        if directory.exists(target):
            directory.set_access_control(target, opened)


@pytest.fixture
def ordinary(connection: Any) -> Integration:
    """May do everything but write protected objects."""
    return make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})


@pytest.fixture
def helpdesk(directory: Directory, organizational_unit: str, ada: UUID) -> UUID:
    """A group with Ada in it, itself in Domain Admins."""
    group = directory.add_group("Helpdesk", parent=organizational_unit, members=[ada])
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(group))
    return group


@pytest.fixture
def is_refused(ordinary: Integration, directory: Directory, organizational_unit: str) -> Callable[[UUID], bool]:
    """Whether the user is protected from those without the permission: alone, and among others."""

    def ask(user: UUID) -> bool:
        path = f"/api/ad/users/{user}"
        other = directory.add_user(parent=organizational_unit)
        items = [{"id": str(guid), "replace": {"title": random_name("title")}} for guid in (other, user)]
        results = ordinary.post("/api/ad/users/batch/update", {"items": items}).body["results"]
        assert results[0]["status"] == 200
        statuses = {
            ordinary.post(f"{path}/reset-password?dryRun=true", {"generate": True}).status,
            ordinary.patch(f"{path}?dryRun=true", {"replace": {"title": random_name("title")}}).status,
            results[1]["status"],
        }
        assert statuses in ({200}, {403})
        return statuses == {403}

    return ask


def test_a_group_that_cannot_be_read_protects_its_members(
    is_refused: IsRefused, ordinary: Integration, ada: UUID, helpdesk: UUID, hide: Hide
) -> None:
    hide(helpdesk)
    assert is_refused(ada)
    assert ordinary.get(f"/api/ad/users/{ada}").body["protected"] is True
    assert ordinary.get(f"/api/ad/users?base={ada}").body["items"][0]["protected"] is True


def test_a_group_in_a_unit_that_cannot_be_listed(
    is_refused: IsRefused, ada: UUID, directory: Directory, organizational_unit: str, hide: Hide
) -> None:
    unit = directory.add_unit("Tier 0", parent=organizational_unit)
    directory.add_group("Hidden", parent=unit, members=[ada])
    hide(directory.guid(unit))
    assert is_refused(ada)


def test_a_group_below_others_that_cannot_be_read(
    is_refused: IsRefused,
    ordinary: Integration,
    ada: UUID,
    helpdesk: UUID,
    directory: Directory,
    organizational_unit: str,
    hide: Hide,
) -> None:
    user = directory.add_user(parent=organizational_unit)
    inner = directory.add_group(parent=organizational_unit, members=[user])
    middle = directory.add_group(parent=organizational_unit, members=[inner])
    directory.add_values(helpdesk, member=directory.dn(middle))
    hide(middle)
    hide(helpdesk)
    assert is_refused(user)
    assert ordinary.patch(f"/api/ad/groups/{inner}", {"replace": {"info": "x"}}).status == 403


def test_a_group_whose_own_groups_cannot_be_read(
    is_refused: IsRefused, ordinary: Integration, ada: UUID, helpdesk: UUID, hide: Hide
) -> None:
    hide(helpdesk, without(MEMBER_OF))
    assert is_refused(ada)
    assert ordinary.patch(f"/api/ad/groups/{helpdesk}", {"replace": {"info": "x"}}).status == 403


def test_an_account_whose_groups_cannot_be_read(
    is_refused: IsRefused, ordinary: Integration, ada: UUID, helpdesk: UUID, hide: Hide
) -> None:
    hide(ada, without(MEMBER_OF))
    assert is_refused(ada)
    assert ordinary.get(f"/api/ad/users?base={ada}").body["items"][0]["protected"] is True


def test_a_primary_group_that_cannot_be_read(
    is_refused: IsRefused, ada: UUID, helpdesk: UUID, directory: Directory, hide: Hide
) -> None:
    number = int.from_bytes(directory.read(helpdesk, "objectSid")["objectSid"][0][-4:], "little")
    directory.modify(ada, primaryGroupID=str(number))
    hide(helpdesk)
    assert is_refused(ada)
    directory.modify(ada, primaryGroupID="513")  # its primary group is kept from being deleted


def test_a_deleted_group_protects_nobody(
    is_refused: IsRefused, ordinary: Integration, ada: UUID, helpdesk: UUID, directory: Directory
) -> None:
    directory.delete(helpdesk)
    assert "DEL:" in str(directory.read(ada, "memberOf"))  # Samba goes on showing it
    assert not is_refused(ada)
    assert ordinary.get(f"/api/ad/users?base={ada}").body["items"][0]["protected"] is False


def test_groups_of_other_domains(client: Client, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    """What the domain controller computes of an account tells of them; where it computes nothing, they may be any."""
    group = directory.add_group(parent=organizational_unit)
    for domain in ("DC=elsewhere,DC=test", f"DC=child,{directory.base_dn}"):
        foreign = f"CN=Universal,CN=Users,{domain}".encode()
        for guid, expected in ((ada, False), (group, True)):
            read = client.read(guid, PROTECTION_ATTRIBUTES)
            entry = Entry(read.dn, {**read.attributes, "memberOf": [foreign]})
            assert is_protected(client, entry) is expected
            assert protected_among(client, [entry]) == ({guid} if expected else set())


@pytest.fixture
def unit_with_administrator(directory: Directory, organizational_unit: str, hide: Hide) -> tuple[UUID, UUID, UUID]:
    """A unit, one below it that cannot be read, and an administrator in that."""
    unit = directory.add_unit("Workshop", parent=organizational_unit)
    inner = directory.add_unit("Inner", parent=unit)
    administrator = directory.add_user(parent=inner)
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(administrator))
    guids = directory.guid(unit), directory.guid(inner), administrator
    hide(guids[1])
    return guids


def test_nothing_is_deleted_that_cannot_be_judged(
    integration: Integration,
    ordinary: Integration,
    unit_with_administrator: tuple[UUID, UUID, UUID],
    directory: Directory,
    hide: Hide,
) -> None:
    unit, inner, administrator = unit_with_administrator
    path = f"/api/ad/organization-units/{unit}?recursive=true"
    for sddl in (NOBODY_READS, without(OBJECT_GUID)):
        hide(inner, sddl)
        for caller in (ordinary, integration):
            answer = caller.delete(path)
            assert (answer.status, answer.code) == (502, "AD.Directory.Denied")
            assert "OU=Inner" in answer.body["detail"]
    hide(inner, OPEN)
    assert directory.exists(administrator)
    assert integration.delete(path).status == 204


def test_nothing_is_moved_or_linked_to_policies_that_may_hold_protected_objects(
    integration: Integration,
    ordinary: Integration,
    unit_with_administrator: tuple[UUID, UUID, UUID],
    organizational_unit: str,
    directory: Directory,
) -> None:
    unit, _, _ = unit_with_administrator
    path = f"/api/ad/organization-units/{unit}"
    other = directory.add_unit("Other", parent=organizational_unit)
    for caller, status in ((ordinary, 403), (integration, 200)):
        assert caller.post(f"{path}/move?dryRun=true", {"parent": other}).status == status
        assert caller.post(f"{path}/rename?dryRun=true", {"name": "x"}).status == status
        assert caller.patch(f"{path}?dryRun=true", {"replace": {"gPOptions": "1"}}).status == status


def test_searches_leave_out_what_cannot_be_read(
    integration: Integration, ada: UUID, directory: Directory, organizational_unit: str, hide: Hide
) -> None:
    unit = directory.guid(organizational_unit)
    group = directory.add_group(parent=organizational_unit)
    hidden = directory.add_user("A hidden one", parent=organizational_unit)
    directory.add_values(group, member=[directory.dn(hidden), directory.dn(ada)])
    for sddl in (NOBODY_READS, without(OBJECT_GUID)):
        hide(hidden, sddl)
        for size in (1, 3, 50, 200):
            found: list[str] = []
            following: str | None = ""
            while following is not None:
                cursor = f"&cursor={following}" if following else ""
                page = integration.get(f"/api/ad/objects?base={unit}&pageSize={size}{cursor}").body
                found += [item["id"] for item in page["items"]]
                assert page["total"] == 3
                following = page["nextCursor"]
            assert sorted(found) == sorted(map(str, (unit, group, ada)))
        for path in (f"users?base={unit}", f"accounts?state=enabled&base={unit}", f"groups/{group}/members"):
            page = integration.get(f"/api/ad/{path}").body
            assert ([item["id"] for item in page["items"]], page["total"]) == ([str(ada)], 1)
        headers = {"X-API-Key": integration.value, "Accept": "application/x-ndjson"}
        stream: Any = integration.client.get(f"/api/ad/objects?base={unit}", headers=headers)
        assert len(b"".join(stream.streaming_content).splitlines()) == 3


def test_reading_what_cannot_be_read(
    integration: Integration, bind: dict[str, Any], directory: Directory, organizational_unit: str, hide: Hide
) -> None:
    unit = directory.add_unit("Dark", parent=organizational_unit)
    guid = directory.guid(unit)
    below = directory.guid(directory.add_unit("Below", parent=unit))
    hide(guid)
    for path in (f"objects/{guid}", f"objects/by-dn?dn={unit}"):
        answer = integration.get(f"/api/ad/{path}")
        assert (answer.status, answer.code) == (502, "AD.Directory.Denied")
    # Of which kind it is nobody can say.
    for path in (f"organization-units/{guid}", f"organization-units/{guid}/delegations"):
        assert integration.get(f"/api/ad/{path}").status == 404
    # Its owner, which administrators are, may read the list itself, whatever that says.
    answer = integration.get(f"/api/ad/objects/{guid}/access-control")
    if bind:
        assert (answer.status, answer.code) == (502, "AD.Directory.Denied")
    else:
        assert answer.body["sddl"].endswith(";;;SY)")
    hide(guid, "D:P(A;;LC;;;WD)(A;;GA;;;SY)")
    answer = integration.get(f"/api/ad/organization-units/{below}/delegations?inherited=true")
    assert (answer.status, answer.code) == (502, "AD.Directory.Denied")
    assert integration.get(f"/api/ad/organization-units/{below}").body["parentId"] == str(guid)
    hide(guid, without(OBJECT_GUID))
    for path in (f"organization-units/{guid}", f"objects/{guid}"):
        answer = integration.get(f"/api/ad/{path}")
        assert (answer.status, answer.code) == (502, "AD.Directory.Denied")


def test_the_groups_of_somebody_without_those_that_cannot_be_read(
    integration: Integration, ada: UUID, helpdesk: UUID, directory: Directory, organizational_unit: str, hide: Hide
) -> None:
    group = directory.add_group(parent=organizational_unit, members=[ada])
    for sddl in (NOBODY_READS, without(OBJECT_GUID)):
        hide(helpdesk, sddl)
        for nested in ("false", "true"):
            page = integration.get(f"/api/ad/users/{ada}/groups?nested={nested}").body
            found = {item["id"] for item in page["items"]}
            assert str(group) in found
            assert str(helpdesk) not in found


def test_members_that_it_may_not_read_fill_no_page(
    ordinary: Integration, directory: Directory, organizational_unit: str, hide: Hide
) -> None:
    members = sorted((directory.add_user(parent=organizational_unit) for _ in range(3)), key=lambda guid: guid.bytes_le)
    group = directory.add_group(parent=organizational_unit, members=members)
    hide(members[0])
    hide(members[1])
    page = ordinary.get(f"/api/ad/groups/{group}/members?pageSize=1").body
    assert [item["id"] for item in page["items"]] == [str(members[2])]
    assert page["nextCursor"] is None
    assert ordinary.get(f"/api/ad/groups/{group}/members").body["total"] == 1
