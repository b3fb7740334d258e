"""The directory's own schema, and the numbers by which replication metadata names its attributes."""

import pytest

from active_directory import Client, Entry, Modification, Modify, ProtocolError, Syntax, quoted_password
from active_directory.entry import parse_versions
from active_directory.errors import AccessDenied
from active_directory.schema import attid_of
from lab.directory import Directory


def test_attributes_are_what_the_directory_says(client: Client) -> None:
    schema = client.schema
    assert len(schema.attributes) > 1400
    assert len(schema.classes) > 250
    member, member_of = schema.attribute("MEMBER;range=0-1"), schema.attribute("memberOf")
    assert member is not None
    assert member_of is not None
    assert (member.name, member.syntax, member.is_linked, member.is_back_link) == ("member", Syntax.DN, True, False)
    assert member_of.is_back_link
    account = schema.attribute("sAMAccountName")
    assert account is not None
    assert (account.single_valued, account.is_indexed, account.range_upper) == (True, True, 256)
    guid = schema.attribute("objectGUID")
    assert guid is not None
    assert guid.system_only
    groups = schema.attribute("tokenGroups")
    assert groups is not None
    assert groups.constructed
    key = schema.attribute("msFVE-RecoveryPassword")
    assert key is not None
    assert key.is_confidential
    assert schema.attribute("noSuchThing") is None
    assert member.schema_id_guid is not None
    assert schema.attribute_by_guid(member.schema_id_guid) is member


def test_classes_inherit(client: Client) -> None:
    schema = client.schema
    user = schema.object_class("USER")
    assert user is not None
    assert (user.is_structural, user.rdn_attribute) == (True, "cn")
    assert schema.superclasses("user") == ["user", "organizationalPerson", "person", "top"]
    allowed = schema.allowed_attributes(["user"])
    assert {"givenname", "samaccountname", "description", "mail"} <= allowed  # own, auxiliary and inherited
    assert "gplink" not in allowed
    assert {"cn", "objectclass"} <= schema.required_attributes(["user"])


def test_the_schema_is_read_once(client: Client) -> None:
    assert client.schema is client.schema


def test_attids_of_the_standard_prefixes() -> None:
    assert attid_of("1.2.840.113556.1.4.90") == 0x9005A  # unicodePwd, as seen in Windows' error messages
    assert attid_of("2.5.4.12") == 0xC  # title
    assert attid_of("1.2.840.113556.1.4.656") == 0x90290  # userPrincipalName
    assert attid_of("1.3.6.1.4.1.99999.1") is None


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("title", b"Countess"), ("mail", b"ada@corp.example.test"), ("unicodePwd", quoted_password("Another-Horse-9"))],
)
def test_a_change_moves_the_version_of_its_attribute_only(
    client: Client, directory: Directory, organizational_unit: str, attribute: str, value: bytes
) -> None:
    user = directory.add_user(parent=organizational_unit, mail="x@corp.example.test", password="Some-Horse-9")
    kind = client.schema.attribute(attribute)
    other = client.schema.attribute("sAMAccountName")
    assert kind is not None
    assert other is not None

    def versions() -> dict[int, int]:
        return client.read(user, ["replPropertyMetaData"]).versions

    before = versions()
    client.write(Modify(directory.dn(user), (Modification("replace", attribute, (value,)),)))
    after = versions()
    assert kind.attid is not None
    assert other.attid is not None
    assert after[kind.attid] == before.get(kind.attid, 0) + 1
    assert after[other.attid] == before[other.attid]


@pytest.mark.parametrize("blob", [b"", b"\x01" * 15, b"\x01" + b"\x00" * 7 + b"\x01" + b"\x00" * 7 + b"x" * 47])
def test_cut_metadata_is_refused(blob: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_versions(blob)


def test_entries_are_read_without_regard_to_case() -> None:
    entry = Entry("CN=a", {"sAMAccountName": [b"ada"], "flags": [b"7"], "isDeleted": [b"TRUE"]})
    assert entry.text("samaccountname") == "ada"
    assert "SAMACCOUNTNAME" in entry
    assert "mail" not in entry
    assert (entry.integer("FLAGS"), entry.boolean("isdeleted"), entry.values("mail")) == (7, True, [])
    assert "ada" not in repr(entry)
    with pytest.raises(ProtocolError):
        entry.integer("sAMAccountName")
    with pytest.raises(AccessDenied):
        _ = entry.guid
