"""The password policies of a domain as they were a moment ago, and what they tell without asking about an account.

For each account that is asked about a domain controller finds the policy that applies to it (msDS-ResultantPSO), and
computes msDS-User-Account-Control-Computed by it: where there are fine-grained policies, Samba 4.17 takes 2 ms for
either of an account in groups, four times as long as for all the rest of a read. What an account itself says decides
most cases ([MS-ADTS] 3.1.1.4.5.17): lockoutTime, userAccountControl and, with the shortest age that any policy allows,
pwdLastSet. Its groups tell which policies may be the one that applies (`policy_reach`): where these agree, it is known
what the domain controller would compute. And a password to which no policy has an objection needs no policy to be
judged by.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import NamedTuple

from active_directory import (
    KEEPS_PASSWORD,
    Background,
    Client,
    Entry,
    LdapError,
    UserAccountControl,
    datetime_to_filetime,
)
from directory.lookup.kept import kept_by_client
from directory.policies.password_policy import PasswordPolicy, find_violation, read_every_policy
from directory.policies.policy_reach import PolicyReach, ReachReader
from directory.shapes.record import COMPUTED_CONTROL

POLICIES_LIFE = 2.0
"""Seconds. A policy that was changed counts after so long at the latest."""
_LOCKED_AT = "lockoutTime"
_CLOCKS_DIFFER = timedelta(days=1)
_KEEPS_PASSWORD = KEEPS_PASSWORD.value
_TRUST_ACCOUNTS = (
    UserAccountControl.WORKSTATION_TRUST_ACCOUNT
    | UserAccountControl.SERVER_TRUST_ACCOUNT
    | UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT
).value
_LOCKED_OUT = UserAccountControl.LOCKOUT.value
_PASSWORD_EXPIRED = UserAccountControl.PASSWORD_EXPIRED.value


@dataclass(frozen=True, slots=True)
class KnownPolicies:
    """All policies of a domain, whomever they apply to; None where not all of them may be read.

    `shortest_age` is the one at which some policy lets passwords expire, in units of 100 ns: 0 where not all ages may
    be read, for then none is known to be the shortest, and None where no password expires.
    """

    policies: tuple[PasswordPolicy, ...] | None
    shortest_age: int | None
    reach: PolicyReach | None

    def control_of(self, entry: Entry) -> int | None:
        """What a record shows of msDS-User-Account-Control-Computed; None where the domain controller must be asked.

        Of an account read with SPARING_CONTROL, and with what `PolicyReach.possible` needs.
        """
        since = doubtful_since(entry)
        if since is None or since > self.may_be_expired_since:
            return 0
        if self.reach is None:
            return None
        computed = {_compute(policy, entry) for policy in self.reach.possible(entry)}
        return computed.pop() if len(computed) == 1 else None

    @property
    def may_be_expired_since(self) -> int:
        """A password set after this FILETIME is not expired, whichever policy applies and whoever's clock is late."""
        if self.shortest_age is None:
            return 0
        return datetime_to_filetime(datetime.now(UTC) + _CLOCKS_DIFFER) - self.shortest_age

    def accepts(self, password: str) -> bool:
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


def _compute(policy: PasswordPolicy, entry: Entry) -> int | None:
    """What a domain controller computes for an account by a policy; None where that is up to its clock or its maker."""
    control, password_set = entry.number("userAccountControl"), entry.integer("pwdLastSet")
    computed = 0
    if (locked_at := entry.integer(_LOCKED_AT)) and not control & _TRUST_ACCOUNTS:
        is_over = _is_over(locked_at, policy.lockout_duration)
        if is_over is None:
            return None
        computed = 0 if is_over else _LOCKED_OUT
    if password_set == 0 or control & _KEEPS_PASSWORD:
        return computed
    # Samba takes an age of up to a day for "for ever".
    if password_set is None or (policy.maximum_age is not None and policy.maximum_age <= _CLOCKS_DIFFER):
        return None
    is_expired = _is_over(password_set, policy.maximum_age)
    return None if is_expired is None else computed | (_PASSWORD_EXPIRED if is_expired else 0)


def _is_over(since: int, lasts: timedelta | None) -> bool | None:
    """Whether what began at a FILETIME has ended by now on every clock; None where they may differ in that."""
    if lasts is None:
        return False
    if since < 0 or lasts < timedelta():
        return None
    left = since + lasts // timedelta(microseconds=1) * 10 - datetime_to_filetime(datetime.now(UTC))
    return None if abs(left) <= _CLOCKS_DIFFER // timedelta(microseconds=1) * 10 else left < 0


def is_locked_out(client: Client, entry: Entry) -> bool:
    """Whether an account is locked out, read as for `KnownPolicies.control_of`."""
    if not entry.integer(_LOCKED_AT):
        return False
    return bool(computed_control(client, entry, policies_lately_known(client)) & _LOCKED_OUT)


def computed_control(client: Client, entry: Entry, policies: KnownPolicies | None) -> int:
    """What the domain controller computes for an account, which is asked where policies known lately do not tell.

    0 when the account is gone by now.
    """
    known = None if policies is None else policies.control_of(entry)
    if known is not None:
        return known
    found = client.find(entry.guid, (COMPUTED_CONTROL,))
    return 0 if found is None else found.number(COMPUTED_CONTROL)


def current_policies(client: Client) -> KnownPolicies:
    """The policies as they are now, or were at most POLICIES_LIFE ago."""
    kept = _kept_of(client)
    return kept.find(POLICIES_LIFE) or kept.read(client)


def policies_lately_known(client: Client) -> KnownPolicies | None:
    """The same without reading them: None when they are not known, and will be a moment later."""
    kept = _kept_of(client)
    known = kept.find(POLICIES_LIFE)
    if known is None:
        with suppress(LdapError):
            known = kept.confirm(client)
    if kept.find(POLICIES_LIFE / 2) is None:
        kept.read_soon(client)
    return known


_State = tuple[str | None, str | None]
"""Of one domain controller, with a number that every write makes grow."""


def _state_of(client: Client) -> _State:
    root = client.read("", ("dsServiceName", "highestCommittedUSN"))
    return root.text("dsServiceName"), root.text("highestCommittedUSN")


class _Reading(NamedTuple):
    """What was read of a directory, when, and as of which state."""

    began: float
    state: _State
    known: KnownPolicies


class _Kept:
    """What was last read of one directory."""

    def __init__(self) -> None:
        self._last: _Reading | None = None
        self._reach = ReachReader()
        self._background = Background("password policies")

    def find(self, max_age: float) -> KnownPolicies | None:
        last = self._last
        return last.known if last is not None and monotonic() - last.began < max_age else None

    def confirm(self, client: Client) -> KnownPolicies | None:
        """What was read before, however long ago, if the domain has not changed since."""
        if self._last is None:
            return None
        began, state = monotonic(), _state_of(client)
        known = self._as_of(state)
        if known is not None:
            self._last = _Reading(began, state, known)
        return known

    def read(self, client: Client) -> KnownPolicies:
        began, state = monotonic(), _state_of(client)  # a change made during the reading may not be in it
        self._last = _Reading(began, state, self._as_of(state) or self._read_anew(client))
        return self._last.known

    def _as_of(self, state: _State) -> KnownPolicies | None:
        last = self._last
        return last.known if last is not None and last.state == state and None not in state else None

    def _read_anew(self, client: Client) -> KnownPolicies:
        every = read_every_policy(client)
        if every is None:
            return KnownPolicies(policies=None, shortest_age=0, reach=None)
        reach = self._reach.read(client, every.domain, every.fine_grained, in_force=every.in_force)
        return KnownPolicies(every.policies, min(every.maximum_ages, default=None), reach)

    def read_soon(self, client: Client) -> None:
        self._background.start(partial(self._read_quietly, client))

    def _read_quietly(self, client: Client) -> None:
        with suppress(LdapError):  # so they stay unknown, and the domain controller is asked about each account
            self.read(client)


_kept_of = kept_by_client(lambda _: _Kept())
