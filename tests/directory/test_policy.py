"""Protection is found in two ways, from the administrative groups down and from one object up: they must agree."""

from directory.ldap import Client, Scope
from directory.policy import administrative_groups, holds_protected, is_protected
from directory.shapes.record import PROTECTION_ATTRIBUTES
from tests.support.directory import Directory

DISTRIBUTION_GROUP = 2


def test_both_ways_agree_about_every_object(client: Client, directory: Directory, organizational_unit: str) -> None:
    def add(*groups: object, **fields: object) -> object:
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

    groups = administrative_groups(client)
    seen = {}
    for base in (directory.base_dn, f"CN=Partitions,CN=Configuration,{directory.base_dn}"):
        for entry in client.search(base, Scope.SUBTREE, attributes=PROTECTION_ATTRIBUTES):
            seen[entry.guid] = groups.protect(entry)
            assert is_protected(client, entry) is seen[entry.guid], entry.dn
    assert all(seen[guid] for guid in (direct, primary, nested, mailing, outer, contact))
    assert not seen[free]
    assert not seen[ring]
    assert len(seen) > 200


def test_a_group_counts_however_its_name_is_spelled(
    client: Client, directory: Directory, organizational_unit: str
) -> None:
    """The small letters of some names are those of another object's."""
    place = directory.add_unit("Staff", parent=organizational_unit)
    user = directory.add_user(parent=place)
    inner = directory.add_group("Șefi ẞ İ", parent=organizational_unit, members=[user])
    assert not holds_protected(client, place)
    directory.add_values(f"CN=Backup Operators,CN=Builtin,{directory.base_dn}", member=directory.dn(inner))
    assert holds_protected(client, place)
    assert administrative_groups(client).protect(client.read(user, PROTECTION_ATTRIBUTES))
