"""Searches by account state: for each state, accounts just inside and just outside, and the evidence."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from active_directory import Client, Entry
from lab.directory import ENABLED, PASSWORD, Directory, Values, filetime, random_name
from lab.domain import Domain
from lab.samba.database import age_passwords, overwrite
from tests.support.cast import Answer, Integration, make_connection, make_integration

MINUTE, HOUR, DAY = 60, 3_600, 86_400
NEVER = str(2**63 - 1)
DONT_EXPIRE, SMARTCARD, INTERDOMAIN_TRUST = 0x10000, 0x40000, 0x0800
DOMAIN_AGE, DOMAIN_LOCK_OUT = 42, 30  # days and minutes: the policy of the tests' domain


def search(integration: Integration, unit: str, state: str, **parameters: Any) -> Answer:
    return integration.get(f"/api/ad/accounts?{urlencode({'base': unit, 'state': state, **parameters})}")


@pytest.fixture
def find(integration: Integration, organizational_unit: str) -> Callable[..., dict[str, Any]]:
    """The records of the accounts of the test's unit in a state, by name."""

    def find(state: str, **parameters: Any) -> dict[str, Any]:
        answer = search(integration, organizational_unit, state, **parameters)
        assert answer.status == 200, answer.body
        return {item["name"]: item for item in answer.body["items"]}

    return find


@pytest.fixture
def user(directory: Directory, organizational_unit: str) -> Callable[..., UUID]:
    """Add a user with a password, then set attributes of it."""

    def user(name: str, **attributes: Values) -> UUID:
        guid = directory.add_user(name, parent=organizational_unit, password=PASSWORD)
        if attributes:
            directory.modify(guid, **attributes)
        return guid

    return user


@pytest.fixture
def policy(directory: Directory) -> Iterator[Callable[..., str]]:
    """Make a fine-grained policy for one user; ages in days and lock-outs in seconds, None is for ever."""
    made = []

    def interval(seconds: float | None) -> str:
        return str(-(2**63) if seconds is None else int(-seconds * 10_000_000))

    def policy(user: UUID, *, days: float | None = DOMAIN_AGE, lock_out: float | None = 1800, **more: Values) -> str:
        name = random_name("policy")
        dn = f"CN={name},CN=Password Settings Container,CN=System,{directory.base_dn}"
        directory.add(
            dn,
            {
                "objectClass": "msDS-PasswordSettings",
                "msDS-PasswordSettingsPrecedence": "10",
                "msDS-PasswordReversibleEncryptionEnabled": "FALSE",
                "msDS-PasswordHistoryLength": "0",
                "msDS-PasswordComplexityEnabled": "FALSE",
                "msDS-MinimumPasswordLength": "0",
                "msDS-MinimumPasswordAge": "0",
                "msDS-MaximumPasswordAge": interval(None if days is None else days * DAY),
                "msDS-LockoutThreshold": "2",
                "msDS-LockoutObservationWindow": interval(60 if lock_out is None else lock_out),
                "msDS-LockoutDuration": interval(lock_out),
                "msDS-PSOAppliesTo": directory.dn(user),
                **more,
            },
        )
        made.append(dn)
        return dn

    yield policy
    for dn in made:
        directory.delete(dn)


def moment(text: str | None) -> datetime:
    assert text is not None
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


def is_about(text: str | None, **offset: float) -> bool:
    """Whether it is a moment so far from now, give or take what a slow machine needs."""
    return abs(moment(text) - (datetime.now(UTC) + timedelta(**offset))) < timedelta(minutes=5)


def facts(record: dict[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    assert all(list(item) == ["attribute", "value", "threshold"] for item in record["evidence"])
    return {item["attribute"]: (item["value"], item["threshold"]) for item in record["evidence"]}


def test_it_works(find: Any, user: Any, integration: Integration) -> None:
    guid = user("Ada", accountExpires="130000000000000000")
    user("Blaise")
    record = find("expired")["Ada"]
    assert set(find("expired")) == {"Ada"}
    evidence = record.pop("evidence")
    assert record == integration.get(f"/api/ad/users/{guid}").body
    assert [(item["attribute"], item["value"]) for item in evidence] == [("accountExpires", "2012-12-14T23:06:40Z")]
    assert is_about(evidence[0]["threshold"])


@pytest.mark.parametrize(
    ("state", "bit", "inside", "outside"),
    [
        ("disabled", 0x2, 0x202, 0x200),
        ("enabled", 0x2, 0x200, 0x202),
        ("password-never-expires", 0x10000, 0x10200, 0x200),
        ("password-not-required", 0x20, 0x220, 0x200),
    ],
)
def test_flags(find: Any, user: Any, state: str, bit: int, inside: int, outside: int) -> None:
    user("Ada", userAccountControl=str(inside))
    user("Blaise", userAccountControl=str(outside))
    found = find(state)
    assert set(found) == {"Ada"}
    assert found["Ada"]["evidence"] == [
        {"attribute": "userAccountControl", "value": str(inside), "threshold": str(bit)}
    ]


def test_expiry_of_accounts(find: Any, user: Any) -> None:
    user("no limit", accountExpires="0")
    user("for ever", accountExpires=NEVER)
    user("over", accountExpires=filetime(-2 * MINUTE))
    user("soon", accountExpires=filetime(20 * MINUTE))
    user("in 30 days", accountExpires=filetime(30 * DAY - HOUR))
    user("after 30 days", accountExpires=filetime(30 * DAY + HOUR))
    user("disabled", accountExpires=filetime(-DAY), userAccountControl=str(ENABLED | 2))
    assert set(find("expired")) == {"over", "disabled"}
    assert set(find("expiring")) == {"soon", "in 30 days"}
    assert set(find("expiring", days=1)) == {"soon"}
    assert set(find("expiring", days=3650)) == {"soon", "in 30 days", "after 30 days"}
    value, threshold = facts(find("expiring")["soon"])["accountExpires"]
    assert is_about(value, minutes=20)
    assert is_about(threshold, days=30)


def test_lock_out(find: Any, user: Any, policy: Any, directory: Directory) -> None:
    user("free")
    user("unlocked", lockoutTime="0")
    user("locked", lockoutTime=filetime(-(DOMAIN_LOCK_OUT - 15) * MINUTE))
    user("over", lockoutTime=filetime(-(DOMAIN_LOCK_OUT + 1) * MINUTE))
    policy(user("over sooner", lockoutTime=filetime(-10 * MINUTE)), lock_out=9 * MINUTE)
    longer = policy(user("locked longer", lockoutTime=filetime(-DAY)), lock_out=2 * DAY)
    policy(user("until unlocked", lockoutTime=filetime(-900 * DAY)), lock_out=None)
    policy(user("until unlocked too", lockoutTime=filetime(-900 * DAY)), lock_out=0)
    found = find("locked-out")
    assert set(found) == {"locked", "locked longer", "until unlocked", "until unlocked too"}
    assert all(record["account"]["lockedOut"] for record in found.values())
    told = facts(found["locked"])
    assert list(told) == ["lockoutTime", "msDS-User-Account-Control-Computed", "msDS-ResultantPSO"]
    assert is_about(told["lockoutTime"][0], minutes=-(DOMAIN_LOCK_OUT - 15))
    assert is_about(told["lockoutTime"][1], minutes=-DOMAIN_LOCK_OUT)
    assert told["msDS-User-Account-Control-Computed"] == ("16", "16")
    assert told["msDS-ResultantPSO"] == (None, None)
    told = facts(found["locked longer"])
    assert is_about(told["lockoutTime"][1], days=-2)
    assert told["msDS-ResultantPSO"] == (longer, None)
    assert facts(found["until unlocked"])["lockoutTime"][1] is None
    assert facts(found["until unlocked too"])["lockoutTime"][1] is None


def test_lock_out_by_wrong_passwords(find: Any, user: Any, policy: Any, directory: Directory) -> None:
    guid = user("Ada")
    policy(guid)
    assert not directory.can_sign_in(guid, "wrong")
    assert find("locked-out") == {}
    assert not directory.can_sign_in(guid, "wrong")
    assert is_about(facts(find("locked-out")["Ada"])["lockoutTime"][0])


@pytest.fixture
def passwords(domain: Domain, directory: Directory, user: Any, policy: Any) -> dict[str, str]:
    """Users by the ages of their passwords; returns the fine-grained policies."""
    hour = 1 / 24
    ages = {
        user("fresh"): 0.0,
        user("expires tomorrow"): DOMAIN_AGE - 1 + hour,
        user("expires in a week"): DOMAIN_AGE - 7 + hour,
        user("expired"): DOMAIN_AGE + hour,
    }
    short, long, endless = user("short"), user("long"), user("endless")
    policies = {"short": policy(short, days=10), "long": policy(long, days=400), "endless": policy(endless, days=None)}
    ages |= {short: 10 + hour, long: 100, endless: 1000}
    for name, bit in (("flagged", DONT_EXPIRE), ("smart card", SMARTCARD)):
        ages[user(name, userAccountControl=str(ENABLED | bit))] = 1000
    age_passwords(domain, directory, ages)
    user("must change", pwdLastSet="0")
    user("flagged, would change", pwdLastSet="0", userAccountControl=str(ENABLED | DONT_EXPIRE))
    return policies


def test_expiry_of_passwords(find: Any, passwords: dict[str, str]) -> None:
    found = find("password-expired")
    assert set(found) == {"expired", "short"}
    assert all(record["account"]["passwordExpired"] for record in found.values())
    assert set(find("password-expiring", days=1)) == {"expires tomorrow"}
    assert set(find("password-expiring", days=7)) == {"expires tomorrow", "expires in a week"}
    assert set(find("password-expiring")) == {"expires tomorrow", "expires in a week"}
    assert set(find("password-expiring", days=43)) == {"expires tomorrow", "expires in a week", "fresh"}
    assert "long" in find("password-expiring", days=301)
    told = facts(found["short"])
    assert list(told) == ["msDS-UserPasswordExpiryTimeComputed", "pwdLastSet", "msDS-ResultantPSO"]
    assert is_about(told["msDS-UserPasswordExpiryTimeComputed"][0], hours=-1)
    assert is_about(told["msDS-UserPasswordExpiryTimeComputed"][1])
    assert is_about(told["pwdLastSet"][0], days=-10, hours=-1)
    assert told["msDS-ResultantPSO"] == (passwords["short"], None)
    told = facts(find("password-expiring", days=7)["expires tomorrow"])
    assert is_about(told["msDS-UserPasswordExpiryTimeComputed"][0], hours=23)
    assert is_about(told["msDS-UserPasswordExpiryTimeComputed"][1], days=7)
    assert told["msDS-ResultantPSO"] == (None, None)


def test_expiry_by_policies_of_groups(
    find: Any,
    passwords: dict[str, str],
    policy: Any,
    directory: Directory,
    organizational_unit: str,
    domain: Domain,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the policies tell is computed here: the domain controller computes it for each account that it looks at."""
    names = ("staff", "guest", "lone")
    users = {name: directory.add_user(name, parent=organizational_unit, password=PASSWORD) for name in names}
    group = directory.add_group(parent=organizational_unit, members=[users["guest"]], group_type=-2147483646)
    directory.add_group(parent=organizational_unit, members=[users["staff"]], group_type=-2147483646)
    policy(group, days=5)
    age_passwords(domain, directory, dict.fromkeys(users.values(), 6))
    computed: list[str] = []
    for name in ("search", "read_each"):
        call = getattr(Client, name)

        def watched(client: Client, *of: Any, call: Any = call, **how: Any) -> Iterator[Entry]:
            for entry in call(client, *of, **how):
                computed.extend([entry.dn] if "msDS-UserPasswordExpiryTimeComputed" in entry else [])
                yield entry

        monkeypatch.setattr(Client, name, watched)
    assert set(find("password-expired")) == {"expired", "short", "guest"}
    asked = {dn.partition(",")[0] for dn in computed}
    assert {"CN=lone", "CN=guest"} <= asked
    assert "CN=staff" not in asked


def test_must_change_password(
    find: Any, passwords: dict[str, str], directory: Directory, organizational_unit: str
) -> None:
    found = find("must-change-password")
    assert set(found) == {"must change"}
    assert found["must change"]["evidence"] == [
        {"attribute": "pwdLastSet", "value": "never", "threshold": None},
        {"attribute": "userAccountControl", "value": "512", "threshold": None},
    ]
    # The domain controller means it so.
    assert not directory.can_sign_in(f"CN=must change,{organizational_unit}", PASSWORD)
    assert directory.can_sign_in(f"CN=flagged\\, would change,{organizational_unit}", PASSWORD)


@pytest.mark.parametrize("server", ["Samba", "Windows"])
def test_policies_the_gateway_may_not_read_count_too(
    db: None,
    domain: Domain,
    user: Any,
    passwords: dict[str, str],
    organizational_unit: str,
    directory: Directory,
    monkeypatch: pytest.MonkeyPatch,
    server: str,
) -> None:
    """The usual case: the gateway's account is no administrator. Samba shows it the policies without attributes."""
    if server == "Windows":  # which does not even show them, without the right to list their container
        everything = Client.search

        def search_without_policies(self: Client, base: UUID | str, *arguments: Any, **options: Any) -> Iterator[Entry]:
            is_container = str(base).startswith("CN=Password Settings Container,")
            return iter(()) if is_container else everything(self, base, *arguments, **options)

        monkeypatch.setattr(Client, "search", search_without_policies)
    plain = user("plain", userAccountControl=str(ENABLED | DONT_EXPIRE))
    connection = make_connection(domain, bind_dn=directory.dn(plain), bind_password=PASSWORD)
    unprivileged = make_integration(connection)
    answer = search(unprivileged, organizational_unit, "password-expired")
    assert {item["name"] for item in answer.body["items"]} == {"expired", "short"}
    directory.modify(f"CN=short,{organizational_unit}", lockoutTime=filetime(-MINUTE))
    answer = search(unprivileged, organizational_unit, "locked-out")
    assert [item["name"] for item in answer.body["items"]] == ["short"]
    assert facts(answer.body["items"][0])["lockoutTime"][1] is None


def test_sign_ins(find: Any, user: Any, directory: Directory) -> None:
    user("never")
    user("never, as numbers", lastLogon="0", lastLogonTimestamp="0")
    user("yesterday", lastLogon=filetime(-DAY), lastLogonTimestamp=filetime(-DAY))
    user("29 days ago", lastLogonTimestamp=filetime(-30 * DAY + HOUR))
    user("30 days ago", lastLogonTimestamp=filetime(-30 * DAY - HOUR))
    user("here since", lastLogonTimestamp=filetime(-40 * DAY), lastLogon=filetime(-DAY))
    user("elsewhere since", lastLogon=filetime(-40 * DAY), lastLogonTimestamp=filetime(-DAY))
    user("only here", lastLogon=filetime(-31 * DAY))
    user("disabled", lastLogonTimestamp=filetime(-31 * DAY), userAccountControl=str(ENABLED | 2))
    found = find("inactive")
    assert set(found) == {"30 days ago", "only here", "disabled"}
    assert set(find("inactive", days=39)) == set()
    assert set(find("inactive", days=29)) == {"29 days ago", "30 days ago", "only here", "disabled"}
    told = facts(found["30 days ago"])
    assert list(told) == ["lastLogonTimestamp", "lastLogon"]
    assert is_about(told["lastLogonTimestamp"][0], days=-30, hours=-1)
    assert told["lastLogon"][0] == "never"
    assert all(is_about(threshold, days=-30) for _, threshold in told.values())
    found = find("never-signed-in")
    assert set(found) == {"never", "never, as numbers"}
    assert facts(found["never"]) == {"lastLogonTimestamp": (None, None), "lastLogon": ("never", None)}
    assert facts(found["never, as numbers"]) == {"lastLogonTimestamp": ("never", None), "lastLogon": ("never", None)}


def test_a_sign_in_ends_it(find: Any, user: Any, directory: Directory) -> None:
    guid = user("Ada")
    assert set(find("never-signed-in")) == {"Ada"}
    assert directory.can_sign_in(guid, PASSWORD)
    assert find("never-signed-in") == {}


def test_kinds(find: Any, user: Any, domain: Domain, directory: Directory, organizational_unit: str) -> None:
    user("Ada")
    directory.add_computer("PC", parent=organizational_unit)
    for name in ("Managed", "GroupManaged"):
        directory.add(
            f"CN={name},{organizational_unit}",
            {
                "objectClass": f"msDS-{name}ServiceAccount",
                "sAMAccountName": f"{random_name('m')}$",
                "userAccountControl": str(0x1000),
                **({"msDS-ManagedPasswordInterval": "30"} if name == "GroupManaged" else {}),
            },
        )
    directory.add_group("Group", parent=organizational_unit)
    trust = user("Trust")
    overwrite(domain, directory, {trust: {"userAccountControl": str(INTERDOMAIN_TRUST)}})
    assert directory.text(trust, "userAccountControl") == str(INTERDOMAIN_TRUST)
    assert set(find("never-signed-in")) == {"Ada"}
    assert set(find("never-signed-in", kinds="user")) == {"Ada"}
    assert set(find("never-signed-in", kinds="computer")) == {"PC"}
    assert set(find("never-signed-in", kinds="user,computer")) == {"Ada", "PC"}
    assert set(find("never-signed-in", kinds="serviceAccount")) == {"Managed", "GroupManaged"}
    assert find("must-change-password", kinds="computer") == {}


def test_the_key_of_all_tickets_is_nobody(integration: Integration, directory: Directory) -> None:
    users = f"CN=Users,{directory.base_dn}"
    names = {item["name"] for item in search(integration, users, "disabled").body["items"]}
    assert "Guest" in names
    assert "krbtgt" not in names


def test_the_clock_is_the_directorys(find: Any, user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    user("Ada", accountExpires=filetime(HOUR))
    assert find("expired") == {}
    read = Client.read

    def read_two_hours_ahead(self: Client, ref: UUID | str, *arguments: Any, **options: Any) -> Entry:
        entry = read(self, ref, *arguments, **options)
        if "currentTime" not in entry:
            return entry
        ahead = datetime.now(UTC) + timedelta(hours=2)
        return Entry(entry.dn, {"currentTime": [f"{ahead:%Y%m%d%H%M%S}.0Z".encode()]})

    monkeypatch.setattr(Client, "read", read_two_hours_ahead)
    assert is_about(facts(find("expired")["Ada"])["accountExpires"][1], hours=2)


def test_it_is_a_search_like_any_other(
    integration: Integration, connection: Any, user: Any, directory: Directory, organizational_unit: str
) -> None:
    for name in ("Ada", "Blaise", "Charles"):
        user(name, department=f"of {name}")
    inner = directory.add_unit("Inner", parent=organizational_unit)
    directory.add_user("Dorothy", parent=inner, password=PASSWORD)
    parameters = {"sort": "-name", "pageSize": 2, "attributes": "department", "scope": "one-level"}
    first = search(integration, organizational_unit, "enabled", **parameters).body
    assert ([item["name"] for item in first["items"]], first["total"]) == (["Charles", "Blaise"], 3)
    assert first["items"][0]["attributes"] == {"department": ["of Charles"]}
    second = search(integration, organizational_unit, "enabled", **parameters, cursor=first["nextCursor"]).body
    assert ([item["name"] for item in second["items"]], second["nextCursor"]) == (["Ada"], None)
    answer = search(integration, organizational_unit, "disabled", **parameters, cursor=first["nextCursor"])
    assert (answer.status, answer.code) == (400, "Search.CursorInvalid")
    confined = make_integration(connection, scopes=[directory.guid(inner)])
    answer = search(confined, organizational_unit, "enabled", filter="(objectClass=user)")
    assert [item["name"] for item in answer.body["items"]] == ["Dorothy"]


@pytest.mark.parametrize(
    ("parameters", "code", "offender"),
    [
        ({}, "Request.Invalid", "state"),
        ({"state": "asleep"}, "Request.Invalid", "state"),
        ({"state": "expiring", "days": "0"}, "Request.Invalid", "days"),
        ({"state": "expiring", "days": "3651"}, "Request.Invalid", "days"),
        ({"state": "expiring", "days": "soon"}, "Request.Invalid", "days"),
        ({"state": "expired", "days": "30"}, "Request.Invalid", "days"),
        ({"state": "enabled", "kinds": "user,group"}, "Request.Invalid", "kinds"),
        ({"state": "enabled", "kinds": ""}, "Request.Invalid", "kinds"),
        ({"state": "enabled", "kind": "user"}, "Request.UnknownParameter", "kind"),
    ],
)
def test_what_is_refused(integration: Integration, parameters: dict[str, str], code: str, offender: str) -> None:
    answer = integration.get(f"/api/ad/accounts?{urlencode(parameters)}")
    assert (answer.status, answer.code) == (400, code)
    assert {item["parameter"] for item in answer.body["errors"]} == {offender}
