"""Delegations on organizational units, made as the tools make them: by entries in access control lists."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from active_directory.codecs import sid_to_text
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import Answer, Integration, make_connection, make_integration
from tests.support.descriptors import add_entries, pack

USER, GROUP, COMPUTER, UNIT = (
    *("bf967aba-0de6-11d0-a285-00aa003049e2", "bf967a9c-0de6-11d0-a285-00aa003049e2"),
    *("bf967a86-0de6-11d0-a285-00aa003049e2", "bf967aa5-0de6-11d0-a285-00aa003049e2"),
)
RESET_PASSWORD = "00299570-246d-11d0-a768-00aa006e0529"
PWD_LAST_SET, LOCKOUT_TIME, USER_ACCOUNT_CONTROL = (
    *("bf967a0a-0de6-11d0-a285-00aa003049e2", "28630ebf-41d5-11d1-a9c1-0000f80367c1"),
    "bf967a68-0de6-11d0-a285-00aa003049e2",
)
TITLE = "bf967a55-0de6-11d0-a285-00aa003049e2"
Delegate = Callable[..., None]


@pytest.fixture
def domain_sid(directory: Directory) -> str:
    return sid_to_text(directory.read(directory.base_dn, "objectSid")["objectSid"][0])


def sid_of(directory: Directory, guid: UUID) -> str:
    return sid_to_text(directory.read(guid, "objectSid")["objectSid"][0])


@pytest.fixture
def helpdesk(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group("Helpdesk", parent=organizational_unit)


@pytest.fixture
def delegate(directory: Directory, helpdesk: UUID, domain_sid: str) -> Delegate:
    """Give entries, written without their account, to the helpdesk or another account."""

    def give(dn: str, *entries: str, to: str | None = None) -> None:
        sid = to or sid_of(directory, helpdesk)
        add_entries(directory, dn, *(f"{entry[:-1]};{sid})" for entry in entries), domain_sid=domain_sid)

    return give


def read(integration: Integration, directory: Directory, dn: str, *, inherited: bool = False) -> Answer:
    query = "?inherited=true" if inherited else ""
    return integration.get(f"/api/ad/organization-units/{directory.guid(dn)}/delegations{query}")


def tasks_of(answer: Answer, principal: str = "Helpdesk") -> dict[str, str]:
    """The types of one principal's tasks by name."""
    assert answer.status == 200, answer.body
    found = [item for item in answer.body["items"] if item["principal"]["name"] == principal]
    assert len(found) <= 1
    return {task["name"]: task["type"] for item in found for task in item["tasks"]}


def test_it_works(
    integration: Integration, directory: Directory, organizational_unit: str, helpdesk: UUID, delegate: Delegate
) -> None:
    """What the delegation wizard writes for "Reset user passwords and force password change at next logon"."""
    delegate(organizational_unit, f"(OA;CIIO;CR;{RESET_PASSWORD};{USER})", f"(OA;CIIO;RPWP;{PWD_LAST_SET};{USER})")
    answer = read(integration, directory, organizational_unit)
    assert answer.status == 200, answer.body
    (item,) = answer.body["items"]
    principal = {"sid": sid_of(directory, helpdesk), "name": "Helpdesk", "id": str(helpdesk)}
    source = {"id": str(directory.guid(organizational_unit)), "distinguishedName": organizational_unit}
    common = {
        "type": "allow",
        "principal": principal,
        "inheritedObjectType": {"guid": USER, "name": "user"},
        "inherited": False,
        "flags": ["container-inherit", "inherit-only"],
    }
    right = {"kind": "extended-right", "guid": RESET_PASSWORD, "name": "User-Force-Change-Password"}
    attribute = {"kind": "attribute", "guid": PWD_LAST_SET, "name": "pwdLastSet"}
    reset = {**common, "rights": ["control-access"], "mask": 0x100, "appliesTo": right}
    force = {**common, "rights": ["read-property", "write-property"], "mask": 0x30, "appliesTo": attribute}
    assert item["principal"] == principal
    assert item["tasks"] == [
        {"name": "Reset password", "type": "allow", "source": source, "entries": [reset]},
        {"name": "Force password change at next sign-in", "type": "allow", "source": source, "entries": [force]},
    ]


def test_what_every_unit_has_is_no_delegation(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    for dn in (organizational_unit, f"OU=Domain Controllers,{directory.base_dn}"):
        for inherited in (False, True):
            assert read(integration, directory, dn, inherited=inherited).body == {"items": []}


def test_nor_is_the_protection_from_accidental_deletion(
    integration: Integration, directory: Directory, organizational_unit: str, delegate: Delegate
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    delegate(organizational_unit, "(D;;DC;;)", to="WD")
    delegate(inner, "(D;;SDDT;;)", to="WD")
    assert read(integration, directory, organizational_unit).body == {"items": []}
    assert read(integration, directory, inner, inherited=True).body == {"items": []}
    delegate(inner, "(D;;WP;;)", to="WD")
    assert tasks_of(read(integration, directory, inner), "Everyone") == {"Write all properties": "deny"}
    directory.set_access_control(inner, pack("D:AI(A;;GA;;;DA)", domain_sid="S-1-5-21-1-2-3")[0])


WIZARD: dict[tuple[str, ...], list[str]] = {
    ("(A;CI;GA;;)",): ["Full control"],
    (f"(OA;CI;CCDC;{USER};)", f"(OA;CIIO;GA;;{USER})"): ["Manage users", "Create and delete users"],
    (f"(OA;CI;CC;{GROUP};)", f"(OA;CI;DC;{GROUP};)"): ["Create and delete groups"],
    (f"(OA;CI;CCDC;{COMPUTER};)",): ["Create and delete computers"],
    (f"(OA;CI;CCDC;{UNIT};)",): ["Create and delete organizational units"],
    (f"(OA;CI;CC;{USER};)",): ["Create users"],
    (f"(OA;CI;DC;{USER};)",): ["Delete users"],
    (f"(OA;CI;CC;{COMPUTER};)",): ["Join computers to the domain"],
    (
        f"(OA;CIIO;CR;{RESET_PASSWORD};{COMPUTER})",
        f"(OA;CIIO;SW;72e39547-7b18-11d1-adef-00c04fd8d5cd;{COMPUTER})",
        f"(OA;CIIO;SW;f3a64788-5306-11d1-a9c5-0000f80367c1;{COMPUTER})",
    ): ["Join computers to the domain"],
    (f"(OA;CIIO;RPWP;{LOCKOUT_TIME};{USER})",): ["Unlock accounts"],
    (f"(OA;CIIO;RPWP;{USER_ACCOUNT_CONTROL};{USER})",): ["Enable and disable accounts"],
    (f"(OA;CIIO;RPWP;bf9679c0-0de6-11d0-a285-00aa003049e2;{GROUP})",): ["Manage group membership"],
    (f"(OA;CIIO;WP;bc0ac240-79a9-11d0-9020-00c04fc2d4cf;{GROUP})",): ["Manage group membership"],
    ("(OA;CI;RPWP;f30e3bbe-9ff0-11d1-b603-0000f80367c1;)", "(OA;CI;RPWP;f30e3bbf-9ff0-11d1-b603-0000f80367c1;)"): [
        "Link group policies"
    ],
    (
        "(OA;;CR;1131f6aa-9c07-11d1-f79f-00c04fc2dcd2;)",
        "(OA;;CR;1131f6ad-9c07-11d1-f79f-00c04fc2dcd2;)",
    ): ["Replicate directory changes"],
    (f"(OA;CIIO;RP;;{USER})",): ["Read all properties"],
    (f"(OA;CIIO;LCRPLORC;;{USER})",): ["Read all properties"],
    ("(A;CI;RPWP;;)",): ["Read all properties", "Write all properties"],
    ("(A;CI;CCDC;;)",): ["Create and delete all objects"],
    ("(A;CI;WDWO;;)",): ["Modify permissions", "Take ownership"],
    ("(A;CI;SDDT;;)",): ["Delete objects with all below"],
    (f"(OA;CIIO;RPWP;{TITLE};{USER})",): ["Write title"],
    (f"(OA;CIIO;RP;{TITLE};{USER})",): ["Read title"],
    (f"(OA;CIIO;RPWP;77b5b886-944a-11d1-aebd-0000f80367c1;{USER})",): ["Write Personal-Information"],
    ("(OA;CI;CR;ab721a54-1e2f-11d0-9819-00aa0040529b;)",): ["Send As"],
    ("(OA;CI;CCDC;bf967aa8-0de6-11d0-a285-00aa003049e2;)",): ["Create and delete printQueue objects"],
    ("(OA;CI;CR;00000000-1111-2222-3333-444444444444;)",): ["Custom"],
    ("(A;CI;0x100000;;)",): ["Custom"],
}


def test_rights_are_named_for_what_one_can_do_with_them(
    integration: Integration, directory: Directory, organizational_unit: str, domain_sid: str, delegate: Delegate
) -> None:
    (fresh,) = pack("D:AI(A;;GA;;;DA)(A;;GA;;;SY)", domain_sid=domain_sid)
    for entries, names in WIZARD.items():
        directory.set_access_control(organizational_unit, fresh)
        delegate(organizational_unit, *entries)
        answer = read(integration, directory, organizational_unit)
        assert list(tasks_of(answer)) == names, entries


def test_what_is_denied_is_a_task_of_its_own(
    integration: Integration, directory: Directory, organizational_unit: str, delegate: Delegate
) -> None:
    delegate(
        organizational_unit,
        f"(OD;CIIO;CR;{RESET_PASSWORD};{USER})",
        f"(OA;CIIO;WP;{LOCKOUT_TIME};{USER})",
        f"(OA;CI;CC;{USER};)",
        f"(OD;CI;DC;{USER};)",
    )
    answer = read(integration, directory, organizational_unit)
    assert tasks_of(answer) == {
        "Reset password": "deny",
        "Delete users": "deny",
        "Unlock accounts": "allow",
        "Create users": "allow",
    }


def test_more_than_the_default_is_shown_without_it(
    integration: Integration, directory: Directory, organizational_unit: str, domain_sid: str
) -> None:
    """Account operators may create and delete users everywhere by default, authenticated users read."""
    (changed,) = pack(
        "D:AI(A;;GA;;;DA)(A;;LCRPLORCWP;;;AU)(OA;;CCDC;bf967aba-0de6-11d0-a285-00aa003049e2;;AO)", domain_sid=domain_sid
    )
    directory.set_access_control(organizational_unit, changed)
    answer = read(integration, directory, organizational_unit)
    assert [item["principal"]["name"] for item in answer.body["items"]] == ["Authenticated Users"]
    assert tasks_of(answer, "Authenticated Users") == {"Write all properties": "allow"}
    assert "read-property" in answer.body["items"][0]["tasks"][0]["entries"][0]["rights"]
    directory.set_access_control(organizational_unit, pack("D:AI(A;;GA;;;DA)(A;;GA;;;AU)", domain_sid=domain_sid)[0])
    answer = read(integration, directory, organizational_unit)
    assert tasks_of(answer, "Authenticated Users") == {"Full control": "allow"}


def test_what_comes_from_above_has_its_source(
    integration: Integration, directory: Directory, organizational_unit: str, helpdesk: UUID, delegate: Delegate
) -> None:
    middle = directory.add_unit("Middle", parent=organizational_unit)
    bottom = directory.add_unit("Bottom", parent=middle)
    other = directory.add_group("Other", parent=organizational_unit)
    delegate(
        organizational_unit,
        f"(OA;CIIO;CR;{RESET_PASSWORD};{USER})",
        "(A;CINP;WD;;)",  # to the next level only
        f"(OA;;CC;{USER};)",  # here only
        f"(OA;CIIO;GA;;{UNIT})",
    )
    delegate(middle, f"(OA;CI;RPWP;{LOCKOUT_TIME};{USER})")
    delegate(bottom, f"(OA;CI;CCDC;{GROUP};)", to=sid_of(directory, other))
    assert [item["principal"]["name"] for item in read(integration, directory, bottom).body["items"]] == ["Other"]

    def sources(dn: str) -> dict[str, str]:
        items = read(integration, directory, dn, inherited=True).body["items"]
        found = {}
        for task in (task for item in items for task in item["tasks"]):
            found[task["name"]] = task["source"]["distinguishedName"]
            assert task["source"]["id"] == str(directory.guid(task["source"]["distinguishedName"]))
            assert all(entry["inherited"] is (task["source"]["distinguishedName"] != dn) for entry in task["entries"])
        return found

    assert sources(bottom) == {
        "Create and delete groups": bottom,
        "Reset password": organizational_unit,
        "Unlock accounts": middle,
        "Manage organizational units": organizational_unit,
        "Full control": organizational_unit,  # what that means for the unit itself
    }
    assert sources(middle) == {
        "Unlock accounts": middle,
        "Reset password": organizational_unit,
        "Modify permissions": organizational_unit,
        "Manage organizational units": organizational_unit,
        "Full control": organizational_unit,
    }
    assert set(sources(organizational_unit)) == {
        *("Reset password", "Modify permissions", "Create users", "Manage organizational units")
    }


def test_nothing_comes_down_where_inheritance_is_blocked(
    integration: Integration, directory: Directory, organizational_unit: str, domain_sid: str, delegate: Delegate
) -> None:
    middle = directory.add_unit("Middle", parent=organizational_unit)
    bottom = directory.add_unit("Bottom", parent=middle)
    delegate(organizational_unit, f"(OA;CIIO;CR;{RESET_PASSWORD};{USER})")
    assert tasks_of(read(integration, directory, bottom, inherited=True)) == {"Reset password": "allow"}
    (blocked,) = pack("D:PAI(A;;GA;;;DA)(A;;GA;;;SY)", domain_sid=domain_sid)
    directory.set_access_control(middle, blocked)
    assert read(integration, directory, bottom, inherited=True).body == {"items": []}


def test_the_same_delegation_twice_has_two_sources(
    integration: Integration, directory: Directory, organizational_unit: str, delegate: Delegate
) -> None:
    middle = directory.add_unit("Middle", parent=organizational_unit)
    bottom = directory.add_unit("Bottom", parent=middle)
    entry = f"(OA;CIIO;CR;{RESET_PASSWORD};{USER})"
    delegate(organizational_unit, entry)
    delegate(middle, entry)
    (item,) = read(integration, directory, bottom, inherited=True).body["items"]
    found = [task["source"]["distinguishedName"] for task in item["tasks"]]
    assert found in ([middle], [middle, organizational_unit])  # the domain controller may merge what is the same


def test_what_goes_one_level_down_is_no_source_further_below(
    integration: Integration, directory: Directory, organizational_unit: str, delegate: Delegate
) -> None:
    middle = directory.add_unit("Middle", parent=organizational_unit)
    bottom = directory.add_unit("Bottom", parent=directory.add_unit("Lower", parent=middle))
    delegate(organizational_unit, "(A;CI;WD;;)")
    delegate(middle, "(A;CINP;WD;;)")
    (item,) = read(integration, directory, bottom, inherited=True).body["items"]
    assert [task["source"]["distinguishedName"] for task in item["tasks"]] == [organizational_unit]


def test_a_delegation_on_the_domain_comes_down(
    integration: Integration, directory: Directory, organizational_unit: str, domain_sid: str, delegate: Delegate
) -> None:
    before = directory.descriptor(directory.base_dn)
    delegate(directory.base_dn, f"(OA;CIIO;CR;{RESET_PASSWORD};{USER})")
    try:
        answer = read(integration, directory, organizational_unit, inherited=True)
    finally:
        directory.set_access_control(directory.base_dn, before)
    (item,) = answer.body["items"]
    (task,) = item["tasks"]
    assert (task["name"], task["source"]["distinguishedName"]) == ("Reset password", directory.base_dn)


def test_only_organizational_units_have_it(
    integration: Integration, directory: Directory, helpdesk: UUID, organizational_unit: str
) -> None:
    for guid in (helpdesk, directory.guid(f"CN=Users,{directory.base_dn}")):
        answer = integration.get(f"/api/ad/organization-units/{guid}/delegations")
        assert (answer.status, answer.code) == (404, "AD.Object.NotFound")
    path = f"/api/ad/organization-units/{directory.guid(organizational_unit)}/delegations"
    assert integration.get(f"{path}?inherited=yes").code == "Request.Invalid"
    assert integration.get(f"{path}?deep=true").code == "Request.UnknownParameter"


def test_it_needs_a_permission_and_a_place_inside_the_scopes(
    connection: Any, directory: Directory, organizational_unit: str, delegate: Delegate
) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    delegate(organizational_unit, f"(OA;CIIO;CR;{RESET_PASSWORD};{USER})")
    reader = make_integration(connection, may=["directory.read_object"])
    assert read(reader, directory, organizational_unit).code == "Auth.Forbidden"
    confined = make_integration(connection, may=["directory.read_acl"], scopes=[directory.guid(inner)])
    assert read(confined, directory, organizational_unit).code == "Auth.Forbidden"
    assert tasks_of(read(confined, directory, inner, inherited=True)) == {"Reset password": "allow"}


def test_what_the_gateways_account_may_not_read_is_never_an_empty_list(
    db: None, domain: Domain, directory: Directory, organizational_unit: str, domain_sid: str
) -> None:
    account = directory.add_user(parent=organizational_unit, password="Gateway-Account-1")
    inner = directory.add_unit("Inner", parent=organizational_unit)
    connection = make_connection(domain, bind_dn=directory.dn(account), bind_password="Gateway-Account-1")
    integration = make_integration(connection)
    assert read(integration, directory, inner, inherited=True).status == 200
    denial = f"(D;;RC;;;{sid_of(directory, account)})"
    add_entries(directory, organizational_unit, denial, domain_sid=domain_sid)
    assert read(integration, directory, inner).status == 200
    assert read(integration, directory, inner, inherited=True).code == "AD.Directory.Denied"
    answer = read(integration, directory, organizational_unit)
    assert (answer.status, answer.code) == (502, "AD.Directory.Denied")
    # Where nothing comes down, nothing above needs to be read.
    (blocked,) = pack("D:PAI(A;;GA;;;DA)(A;;GR;;;AU)", domain_sid=domain_sid)
    directory.set_access_control(inner, blocked)
    assert read(integration, directory, inner, inherited=True).status == 200
