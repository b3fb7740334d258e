"""The password and lock-out policy in force for an account: a fine-grained one, else the domain's.

Reading it, saying it and foreseeing what it certainly refuses. Whether a password is accepted is the directory's
decision, which also knows the history and the domain's password filters.
"""

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
from directory.shapes.passwords import utf16_length

RESULTANT_POLICY = "msDS-ResultantPSO"
"""What an account must have been read with: the domain controller computes which policy applies to it."""

_NEVER = -(2**63)
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
    """What a policy says. `source` is the distinguished name of the object that says so.

    `maximum_age` None: passwords never expire. `lockout_threshold` 0: accounts are never locked out.
    `lockout_duration` None: a lock-out stays until somebody unlocks the account. `minimum_age` zero: there is none.
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
        """What it asks of a password, as the rest of a sentence that begins with "It asks for"."""
        parts = [f"at least {max(1, self.minimum_length)} characters"]
        if self.complexity:
            parts.append(f"{CATEGORIES_NEEDED} of upper case, lower case, digits, symbols and other letters")
        if self.history_length:
            parts.append(f"none of the last {self.history_length} passwords")
        return ", ".join(parts)


def _seconds(value: timedelta | None) -> int | None:
    return None if value is None else int(value.total_seconds())


class PolicyReader:
    """The policies of many accounts, each read once. To be thrown away after the request it serves."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, PasswordPolicy | None] = {}

    def of(self, entry: Entry) -> PasswordPolicy | None:
        """The policy of an account read with RESULTANT_POLICY; None where the gateway's account may not read it.

        Of fine-grained policies, that is what Windows does by default: only administrators read their container.
        """
        fine_grained = entry.text(RESULTANT_POLICY)
        return self.of_domain() if fine_grained is None else self._read(fine_grained, _FINE_GRAINED)

    def of_domain(self) -> PasswordPolicy | None:
        """The domain's own: that of an object still to be created, which no fine-grained policy names."""
        return self._read(self._client.default_naming_context, _DOMAIN)

    def _read(self, dn: str, names: "_Names") -> PasswordPolicy | None:
        if dn not in self._known:
            entry = self._client.find(dn, names)
            self._known[dn] = None if entry is None else _policy(entry, names)
        return self._known[dn]


def policy_of(client: Client, entry: Entry) -> PasswordPolicy | None:
    """The policy of one account as it is now; see `PolicyReader.of`."""
    return PolicyReader(client).of(entry)


class FineGrainedPolicy(NamedTuple):
    """A fine-grained policy and the names of the accounts and groups it applies to, as far as it tells them."""

    policy: PasswordPolicy
    applies_to: tuple[str, ...]


class EveryPolicy(NamedTuple):
    """What a domain sets for passwords, whomever it applies to.

    `in_force`: whether fine-grained policies count at the domain's functional level, as far as that can be read.
    """

    domain: PasswordPolicy
    fine_grained: tuple[FineGrainedPolicy, ...]
    in_force: bool

    @property
    def policies(self) -> tuple[PasswordPolicy, ...]:
        return (self.domain, *(each.policy for each in self.fine_grained))

    @property
    def maximum_ages(self) -> tuple[int, ...]:
        """In FILETIME's units of 100 ns, without those of policies under which no password expires."""
        ages = (policy.maximum_age for policy in self.policies)
        return tuple(age // timedelta(microseconds=1) * 10 for age in ages if age is not None)


def maximum_ages(client: Client) -> tuple[int, ...] | None:
    """The `EveryPolicy.maximum_ages`; None when not all of them can be read.

    When a password expires is computed by the domain controller all the same, but no age is known then to be the
    shortest.
    """
    every = read_every_policy(client)
    return None if every is None else every.maximum_ages


def read_every_policy(client: Client) -> EveryPolicy | None:
    """The policies as they are now; None when not all can be read: by default only administrators may."""
    domain = client.default_naming_context
    container = client.find(f"CN=Password Settings Container,CN=System,{domain}", ("objectClass",))
    if container is None or "objectClass" not in container:  # it may be seen and yet not be read
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
    return EveryPolicy(policy, fine_grained, is_in_force)


class _Names(NamedTuple):
    """The attributes of an object that says what a policy is."""

    minimum_length: str
    complexity: str
    history_length: str
    minimum_age: str
    maximum_age: str
    lockout_threshold: str
    lockout_duration: str
    lockout_window: str


# [MS-SAMR] 3.1.1.3: of the domain object.
_DOMAIN = _Names(
    *("minPwdLength", "pwdProperties", "pwdHistoryLength", "minPwdAge", "maxPwdAge"),
    *("lockoutThreshold", "lockoutDuration", "lockOutObservationWindow"),
)
# [MS-ADSC], class msDS-PasswordSettings.
_FINE_GRAINED = _Names(
    *("msDS-MinimumPasswordLength", "msDS-PasswordComplexityEnabled", "msDS-PasswordHistoryLength"),
    *("msDS-MinimumPasswordAge", "msDS-MaximumPasswordAge"),
    *("msDS-LockoutThreshold", "msDS-LockoutDuration", "msDS-LockoutObservationWindow"),
)


def _policy(entry: Entry, names: _Names) -> PasswordPolicy | None:
    """What the object says; None when it lacks what every policy has, for then it may not be read."""
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
    """A negative number of 100 ns; None for both spellings of "for ever": Windows writes the least integer, Samba 0."""
    ticks = entry.integer(name)
    return None if not ticks or ticks == _NEVER else timedelta(microseconds=-ticks // 10)


def is_exempt(entry: Entry) -> bool:
    """Whether [MS-SAMR] 3.1.1.7.2 leaves an account's passwords alone; read with userAccountControl and objectSid."""
    control = entry.number("userAccountControl")
    sid = entry.values("objectSid")
    return (
        not control & UserAccountControl.NORMAL_ACCOUNT
        or bool(control & UserAccountControl.PASSWD_NOTREQD)
        or (bool(sid) and int.from_bytes(sid[0][-4:], "little") == DomainRid.KRBTGT)
    )


def find_violation(policy: PasswordPolicy, password: str) -> str | None:
    """What of a policy a password certainly does not meet, or None.

    In doubt a password passes here: domain controllers differ in what counts as a letter ([MS-SAMR] 3.1.1.7.2 names
    the English ones, Windows and Samba take others too), and they decide.
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
_LONGEST_IGNORED_PART = 2


def contains_name(password: str, *, account_name: str | None, display_name: str | None) -> bool:
    """Whether a password holds the account's name or a part of its display name, which Windows refuses.

    [MS-SAMR] 3.1.1.7.2: parts of more than two characters count, in any case. Samba 4.17 does not look.
    """
    parts = [account_name or "", *(display_name or "").translate(_NAME_DELIMITERS).split()]
    folded = password.casefold()
    return any(len(part) > _LONGEST_IGNORED_PART and part.casefold() in folded for part in parts)
