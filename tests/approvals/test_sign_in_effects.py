"""Whoever ends or restores somebody's ability to sign in needs the permission for it, whichever attribute says it."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from directory.shapes.value_rules import SIGN_IN_RULES, sign_in_effects
from lab.directory import Directory, filetime
from tests.support.cast import Answer, Integration, all_permissions, make_integration

DISABLE, ENABLE, RESET = "directory.disable_account", "directory.enable_account", "directory.reset_password"
EFFECTS = frozenset({DISABLE, ENABLE, RESET})
DAY = 86_400
FAR = "2041-01-31T00:00:00Z"
NEVER = "9223372036854775807"
ALL_HOURS, OFFICE_HOURS, NO_HOURS = b"\xff" * 21, b"\x00\xff\x03" * 7, b"\x00" * 21


def octets(value: bytes) -> str:
    return base64.b64encode(value).decode()


@dataclass(frozen=True)
class Way:
    """A body that ends or restores sign-in of an account that has these values; the permissions and the risk of it."""

    name: str
    has: dict[str, Any]
    body: dict[str, Any]
    needs: frozenset[str]
    risk: str


def ends(name: str, has: dict[str, Any], body: dict[str, Any], *, risk: str = "destructive") -> Way:
    return Way(f"{name}-ends", has, body, frozenset({DISABLE}), risk)


def restores(name: str, has: dict[str, Any], body: dict[str, Any]) -> Way:
    return Way(f"{name}-restores", has, body, frozenset({ENABLE}), "security")


def both(name: str, has: dict[str, Any], body: dict[str, Any]) -> Way:
    return Way(f"{name}-both", has, body, frozenset({DISABLE, ENABLE}), "security")


def named(name: str, has: dict[str, Any], body: dict[str, Any], *, risk: str = "security") -> Way:
    """By the password: whoever may reset it can shut the account anyway."""
    return Way(name, has, body, frozenset({RESET}), risk)


WAYS = [
    ends("expiry-from-never", {}, {"account": {"expiresAt": FAR}}),
    ends("expiry-from-the-other-never", {"accountExpires": NEVER}, {"account": {"expiresAt": FAR}}),
    ends("expiry-already-past", {}, {"account": {"expiresAt": "2001-01-01T00:00:00Z"}}),
    ends("expiry-earlier", {"accountExpires": filetime(90 * 365 * DAY)}, {"account": {"expiresAt": FAR}}),
    ends("expiry-in-a-update", {}, {"replace": {"accountExpires": FAR}}),
    restores("expiry-never", {"accountExpires": filetime(-DAY)}, {"account": {"expiresAt": "never"}}),
    restores("expiry-later", {"accountExpires": filetime(DAY)}, {"account": {"expiresAt": FAR}}),
    restores("expiry-in-a-update", {"accountExpires": filetime(-DAY)}, {"replace": {"accountExpires": "never"}}),
    ends("no-hours", {}, {"replace": {"logonHours": octets(NO_HOURS)}}, risk="security"),
    ends("fewer-hours", {"logonHours": ALL_HOURS}, {"replace": {"logonHours": octets(OFFICE_HOURS)}}, risk="security"),
    restores("more-hours", {"logonHours": NO_HOURS}, {"replace": {"logonHours": octets(OFFICE_HOURS)}}),
    restores("hours-cleared", {"logonHours": OFFICE_HOURS}, {"clear": ["logonHours"]}),
    both("other-hours", {"logonHours": OFFICE_HOURS}, {"replace": {"logonHours": octets(b"\xff\x00\x03" * 7)}}),
    ends("a-workstation", {}, {"replace": {"userWorkstations": "PC1"}}, risk="security"),
    ends(
        "fewer-workstations", {"userWorkstations": "PC1,PC2"}, {"replace": {"userWorkstations": "pc2"}}, risk="security"
    ),
    restores("more-workstations", {"userWorkstations": "PC1"}, {"replace": {"userWorkstations": "PC1,PC2"}}),
    restores("workstations-cleared", {"userWorkstations": "PC1"}, {"clear": ["userWorkstations"]}),
    restores("workstations-removed", {"userWorkstations": "PC1"}, {"remove": {"userWorkstations": "PC1"}}),
    both("another-workstation", {"userWorkstations": "PC1"}, {"replace": {"userWorkstations": "PC2"}}),
    ends("dial-in", {}, {"replace": {"msNPAllowDialin": "FALSE"}}, risk="security"),
    restores("dial-in", {"msNPAllowDialin": "FALSE"}, {"clear": ["msNPAllowDialin"]}),
    named("must-change", {"pwdLastSet": "-1"}, {"account": {"mustChangePassword": True}}),
    named("need-not-change", {"pwdLastSet": "0"}, {"account": {"mustChangePassword": False}}),
    named("must-change-in-a-update", {"pwdLastSet": "-1"}, {"replace": {"pwdLastSet": "0"}}),
    named(
        "a-password-due-never-expires",
        {"pwdLastSet": "0", "userAccountControl": "{enabled}"},
        {"account": {"passwordNeverExpires": True}},
    ),
]
KINDS = {"users": "user", "computers": "computer"}


@pytest.fixture
def make_account(directory: Directory, organizational_unit: str) -> Callable[[str, dict[str, Any]], UUID]:
    def make(resource: str, has: dict[str, Any]) -> UUID:
        add = directory.add_user if resource == "users" else directory.add_computer
        account = add(parent=organizational_unit, enabled=False)
        control = {"{enabled}": "544" if resource == "users" else "4128"}
        values = {name: control.get(value, value) if isinstance(value, str) else value for name, value in has.items()}
        if values:
            directory.modify(account, **values)
        return account

    return make


def ask(
    caller: Integration, resource: str, account: UUID, body: dict[str, Any], *, dry_run: bool = False
) -> list[Answer]:
    """The same change by the kind's own path, by the path of all objects, and as the item of a batch."""
    query = "?dryRun=true" if dry_run else ""
    batch = caller.post(f"/api/ad/{resource}/batch/update{query}", {"items": [{"id": str(account), **body}]})
    item = batch.body["results"][0] if "results" in batch.body else batch.body
    return [
        caller.patch(f"/api/ad/{resource}/{account}{query}", body),
        caller.patch(f"/api/ad/objects/{account}{query}", body),
        Answer(item["status"], item.get("problem") or item, batch.headers),
    ]


def without(permissions: frozenset[str]) -> list[str]:
    return [name for name in all_permissions() if name not in permissions]


def states(directory: Directory, account: UUID) -> dict[str, list[bytes]]:
    return directory.read(account)


@pytest.mark.parametrize("resource", KINDS)
def test_each_needs_its_permissions(
    connection: DirectoryConnection,
    directory: Directory,
    make_account: Callable[[str, dict[str, Any]], UUID],
    resource: str,
) -> None:
    unable = {needed: make_integration(connection, may=without(frozenset({needed}))) for needed in EFFECTS}
    exactly: dict[frozenset[str], Integration] = {}
    for way in WAYS:
        if resource == "computers" and "never-expires" in way.name:  # a computer's password never does
            continue
        account = make_account(resource, way.has)
        before = states(directory, account)
        for needed in way.needs:
            answers = ask(unable[needed], resource, account, way.body)
            assert {(answer.status, answer.code) for answer in answers} == {(403, "Auth.Forbidden")}, (way.name, needed)
        assert states(directory, account) == before, way.name
        refused = OperationRecord.objects.filter(target_id=account, outcome="failed", code="Auth.Forbidden")
        assert refused.count() == 3 * len(way.needs)
        if way.needs not in exactly:
            exactly[way.needs] = make_integration(connection, may=without(EFFECTS - way.needs))
        answers = ask(exactly[way.needs], resource, account, way.body)
        assert [answer.status for answer in answers] == [200, 200, 200], (way.name, answers)
        assert states(directory, account) != before, way.name


@pytest.mark.parametrize("resource", KINDS)
def test_each_is_held_at_the_default_level(
    connection: DirectoryConnection,
    directory: Directory,
    make_account: Callable[[str, dict[str, Any]], UUID],
    resource: str,
) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    for way in WAYS:
        if resource == "computers" and "never-expires" in way.name:
            continue
        account = make_account(resource, way.has)
        before = states(directory, account)
        for answer in ask(careful, resource, account, way.body, dry_run=True):
            assert (answer.body["risk"], answer.body["wouldQueue"]) == (way.risk, True), (way.name, answer)
        for answer in ask(careful, resource, account, way.body):
            assert answer.status == 202, (way.name, answer)
        assert {item.risk for item in ChangeRequest.objects.filter(target_id=account)} == {way.risk}
        assert states(directory, account) == before


def test_the_approver_reads_the_direction(
    connection: DirectoryConnection, make_account: Callable[[str, dict[str, Any]], UUID]
) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    account = make_account("users", {"logonHours": OFFICE_HOURS, "accountExpires": filetime(DAY)})
    body = {"replace": {"logonHours": octets(NO_HOURS)}, "account": {"expiresAt": "never"}}
    warnings = careful.patch(f"/api/ad/users/{account}?dryRun=true", body).body["warnings"]
    assert "This is a security change: the account expires later or never." in warnings
    assert "It is also a destructive change: the account can sign in at fewer hours." in warnings


@pytest.mark.parametrize(
    ("has", "body"),
    [
        ({"accountExpires": "0"}, {"account": {"expiresAt": "never"}}),
        ({"accountExpires": NEVER}, {"replace": {"accountExpires": "0"}}),
        ({"accountExpires": filetime(DAY)}, {"account": {"passwordNeverExpires": False}}),
        ({"pwdLastSet": "-1"}, {"account": {"mustChangePassword": False}}),
        ({"logonHours": OFFICE_HOURS}, {"replace": {"logonHours": octets(OFFICE_HOURS)}}),
        ({}, {"replace": {"logonHours": octets(ALL_HOURS)}}),
        ({"userWorkstations": "PC1,PC2"}, {"replace": {"userWorkstations": "pc2, pc1"}}),
        ({}, {"replace": {"title": "Countess"}}),
    ],
)
def test_what_ends_and_restores_nothing_needs_neither(
    connection: DirectoryConnection,
    make_account: Callable[[str, dict[str, Any]], UUID],
    has: dict[str, Any],
    body: dict[str, Any],
) -> None:
    caller = make_integration(connection, may=["directory.read_object", "directory.update_user"])
    account = make_account("users", has)
    assert caller.patch(f"/api/ad/users/{account}", body).status == 200


def test_a_new_account_may_be_made_confined(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    """Nobody loses anything by it."""
    caller = make_integration(connection, may=["directory.read_object", "directory.create_user"])
    updates = {"logonHours": octets(NO_HOURS), "userWorkstations": "PC1"}
    body = {"name": "Contractor", "parent": organizational_unit, "replace": updates, "account": {"expiresAt": FAR}}
    answer = caller.post("/api/ad/users", body)
    assert answer.status == 201, answer
    assert directory.read(UUID(answer.body["id"]))["logonHours"] == [NO_HOURS]


def test_hours_of_another_length_are_refused(
    integration: Integration, make_account: Callable[[str, dict[str, Any]], UUID]
) -> None:
    account = make_account("users", {})
    for value in (b"\xff" * 20, b"\x00" * 42, b"\x00", b"\xf0" * 21 + b"\x00"):
        answer = integration.patch(f"/api/ad/users/{account}", {"replace": {"logonHours": octets(value)}})
        assert (answer.status, answer.code) == (400, "AD.Attributes.InvalidValue"), value


@pytest.mark.parametrize(
    ("made", "needed"),
    [({"expiresAt": FAR}, ENABLE), ({"expiresAt": "never"}, DISABLE)],
)
def test_a_revert_needs_what_its_effect_needs(
    connection: DirectoryConnection,
    integration: Integration,
    make_account: Callable[[str, dict[str, Any]], UUID],
    made: dict[str, Any],
    needed: str,
) -> None:
    has = {} if made["expiresAt"] == FAR else {"accountExpires": filetime(DAY)}
    account = make_account("users", has)
    assert integration.patch(f"/api/ad/users/{account}", {"account": made}).status == 200
    record = OperationRecord.objects.get(target_id=account, outcome="succeeded", operation="users.update")
    path = f"/api/operations/{record.id}/revert"
    assert make_integration(connection, may=without(frozenset({needed}))).post(path).status == 403
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    assert careful.post(path).status == 202
    assert make_integration(connection, may=without(EFFECTS - {needed})).post(path).status == 200


PAST, NEVER_OCTETS = b"116444736000000000", NEVER.encode()


@pytest.mark.parametrize(
    ("attribute", "before", "after", "needs"),
    [
        ("accountexpires", [], [PAST], {DISABLE}),  # Windows gives every account one, other directories may not
        ("accountexpires", [PAST], [], {ENABLE}),
        ("accountexpires", [NEVER_OCTETS], [], set()),
        ("useraccountcontrol", [b"512"], [b"514"], {DISABLE}),
        ("useraccountcontrol", [b"512"], [b"262656"], {DISABLE}),  # SMARTCARD_REQUIRED
        ("useraccountcontrol", [b"262658"], [b"512"], {ENABLE}),
        ("useraccountcontrol", [b"514"], [b"262656"], {DISABLE, ENABLE}),
        ("useraccountcontrol", [b"512"], [b"66048"], set()),  # DONT_EXPIRE_PASSWD
        ("logonhours", [b"\x00"], [ALL_HOURS], {DISABLE, ENABLE}),  # what stands there means nothing
        ("userworkstations", [b" , "], [b"PC1"], {DISABLE}),
        ("mstsallowlogon", [], [b"FALSE"], {DISABLE}),
        ("msnpallowdialin", [b"TRUE"], [], {DISABLE}),  # a policy decides now
        ("msds-assignedauthnpolicysilo", [b"CN=a"], [b"CN=b"], {DISABLE, ENABLE}),
        ("msds-assignedauthnpolicysilo", [b"CN=a"], [], {ENABLE}),
        ("logonworkstation", [], [b"PC1"], {DISABLE, ENABLE}),
        ("title", [], [b"Countess"], set()),
    ],
)
def test_what_no_domain_controller_of_the_tests_does(
    attribute: str, before: list[bytes], after: list[bytes], needs: set[str]
) -> None:
    assert {effect.permission for effect in sign_in_effects({attribute: (before, after)})} == needs


def test_every_judged_attribute_has_a_way_or_is_of_another_schema() -> None:
    said = {
        name.lower() for way in WAYS for update in ("replace", "add", "remove") for name in way.body.get(update, {})
    }
    elsewhere = {
        *("useraccountcontrol",),  # an update that names it needs both permissions (tests of updates)
        *("otherloginworkstations", "logonworkstation", "mstsallowlogon"),  # alike
        *("msds-assignedauthnpolicy", "msds-assignedauthnpolicysilo"),  # below
    }
    assert said - {"pwdlastset"} | elsewhere >= SIGN_IN_RULES.keys()


@pytest.mark.parametrize("attribute", ["msDS-AssignedAuthNPolicy", "msDS-AssignedAuthNPolicySilo"])
def test_an_authentication_policy_confines(
    connection: DirectoryConnection,
    integration: Integration,
    directory: Directory,
    make_account: Callable[[str, dict[str, Any]], UUID],
    attribute: str,
) -> None:
    container = f"CN=AuthN Policies,CN=AuthN Policy Configuration,CN=Services,CN=Configuration,{directory.base_dn}"
    policy = container if directory.exists(container) else directory.dn(make_account("users", {}))
    account = make_account("users", {})
    path = f"/api/ad/users/{account}?dryRun=true"
    body = {"replace": {attribute: policy}}
    assert make_integration(connection, may=without(frozenset({DISABLE}))).patch(path, body).status == 403
    assert integration.patch(path, body).status == 200
