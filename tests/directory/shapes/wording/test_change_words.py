"""Changes in words: one sentence of what is done to which object, and what becomes of each attribute."""

from typing import Any

import pytest

from directory.shapes.wording.change_words import ChangeWords, change_facts, describe_change, describe_changes
from directory.shapes.wording.value_words import NamedObject, plain_text

BASE = "DC=corp,DC=example,DC=test"
ADA = f"CN=Ada Lovelace,OU=Sales,{BASE}"
BEA = f"CN=Bea Example,OU=Sales,{BASE}"


def change(attribute: str, before: str | list[str], after: str | list[str], **more: Any) -> dict[str, Any]:
    """A change as a record of the log has it; a text stands for its one value, an empty one for none."""
    values = [[value] if isinstance(value, str) and value else list(value) for value in (before, after)]
    return {"attribute": attribute, "before": values[0], "after": values[1], **more}


def words(
    operation: str, *changes: dict[str, Any], name: str = ADA, target_id: str | None = None, **more: Any
) -> ChangeWords:
    return describe_change(change_facts(operation, changes, {"distinguishedName": name, "id": target_id}, **more))


DOMAIN_ADMINS = f"CN=Domain Admins,CN=Users,{BASE}"


@pytest.mark.parametrize(
    ("operation", "changes", "expected"),
    [
        ("users.disable", [change("userAccountControl", "512", "514")], "Disable Ada Lovelace"),
        ("users.update", [change("userAccountControl", "514", "512")], "Enable Ada Lovelace"),
        (
            "organization-units.disable-accounts",
            [change("userAccountControl", "512", "514")],
            "Disable Ada Lovelace",
        ),
        ("users.update", [change("title", "", "Clerk")], "Change job title of Ada Lovelace"),
        (
            "users.update",
            [change("title", "", "x"), change("mail", "", "x"), change("userPrincipalName", "", "x")],
            "Change job title, e-mail and user principal name of Ada Lovelace",
        ),
        (
            "users.update",
            [change(name, "", "x") for name in ("title", "mail", "sn", "department")],
            "Change job title, e-mail and 2 more attributes of Ada Lovelace",
        ),
        ("users.move", [change("distinguishedName", ADA, f"CN=Ada Lovelace,OU=Leavers,{BASE}")],
         "Move Ada Lovelace from Sales to Leavers"),
        ("users.move", [change("distinguishedName", ADA, f"CN=Ada Lovelace,{BASE}")],
         "Move Ada Lovelace from Sales to corp.example.test"),
        ("users.rename", [change("distinguishedName", ADA, f"CN=Ada King,OU=Sales,{BASE}")],
         "Rename Ada Lovelace to Ada King"),
        ("users.reset-password", [change("unicodePwd", "<secret>", "<secret>")], "Reset the password of Ada Lovelace"),
        ("operations.revert", [change("title", "x", "y")], "Undo an earlier change of Ada Lovelace"),
        ("users.unlock", [change("lockoutTime", "2026-01-01T00:00:00Z", "never")], "Unlock Ada Lovelace"),
    ],
)  # fmt: skip
def test_the_headline(operation: str, changes: list[dict[str, Any]], expected: str) -> None:
    assert str(words(operation, *changes)) == expected


@pytest.mark.parametrize(
    ("before", "after", "kept", "expected"),
    [
        ([], [ADA], 3, "Add Ada Lovelace to Domain Admins (3 members, then 4)"),
        ([ADA], [], 0, "Remove Ada Lovelace from Domain Admins (1 member, then 0)"),
        ([BEA], [ADA], 1, "Add Ada Lovelace to Domain Admins and remove Bea Example from it (2 members, then 2)"),
        ([], [ADA], None, "Add Ada Lovelace to Domain Admins"),
        ([], [ADA, *(f"CN=P{i},{BASE}" for i in range(9))], None, "Add Ada Lovelace, P0 and 8 others to Domain Admins"),
    ],
)
def test_members(before: list[str], after: list[str], kept: int | None, expected: str) -> None:
    said = words("groups.change-members", change("member", before, after, kept=kept), name=DOMAIN_ADMINS)
    assert str(said) == expected


def test_a_membership_that_is_not_known_is_never_empty() -> None:
    (detail,) = words("groups.change-members", change("member", [], [ADA]), name=DOMAIN_ADMINS).details
    assert str(detail) == "Members: + Ada Lovelace; others, if there are any, stay"
    (detail,) = words("groups.change-members", change("member", [], [ADA], kept=3), name=DOMAIN_ADMINS).details
    assert str(detail) == "Members: + Ada Lovelace; 3 others stay"
    (detail,) = words("groups.change-members", change("member", [], [ADA], kept=0), name=DOMAIN_ADMINS).details
    assert str(detail) == "Members: + Ada Lovelace"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (change("title", "Clerk", "Countess"), ["Job title: Clerk → Countess"]),
        (change("title", "", "Countess"), ["Job title: (empty) → Countess"]),
        (change("manager", BEA, ""), ["Manager: Bea Example → (empty)"]),
        (change("userAccountControl", "512", "514"), ["Account: Enabled → Disabled"]),
        (
            change("userAccountControl", "546", "66048"),
            [
                "Account: Disabled → Enabled",
                "Password: not required: it may be empty → required",
                "Password: expires as the policy says → never expires",
            ],
        ),
        (change("pwdLastSet", "2026-01-01T00:00:00Z", "never"), ["must change the password at next sign-in"]),
        (change("pwdLastSet", "never", "-1"), ["need not change the password at next sign-in any more"]),
        (change("lockoutTime", "2026-01-01T00:00:00Z", "never"), ["Lock-out: Locked out → Not locked out"]),
        (change("accountExpires", "never", "2026-12-31T23:00:00Z"),
         ["Expiry of the account: never → 2026-12-31 23:00 UTC"]),
        (change("groupType", "-2147483646", "8"),
         ["Kind of group: global security group → universal distribution group"]),
        (change("unicodePwd", "<secret>", "<secret>"), ["Password: a new one (not shown)"]),
        (change("extensionAttribute1", "<secret>", ""), ["extensionAttribute1: removed (not shown)"]),
        (change("thumbnailPhoto", "", "/9j/"), ["Photo: set"]),
        (change("logonHours", "", "AAAAAP8DAP8DAP8DAP8DAP8DAAAA"),
         ["Sign-in hours: At any time → Monday to Friday 08:00–18:00 (UTC)"]),
        (change("showInAdvancedViewOnly", "FALSE", "TRUE"), ["showInAdvancedViewOnly: no → yes"]),
        (change("otherTelephone", ["1", "2"], ["2", "3"]), ["Other telephones: + 3, − 1; 1 other stays"]),
        (change("description", "", "x" * 100), [f"Description: (empty) → {'x' * 79}…"]),
    ],
)  # fmt: skip
def test_what_becomes_of_an_attribute(changed: dict[str, Any], expected: list[str]) -> None:
    assert [str(detail) for detail in words("users.update", changed).details] == expected


def test_creating_and_deleting() -> None:
    made = words(
        "users.create",
        change("distinguishedName", "", ADA),
        change("objectClass", [], ["top", "user"]),
        change("sAMAccountName", "", "ada"),
        change("userAccountControl", "", "514"),
        change("title", "", "Clerk"),
        kind="user",
        account_name="ada",
    )
    assert str(made) == "Create the user Ada Lovelace"
    assert [str(detail) for detail in made.details] == ["Account: Disabled", "Job title: Clerk"]
    gone = words(
        "users.delete", change("distinguishedName", [ADA, "x", "y"], []), change("uSNCreated", "7", ""), kind="user"
    )
    assert (str(gone), gone.details) == ("Delete the user Ada Lovelace and the 2 objects below it", ())
    back = words(
        "deleted-objects.restore",
        change("distinguishedName", f"CN=Ada\\0ADEL:1234,CN=Deleted Objects,{BASE}", ADA),
        change("isDeleted", "TRUE", ""),
        kind="user",
    )
    assert str(back) == "Restore the deleted user Ada Lovelace"


def test_a_run() -> None:
    accounts = [change(name, "enabled", "disabled") for name in (ADA, BEA)]
    said = words("organization-units.disable-accounts", *accounts, name=f"OU=Sales,{BASE}")
    assert (str(said), said.details) == ("Disable 2 accounts in Sales", ())


def test_names_come_with_what_tells_them_apart() -> None:
    said = words(
        "groups.change-members",
        change("member", [], [ADA]),
        name=DOMAIN_ADMINS,
        target_id="1",
        account_name="Domain Admins",
        references=[{"name": ADA, "id": "2", "kind": "user", "accountName": "ada"}],
    )
    named = [part for part in said.headline if isinstance(part, NamedObject)]
    assert named == [
        NamedObject("Ada Lovelace", "ada", "corp.example.test / Sales", "2"),
        NamedObject("Domain Admins", "Domain Admins", "corp.example.test / Users", "1"),
    ]
    assert plain_text(said.headline) == "Add Ada Lovelace to Domain Admins"


def test_things_of_the_gateway_itself() -> None:
    said = words("roles.update", change("allowedAddresses", ["a"], ["a", "b"]), name="Readers", own=True, kind="roles")
    assert str(said) == "Change allowed addresses of Readers"
    assert [str(detail) for detail in said.details] == ["Allowed addresses: + b; 1 other stays"]
    made = words("api-keys.create", change("name", "", "crm"), name="crm", own=True, kind="api-keys")
    assert str(made) == "Create the API key crm"


def test_several_at_once() -> None:
    def one(operation: str, attribute: str = "department", kind: str = "user") -> Any:
        return change_facts(operation, [change(attribute, "", "x")], {"distinguishedName": ADA}, kind=kind)

    assert describe_changes([one("users.update")] * 2, 200) == "Change department of 200 users"
    assert (
        describe_changes([one("users.update"), one("users.update", "title")], 2)
        == "Change department and job title of 2 users"
    )
    assert describe_changes([one("users.disable"), one("computers.disable", kind="computer")], 9) == "Disable 9 objects"
    assert describe_changes([one("users.reset-password")], 3) == "Reset the password of 3 users"
    assert describe_changes([one("users.update"), one("users.delete")], 5) == "5 changes: delete, update"
