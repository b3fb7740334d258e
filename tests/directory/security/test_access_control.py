"""Access control lists through the front door, beside what Samba's own library reads and wrote."""

import struct
from typing import Any
from uuid import UUID, uuid4

import pytest

from active_directory import Entry
from active_directory.codecs import sid_to_text
from directory.lookup import access
from directory.lookup.connection import get_client
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import Answer, Integration, make_connection, make_integration
from tests.support.descriptors import add_entries, pack, same_order, unpack

ANONYMOUS = "S-1-5-7"
USER_CLASS = "bf967aba-0de6-11d0-a285-00aa003049e2"
FULL_CONTROL = [
    *("create-child", "delete-child", "list-children", "self-write", "read-property", "write-property", "delete-tree"),
    *("list-object", "control-access", "delete", "read-control", "write-dacl", "write-owner"),
]


@pytest.fixture
def domain_sid(directory: Directory) -> str:
    return sid_to_text(directory.read(directory.base_dn, "objectSid")["objectSid"][0])


@pytest.fixture
def helpdesk(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group("Helpdesk", parent=organizational_unit)


def sid_of(directory: Directory, guid: UUID) -> str:
    return sid_to_text(directory.read(guid, "objectSid")["objectSid"][0])


def read(integration: Integration, guid: UUID) -> Answer:
    return integration.get(f"/api/ad/objects/{guid}/access-control")


def entries_of(integration: Integration, guid: UUID, sid: str) -> list[dict[str, Any]]:
    """The entries for one account."""
    answer = read(integration, guid)
    assert answer.status == 200, answer.body
    return [entry for entry in answer.body["entries"] if entry["principal"]["sid"] == sid]


def test_it_works(
    integration: Integration, directory: Directory, organizational_unit: str, helpdesk: UUID, domain_sid: str
) -> None:
    sid = sid_of(directory, helpdesk)
    add_entries(directory, organizational_unit, f"(OA;CI;CCDC;{USER_CLASS};;{sid})", domain_sid=domain_sid)
    answer = read(integration, directory.guid(organizational_unit))
    assert answer.status == 200, answer.body
    admins = {
        "sid": f"{domain_sid}-512",
        "name": "Domain Admins",
        "id": str(directory.guid(f"CN=Domain Admins,CN=Users,{directory.base_dn}")),
    }
    shown = answer.body
    assert (shown["owner"], shown["group"]) == (admins, admins)
    assert set(shown) == {"owner", "group", "inheritanceBlocked", "sddl", "entries"}
    assert shown["inheritanceBlocked"] is False
    assert next(entry for entry in shown["entries"] if entry["principal"]["sid"] == sid) == {
        "type": "allow",
        "principal": {"sid": sid, "name": "Helpdesk", "id": str(helpdesk)},
        "rights": ["create-child", "delete-child"],
        "mask": 3,
        "appliesTo": {"kind": "class", "guid": USER_CLASS, "name": "user"},
        "inheritedObjectType": None,
        "inherited": False,
        "flags": ["container-inherit"],
    }


OBJECTS = [
    *("CN=Users", "CN=Builtin", "CN=AdminSDHolder,CN=System", "CN=Administrator,CN=Users", "CN=Infrastructure"),
    *("OU=Domain Controllers", "CN=DC1,OU=Domain Controllers"),
]


def test_every_kind_of_object_is_shown_as_samba_sees_it(
    integration: Integration, directory: Directory, domain_sid: str
) -> None:
    for dn in (directory.base_dn, *(f"{name},{directory.base_dn}" for name in OBJECTS)):
        shown = read(integration, directory.guid(dn)).body
        (expected,) = unpack([directory.descriptor(dn)], domain_sid)
        assert (shown["owner"]["sid"], shown["group"]["sid"]) == (expected["owner"], expected["group"])
        assert shown["inheritanceBlocked"] is bool(expected["control"] & 0x1000)
        assert same_order(shown["sddl"]) == same_order(expected["sddl"])
        assert [
            [
                entry["mask"],
                entry["principal"]["sid"],
                entry["appliesTo"] and entry["appliesTo"]["guid"],
                entry["inheritedObjectType"] and entry["inheritedObjectType"]["guid"],
            ]
            for entry in shown["entries"]
        ] == [entry[2:] for entry in expected["dacl"]]
        assert all(entry["appliesTo"] is None or entry["appliesTo"]["name"] for entry in shown["entries"])
        # An account that another test has deleted may have left an entry behind.
        unnamed = [entry["principal"]["sid"] for entry in shown["entries"] if not entry["principal"]["name"]]
        assert not [sid for sid in unnamed if not sid.startswith(domain_sid) or directory.exists(f"<SID={sid}>")]


CONFINED = [
    ("RP", "bf967a7f-0de6-11d0-a285-00aa003049e2", "attribute", "userCertificate"),
    ("WP", "28630ebf-41d5-11d1-a9c1-0000f80367c1", "attribute", "lockoutTime"),
    ("RPWP", "77b5b886-944a-11d1-aebd-0000f80367c1", "property-set", "Personal-Information"),
    ("RPWPCR", "91e647de-d96f-4b70-9557-d63ff4f3ccd8", "property-set", "Private-Information"),
    ("CR", "00299570-246d-11d0-a768-00aa006e0529", "extended-right", "User-Force-Change-Password"),
    # One identifier may stand for an attribute, the set it is in, and a validated write.
    ("SW", "f3a64788-5306-11d1-a9c5-0000f80367c1", "validated-write", "Validated-SPN"),
    ("WP", "f3a64788-5306-11d1-a9c5-0000f80367c1", "attribute", "servicePrincipalName"),
    ("SW", "72e39547-7b18-11d1-adef-00c04fd8d5cd", "validated-write", "Validated-DNS-Host-Name"),
    ("WP", "72e39547-7b18-11d1-adef-00c04fd8d5cd", "property-set", "DNS-Host-Name-Attributes"),
    ("SW", "bf9679c0-0de6-11d0-a285-00aa003049e2", "validated-write", "Self-Membership"),
    ("CC", "bf967aba-0de6-11d0-a285-00aa003049e2", "class", "user"),
    ("RP", "bf967aba-0de6-11d0-a285-00aa003049e2", "class", "user"),  # senseless, and shown for what it is
    ("WP", "00000000-1111-2222-3333-444444444444", "attribute", None),
    ("CR", "00000000-1111-2222-3333-444444444444", "extended-right", None),
]


def test_what_rights_are_confined_to_has_a_name(
    integration: Integration, directory: Directory, ada: UUID, domain_sid: str
) -> None:
    entries = (f"(OA;;{rights};{guid};{USER_CLASS};AN)" for rights, guid, _, _ in CONFINED)
    add_entries(directory, ada, *entries, domain_sid=domain_sid)
    shown = entries_of(integration, ada, ANONYMOUS)
    expected = [{"kind": kind, "guid": guid, "name": name} for _, guid, kind, name in CONFINED]
    assert [entry["appliesTo"] for entry in shown] == expected
    assert all(entry["inheritedObjectType"] == {"guid": USER_CLASS, "name": "user"} for entry in shown)


def test_rights_have_names(integration: Integration, directory: Directory, ada: UUID, domain_sid: str) -> None:
    named = {
        "GA": FULL_CONTROL,
        "GR": ["list-children", "read-property", "list-object", "read-control"],
        "GW": ["self-write", "write-property", "read-control"],
        "GX": ["list-children", "read-control"],
        "0x100010": ["read-property", "synchronize"],
        "CCDCLCSWRPWPDTLOCRSDRCWDWO": FULL_CONTROL,
    }
    add_entries(directory, ada, *(f"(D;;{rights};;;AN)" for rights in named), domain_sid=domain_sid)
    shown = [entry["rights"] for entry in entries_of(integration, ada, ANONYMOUS)]
    assert [rights for rights in named.values() if rights not in shown] == []
    assert len(shown) >= len(named) - 1  # the domain controller may take two that mean the same for one


def test_who_cannot_be_found_has_no_name(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID, domain_sid: str
) -> None:
    former = directory.add_group(parent=organizational_unit)
    sids = {"former": sid_of(directory, former), "foreign": "S-1-5-21-11-22-33-1104", "everyone": "S-1-1-0"}
    add_entries(directory, ada, *(f"(A;;RC;;;{sid})" for sid in sids.values()), domain_sid=domain_sid)
    directory.delete(former)
    shown = {name: entries_of(integration, ada, sid)[0]["principal"] for name, sid in sids.items()}
    assert shown == {
        "former": {"sid": sids["former"], "name": None, "id": None},
        "foreign": {"sid": sids["foreign"], "name": None, "id": None},
        "everyone": {"sid": "S-1-1-0", "name": "Everyone", "id": None},
    }


def test_many_accounts_are_all_found(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID, domain_sid: str
) -> None:
    groups = {
        sid_of(directory, guid): guid for guid in (directory.add_group(parent=organizational_unit) for _ in range(60))
    }
    add_entries(directory, ada, *(f"(A;;RC;;;{sid})" for sid in groups), domain_sid=domain_sid)
    principals = [entry["principal"] for entry in read(integration, ada).body["entries"]]
    found = {item["sid"]: item["id"] for item in principals if item["sid"] in groups}
    assert found == {sid: str(guid) for sid, guid in groups.items()}


def test_inheritance_is_shown_and_whether_it_is_blocked(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID, domain_sid: str
) -> None:
    add_entries(directory, organizational_unit, "(D;OICIIO;WP;;;AN)", "(A;CINP;RP;;;AN)", domain_sid=domain_sid)
    here = entries_of(integration, directory.guid(organizational_unit), ANONYMOUS)
    assert [(entry["type"], entry["inherited"], entry["flags"]) for entry in here] == [
        ("deny", False, ["object-inherit", "container-inherit", "inherit-only"]),
        ("allow", False, ["container-inherit", "no-propagate"]),
    ]
    below = entries_of(integration, ada, ANONYMOUS)
    assert [(entry["type"], entry["inherited"]) for entry in below] == [("deny", True), ("allow", True)]
    assert all("inherited" in entry["flags"] for entry in below)
    (blocked,) = pack("D:PAI(A;;GA;;;DA)(A;;GA;;;SY)", domain_sid=domain_sid)
    directory.set_access_control(ada, blocked)
    shown = read(integration, ada).body
    assert shown["inheritanceBlocked"] is True
    assert [entry["inherited"] for entry in shown["entries"]] == [False, False]


def test_it_needs_a_permission_of_its_own(connection: Any, ada: UUID) -> None:
    reader = make_integration(connection, may=["directory.read_object"])
    assert (read(reader, ada).status, read(reader, ada).code) == (403, "Auth.Forbidden")
    assert read(make_integration(connection, may=["directory.read_acl"]), ada).status == 200


def test_outside_the_scopes_is_forbidden(
    connection: Any, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    inner = directory.guid(directory.add_unit("Inner", parent=organizational_unit))
    confined = make_integration(connection, scopes=[inner])
    assert (read(confined, ada).status, read(confined, ada).code) == (403, "Auth.Forbidden")
    assert read(confined, inner).status == 200


def test_what_is_not_there_is_404(integration: Integration, ada: UUID) -> None:
    assert read(integration, uuid4()).code == "AD.Object.NotFound"
    assert integration.get(f"/api/ad/objects/{ada}/access-control?inherited=true").code == "Request.UnknownParameter"


def test_what_the_gateways_account_may_not_read_is_its_administrators_matter(
    db: None, domain: Domain, directory: Directory, organizational_unit: str, ada: UUID, domain_sid: str
) -> None:
    account = directory.add_user(parent=organizational_unit, password="Gateway-Account-1")
    connection = make_connection(domain, bind_dn=directory.dn(account), bind_password="Gateway-Account-1")
    integration = make_integration(connection)
    assert read(integration, ada).status == 200
    add_entries(directory, ada, f"(D;;RC;;;{sid_of(directory, account)})", domain_sid=domain_sid)
    answer = read(integration, ada)
    assert (answer.status, answer.code) == (502, "AD.Directory.Denied")


class Altered:
    """The real client, but for the access control list of every object it reads."""

    def __init__(self, client: Any, descriptor: bytes) -> None:
        self.client = client
        self.raw = descriptor

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def read(self, *arguments: Any, descriptor: bool = False, **options: Any) -> Entry:
        entry: Entry = self.client.read(*arguments, descriptor=descriptor, **options)
        if descriptor:
            return Entry(entry.dn, {**entry.attributes, "nTSecurityDescriptor": [self.raw]})
        return entry


@pytest.fixture
def altered(monkeypatch: pytest.MonkeyPatch, connection: Any) -> Any:
    """What the domain controller of the tests cannot store."""

    def alter(descriptor: bytes) -> None:
        client = Altered(get_client(connection.id), descriptor)
        monkeypatch.setattr(access, "get_client", lambda _id: client)

    return alter


EVERYONE = b"\x01\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"


def with_dacl(*aces: tuple[int, bytes]) -> bytes:
    content = b"".join(struct.pack("<BBH", kind, 2, 4 + len(body)) + body for kind, body in aces)
    acl = struct.pack("<BBHHH", 4, 0, 8 + len(content), len(aces), 0) + content
    return struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 20) + acl


def test_no_list_is_told_from_an_empty_one(integration: Integration, ada: UUID, altered: Any) -> None:
    altered(with_dacl())
    shown = read(integration, ada).body
    assert ("nullDacl" in shown, shown["entries"], shown["sddl"]) == (False, [], "D:")
    assert (shown["owner"], shown["group"]) == (None, None)
    altered(struct.pack("<BBHIIII", 1, 0, 0x8004, 0, 0, 0, 0))
    shown = read(integration, ada).body
    assert (shown["nullDacl"], shown["entries"], shown["sddl"]) == (True, [], "D:NO_ACCESS_CONTROL")


def test_entries_beyond_allow_and_deny_are_never_left_out(integration: Integration, ada: UUID, altered: Any) -> None:
    conditional = struct.pack("<I", 0x10) + EVERYONE + b"artx\x00"
    altered(with_dacl((0x0A, conditional), (0x42, b"\x01\x02"), (0x00, struct.pack("<I", 0x20) + EVERYONE)))
    shown = read(integration, ada).body
    assert shown["sddl"] is None
    assert [(entry["type"], entry["rights"], entry.get("condition")) for entry in shown["entries"]] == [
        ("deny", ["read-property"], "6172747800"),
        ("allow", ["write-property"], None),
    ]
    assert shown["unreadEntries"] == [
        {"position": 1, "aceType": 0x42, "flags": ["container-inherit"], "content": "0102"}
    ]


def test_a_malformed_list_is_the_directorys_fault(integration: Integration, ada: UUID, altered: Any) -> None:
    altered(with_dacl((0x00, b"\x00")))
    answer = read(integration, ada)
    assert (answer.status, answer.code) == (502, "AD.Directory.Failed")
