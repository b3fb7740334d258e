"""The card that says why somebody cannot sign in: in words, with what helps, for whom may do it."""

from html import unescape
from typing import Any
from uuid import UUID

import pytest

from console.directory.objects.sign_in import policy_in_words
from core.text.times import exact_duration_in_words
from directory.models import DirectoryConnection
from directory.shapes.sign_in_hours import hours_in_words
from lab.directory import PASSWORD, Directory, Values
from tests.console.conftest import Visitor
from tests.support.cast import make_integration

OBJECTS = "/console/directory/objects"


@pytest.fixture
def bob(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Bob Byron", parent=organizational_unit, password=PASSWORD)


@pytest.mark.django_db
def test_it_works(visitor: Visitor, directory: Directory, bob: UUID) -> None:
    page = visitor("directory.unlock_account", "directory.reset_password").open(f"{OBJECTS}/{bob}/sign-in")
    assert "Yes Nothing in the directory keeps them from signing in." in page.text
    assert ">Reset password</a>" in page.content
    assert ">Unlock</a>" not in page.content
    directory.lock_out(bob)
    page.open(f"{OBJECTS}/{bob}/sign-in")
    assert "No The account is locked out." in page.text
    for text in ("Locked since", "ends in", "At any time", "At any computer", "Event 4740", "By the domain's policy."):
        assert text in page.text, text
    assert ">Unlock</a>" in page.content
    assert ">Enable</a>" not in page.content
    assert ">Unlock</a>" not in visitor().open(f"{OBJECTS}/{bob}/sign-in").content
    page.open(f"{OBJECTS}/{bob}/unlock").press("Unlock")
    assert "Yes Nothing" in page.open(f"{OBJECTS}/{bob}/sign-in").text


def test_hours_in_words() -> None:
    week: list[dict[str, Any]] = [
        {"day": day, "from": 8, "to": 18} for day in ("monday", "tuesday", "wednesday", "thursday", "friday")
    ]
    assert hours_in_words(None) == "At any time"
    assert hours_in_words([]) == "Never"
    assert hours_in_words(week) == "Monday to Friday 08:00–18:00 (UTC)"
    saturday = [{"day": "saturday", "from": 0, "to": 12}, {"day": "saturday", "from": 13, "to": 24}]
    assert hours_in_words([*week, *saturday]) == (
        "Monday to Friday 08:00–18:00, Saturday 00:00–12:00 and 13:00–24:00 (UTC)"
    )
    assert hours_in_words([{"day": "sunday", "from": 0, "to": 24}]) == "Sunday all day (UTC)"


def test_a_policy_in_words() -> None:
    policy: dict[str, Any] = {
        "source": "CN=Admins,CN=Password Settings Container,CN=System,DC=corp",
        "maxAgeSeconds": None,
    }
    policy |= {"lockoutThreshold": 5, "lockoutSeconds": None, "lockoutWindowSeconds": 1800}
    assert policy_in_words(policy) == [
        "Passwords do not expire.",
        "5 wrong passwords within 30 minutes lock the account until somebody unlocks it.",
        "By the policy Admins.",
    ]
    assert policy_in_words(None) == []
    told = [exact_duration_in_words(seconds) for seconds in (86_400, 5400, 90_000)]
    assert told == ["1 day", "90 minutes", "25 hours"]


@pytest.mark.django_db
def test_who_disabled_it_when_and_why(
    visitor: Visitor, connection: DirectoryConnection, directory: Directory, bob: UUID
) -> None:
    key = make_integration(connection)
    page = visitor("directory.enable_account")
    directory.modify(bob, userAccountControl="514")
    assert "Who disabled it is not in the gateway's log." in page.open(f"{OBJECTS}/{bob}/sign-in").text
    directory.modify(bob, userAccountControl="512")
    assert key.post(f"/api/ad/users/{bob}/disable", X_Change_Reason="Left on Friday").status == 200
    text = page.open(f"{OBJECTS}/{bob}/sign-in").text
    assert f"Disabled by {key.key.name} just now" in text
    assert "“Left on Friday”" in text
    text = visitor().open(f"{OBJECTS}/{bob}/sign-in").text  # who may neither enable it nor read the log
    assert "Left on Friday" not in text
    assert "Disabled by" not in text
    report = key.get(f"/api/ad/users/{bob}/sign-in-report").body
    assert report["disabledBy"]["owner"] == key.key.owner.username
    assert key.post(f"/api/ad/users/{bob}/enable").status == 200
    assert key.get(f"/api/ad/users/{bob}/sign-in-report").body["disabledBy"] is None
    directory.modify(bob, userAccountControl="514")  # somebody else did this
    assert key.get(f"/api/ad/users/{bob}/sign-in-report").body["disabledBy"] is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("obstacle", "first"),
    [
        ({"accountExpires": "1"}, "Extend the account"),
        ({"logonHours": b"\0" * 21}, "Allow every hour"),
        ({"userWorkstations": "PC1"}, "Allow every computer"),
        ({"pwdLastSet": "0"}, "Reset password"),
        ({"userAccountControl": "514"}, "Enable"),
    ],
)
def test_the_first_button_mends_the_cause(
    visitor: Visitor, directory: Directory, bob: UUID, obstacle: dict[str, Values], first: str
) -> None:
    directory.modify(bob, **obstacle)
    page = visitor("directory.update_user", "directory.reset_password", "directory.enable_account")
    content = page.open(f"{OBJECTS}/{bob}/sign-in").content
    button = content.partition('class="button primary"')[2]
    assert button.partition(">")[2].partition("<")[0].strip() == first
    if first.startswith("Allow"):
        address = unescape(button.partition('href="')[2].partition('"')[0])
        page.open(address).press("Preview").press("Save")
        assert "Yes" in page.open(f"{OBJECTS}/{bob}/sign-in").text
