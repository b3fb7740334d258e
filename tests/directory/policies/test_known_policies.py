"""What is computed of an account here instead of by the domain controller, case by case.

That both compute the same of accounts that a domain controller lets exist is held in
`tests/directory/queries/test_computed_control.py`.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from active_directory import Entry
from directory.policies.known_policies import KnownPolicies, PolicyReach
from directory.policies.password_policy import PasswordPolicy
from lab.directory import filetime

DAY = 86_400
STAFF = "CN=Staff,DC=corp,DC=example"
DOMAIN = PasswordPolicy(
    source="DC=corp,DC=example",
    minimum_length=7,
    complexity=True,
    history_length=24,
    minimum_age=timedelta(),
    maximum_age=timedelta(days=42),
    lockout_threshold=5,
    lockout_duration=timedelta(minutes=30),
    lockout_window=timedelta(minutes=30),
)
OF_STAFF = replace(DOMAIN, source="CN=Staff's", maximum_age=timedelta(days=400), lockout_duration=None)
LOCKED_OUT, PASSWORD_EXPIRED = 0x10, 0x800000


def known(of_staff: PasswordPolicy = OF_STAFF, *, domain: PasswordPolicy = DOMAIN) -> KnownPolicies:
    reach = PolicyReach(domain, frozenset(), {STAFF: frozenset({of_staff})}, frozenset({STAFF}))
    return KnownPolicies((domain, of_staff), shortest_age=10 * DAY * 10_000_000, reach=reach)


def account(*, days: float = 100, group: str = STAFF, control: int = 0x200, name: str = "ada", **more: str) -> Entry:
    values = {
        "memberOf": group,
        "primaryGroupID": "513",
        "userAccountControl": str(control),
        "sAMAccountName": name,
        "pwdLastSet": filetime(-days * DAY),
        **more,
    }
    sid = bytes([1, 5, 0, 0, 0, 0, 0, 5]) + b"\x15\0\0\0" + bytes(12) + b"\x50\x04\0\0"
    return Entry("CN=Ada", {"objectSid": [sid]} | {key: [value.encode()] for key, value in values.items()})


@pytest.mark.parametrize(
    ("entry", "control"),
    [
        (account(), 0),
        (account(days=402), PASSWORD_EXPIRED),
        (account(days=400.5), None),  # up to whose clock decides
        (account(days=399.5), None),
        (account(group="CN=Others,DC=corp,DC=example"), PASSWORD_EXPIRED),
        (account(lockoutTime=filetime(-90 * DAY)), LOCKED_OUT),
        (account(days=500, lockoutTime=filetime(-90 * DAY)), LOCKED_OUT | PASSWORD_EXPIRED),
        (account(lockoutTime=filetime(-90 * DAY), group="CN=Others,DC=corp,DC=example"), PASSWORD_EXPIRED),
        (account(lockoutTime=filetime(-60), group="CN=Others,DC=corp,DC=example"), None),
        (account(lockoutTime=filetime(-90 * DAY), pwdLastSet="0"), LOCKED_OUT),
        (account(lockoutTime=filetime(-90 * DAY), control=0x10200), LOCKED_OUT),  # its password never expires
        (account(lockoutTime=filetime(-90 * DAY), control=0x1000), 0),  # a computer is never locked out
        # To these no fine-grained policy applies, or not on every server.
        (account(name="krbtgt_12345"), None),
        (account(control=0x100), None),
    ],
)
def test_it_is_known_or_not(entry: Entry, control: int | None) -> None:
    assert known().computed_control_of(entry) == control


@pytest.mark.parametrize(
    "policy",
    [
        replace(OF_STAFF, maximum_age=timedelta(hours=24)),  # for ever on Samba
        replace(OF_STAFF, maximum_age=timedelta(days=-1)),
    ],
)
def test_ages_that_servers_take_differently(policy: PasswordPolicy) -> None:
    assert known(policy).computed_control_of(account()) is None


def test_passwords_that_last_longer_than_time_do_not_hide_that_somebody_is_locked_out() -> None:
    """PowerShell's TimeSpan::MaxValue, which some take for "never"."""
    age = 2**63 - 1
    policy = replace(OF_STAFF, maximum_age=timedelta(microseconds=age // 10))
    found = replace(known(policy), shortest_age=age)
    assert found.computed_control_of(account(lockoutTime=filetime(-60))) == LOCKED_OUT
    assert found.computed_control_of(account()) == 0


def test_a_duration_that_is_none() -> None:
    policy = replace(OF_STAFF, lockout_duration=timedelta(days=-1))
    assert known(policy).computed_control_of(account(lockoutTime=filetime(-90 * DAY))) is None


def test_where_all_agree_it_does_not_matter_which_applies() -> None:
    lonely = account(days=500)
    lonely = Entry(lonely.dn, {name: values for name, values in lonely.attributes.items() if name != "memberOf"})
    assert known().computed_control_of(lonely) == PASSWORD_EXPIRED
    assert known(replace(OF_STAFF, maximum_age=None)).computed_control_of(lonely) is None
    alone = PolicyReach(DOMAIN, frozenset(), {}, frozenset())
    assert KnownPolicies((DOMAIN,), shortest_age=0, reach=alone).computed_control_of(lonely) == PASSWORD_EXPIRED


def test_nothing_is_known_of_policies_that_cannot_be_read() -> None:
    assert KnownPolicies(None, shortest_age=0, reach=None).computed_control_of(account()) is None
