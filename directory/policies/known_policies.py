"""The cached password policies of a domain, and what they tell about an account without asking the domain controller.

For each account, a domain controller finds the policy that applies (msDS-ResultantPSO) and computes
msDS-User-Account-Control-Computed by it. Where fine-grained policies exist, either of these takes Samba 4.17 2 ms for
an account in groups, four times as long as the rest of a read. Most cases follow from the account's own attributes
([MS-ADTS] 3.1.1.4.5.17): lockoutTime, userAccountControl and, with the shortest age that any policy allows, pwdLastSet.
Otherwise the account's groups tell which policies may apply to it, and where all of these give the same result, that is
what the domain controller would compute. Similarly, a password that meets every policy meets the one that applies.

A fine-grained policy applies to the accounts and groups it names and to all members of these groups: direct ones, those
through other groups, and those by primary group ([MS-ADTS] 3.1.1.4.5.36). An account's groups are read with it; the
groups below those that policies name are found by their members. Attributes that the gateway's account may not read
look absent ([MS-ADTS] 3.1.1.4.3), so memberOf and member are trusted only where they have a value: a policy that names
a group without members may reach everybody, and any policy may apply to an account without groups.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from time import monotonic
from typing import NamedTuple

from active_directory import (
    KEEPS_PASSWORD,
    Background,
    Client,
    Entry,
    Equals,
    GroupType,
    LdapError,
    UserAccountControl,
    datetime_to_filetime,
)
from directory.groups import GroupKey, direct_group_keys, primary_group_sid
from directory.lookup.connection import cached_per_client
from directory.policies.password_policy import FineGrainedPolicy, PasswordPolicy, find_violation, read_domain_policies
from directory.shapes.record import COMPUTED_CONTROL

POLICY_CACHE_SECONDS = 2.0
"""A changed policy takes effect here after this time at the latest."""
_LOCKED_AT = "lockoutTime"
_MAX_CLOCK_SKEW = timedelta(days=1)
_KEEPS_PASSWORD = KEEPS_PASSWORD.value
_TRUST_ACCOUNTS = (
    UserAccountControl.WORKSTATION_TRUST_ACCOUNT
    | UserAccountControl.SERVER_TRUST_ACCOUNT
    | UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT
).value
_LOCKED_OUT = UserAccountControl.LOCKOUT.value
_PASSWORD_EXPIRED = UserAccountControl.PASSWORD_EXPIRED.value


_MAX_OBJECTS = 1000
"""Members that are read to find the groups among them: Samba takes 0.13 ms each."""
_LARGE_GROUP_SECONDS = 60.0
"""How long a list with more members is not read again."""
_REQUIRED = ("objectClass", "uSNChanged")
_ATTRIBUTES = (*_REQUIRED, "objectSid", "groupType")
_GLOBAL_SECURITY = GroupType.GLOBAL | GroupType.SECURITY_ENABLED
_NORMAL_ACCOUNT = UserAccountControl.NORMAL_ACCOUNT.value
_KRBTGT = "krbtgt"
"""How the names of krbtgt accounts begin. No policy applies to them, or not on every server."""


@dataclass(frozen=True, slots=True)
class PolicyReach:
    """Which policies may apply to whom. Keys are the names of accounts, and the names and SIDs of groups.

    `domain` applies where no other policy does, and those in `unbounded` may apply to any account. `reaching` has the
    policies that may apply to an account or to the members of a group. To those in `certain` one of them does apply.
    """

    domain: PasswordPolicy
    unbounded: frozenset[PasswordPolicy]
    reaching: Mapping[GroupKey, frozenset[PasswordPolicy]]
    certain: frozenset[GroupKey]

    def possible_policies(self, account: Entry) -> frozenset[PasswordPolicy]:
        """The policies of which one applies to an account.

        It must be read with MEMBERSHIP_ATTRIBUTES, userAccountControl and sAMAccountName.
        """
        if "memberOf" not in account or primary_group_sid(account) is None:
            return self.unbounded.union((self.domain,), *self.reaching.values())
        keys = (account.dn, *direct_group_keys(account))
        found = self.unbounded.union(*(self.reaching.get(key, ()) for key in keys))
        is_reached = not self.certain.isdisjoint(keys) and _can_have_fine_grained_policy(account)
        return found if is_reached else found | {self.domain}


def _can_have_fine_grained_policy(account: Entry) -> bool:
    """Whether fine-grained policies can apply to an account at all."""
    is_normal = bool(account.number("userAccountControl") & _NORMAL_ACCOUNT)
    return is_normal and not (account.text("sAMAccountName") or _KRBTGT).lower().startswith(_KRBTGT)


class _PolicyTarget(NamedTuple):
    """An object that a policy names, or a group below it.

    `inner` are the names of its members that are or may be groups; None where they may not all be known. `applies` is
    whether a policy that names the object takes effect on every server: on Windows only accounts and global security
    groups count.
    """

    keys: tuple[GroupKey, ...]
    inner: frozenset[str] | None
    applies: bool


class ReachReader:
    """Reads whom the policies of one directory reach. It remembers which members are no groups, to read each once."""

    def __init__(self) -> None:
        self._no_groups: dict[tuple[str, str | None], frozenset[str]] = {}
        """By a group's name and version, its members that are no groups."""
        self._too_large: dict[str, float] = {}

    def read(
        self, client: Client, domain: PasswordPolicy, fine_grained: Collection[FineGrainedPolicy], *, in_force: bool
    ) -> PolicyReach:
        """Whom the policies reach now. Unless they are `in_force`, none of them certainly applies to anybody."""
        known = self._look_up(client, {name for each in fine_grained for name in each.applies_to})
        reaching: dict[GroupKey, frozenset[PasswordPolicy]] = {}
        unbounded: set[PasswordPolicy] = set()
        certain: set[GroupKey] = set()
        for policy, names in fine_grained:
            below, is_whole = _keys_below(known, names)
            for key in below:
                reaching[key] = reaching.get(key, frozenset()) | {policy}
            if not is_whole:
                unbounded.add(policy)
            if in_force:
                targets = (known[name] for name in names if name in known)
                certain.update(key for target in targets if target.applies for key in target.keys)
        return PolicyReach(domain, frozenset(unbounded), reaching, frozenset(certain))

    def _look_up(self, client: Client, names: set[str]) -> dict[str, _PolicyTarget]:
        """The objects of these names and the groups below them, by name, without unreadable ones or too many."""
        seen: dict[str, Entry] = {}
        tried: set[str] = set()
        while names and len(tried) + len(names) <= _MAX_OBJECTS:
            tried |= names
            found = {entry.dn: entry for entry in self._read(client, names)}
            seen |= found
            names = set[str]().union(*map(self._may_be_groups, found.values())) - tried
        groups = {dn: entry for dn, entry in seen.items() if "group" in entry.object_classes}
        others = seen.keys() - groups.keys()
        self._no_groups = {
            _version(group): _members(group) - (self._may_be_groups(group) - others) for group in groups.values()
        }
        known = {name: _PolicyTarget((name,), frozenset(), applies=True) for name in others}
        for name, group in groups.items():
            sids = group.values("objectSid")
            inner = self._may_be_groups(group) if _members(group) and sids else None
            kind = GroupType.from_directory(group.number("groupType"))
            known[name] = _PolicyTarget((name, *sids), inner, _GLOBAL_SECURITY in kind)
        return known

    def _may_be_groups(self, entry: Entry) -> frozenset[str]:
        return _members(entry) - self._no_groups.get(_version(entry), frozenset())

    def _read(self, client: Client, names: set[str]) -> Iterator[Entry]:
        """The readable objects of these names, without the members of groups that recently had too many."""
        now = monotonic()
        known = tuple(self._too_large.items())  # a copy, as another thread may be adding to it
        self._too_large = {name: until for name, until in known if until > now}
        large = names & self._too_large.keys()
        for wanted, attributes in ((names - large, (*_ATTRIBUTES, "member")), (large, _ATTRIBUTES)):
            for entry in client.find_any((Equals("distinguishedName", name) for name in wanted), attributes):
                if len(entry.values("member")) > _MAX_OBJECTS:
                    self._too_large[entry.dn] = now + _LARGE_GROUP_SECONDS
                if all(name in entry for name in _REQUIRED):
                    yield entry


def _members(entry: Entry) -> frozenset[str]:
    """The members of a group; empty where it shows none, or too many to look at."""
    names = entry.texts("member")
    return frozenset(names) if len(names) <= _MAX_OBJECTS else frozenset()


def _version(group: Entry) -> tuple[str, str | None]:
    return group.dn, group.text("uSNChanged")


def _keys_below(known: Mapping[str, _PolicyTarget], names: Iterable[str]) -> tuple[set[GroupKey], bool]:
    """The names and SIDs of the objects of these names and of the groups below them, and whether these are all."""
    keys: set[GroupKey] = set()
    followed: set[str] = set()
    waiting = set(names)
    is_whole = bool(waiting)
    while waiting:
        name = waiting.pop()
        followed.add(name)
        found = known.get(name)
        if found is None or found.inner is None:
            is_whole = False
        if found is not None:
            keys.update(found.keys)
            waiting.update((found.inner or frozenset()) - followed)
    return keys, is_whole


@dataclass(frozen=True, slots=True)
class KnownPolicies:
    """All password policies of a domain; `policies` is None where the gateway's account may not read all of them.

    `shortest_age` is the least maximum age of a password, in units of 100 ns; None where no password expires, and 0
    where not all policies can be read, so that the least age is unknown.
    """

    policies: tuple[PasswordPolicy, ...] | None
    shortest_age: int | None
    reach: PolicyReach | None

    def computed_control_of(self, entry: Entry) -> int | None:
        """msDS-User-Account-Control-Computed as far as records show it; None where only the domain controller knows.

        The account must be read with SPARING_CONTROL, and with the attributes that `PolicyReach.possible_policies`
        needs.
        """
        since = doubtful_since(entry)
        if since is None or since > self.may_be_expired_since:
            return 0
        if self.reach is None:
            return None
        computed = {_compute(policy, entry) for policy in self.reach.possible_policies(entry)}
        return computed.pop() if len(computed) == 1 else None

    @property
    def may_be_expired_since(self) -> int:
        """A password set after this FILETIME is not expired, whichever policy applies and however clocks differ.

        It is never before 0, which stands for accounts in doubt (`doubtful_since`).
        """
        if self.shortest_age is None:
            return 0
        return max(0, datetime_to_filetime(datetime.now(UTC) + _MAX_CLOCK_SKEW) - self.shortest_age)

    def accepts(self, password: str) -> bool:
        """Whether a password meets all policies, and so the one that applies."""
        return self.policies is not None and not any(find_violation(policy, password) for policy in self.policies)


def doubtful_since(entry: Entry) -> int | None:
    """Since when an account may have had an expired password or been locked out; None where it is certainly neither.

    The FILETIME at which its password was set, or 0 where that does not settle it. The account must be read with
    SPARING_CONTROL.
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
    # With pwdLastSet 0 the password must be changed, which a record shows instead of expiry.
    return int(password_set[0]) or None


def _compute(policy: PasswordPolicy, entry: Entry) -> int | None:
    """What a domain controller computes for an account by a policy; None where clocks or implementations may differ."""
    control, password_set = entry.number("userAccountControl"), entry.integer("pwdLastSet")
    computed = 0
    if (locked_at := entry.integer(_LOCKED_AT)) and not control & _TRUST_ACCOUNTS:
        is_over = _is_over(locked_at, policy.lockout_duration)
        if is_over is None:
            return None
        computed = 0 if is_over else _LOCKED_OUT
    if password_set == 0 or control & _KEEPS_PASSWORD:
        return computed
    if password_set is None or is_age_doubtful(policy):
        return None
    is_expired = _is_over(password_set, policy.maximum_age)
    return None if is_expired is None else computed | (_PASSWORD_EXPIRED if is_expired else 0)


def is_age_doubtful(policy: PasswordPolicy) -> bool:
    """Whether servers differ about a policy's maximum age of passwords: Samba treats one of up to a day as no limit."""
    return policy.maximum_age is not None and policy.maximum_age <= timedelta(days=1)


def _is_over(since: int, lasts: timedelta | None) -> bool | None:
    """Whether a period that began at a FILETIME is over on every clock; None where clocks may disagree."""
    if lasts is None:
        return False
    if since < 0 or lasts < timedelta():
        return None
    left = since + lasts // timedelta(microseconds=1) * 10 - datetime_to_filetime(datetime.now(UTC))
    return None if abs(left) <= _MAX_CLOCK_SKEW // timedelta(microseconds=1) * 10 else left < 0


def is_locked_out(client: Client, entry: Entry) -> bool:
    """Whether an account is locked out. It must be read as for `KnownPolicies.computed_control_of`."""
    if not entry.integer(_LOCKED_AT):
        return False
    return bool(computed_control(client, entry, cached_policies(client)) & _LOCKED_OUT)


def computed_control(client: Client, entry: Entry, policies: KnownPolicies | None) -> int:
    """msDS-User-Account-Control-Computed of an account, read from the domain controller where the policies do not tell.

    0 for an account that is gone by now.
    """
    known = None if policies is None else policies.computed_control_of(entry)
    if known is not None:
        return known
    found = client.find(entry.guid, (COMPUTED_CONTROL,))
    return 0 if found is None else found.number(COMPUTED_CONTROL)


def current_policies(client: Client) -> KnownPolicies:
    """The policies as they are now, or were at most POLICY_CACHE_SECONDS ago."""
    cache = _cache_of(client)
    return cache.find(POLICY_CACHE_SECONDS) or cache.read(client)


def fresh_policies(client: Client) -> KnownPolicies:
    """The policies as they are now."""
    return _cache_of(client).read(client)


def settled_since(client: Client) -> float:
    """The FILETIME after which a set password is certainly not expired; infinite where no policies are kept."""
    known = _cache_of(client).find(POLICY_CACHE_SECONDS)
    return inf if known is None else known.may_be_expired_since


def cached_policies(client: Client) -> KnownPolicies | None:
    """The policies without waiting for a read; None where they are not known yet, and a thread begins to read them."""
    cache = _cache_of(client)
    known = cache.find(POLICY_CACHE_SECONDS)
    if known is None:
        with suppress(LdapError):
            known = cache.confirm(client)
    if cache.find(POLICY_CACHE_SECONDS / 2) is None:
        cache.read_soon(client)
    return known


_State = tuple[str | None, str | None]
"""A domain controller and its highestCommittedUSN, which every write increases."""


def _state_of(client: Client) -> _State:
    root = client.read("", ("dsServiceName", "highestCommittedUSN"))
    return root.text("dsServiceName"), root.text("highestCommittedUSN")


class _Snapshot(NamedTuple):
    """The policies of a directory, when they were read, and as of which state."""

    began: float
    state: _State
    known: KnownPolicies


class _PolicyCache:
    """The policies last read of one directory."""

    def __init__(self) -> None:
        self._last: _Snapshot | None = None
        self._reach = ReachReader()
        self._background = Background("password policies")

    def find(self, max_age: float) -> KnownPolicies | None:
        last = self._last
        return last.known if last is not None and monotonic() - last.began < max_age else None

    def confirm(self, client: Client) -> KnownPolicies | None:
        """The cached policies, however old, if the domain has not changed since."""
        if self._last is None:
            return None
        began, state = monotonic(), _state_of(client)
        known = self._if_unchanged(state)
        if known is not None:
            self._last = _Snapshot(began, state, known)
        return known

    def read(self, client: Client) -> KnownPolicies:
        began, state = monotonic(), _state_of(client)  # first, as the read may miss a change that is made during it
        self._last = _Snapshot(began, state, self._if_unchanged(state) or self._read_anew(client))
        return self._last.known

    def _if_unchanged(self, state: _State) -> KnownPolicies | None:
        last = self._last
        return last.known if last is not None and last.state == state and None not in state else None

    def _read_anew(self, client: Client) -> KnownPolicies:
        every = read_domain_policies(client)
        if every is None:
            return KnownPolicies(policies=None, shortest_age=0, reach=None)
        reach = self._reach.read(client, every.domain, every.fine_grained, in_force=every.in_force)
        return KnownPolicies(every.policies, min(every.maximum_ages, default=None), reach)

    def read_soon(self, client: Client) -> None:
        self._background.start(partial(self._read_quietly, client))

    def _read_quietly(self, client: Client) -> None:
        with suppress(LdapError):  # the policies stay unknown, and the domain controller is asked about each account
            self.read(client)


_cache_of = cached_per_client(lambda _: _PolicyCache())
