"""Account states and service accounts in the console: the evidence in words, exports, and what is refused."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from console.directory.accounts import evidence_in_words
from directory.models import DirectoryConnection
from directory.queries.account_searches import AccountState
from lab.directory import PASSWORD, Directory, filetime
from tests.console.pages import download, found, get_objects, names_in, text_of
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, make_person

pytestmark = pytest.mark.django_db

DAY = 86_400
PATH = "/console/accounts/"


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=["directory.read_object"]))


def day(days_from_now: float) -> str:
    return f"{datetime.now(UTC) + timedelta(days=days_from_now):%Y-%m-%d}"


def test_every_state_has_its_page(console: Console) -> None:
    overview = console.get(PATH)
    assert set(found(rf'href="{PATH}([a-z-]+)"', overview)) == {state.value for state in AccountState}
    for state in AccountState:
        page = console.get(PATH + state)
        assert page.status == 200, state
        # Only states with a limit ask for days.
        has_days = state in (AccountState.EXPIRING, AccountState.PASSWORD_EXPIRING, AccountState.INACTIVE)
        assert ('name="days"' in text_of(page)) is has_days, state
        assert get_objects(console, PATH + state).status == 200, state
    assert console.get(f"{PATH}nonsense").status == 404


@pytest.mark.usefixtures("within_a_day")
def test_the_evidence_is_told_in_words(console: Console, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user("Expired", parent=organizational_unit, password=PASSWORD)
    directory.modify(user, accountExpires=filetime(-3 * DAY))
    user = directory.add_user("Soon", parent=organizational_unit, password=PASSWORD)
    directory.modify(user, accountExpires=filetime(3 * DAY))
    user = directory.add_user("Away", parent=organizational_unit, password=PASSWORD)
    directory.modify(user, lastLogonTimestamp=filetime(-100 * DAY))
    directory.modify(directory.add_user("Reset", parent=organizational_unit, password=PASSWORD), pwdLastSet="0")
    user = directory.add_user("Wrong", parent=organizational_unit, password=PASSWORD)
    directory.lock_out(user)
    directory.add_user("Off", parent=organizational_unit, password=PASSWORD, enabled=False)

    def told(state: str, **query: str) -> dict[str, str]:
        objects = get_objects(console, PATH + state, base=organizational_unit, **query)
        assert objects.status == 200, text_of(objects)
        return dict(zip(names_in(objects), found(r'data-label="Evidence">(.*?)</td>', objects), strict=True))

    assert told("expired")["Expired"].startswith(f"Expired {day(-3)}")
    assert f"Expires {day(3)}" in told("expiring", days="7")["Soon"]
    assert ", within 7 days" in told("expiring", days="7")["Soon"]
    assert told("expiring", days="2") == {}
    assert told("inactive")["Away"].startswith(f"Last signed in {day(-100)}")
    assert ", more than 90 days ago" in told("inactive")["Away"]
    assert told("must-change-password")["Reset"] == "Has to set a new password at the next sign-in"
    assert told("locked-out")["Wrong"].startswith(f"Locked out {day(0)}")
    assert "still hold" in told("locked-out")["Wrong"]
    assert told("disabled")["Off"].startswith("Disabled")
    assert told("password-expiring", days="100")["Soon"].startswith("Expires ")
    assert f"Last set {day(0)}" in told("password-expiring", days="100")["Soon"]
    assert set(told("never-signed-in")) == {"Expired", "Soon", "Reset", "Wrong", "Off"}


def test_the_last_to_be_locked_out_comes_first_and_can_be_unlocked(
    console: Console, directory: Directory, organizational_unit: str
) -> None:
    users = {name: directory.add_user(name, parent=organizational_unit, password=PASSWORD) for name in ("Abel", "Zoe")}
    for user in users.values():
        directory.lock_out(user)
    path = f"{PATH}locked-out"
    assert names_in(get_objects(console, path, base=organizational_unit)) == ["Zoe", "Abel"]
    assert names_in(get_objects(console, path, base=organizational_unit, sort="name")) == ["Abel", "Zoe"]
    assert "Unlock" not in text_of(get_objects(console, path, base=organizational_unit))

    browser = PlainBrowser(Console(make_person(may=["directory.read_object", "directory.unlock_account"])))
    browser.open(f"{path}?now=1&base={quote(organizational_unit)}")
    (first, _) = re.findall(r'href="(/console/directory/objects/[0-9a-f-]+/unlock)"', browser.content)
    assert str(users["Zoe"]) in first
    browser.open(first).press("Unlock")
    assert "Zoe is unlocked." in browser.text


def test_words_name_a_fine_grained_policy_and_a_lock_out_without_an_end() -> None:
    policy = "CN=Strict,CN=Password Settings Container,CN=System,DC=corp,DC=example,DC=test"
    evidence = [
        {"attribute": "lockoutTime", "value": "2025-06-01T10:30:00Z", "threshold": None},
        {"attribute": "msDS-ResultantPSO", "value": policy, "threshold": None},
    ]
    assert evidence_in_words("locked-out", evidence, None) == [
        "Locked out 2025-06-01 10:30 UTC; until somebody unlocks it",
        "Policy: Strict",
    ]


def test_kinds_and_place_are_chosen(console: Console, directory: Directory, organizational_unit: str) -> None:
    directory.add_user("Ada", parent=organizational_unit)
    directory.add_computer("Engine", parent=organizational_unit)
    assert names_in(get_objects(console, f"{PATH}enabled", base=organizational_unit)) == ["Ada"]
    both = get_objects(console, f"{PATH}enabled", base=organizational_unit, kinds=["user", "computer"])
    assert names_in(both) == ["Ada", "Engine"]
    page = console.get(f"{PATH}enabled?kinds=user&kinds=computer")
    assert found(r'name="kinds" value="([^"]*)" checked', page) == ["user", "computer"]


@pytest.mark.parametrize(
    ("query", "told"),
    [("days=0", 'id="days-error"'), ("base=OU%3Dgone", 'id="base-error"'), ("kinds=robot", "Kinds")],
)
def test_what_is_wrong_is_told_beside_its_field(console: Console, query: str, told: str) -> None:
    page = console.get(f"{PATH}inactive?{query}")
    assert page.status in (400, 404)
    assert told in text_of(page)


def test_all_of_them_are_exported_with_the_evidence(
    console: Console, directory: Directory, organizational_unit: str
) -> None:
    for name in ("Ada", "Bob"):
        directory.add_user(name, parent=organizational_unit, enabled=False)
    text, called = download(console, f"{PATH}disabled.csv", base=organizational_unit, pageSize="1")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in rows] == ["Ada", "Bob"]
    assert json.loads(rows[0]["evidence"])[0]["attribute"] == "userAccountControl"
    assert called == 'attachment; filename="accounts-disabled.csv"'
    lines, _ = download(console, f"{PATH}disabled.ndjson", base=organizational_unit)
    assert len(lines.splitlines()) == 2


def test_service_accounts_are_listed_by_type(console: Console, directory: Directory, organizational_unit: str) -> None:
    directory.add_user("svc-sql", parent=organizational_unit, servicePrincipalName=["MSSQLSvc/a", "MSSQLSvc/b"])
    path = "/console/service-accounts/"
    assert console.get(path).status == 200
    objects = get_objects(console, path, base=organizational_unit)
    assert names_in(objects) == ["svc-sql"]
    assert "MSSQLSvc/a" in text_of(objects)
    assert names_in(get_objects(console, path, base=organizational_unit, types=["managed", "group-managed"])) == []
    text, _ = download(console, f"{path}result.csv", base=organizational_unit)
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == ["svc-sql"]
    assert console.get(f"{path}?types=nonsense").status == 400


def test_whoever_may_not_search_sees_neither_links_nor_pages(connection: DirectoryConnection) -> None:
    stranger = Console(make_person(may=["audit.read_log"]))
    menu = text_of(stranger.get("/console/log/"))
    for path in (PATH, "/console/service-accounts/"):
        assert path not in menu
        assert stranger.get(path).status == 403
    for path in (f"{PATH}inactive", f"{PATH}inactive.csv", "/console/service-accounts/result.csv"):
        assert stranger.get(path).status == 403
