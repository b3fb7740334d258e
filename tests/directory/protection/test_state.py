"""Protection is found in two ways, from the administrative groups down and from one object up: they must agree."""

from uuid import UUID

import pytest

from active_directory import Client, Scope
from directory.protection.rules import contains_protected, is_protected
from directory.protection.state import protection_state
from directory.shapes.record import PROTECTION_ATTRIBUTES
from lab.directory import Directory
from tests.directory.conftest import either_account
from tests.support.descriptors import pack

pytestmark = [pytest.mark.django_db, either_account]

DISTRIBUTION_GROUP = 2


def test_both_ways_agree_about_every_object(client: Client, directory: Directory, organizational_unit: str) -> None:
    def add(*groups: object, **fields: object) -> UUID:
        guid = directory.add_user(parent=organizational_unit)
        for group in groups:
            directory.add_values(group, member=directory.dn(guid))  # type: ignore[arg-type]
        if fields:
            directory.modify(guid, **fields)  # type: ignore[arg-type]
        return guid

    domain_admins = f"CN=Domain Admins,CN=Users,{directory.base_dn}"
    direct = add(domain_admins)
    primary = add(domain_admins, primaryGroupID="512")
    mailing = directory.add_group(parent=organizational_unit, group_type=DISTRIBUTION_GROUP)
    outer = directory.add_group(parent=organizational_unit, members=[mailing])
    nested = add(mailing)
    directory.add_values(f"CN=Backup Operators,CN=Builtin,{directory.base_dn}", member=directory.dn(outer))
    ring = directory.add_group(parent=organizational_unit)
    directory.add_values(ring, member=directory.dn(directory.add_group(parent=organizational_unit, members=[ring])))
    free = add(ring)
    contact = directory.add(f"CN=Contact,{organizational_unit}", {"objectClass": "contact"})
    directory.add_values(mailing, member=directory.dn(contact))
    gone = directory.add_group(parent=organizational_unit)
    directory.add_values(domain_admins, member=directory.dn(gone))
    was_nested = add(gone)
    directory.delete(gone)

    seen = judge_every_object(client, directory)
    assert all(seen[guid] for guid in (direct, primary, nested, mailing, outer, contact))
    assert not any(seen[guid] for guid in (free, ring, was_nested))


def test_both_ways_agree_about_what_is_below_an_unreadable_group(
    client: Client, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    inner = directory.add_group(parent=organizational_unit, members=[user])
    member = directory.add_user(parent=organizational_unit)
    hidden = directory.add_group(parent=organizational_unit, members=[inner, member])
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(hidden))
    only_system, everybody = pack("D:P(A;;GA;;;SY)", "D:P(A;;GA;;;WD)")
    backup_operators = f"CN=Backup Operators,CN=Builtin,{directory.base_dn}"
    operator = directory.add_user(parent=organizational_unit)
    directory.add_values(backup_operators, member=directory.dn(operator))
    for unreadable in (hidden, directory.guid(backup_operators)):
        before = directory.descriptor(unreadable)
        directory.set_access_control(unreadable, only_system)
        try:
            seen = judge_every_object(client, directory)
        finally:
            directory.set_access_control(unreadable, everybody)
            directory.set_access_control(unreadable, before)
        assert unreadable not in seen
        assert all(seen[guid] for guid in (user, inner, member, operator))


def judge_every_object(client: Client, directory: Directory) -> dict[UUID, bool]:
    """Whether each object is protected, by its objectGUID; those that cannot be read are left out."""
    groups = protection_state(client)
    seen = {}
    for base in (directory.base_dn, f"CN=Partitions,CN=Configuration,{directory.base_dn}"):
        for entry in client.search(base, Scope.SUBTREE, attributes=PROTECTION_ATTRIBUTES):
            if "objectGUID" in entry:
                seen[entry.guid] = groups.is_protected(entry)
                assert is_protected(client, entry) is seen[entry.guid], entry.dn
    return seen


def test_a_group_counts_however_its_name_is_spelled(
    client: Client, directory: Directory, organizational_unit: str
) -> None:
    """The small letters of some names are those of another object's."""
    place = directory.add_unit("Staff", parent=organizational_unit)
    user = directory.add_user(parent=place)
    inner = directory.add_group("Șefi ẞ İ", parent=organizational_unit, members=[user])
    assert not contains_protected(client, place)
    directory.add_values(f"CN=Backup Operators,CN=Builtin,{directory.base_dn}", member=directory.dn(inner))
    assert contains_protected(client, place)
    assert protection_state(client).is_protected(client.read(user, PROTECTION_ATTRIBUTES))


def test_no_member_is_looked_up(
    client: Client, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write in the domain outdates the state, and thousands may be in administrative groups."""
    user = directory.add_user(parent=organizational_unit)
    inner = directory.add_group(parent=organizational_unit, members=[user])
    directory.add_values(f"CN=Backup Operators,CN=Builtin,{directory.base_dn}", member=directory.dn(inner))
    asked: list[str] = []
    search = client.search
    monkeypatch.setattr(client, "search", lambda *of, **how: asked.append(str(of[2])) or search(*of, **how))
    state = protection_state(client)
    assert state.is_protected(client.read(user, PROTECTION_ATTRIBUTES))
    assert not any(f"distinguishedName={directory.dn(user)}" in each for each in asked)
