"""The password and lock-out policy that applies to an account: a fine-grained one, or the domain's.

It is read and described here; passwords are checked against it and generated to meet it. The directory alone decides
whether it accepts a password: it also knows the history and the domain's password filters.
"""

import secrets
import string
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from typing_extensions import TypedDict

from active_directory import (
    ANYTHING,
    Client,
    DomainRid,
    Entry,
    FunctionalLevel,
    PasswordProperties,
    Scope,
    UserAccountControl,
)
from core.text.messages import message
from directory.shapes.inputs import utf16_length

RESULTANT_POLICY = "msDS-ResultantPSO"
"""Names the policy that applies to an account. The domain controller computes it, so accounts must be read with it."""

_NEVER_TICKS = -(2**63)
CATEGORIES_NEEDED = 3


class PasswordPolicyJson(TypedDict):
    """Ages and durations in seconds; null: a password never expires, a lock-out does not end by itself."""

    source: str
    minLength: int
    complexity: bool
    historyLength: int
    minAgeSeconds: int
    maxAgeSeconds: int | None
    lockoutThreshold: int
    lockoutSeconds: int | None
    lockoutWindowSeconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordPolicy:
    """A password policy. `source` is the distinguished name of the object that defines it.

    Without `maximum_age` passwords never expire; with a `lockout_threshold` of 0 accounts are never locked out; without
    `lockout_duration` a lock-out lasts until somebody unlocks the account; a `minimum_age` of zero means none.
    """

    source: str
    minimum_length: int
    complexity: bool
    history_length: int
    minimum_age: timedelta
    maximum_age: timedelta | None
    lockout_threshold: int
    lockout_duration: timedelta | None
    lockout_window: timedelta

    def as_json(self) -> PasswordPolicyJson:
        return {
            "source": self.source,
            "minLength": self.minimum_length,
            "complexity": self.complexity,
            "historyLength": self.history_length,
            "minAgeSeconds": int(self.minimum_age.total_seconds()),
            "maxAgeSeconds": _seconds(self.maximum_age),
            "lockoutThreshold": self.lockout_threshold,
            "lockoutSeconds": _seconds(self.lockout_duration),
            "lockoutWindowSeconds": int(self.lockout_window.total_seconds()),
        }

    def describe(self) -> str:
        """The requirements for a password, to follow "It asks for" in a sentence."""
        parts = [f"at least {max(1, self.minimum_length)} characters"]
        if self.complexity:
            parts.append(f"{CATEGORIES_NEEDED} of upper case, lower case, digits, symbols and other letters")
        if self.history_length:
            parts.append(f"none of the last {self.history_length} passwords")
        return ", ".join(parts)


def _seconds(value: timedelta | None) -> int | None:
    return None if value is None else int(value.total_seconds())


class PolicyReader:
    """Reads the policies of many accounts, each policy once. It must not outlive one request."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, PasswordPolicy | None] = {}

    def of(self, entry: Entry) -> PasswordPolicy | None:
        """The policy of an account read with RESULTANT_POLICY; None where the gateway's account may not read it.

        By default only administrators may read the container of fine-grained policies on Windows.
        """
        fine_grained = entry.text(RESULTANT_POLICY)
        return self.of_domain() if fine_grained is None else self._read(fine_grained, _FINE_GRAINED)

    def of_domain(self) -> PasswordPolicy | None:
        """The domain's own policy, which also applies to an account that does not exist yet."""
        return self._read(self._client.default_naming_context, _DOMAIN)

    def _read(self, dn: str, names: "_PolicyAttributes") -> PasswordPolicy | None:
        if dn not in self._known:
            entry = self._client.find(dn, names)
            self._known[dn] = None if entry is None else _policy(entry, names)
        return self._known[dn]


def policy_of(client: Client, entry: Entry) -> PasswordPolicy | None:
    """The present policy of one account; see `PolicyReader.of`."""
    return PolicyReader(client).of(entry)


class FineGrainedPolicy(NamedTuple):
    """A fine-grained policy, and the names of the accounts and groups it applies to that the gateway may read."""

    policy: PasswordPolicy
    applies_to: tuple[str, ...]


class DomainPolicies(NamedTuple):
    """All password policies of a domain.

    `in_force` is whether the domain's functional level, as far as it can be read, allows fine-grained policies.
    """

    domain: PasswordPolicy
    fine_grained: tuple[FineGrainedPolicy, ...]
    in_force: bool

    @property
    def policies(self) -> tuple[PasswordPolicy, ...]:
        return (self.domain, *(each.policy for each in self.fine_grained))

    @property
    def maximum_ages(self) -> tuple[int, ...]:
        """The maximum ages of passwords in units of 100 ns, without the policies under which no password expires."""
        ages = (policy.maximum_age for policy in self.policies)
        return tuple(age // timedelta(microseconds=1) * 10 for age in ages if age is not None)


def read_domain_policies(client: Client) -> DomainPolicies | None:
    """The present policies; None where the account may not read all of them: by default only administrators may."""
    domain = client.default_naming_context
    container = client.find(f"CN=Password Settings Container,CN=System,{domain}", ("objectClass",))
    if container is None or "objectClass" not in container:  # an account may be allowed to list but not to read it
        return None
    applies_to = "msDS-PSOAppliesTo"
    functional_level = "msDS-Behavior-Version"
    found = list(client.search(container.dn, Scope.ONE_LEVEL, ANYTHING, (*_FINE_GRAINED, applies_to)))
    head = client.read(domain, (*_DOMAIN, functional_level))
    policy, others = _policy(head, _DOMAIN), [(_policy(each, _FINE_GRAINED), each) for each in found]
    fine_grained = tuple(
        FineGrainedPolicy(other, tuple(each.texts(applies_to))) for other, each in others if other is not None
    )
    if policy is None or len(fine_grained) < len(found):
        return None
    is_in_force = head.number(functional_level) >= FunctionalLevel.WINDOWS_2008
    return DomainPolicies(policy, fine_grained, is_in_force)


class _PolicyAttributes(NamedTuple):
    """The names of the attributes that hold a policy."""

    minimum_length: str
    complexity: str
    history_length: str
    minimum_age: str
    maximum_age: str
    lockout_threshold: str
    lockout_duration: str
    lockout_window: str


# On the domain object ([MS-SAMR] 3.1.1.3).
_DOMAIN = _PolicyAttributes(
    *("minPwdLength", "pwdProperties", "pwdHistoryLength", "minPwdAge", "maxPwdAge"),
    *("lockoutThreshold", "lockoutDuration", "lockOutObservationWindow"),
)
# On an object of the class msDS-PasswordSettings ([MS-ADSC]).
_FINE_GRAINED = _PolicyAttributes(
    *("msDS-MinimumPasswordLength", "msDS-PasswordComplexityEnabled", "msDS-PasswordHistoryLength"),
    *("msDS-MinimumPasswordAge", "msDS-MaximumPasswordAge"),
    *("msDS-LockoutThreshold", "msDS-LockoutDuration", "msDS-LockoutObservationWindow"),
)


def _policy(entry: Entry, names: _PolicyAttributes) -> PasswordPolicy | None:
    """The policy that an object holds; None where attributes that every policy has are missing, so unreadable."""
    if not all(name in entry for name in (names.minimum_length, names.maximum_age, names.lockout_duration)):
        return None
    if names is _DOMAIN:
        complexity = bool(entry.number(names.complexity) & PasswordProperties.COMPLEX)
    else:
        complexity = entry.boolean(names.complexity)
    return PasswordPolicy(
        source=entry.dn,
        minimum_length=entry.number(names.minimum_length),
        complexity=complexity,
        history_length=entry.number(names.history_length),
        minimum_age=_interval(entry, names.minimum_age) or timedelta(),
        maximum_age=_interval(entry, names.maximum_age),
        lockout_threshold=entry.number(names.lockout_threshold),
        lockout_duration=_interval(entry, names.lockout_duration),
        lockout_window=_interval(entry, names.lockout_window) or timedelta(),
    )


def _interval(entry: Entry, name: str) -> timedelta | None:
    """A duration, stored as a negative number of 100 ns; None for no limit (Windows has the least integer, Samba 0)."""
    ticks = entry.integer(name)
    return None if not ticks or ticks == _NEVER_TICKS else timedelta(microseconds=-ticks // 10)


def is_exempt(entry: Entry) -> bool:
    """Whether the policy does not apply to an account ([MS-SAMR] 3.1.1.7.2), by userAccountControl and objectSid."""
    control = entry.number("userAccountControl")
    sid = entry.values("objectSid")
    return (
        not control & UserAccountControl.NORMAL_ACCOUNT
        or bool(control & UserAccountControl.PASSWD_NOTREQD)
        or (bool(sid) and int.from_bytes(sid[0][-4:], "little") == DomainRid.KRBTGT)
    )


def find_violation(policy: PasswordPolicy, password: str) -> str | None:
    """The requirement of a policy that a password certainly violates, or None.

    A doubtful password passes here, because the domain controller decides and they differ in what counts as a letter:
    [MS-SAMR] 3.1.1.7.2 names the English ones, while Windows and Samba also accept others.
    """
    if utf16_length(password) < policy.minimum_length:
        return message("it has fewer than {count} characters", count=policy.minimum_length)
    if policy.complexity and len(set(_categories(password))) < CATEGORIES_NEEDED:
        return message("it has fewer than {count} kinds of characters", count=CATEGORIES_NEEDED)
    return None


def _categories(password: str) -> Iterator[str]:
    for character in password:
        if character.isupper():
            yield "upper"
        elif character.islower():
            yield "lower"
        elif character in string.digits:
            yield "digit"
        elif character in string.punctuation:
            yield "symbol"
        elif not character.isascii():
            yield "other"


_NAME_DELIMITERS = str.maketrans(dict.fromkeys(" ,.\t-_#", " "))
_MAX_IGNORED_PART = 2


def contains_name(password: str, *, account_name: str | None, display_name: str | None) -> bool:
    """Whether a password contains the account name or a part of the display name, which Windows refuses.

    Parts of more than two characters count, ignoring case ([MS-SAMR] 3.1.1.7.2). Samba 4.17 does not check.
    """
    parts = [account_name or "", *(display_name or "").translate(_NAME_DELIMITERS).split()]
    folded = password.casefold()
    return any(len(part) > _MAX_IGNORED_PART and part.casefold() in folded for part in parts)


MIN_GENERATED_LENGTH = 20
"""Of 68 possible characters, 20 have 121 bits of entropy."""

_CHARACTER_SETS = (
    "ABCDEFGHJKLMNPQRSTUVWXYZ",  # no I, O
    "abcdefghijkmnpqrstuvwxyz",  # no l, o
    "23456789",  # no 0, 1
    "!#%+-:=?@_*&",  # none that shells, spreadsheets or quotation marks make something of inside a word
)
_CHARACTERS = "".join(_CHARACTER_SETS)


def generate_password(
    policy: PasswordPolicy | None,
    *,
    account_name: str | None,
    display_name: str | None,
    shortest: int = MIN_GENERATED_LENGTH,
) -> str:
    """A random password of at least `shortest` characters from all four sets, without parts of the account's names.

    A password that does not fit is discarded as a whole, so that all fitting ones are equally likely.
    """
    length = max(shortest, policy.minimum_length if policy else 0)
    while True:
        password = "".join(secrets.choice(_CHARACTERS) for _ in range(length))
        has_all_kinds = all(any(character in kind for character in password) for kind in _CHARACTER_SETS)
        if has_all_kinds and not contains_name(password, account_name=account_name, display_name=display_name):
            return password


_CONSONANTS = "bdfgklmnprst"  # those that English and German pronounce alike
_VOWELS = "aeiou"
_DIGITS = "23456789"


def generate_first_password(
    policy: PasswordPolicy | None, *, account_name: str | None, display_name: str | None
) -> str:
    """A random password that can be said on the telephone, such as `Tibo-Maku-Resa-Pilo-4729`.

    It is for one sign-in, at which it has to be changed: 59 bits are enough for that. A longer policy adds words.
    """
    words, length = 4, policy.minimum_length if policy else 0
    while True:
        password = "-".join([*(_word() for _ in range(words)), "".join(secrets.choice(_DIGITS) for _ in range(4))])
        if len(password) < length:
            words += 1
        elif not contains_name(password, account_name=account_name, display_name=display_name):
            return password


def _word() -> str:
    return "".join(secrets.choice(letters) for letters in (_CONSONANTS, _VOWELS) * 2).capitalize()
