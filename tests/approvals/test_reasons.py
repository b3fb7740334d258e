"""Why a change is a security change, as its dry run tells: protected objects, and the indirect ways to their power."""

import base64
import re
from typing import Any
from uuid import UUID

import pytest

from approvals.supervision import security_meaning
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.approvals.estate import Estate
from tests.support.cast import Answer, Integration, make_integration


@pytest.fixture
def careful(connection: DirectoryConnection) -> Integration:
    """May do everything; destructive and security changes are held."""
    return make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)


def expect(answer: Answer, why: str) -> None:
    """A dry run that says it would be held for a security risk, and in these words why."""
    assert answer.status == 200, answer
    assert (answer.body["risk"], answer.body["wouldQueue"]) == ("security", True)
    sentence = re.compile(rf"This is a security change: {why}\.")
    assert any(sentence.fullmatch(warning) for warning in answer.body["warnings"]), answer.body["warnings"]


def protected_by(reason: str) -> str:
    return rf"the target is a protected object \({reason}\)"


def update(caller: Integration, target: UUID, body: Any) -> Answer:
    return caller.patch(f"/api/ad/objects/{target}?dryRun=true", body)


class TestProtectedObjects:
    @pytest.mark.parametrize(
        ("target", "reason"),
        [
            ("boss", "member of Backup Operators through Staff"),
            ("boss_computer", "member of Backup Operators through Staff"),
            ("boss_group", "member of Backup Operators"),
        ],
    )
    def test_members(self, careful: Integration, estate: Estate, target: str, reason: str) -> None:
        body = {"replace": {"description": "x"}}
        expect(update(careful, estate.objects[target], body), protected_by(reason))

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("CN=Administrator,CN=Users", "a built-in administrative account"),
            ("CN=krbtgt,CN=Users", "a built-in administrative account"),
            ("CN=Domain Admins,CN=Users", "a built-in administrative group"),
            ("CN=Administrators,CN=Builtin", "a built-in administrative group"),
            ("CN=DC1,OU=Domain Controllers", "member of Domain Controllers"),
            ("OU=Domain Controllers", "a part of the domain controllers' container"),
        ],
    )
    def test_what_the_domain_rests_on(self, careful: Integration, directory: Directory, name: str, reason: str) -> None:
        target = directory.guid(f"{name},{directory.base_dn}")
        expect(update(careful, target, {"replace": {"description": "x"}}), protected_by(reason))

    def test_by_the_primary_group(self, careful: Integration, estate: Estate, directory: Directory) -> None:
        account = directory.add_user(parent=estate.unit_dn)
        admins = f"CN=Domain Admins,CN=Users,{directory.base_dn}"
        directory.add_values(admins, member=directory.dn(account))
        directory.modify(account, primaryGroupID="512")
        expect(update(careful, account, {"replace": {"title": "x"}}), protected_by("member of Domain Admins"))

    def test_by_its_mark(self, careful: Integration, estate: Estate, directory: Directory) -> None:
        account = directory.add_user(parent=estate.unit_dn, adminCount="1")
        reason = "marked as an administrator's: its adminCount is 1"
        expect(update(careful, account, {"replace": {"title": "x"}}), protected_by(reason))

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("DELETE", "?recursive=true&dryRun=true", None),
            ("POST", "/move?dryRun=true", {"parent": "{elsewhere}"}),
            ("POST", "/rename?dryRun=true", {"name": "Other"}),
            ("PATCH", "?dryRun=true", {"replace": {"gPLink": "[LDAP://CN=x;0]"}}),
        ],
    )
    def test_a_unit_that_holds_one(
        self, careful: Integration, estate: Estate, method: str, path: str, body: Any
    ) -> None:
        unit = estate.objects["unit_of_boss"]
        answer = careful.call(method, f"/api/ad/organization-units/{unit}{path}", estate.filled(body))
        expect(answer, protected_by(r"it holds [\w-]+, member of Backup Operators( through Staff)?"))

    def test_a_member_for_a_nested_group(self, careful: Integration, estate: Estate) -> None:
        group, user = estate.objects["boss_group"], str(estate.objects["user"])
        answer = careful.post(f"/api/ad/groups/{group}/members?dryRun=true", {"add": [user]})
        expect(answer, "it adds members to the group")
        expect(answer, protected_by("member of Backup Operators"))

    def test_a_group_into_an_administrative_one(
        self, careful: Integration, estate: Estate, directory: Directory
    ) -> None:
        operators = directory.guid(f"CN=Server Operators,CN=Builtin,{directory.base_dn}")
        answer = careful.post(
            f"/api/ad/groups/{operators}/members?dryRun=true", {"add": [str(estate.objects["group"])]}
        )
        expect(answer, protected_by("a built-in administrative group"))

    def test_an_ordinary_change_has_no_reasons(self, careful: Integration, estate: Estate) -> None:
        answer = update(careful, estate.objects["user"], {"replace": {"title": "x"}})
        assert (answer.body["risk"], answer.body["wouldQueue"], answer.body["warnings"]) == ("ordinary", False, [])


SIGNS_IN = "which decides whether and how an account signs in"
FOUND = "by which an account is found when it signs in"
KEYS = "with which an account signs in"
DELEGATES = "which lets somebody act for others or manage them"
GRANTS = "which grants membership or rights"
RUNS = "which decides what runs at sign-in or on the machine"


@pytest.mark.parametrize(
    ("target", "attribute", "value", "meaning"),
    [
        ("user", "userAccountControl", str(0x80202), SIGNS_IN),  # trusted for delegation
        ("computer", "userAccountControl", str(0x1001002), SIGNS_IN),  # trusted to authenticate for delegation
        ("user", "sIDHistory", "S-1-5-21-1-2-3-512", GRANTS),
        ("user", "adminCount", "1", GRANTS),
        ("user", "servicePrincipalName", "HTTP/x.corp.example.test", FOUND),
        ("computer", "servicePrincipalName", "HTTP/y.corp.example.test", FOUND),
        ("computer", "dNSHostName", "y.corp.example.test", FOUND),
        ("user", "altSecurityIdentities", "X509:<I>CN=x<S>CN=y", FOUND),
        ("computer", "msDS-AllowedToDelegateTo", "cifs/dc1.corp.example.test", DELEGATES),
        ("user", "msDS-AllowedToDelegateTo", "cifs/dc1.corp.example.test", DELEGATES),
        ("user", "msDS-SupportedEncryptionTypes", "4", KEYS),
        ("user", "scriptPath", "x.cmd", RUNS),
        ("user", "logonHours", base64.b64encode(b"\xff" * 21).decode(), SIGNS_IN),
        ("user", "userWorkstations", "PC1", SIGNS_IN),
        ("user", "userParameters", "x", SIGNS_IN),
        ("group", "managedBy", "{user_dn}", DELEGATES),
        ("group", "groupType", str(-0x7FFFFFF8), GRANTS),
        ("group", "member", "{user_dn}", GRANTS),
        ("elsewhere", "gPLink", "[LDAP://CN=x;0]", RUNS),
        ("elsewhere", "gPOptions", "1", RUNS),
    ],
)
def test_indirect_ways(
    careful: Integration, estate: Estate, target: str, attribute: str, value: str, meaning: str
) -> None:
    answer = update(careful, estate.objects[target], {"replace": {attribute: estate.filled(value)}})
    if attribute == "userAccountControl" and answer.status == 400:
        assert answer.code == "AD.Attributes.InvalidValue", "bits that nobody sets through the gateway"
        return
    expect(answer, f"it writes {attribute}, {meaning}")


def test_a_primary_group(careful: Integration, estate: Estate, directory: Directory) -> None:
    user, group = estate.objects["active"], estate.objects["group"]  # of which it is a member, as it must be
    relative_id = int.from_bytes(directory.read(group, "objectSid")["objectSid"][0][-4:], "little")
    answer = update(careful, user, {"replace": {"primaryGroupID": str(relative_id)}})
    expect(answer, f"it writes primaryGroupID, {GRANTS}")


def test_what_the_schema_gives_to_the_system_alone_is_written_by_nobody(careful: Integration, estate: Estate) -> None:
    body = {"replace": {"msDS-AllowedToActOnBehalfOfOtherIdentity": "AQAEgA=="}}
    answer = update(careful, estate.objects["computer"], body)
    assert (answer.status, answer.code) == (400, "AD.Attributes.NotWritable")


@pytest.mark.parametrize("attribute", ["msDS-AllowedToActOnBehalfOfOtherIdentity", "msDS-KeyCredentialLink"])
def test_where_the_schema_lets_it_be_written(attribute: str) -> None:
    """Windows' newer schemas do, the tests' domain does not."""
    assert security_meaning(attribute) in (DELEGATES, KEYS)
