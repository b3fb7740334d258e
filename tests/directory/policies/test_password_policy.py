"""The policy in force for an account, what is foreseen of it, and passwords made for it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import ldap
import pytest

from active_directory import Client, Entry
from directory.models import DirectoryConnection
from directory.policies.password_policy import (
    RESULTANT_POLICY,
    PasswordPolicy,
    PolicyReader,
    contains_name,
    find_violation,
    generate_first_password,
    generate_password,
    is_exempt,
    policy_of,
)
from lab.directory import PASSWORD, Directory, Values, random_name
from tests.support.cast import Integration, make_integration

NAMES: dict[str, Any] = {"account_name": "ada", "display_name": "Ada Lovelace"}
FOR_EVER = str(-(2**63))
DOMAIN = PasswordPolicy(
    source="DC=corp",
    minimum_length=7,
    complexity=True,
    history_length=24,
    minimum_age=timedelta(days=1),
    maximum_age=timedelta(days=42),
    lockout_threshold=0,
    lockout_duration=None,
    lockout_window=timedelta(minutes=30),
)


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada Lovelace", parent=organizational_unit, password=PASSWORD)


@pytest.fixture
def fine_grained(directory: Directory) -> Iterator[Callable[..., str]]:
    """Make a fine-grained policy for one user; all of its numbers differ from the domain's."""
    made = []

    def make(user: UUID, **more: Values) -> str:
        dn = f"CN={random_name('policy')},CN=Password Settings Container,CN=System,{directory.base_dn}"
        attributes: dict[str, Values] = {
            "objectClass": "msDS-PasswordSettings",
            "msDS-PasswordSettingsPrecedence": "10",
            "msDS-PasswordReversibleEncryptionEnabled": "FALSE",
            "msDS-PasswordHistoryLength": "3",
            "msDS-PasswordComplexityEnabled": "FALSE",
            "msDS-MinimumPasswordLength": "30",
            "msDS-MinimumPasswordAge": "0",
            "msDS-MaximumPasswordAge": FOR_EVER,
            "msDS-LockoutThreshold": "0",
            "msDS-LockoutObservationWindow": "-600000000",
            "msDS-LockoutDuration": FOR_EVER,
            "msDS-PSOAppliesTo": directory.dn(user),
        }
        directory.add(dn, attributes | more)
        made.append(dn)
        return dn

    yield make
    for dn in made:
        directory.delete(dn)


def test_the_domains(client: Client, directory: Directory, ada: UUID) -> None:
    policy = policy_of(client, client.read(ada, (RESULTANT_POLICY,)))
    assert policy == PolicyReader(client).of_domain()
    assert policy is not None
    assert policy.as_json() == {
        "source": directory.base_dn,
        "minLength": 7,
        "complexity": True,
        "historyLength": 24,
        "minAgeSeconds": 86_400,
        "maxAgeSeconds": 42 * 86_400,
        "lockoutThreshold": int(directory.text(directory.base_dn, "lockoutThreshold") or 0),
        "lockoutSeconds": 1800,
        "lockoutWindowSeconds": 1800,
    }


def test_a_fine_grained_one(client: Client, ada: UUID, fine_grained: Callable[..., str]) -> None:
    dn = fine_grained(ada)
    policy = policy_of(client, client.read(ada, (RESULTANT_POLICY,)))
    assert policy is not None
    assert policy.as_json() == {
        "source": dn,
        "minLength": 30,
        "complexity": False,
        "historyLength": 3,
        "minAgeSeconds": 0,
        "maxAgeSeconds": None,
        "lockoutThreshold": 0,
        "lockoutSeconds": None,
        "lockoutWindowSeconds": 60,
    }


def test_it_decides_about_resets(
    integration: Integration, directory: Directory, ada: UUID, fine_grained: Callable[..., str]
) -> None:
    path = f"/api/ad/users/{ada}/reset-password"
    dn = fine_grained(ada)
    refused = integration.post(path, {"newPassword": PASSWORD})
    assert (refused.status, refused.body["policy"]["source"]) == (422, dn)
    assert integration.post(path, {"newPassword": "all of it in lower case letters"}).status == 200
    generated = integration.post(path, {"generate": True}).body["generatedPassword"]
    assert len(generated) == 30
    assert directory.can_sign_in(ada, generated)


def test_a_new_account_is_under_the_domains(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    body = {"name": random_name("u"), "parent": organizational_unit, "password": "abcdefghij", "enabled": True}
    for query in ("", "?dryRun=true"):
        refused = integration.post(f"/api/ad/users{query}", body)
        assert (refused.status, refused.code) == (422, "AD.Password.PolicyViolation")
        assert refused.body["policy"]["source"] == directory.base_dn
        assert refused.body["errors"][0]["pointer"] == "#/password"
    # Whose type or options leave it alone is the directory's to judge.
    computer = {**body, "name": random_name("pc")[:15], "enabled": False}
    assert integration.post("/api/ad/computers?dryRun=true", computer).status == 200


def test_what_cannot_be_read_is_left_to_the_directory(client: Client, directory: Directory, ada: UUID) -> None:
    """By default only administrators may read fine-grained policies in Windows."""
    hidden = Entry("CN=Ada", {RESULTANT_POLICY: [f"CN=hidden,{directory.base_dn}".encode()]})
    assert policy_of(client, hidden) is None
    assert len(generate_password(None, **NAMES)) == 20


@pytest.mark.parametrize("spelling", ["0", FOR_EVER])
def test_for_ever_is_written_in_two_ways(
    client: Client, ada: UUID, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"minPwdLength": [b"0"], "maxPwdAge": [spelling.encode()], "lockoutDuration": [spelling.encode()]}
    monkeypatch.setattr(client, "find", lambda *_: Entry("DC=corp", values))
    policy = PolicyReader(client).of_domain()
    assert policy is not None
    assert (policy.maximum_age, policy.lockout_duration) == (None, None)
    assert (policy.minimum_age, policy.lockout_threshold, policy.complexity) == (timedelta(), 0, False)


def test_a_policy_is_read_once_for_many(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    find = client.find
    monkeypatch.setattr(client, "find", lambda dn, names: (read.append(dn), find(dn, names))[1])
    policies = PolicyReader(client)
    assert policies.of(Entry("CN=a", {})) is policies.of(Entry("CN=b", {})) is policies.of_domain()
    assert len(read) == 1


PASSWORDS = [
    *("short", "Aa1-xyz", "abcdefgh1!", "abcdefghij", "ABCDEFgh", "abcdEFG", "aaa aaa1 ", "Aaa aaa1", "12345678"),
    *("ümlautdef1", "ÄÖÜabc12", "абвгдежз1", "абвгдежзABa", "日本語abc12", "日本語ABCDE", "éééééé1a", "a1A€€€€"),
    *(r"~!@#$%^&*_-+=`|\(){}[]:;<>,.?/a1", '"quoted"A', "A" * 250 + "a1"),
]


@pytest.mark.parametrize("password", PASSWORDS)
def test_what_is_foreseen_is_what_the_domain_controller_says(directory: Directory, ada: UUID, password: str) -> None:
    try:
        directory.modify(ada, unicodePwd=f'"{password}"'.encode("utf-16-le"))
        accepted = True
    except ldap.CONSTRAINT_VIOLATION:
        accepted = False
    assert (find_violation(DOMAIN, password) is None) is accepted


@pytest.mark.parametrize(
    ("control", "rid", "exempt"),
    [(512, 1104, False), (512 | 32, 1104, True), (4096, 1105, True), (512, 502, True)],
)
def test_whose_passwords_are_left_alone(control: int, rid: int, exempt: bool) -> None:
    sid = b"\1\1\0\0\0\0\0\5" + rid.to_bytes(4, "little")
    assert is_exempt(Entry("CN=x", {"userAccountControl": [str(control).encode()], "objectSid": [sid]})) is exempt


@pytest.mark.parametrize(
    ("password", "found"),
    [
        ("X1!lovelace99", True),
        ("X1!LOVE", False),
        ("xADA-1815", True),
        ("Engine-2", False),
    ],
)
def test_names_in_passwords(password: str, found: bool) -> None:
    assert contains_name(password, **NAMES) is found


def test_short_parts_of_names_do_not_count() -> None:
    assert not contains_name("Li-Wu-Correct-1", account_name="li", display_name="Wu, Li")
    assert not contains_name("Correct-1", account_name=None, display_name=None)


def test_generated_passwords_fit_the_names_and_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(200):
        made = generate_password(DOMAIN, **NAMES)
        assert find_violation(DOMAIN, made) is None
        assert not contains_name(made, **NAMES)
    # One that has a name in it is thrown away whole.
    drawn = iter("ADA!bcd234efg!hjk567mnpqrst!uvw89xyzACE!")
    monkeypatch.setattr("directory.policies.password_policy.secrets.choice", lambda _: next(drawn))
    assert generate_password(DOMAIN, **NAMES) == "mnpqrst!uvw89xyzACE!"


def test_a_first_password_can_be_said_on_the_telephone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {generate_first_password(DOMAIN, **NAMES) for _ in range(200)}
    assert len(made) == 200
    for each in made:
        assert re.fullmatch(r"([B-T][aeiou][b-t][aeiou]-){4}[2-9]{4}", each)
        assert find_violation(DOMAIN, each) is None
        assert not contains_name(each, **NAMES)
    long = replace(DOMAIN, minimum_length=60)
    assert find_violation(long, generate_first_password(long, **NAMES)) is None
    named = {"account_name": "tibo", "display_name": None}
    drawn = iter("tiboxaxaxaxaxaxa2345" + "makumakumakumaku2345")
    monkeypatch.setattr("directory.policies.password_policy.secrets.choice", lambda _: next(drawn))
    assert generate_first_password(DOMAIN, **named) == "Maku-Maku-Maku-Maku-2345"


@pytest.mark.parametrize("never_expires", [True, False])
def test_a_password_past_its_age_opens_and_shuts_the_account(
    connection: DirectoryConnection,
    directory: Directory,
    ada: UUID,
    fine_grained: Callable[..., str],
    never_expires: bool,
) -> None:
    """So whoever says that it never expires, or does, needs the permission to set another one."""
    directory.modify(ada, userAccountControl="512" if never_expires else "66048")
    path, body = f"/api/ad/users/{ada}?dryRun=true", {"account": {"passwordNeverExpires": never_expires}}
    unable = make_integration(connection, may=["directory.update_user", "directory.read_object"])
    able = make_integration(
        connection, may=["directory.update_user", "directory.read_object", "directory.reset_password"]
    )
    assert unable.patch(path, body).status == 200
    fine_grained(ada, **{"msDS-MaximumPasswordAge": "-1"})
    assert unable.patch(path, body).status == 403
    assert able.patch(path, body).body["risk"] == "security"
    directory.modify(ada, userAccountControl="514" if never_expires else "66050")
    assert unable.patch(path, body).status == 200, "nobody signs in with a disabled account"
