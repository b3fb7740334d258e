"""Distinguished names: what goes in comes out, and compares as the directory compares."""

import ldap.dn
import pytest
from hypothesis import given
from hypothesis import strategies as st

from active_directory import (
    Add,
    Client,
    Delete,
    DistinguishedName,
    InvalidValue,
    escape_rdn_value,
    linked_object,
    make_rdn,
)
from lab.directory import Directory

VALUES = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=64)


@given(VALUES)
def test_an_escaped_value_is_read_back(value: str) -> None:
    assert ldap.dn.str2dn(f"CN={escape_rdn_value(value)},DC=test")[0][0][1] == value


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_a_name_survives_being_written_and_read(values: list[str]) -> None:
    name = DistinguishedName(tuple((("OU", value),) for value in values))
    assert DistinguishedName.parse(str(name)).rdns == name.rdns


def test_names_compare_without_case_and_surplus_spaces() -> None:
    one = DistinguishedName.parse("CN=Ada  Lovelace , OU=People,DC=corp")
    two = DistinguishedName.parse("cn=ada lovelace,ou=PEOPLE,dc=Corp")
    assert one == two
    assert hash(one) == hash(two)
    assert one != DistinguishedName.parse("CN=Ada,OU=People,DC=corp")


def test_the_parts_of_a_name() -> None:
    name = DistinguishedName.parse(r"CN=Lovelace\, Ada,OU=People,DC=corp")
    assert (name.rdn_attribute, name.rdn_value, name.rdn) == ("CN", "Lovelace, Ada", r"CN=Lovelace\, Ada")
    parent = name.parent
    assert parent is not None
    assert str(parent) == "OU=People,DC=corp"
    assert parent.child("CN", "Lovelace, Ada") == name
    assert name.is_within(parent)
    assert name.is_within(name)
    assert not parent.is_within(name)
    assert not DistinguishedName.parse("OU=Other People,DC=corp").is_within(parent)


@pytest.mark.parametrize("text", ["nonsense", "=x", "CN=a,,DC=b", "CN=a\x00", "CN=\\zz\\"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        DistinguishedName.parse(text)


@pytest.mark.parametrize("value", ["", "a\x00b"])
def test_no_name_is_made_of_nothing(value: str) -> None:
    with pytest.raises(InvalidValue):
        make_rdn("CN", value)


@pytest.mark.parametrize(
    "value",
    ["#hash", " leading", "trailing ", 'q"u+o;t<e>d=', "back\\slash", "a,b", "Ünï 名前", "/", "\ttabs\t", "\\\t?\\"],
)
def test_the_directory_reads_an_escaped_name_alike(
    client: Client, directory: Directory, organizational_unit: str, value: str
) -> None:
    dn = f"{make_rdn('CN', value)},{organizational_unit}"
    client.write(Add(dn, {"objectClass": [b"contact"]}))
    entry = client.read(dn, ["cn", "name"])
    assert entry.text("cn") == value
    assert DistinguishedName.parse(entry.dn).rdn_value == value
    assert DistinguishedName.parse(entry.dn) == DistinguishedName.parse(dn)
    client.write(Delete(entry.dn))


def test_extended_names_identify_their_objects(client: Client, directory: Directory, organizational_unit: str) -> None:
    """Those with a SID, and contacts, which have none."""
    (contact,) = map(directory.guid, directory.add_contacts(1, parent=organizational_unit))
    members = [directory.add_user("a>;b", parent=organizational_unit), contact]
    group = directory.add_group(parent=organizational_unit, members=members)
    (entry,) = client.read_each([group.bytes_le], ("member",), extended=True)
    assert dict(map(linked_object, entry.values("member"))) == {guid.bytes_le: directory.dn(guid) for guid in members}
    identities = client.read(group, ("member",), identities=True).identities
    assert identities == {directory.dn(guid): guid for guid in members}
