"""The password policies of a domain as they were a moment ago, and what they tell without asking about an account.

For each account that is asked about a domain controller finds the policy that applies to it (msDS-ResultantPSO), and
computes msDS-User-Account-Control-Computed by it: where there are fine-grained policies, Samba 4.17 takes 2 ms for
either of an account in groups, four times as long as for all the rest of a read. What an account itself says decides
most cases ([MS-ADTS] 3.1.1.4.5.17): lockoutTime, userAccountControl and, with the shortest age that any policy allows,
pwdLastSet. And a password to which no policy has an objection needs no policy to be judged by.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from weakref import WeakKeyDictionary

from directory.ldap import (
    KEEPS_PASSWORD,
    Background,
    Client,
    Entry,
    LdapError,
    UserAccountControl,
    datetime_to_filetime,
)
from directory.policies.password_policy import PasswordPolicy, find_violation, read_every_policy
from directory.shapes.record import COMPUTED_CONTROL

POLICIES_LIFE = 2.0
"""Seconds. A policy that was changed counts after so long at the latest."""
_LOCKED_AT = "lockoutTime"
_CLOCKS_DIFFER = timedelta(days=1)
_KEEPS_PASSWORD = KEEPS_PASSWORD.value
_LOCKED_OUT = UserAccountControl.LOCKOUT.value


@dataclass(frozen=True, slots=True)
class KnownPolicies:
    """All policies of a domain, whomever they apply to; None where not all of them may be read.

    `shortest_age` is the one at which some policy lets passwords expire, in units of 100 ns: 0 where not all ages may
    be read, for then none is known to be the shortest, and None where no password expires.
    """

    policies: tuple[PasswordPolicy, ...] | None
    shortest_age: int | None

    def leave_in_doubt(self, entry: Entry) -> bool:
        """Whether an account, read with SPARING_CONTROL, may be locked out or have an expired password."""
        since = doubtful_since(entry)
        return since is not None and since <= self.may_be_expired_since

    @property
    def may_be_expired_since(self) -> int:
        """A password set after this FILETIME is not expired, whichever policy applies and whoever's clock is late."""
        if self.shortest_age is None:
            return 0
        return datetime_to_filetime(datetime.now(UTC) + _CLOCKS_DIFFER) - self.shortest_age

    def accept(self, password: str) -> bool:
        """Whether no policy, whichever applies, has anything against a password."""
        return self.policies is not None and not any(find_violation(policy, password) for policy in self.policies)


def doubtful_since(entry: Entry) -> int | None:
    """Since when an account may be locked out or have an expired password; None: it is neither.

    Read with SPARING_CONTROL. The FILETIME at which its password was set, or 0 where no age of one settles the doubt.
    """
    values = entry.attributes.get
    control, locked_at, password_set = values("userAccountControl"), values(_LOCKED_AT), values("pwdLastSet")
    if not control:
        return None
    if locked_at and locked_at[0] != b"0":
        return 0
    if int(control[0]) & _KEEPS_PASSWORD:
        return None
    if not password_set:
        return 0
    # pwdLastSet 0: it must be changed, and is shown as that.
    return int(password_set[0]) or None


def is_locked_out(client: Client, entry: Entry) -> bool:
    """Whether an account, read with `lockoutTime`, is locked out; whether that has ended by now is computed."""
    if not entry.integer(_LOCKED_AT):
        return False
    return bool(computed_control(client, entry) & _LOCKED_OUT)


def computed_control(client: Client, entry: Entry) -> int:
    """What the domain controller computes for an account; 0 when it is gone by now."""
    found = client.find(entry.guid, (COMPUTED_CONTROL,))
    return 0 if found is None else found.integer(COMPUTED_CONTROL) or 0


def current_policies(client: Client) -> KnownPolicies:
    """The policies as they are now, or were at most POLICIES_LIFE ago."""
    return _kept.find(client, POLICIES_LIFE) or _kept.read(client)


def policies_lately_known(client: Client) -> KnownPolicies | None:
    """The same without waiting for them: None when they are not known, and will be a moment later."""
    known = _kept.find(client, POLICIES_LIFE)
    if _kept.find(client, POLICIES_LIFE / 2) is None:
        _kept.read_soon(client)
    return known


class _Kept:
    """What was read of each directory, and when."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[Client, tuple[float, KnownPolicies]] = WeakKeyDictionary()
        self._readers: WeakKeyDictionary[Client, Background] = WeakKeyDictionary()

    def find(self, client: Client, max_age: float) -> KnownPolicies | None:
        known = self._known.get(client)
        return known[1] if known is not None and monotonic() - known[0] < max_age else None

    def read(self, client: Client) -> KnownPolicies:
        began = monotonic()  # a change made while they are being read may not be among them
        ages, policies = read_every_policy(client)
        known = KnownPolicies(policies, 0 if ages is None else min(ages, default=None))
        with self._lock:
            self._known[client] = began, known
        return known

    def read_soon(self, client: Client) -> None:
        with self._lock:
            reader = self._readers.setdefault(client, Background("password policies"))
        reader.start(partial(self._read_quietly, client))

    def _read_quietly(self, client: Client) -> None:
        with suppress(LdapError):  # so they stay unknown, and the domain controller is asked about each account
            self.read(client)


_kept = _Kept()
