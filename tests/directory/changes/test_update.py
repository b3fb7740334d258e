"""Updates: what the four updates mean, what is refused before anything is written, the parts of accounts and groups."""

import base64
from typing import Any
from uuid import UUID

import pytest

from lab.directory import Directory
from tests.support.cast import Answer, Integration, make_integration


@pytest.fixture
def group(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group(parent=organizational_unit)


def update(integration: Integration, guid: UUID, body: Any, resource: str = "users") -> Answer:
    return integration.patch(f"/api/ad/{resource}/{guid}", body)


def texts(directory: Directory, guid: UUID, attribute: str) -> set[str]:
    return {value.decode() for value in directory.read(guid, attribute).get(attribute, [])}


def test_it_works(integration: Integration, ada: UUID, directory: Directory) -> None:
    directory.modify(ada, otherTelephone=["1", "2"], department="Analysis", sn="Byron")
    answer = update(
        integration,
        ada,
        {
            "replace": {"title": "Countess", "SN": ["Lovelace"]},
            "add": {"otherTelephone": ["2", "3"]},
            "remove": {"otherTelephone": "1"},
            "clear": ["department"],
        },
    )
    assert answer.status == 200
    assert answer.body["attributes"]["title"] == ["Countess"]
    assert answer.body["attributes"]["department"] == []
    assert directory.text(ada, "sn") == "Lovelace"
    assert texts(directory, ada, "otherTelephone") == {"2", "3"}
    assert directory.text(ada, "department") is None


def test_present_and_absent_values_are_no_change(integration: Integration, ada: UUID, directory: Directory) -> None:
    directory.modify(ada, otherTelephone=["1", "one"])
    before = integration.get(f"/api/ad/users/{ada}").body["version"]
    body = {
        "add": {"otherTelephone": ["ONE", "1"], "title": "analyst"},
        "remove": {"otherMobile": "9"},
        "clear": ["mail"],
    }
    answer = update(integration, ada, body)
    assert (answer.status, answer.body["version"]) == (200, before)


def test_replacing_can_change_case_alone(integration: Integration, ada: UUID, directory: Directory) -> None:
    update(integration, ada, {"replace": {"title": "ANALYST"}})
    assert directory.text(ada, "title") == "ANALYST"


def test_a_value_changes_its_case_by_remove_and_add(integration: Integration, ada: UUID, directory: Directory) -> None:
    directory.modify(ada, proxyAddresses=["smtp:ada@corp", "smtp:countess@corp"])
    body = {"remove": {"proxyAddresses": "smtp:ada@corp"}, "add": {"proxyAddresses": "SMTP:ada@corp"}}
    assert update(integration, ada, body).status == 200
    assert texts(directory, ada, "proxyAddresses") == {"SMTP:ada@corp", "smtp:countess@corp"}


def test_every_syntax_is_written_as_it_is_read(integration: Integration, ada: UUID) -> None:
    values = {
        "thumbnailPhoto": base64.b64encode(b"\xff\xd8picture").decode(),
        "accountExpires": "2031-02-03T04:05:06Z",
        "countryCode": "826",
        "mS-DS-ConsistencyGuid": "4fae3d03-85d3-4ed8-a8aa-cb126df8b414",
        "description": 'Ωμέγα  数学  \\ , = + < > # ; "',
    }
    assert update(integration, ada, {"replace": values}).status == 200
    shown = integration.get(f"/api/ad/users/{ada}?attributes={','.join(values)}").body["attributes"]
    assert shown == {name: [value] for name, value in values.items()}


@pytest.mark.parametrize(
    ("body", "code", "where"),
    [
        ({"replace": {"nosuch": "1"}}, "Unknown", "#/replace/nosuch"),
        ({"replace": {"mail;binary": "1"}}, "Unknown", "#/replace/mail;binary"),
        ({"clear": ["nosuch"]}, "Unknown", "#/clear/0"),
        ({"replace": {"memberOf": "CN=x"}}, "NotWritable", "#/replace/memberOf"),
        ({"replace": {"objectClass": "top"}}, "NotWritable", "#/replace/objectClass"),
        ({"replace": {"unicodePwd": "x"}}, "NotWritable", "#/replace/unicodePwd"),
        ({"add": {"userPassword": "x"}}, "NotWritable", "#/add/userPassword"),
        ({"replace": {"nTSecurityDescriptor": "AAAA"}}, "NotWritable", "#/replace/nTSecurityDescriptor"),
        ({"replace": {"whenCreated": "2020-01-01T00:00:00Z"}}, "NotWritable", "#/replace/whenCreated"),
        ({"replace": {"tokenGroups": "S-1-5-32-544"}}, "NotWritable", "#/replace/tokenGroups"),
        ({"replace": {"cn": "Other"}}, "NotWritable", "#/replace/cn"),
        ({"replace": {"lastLogon": "2020-01-01T00:00:00Z"}}, "NotWritable", "#/replace/lastLogon"),
        ({"replace": {"badPwdCount": "0"}}, "NotWritable", "#/replace/badPwdCount"),
        ({"replace": {"title": ["a", "b"]}}, "SingleValued", "#/replace/title"),
        ({"replace": {"description": ["a", "b"]}}, "SingleValued", "#/replace/description"),
        ({"add": {"title": "another"}}, "SingleValued", "#/add/title"),
        ({"replace": {"title": ""}}, "InvalidValue", "#/replace/title"),
        ({"replace": {"title": "x" * 200}}, "InvalidValue", "#/replace/title"),
        ({"replace": {"thumbnailPhoto": "no base64"}}, "InvalidValue", "#/replace/thumbnailPhoto"),
        ({"replace": {"manager": "no name"}}, "InvalidValue", "#/replace/manager"),
        ({"replace": {"manager": "CN=nobody,DC=corp,DC=example,DC=test"}}, "InvalidValue", "#/replace/manager"),
        ({"replace": {"lockoutTime": "5"}}, "InvalidValue", "#/replace/lockoutTime"),
        ({"replace": {"pwdLastSet": "5"}}, "InvalidValue", "#/replace/pwdLastSet"),
        ({"replace": {"accountExpires": "-1"}}, "InvalidValue", "#/replace/accountExpires"),
        ({"replace": {"accountExpires": "tomorrow"}}, "InvalidValue", "#/replace/accountExpires"),
        ({"replace": {"accountExpires": "2026-01-31T12:00:00+99:99"}}, "InvalidValue", "#/replace/accountExpires"),
        ({"replace": {"countryCode": "many"}}, "InvalidValue", "#/replace/countryCode"),
        ({"replace": {"userAccountControl": "many"}}, "InvalidValue", "#/replace/userAccountControl"),
        ({"replace": {"userAccountControl": "528"}}, "InvalidValue", "#/replace/userAccountControl"),  # LOCKOUT
        ({"replace": {"userAccountControl": "524800"}}, "InvalidValue", "#/replace/userAccountControl"),  # delegation
        ({"replace": {"userAccountControl": "8704"}}, "InvalidValue", "#/replace/userAccountControl"),  # a controller
        ({"replace": {"sAMAccountName": "a" * 21}}, "InvalidValue", "#/replace/sAMAccountName"),
        ({"replace": {"sAMAccountName": "ada@corp"}}, "InvalidValue", "#/replace/sAMAccountName"),
        ({"replace": {"mail": "a"}, "clear": ["MAIL"]}, "Conflict", "#/clear/mail"),
        ({"replace": {"mail": "a"}, "add": {"Mail": "b"}}, "Conflict", "#/add/Mail"),
        ({"clear": ["mail"], "remove": {"mail": "b"}}, "Conflict", "#/remove/mail"),
        ({"replace": {"mail": "a", "MAIL": "b"}}, "Conflict", "#/replace/MAIL"),
        ({"replace": {"accountExpires": "never"}, "account": {"expiresAt": "never"}}, "Conflict", "#/account"),
    ],
)
def test_what_is_refused(
    integration: Integration, ada: UUID, directory: Directory, body: Any, code: str, where: str
) -> None:
    before = directory.read(ada)
    answer = update(integration, ada, body)
    assert (answer.status, answer.code) == (400, f"AD.Attributes.{code}")
    assert answer.body["errors"][0]["pointer"] == where
    assert directory.read(ada) == before


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"nosuch": {}}, "Request.UnknownMember"),
        ({"group": {"scope": "global"}}, "Request.UnknownMember"),
        ({"replace": {"title": None}}, "Request.Invalid"),
        ({"replace": {"title": 5}}, "Request.Invalid"),
        ({"replace": {"title": ["a", 5]}}, "Request.Invalid"),
        ({"replace": ["title"]}, "Request.Invalid"),
        ({"clear": "title"}, "Request.Invalid"),
        ({"account": {"expiresAt": "2030-01-01"}}, "Request.Invalid"),
        ({"account": {"expiresAt": "9999-12-31T23:59:59-23:59"}}, "Request.Invalid"),
        ({"account": {"expiresAt": "1601-01-01T00:00:00Z"}}, "Request.Invalid"),
        ({"account": {"expiresAt": "1500-01-01T00:00:00Z"}}, "Request.Invalid"),
        ({"account": {"expiresAt": None}}, "Request.Invalid"),
        ({"account": {"expiresAt": "Never"}}, "Request.Invalid"),
        ({"account": {"passwordNeverExpires": "yes"}}, "Request.Invalid"),
        ({"account": {"enabled": True}}, "Request.UnknownMember"),
        ([], "Request.Invalid"),
    ],
)
def test_what_is_no_update(integration: Integration, ada: UUID, body: Any, code: str) -> None:
    answer = update(integration, ada, body)
    assert (answer.status, answer.code) == (400, code)
    assert answer.body["errors"]


@pytest.mark.parametrize("updates", [("replace",), ("add", "remove"), ("replace", "add", "remove")])
def test_a_hundred_names_pass_and_one_more_does_not(
    integration: Integration, ada: UUID, updates: tuple[str, ...]
) -> None:
    def body(count: int) -> dict[str, dict[str, str]]:
        made: dict[str, dict[str, str]] = {update: {} for update in updates}
        for index in range(count):
            made[updates[index % len(updates)]][f"x{index}"] = "1"
        return made

    # Limits come first; that these names are unknown is noticed after them.
    assert update(integration, ada, body(100)).code == "AD.Attributes.Unknown"
    answer = update(integration, ada, body(101))
    assert (answer.status, answer.code) == (400, "AD.Attributes.TooMany")


def test_a_name_counts_once_however_it_is_written(integration: Integration, ada: UUID) -> None:
    body = {"add": {f"x{index}": "1" for index in range(100)}, "remove": {f"X{index}": "2" for index in range(100)}}
    assert update(integration, ada, body).code == "AD.Attributes.Unknown"


def test_a_thousand_values_pass_and_one_more_does_not(
    integration: Integration, ada: UUID, directory: Directory
) -> None:
    values = [str(index) for index in range(1001)]
    answer = update(integration, ada, {"replace": {"otherTelephone": values}})
    assert (answer.status, answer.code) == (400, "AD.Attributes.TooManyValues")
    assert update(integration, ada, {"replace": {"otherTelephone": values[:1000]}}).status == 200
    assert len(texts(directory, ada, "otherTelephone")) == 1000


def test_a_value_of_256_kb_passes_and_one_byte_more_does_not(integration: Integration, ada: UUID) -> None:
    exactly = "é" * 131_072
    answer = update(integration, ada, {"replace": {"info": exactly + "x"}})
    assert (answer.status, answer.code) == (400, "AD.Attributes.ValueTooLong")
    assert (
        update(integration, ada, {"replace": {"info": exactly}}).code == "AD.Attributes.InvalidValue"
    )  # its own limit


def test_account_options(integration: Integration, ada: UUID, directory: Directory) -> None:
    options = {"expiresAt": "2031-02-03T04:05:06+01:00", "passwordNeverExpires": True, "mustChangePassword": True}
    account = update(integration, ada, {"account": options}).body["account"]
    assert account["expiresAt"] == "2031-02-03T03:05:06Z"
    assert account["passwordNeverExpires"] is True
    assert account["mustChangePassword"] is False  # of a password that never expires the domain controller wants none
    assert directory.text(ada, "pwdLastSet") == "0"
    control = int(directory.text(ada, "userAccountControl") or 0)
    assert control == 0x10220  # PASSWD_NOTREQD, which the account had, is kept
    account = update(
        integration,
        ada,
        {"account": {"expiresAt": "never", "passwordNeverExpires": False, "mustChangePassword": False}},
    ).body["account"]
    assert (account["expiresAt"], account["passwordNeverExpires"], account["mustChangePassword"]) == (
        None,
        False,
        False,
    )
    account = update(integration, ada, {"account": {"mustChangePassword": True}}).body["account"]
    assert account["mustChangePassword"] is True


def test_null_is_no_word_for_never(integration: Integration, ada: UUID, directory: Directory) -> None:
    directory.modify(ada, accountExpires="134000000000000000")
    answer = update(integration, ada, {"account": {"expiresAt": None}})
    [error] = answer.body["errors"]
    assert (error["pointer"], '"never"' in error["detail"]) == ("#/account/expiresAt", True)
    assert directory.text(ada, "accountExpires") == "134000000000000000"


def test_both_forms_of_never_are_the_same(integration: Integration, ada: UUID, directory: Directory) -> None:
    for stored, asked in (("0", "never"), ("9223372036854775807", "0"), ("0", "9223372036854775807")):
        directory.modify(ada, accountExpires=stored)
        body = {"replace": {"accountExpires": asked}}
        assert integration.patch(f"/api/ad/users/{ada}?dryRun=true", body).body["changes"] == []
        assert update(integration, ada, body).status == 200
        assert directory.text(ada, "accountExpires") == stored
    update(integration, ada, {"replace": {"accountExpires": "2031-02-03T04:05:06Z"}})
    update(integration, ada, {"replace": {"accountExpires": "never"}})
    assert directory.text(ada, "accountExpires") == "9223372036854775807"


def test_what_names_units_is_an_attribute_of_accounts(
    integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    computer = directory.add_computer(parent=organizational_unit)
    for guid, resource in ((ada, "users"), (computer, "computers"), (ada, "objects")):
        assert update(integration, guid, {"replace": {"ou": ["Dept2", resource]}}, resource).status == 200
        assert texts(directory, guid, "ou") == {"Dept2", resource}
    unit = directory.guid(organizational_unit)
    place = directory.add(f"L=Lab,{organizational_unit}", {"objectClass": "locality"})
    for guid, name, resources in ((unit, "ou", ("organization-units", "objects")), (place, "l", ("objects",))):
        for resource in resources:
            for updates in ({"replace": {name: "Other"}}, {"remove": {name: "Lab"}}, {"add": {name: "x"}}):
                answer = update(integration, guid, updates, resource)
                assert (answer.status, answer.code) == (400, "AD.Attributes.NotWritable")
    body = {"name": "Unit", "parent": organizational_unit, "replace": {"ou": "Other"}}
    assert integration.post("/api/ad/organization-units", body).code == "AD.Attributes.NotWritable"
    body = {"name": "Grace", "parent": organizational_unit, "replace": {"ou": "Dept3"}}
    assert integration.post("/api/ad/users", body).body["attributes"].get("ou", ["Dept3"]) == ["Dept3"]


def test_group_scope_and_type(integration: Integration, group: UUID, directory: Directory) -> None:
    answer = update(integration, group, {"group": {"scope": "universal", "type": "distribution"}}, "groups")
    assert answer.body["group"] == {"scope": "universal", "type": "distribution", "memberCount": 0}
    assert directory.text(group, "groupType") == "8"
    update(integration, group, {"group": {"type": "security"}}, "groups")
    assert directory.text(group, "groupType") == "-2147483640"


def test_what_the_directory_refuses_is_422_with_its_message(
    integration: Integration, group: UUID, directory: Directory
) -> None:
    answer = update(integration, group, {"group": {"scope": "domainLocal"}}, "groups")  # only by way of universal
    assert (answer.status, answer.code) == (422, "AD.Directory.Rejected")
    assert answer.body["directoryMessage"]
    assert directory.dn(group) not in answer.body["directoryMessage"]


def test_members(
    integration: Integration, group: UUID, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    other = directory.add_user(parent=organizational_unit)
    body = {"add": {"member": [directory.dn(ada).lower(), directory.dn(other)]}}
    assert update(integration, group, body, "groups").body["group"]["memberCount"] == 2
    version = update(integration, group, body, "groups").body["version"]
    body = {"remove": {"member": [directory.dn(ada), f"CN=nobody,{organizational_unit}"]}}
    answer = update(integration, group, body, "groups")
    assert answer.body["version"] != version
    assert directory.members(group) == {directory.dn(other)}


def test_a_group_cannot_contain_itself(
    integration: Integration, group: UUID, directory: Directory, organizational_unit: str
) -> None:
    inner = directory.add_group(parent=organizational_unit)
    middle = directory.add_group(parent=organizational_unit, members=[inner])
    directory.add_values(group, member=directory.dn(middle))
    for member in (group, middle, inner):
        answer = update(integration, inner, {"add": {"member": directory.dn(member)}}, "groups")
        assert (answer.status, answer.code) == (409, "AD.Group.Cycle")
    assert directory.members(inner) == set()


@pytest.mark.parametrize(
    ("attribute", "value", "needed"),
    [
        ("userAccountControl", "546", ["directory.enable_account", "directory.disable_account"]),
        ("lockoutTime", "0", ["directory.unlock_account"]),
        ("pwdLastSet", "0", ["directory.reset_password"]),
    ],
)
def test_attributes_with_permissions_of_their_own(
    connection: Any, ada: UUID, attribute: str, value: str, needed: list[str]
) -> None:
    for missing in needed:
        held = ["directory.update_user", *(name for name in needed if name != missing)]
        integration = make_integration(connection, may=held)
        assert update(integration, ada, {"replace": {attribute: value}}).status == 403
    integration = make_integration(connection, may=["directory.update_user", *needed])
    assert update(integration, ada, {"replace": {attribute: value}}).status == 200


def test_an_expiry_that_means_never_is_refused(integration: Integration, ada: UUID, directory: Directory) -> None:
    directory.modify(ada, accountExpires="133000000000000000")
    for moment in ("1601-01-01T00:00:00Z", "1500-01-01T00:00:00Z"):
        answer = update(integration, ada, {"account": {"expiresAt": moment}})
        assert answer.body["errors"][0]["pointer"] == "#/account/expiresAt"
    assert directory.text(ada, "accountExpires") == "133000000000000000"


def test_the_account_part_needs_the_permission_of_what_it_writes(
    connection: Any, ada: UUID, directory: Directory
) -> None:
    directory.modify(ada, pwdLastSet="-1")
    before = directory.text(ada, "pwdLastSet")
    body = {"account": {"mustChangePassword": True}}
    assert update(make_integration(connection, may=["directory.update_user"]), ada, body).status == 403
    assert directory.text(ada, "pwdLastSet") == before
    allowed = make_integration(connection, may=["directory.update_user", "directory.reset_password"])
    assert update(allowed, ada, body).status == 200
    assert directory.text(ada, "pwdLastSet") == "0"


def test_that_a_password_never_expires_enables_nobody(connection: Any, ada: UUID, directory: Directory) -> None:
    directory.modify(ada, pwdLastSet="-1")
    integration = make_integration(connection, may=["directory.update_user"])
    assert update(integration, ada, {"account": {"passwordNeverExpires": True}}).status == 200


def test_membership_needs_its_permission(connection: Any, group: UUID, ada: UUID, directory: Directory) -> None:
    body = {"add": {"member": directory.dn(ada)}}
    assert update(make_integration(connection, may=["directory.update_group"]), group, body, "groups").status == 403
    allowed = make_integration(connection, may=["directory.update_group", "directory.manage_membership"])
    assert update(allowed, group, body, "groups").status == 200


def test_permission_follows_the_kind_not_the_path(connection: Any, ada: UUID) -> None:
    body = {"replace": {"title": "Countess"}}
    for_objects = make_integration(connection, may=["directory.update_object"])
    assert update(for_objects, ada, body, "objects").status == 403
    for_users = make_integration(connection, may=["directory.update_user"])
    assert update(for_users, ada, body, "objects").status == 200
