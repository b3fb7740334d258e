"""Whom the fine-grained password policies reach, as far as that is certain without asking about an account.

A policy applies to the accounts and the groups it names, and to whoever is in these: directly, through other groups or
by the primary group ([MS-ADTS] 3.1.1.4.5.36). Which groups an account is in is read with it; which are below those that
policies name is known from their members. What may not be read looks as if it were not there ([MS-ADTS] 3.1.1.4.3), so
memberOf and member are taken for the whole truth only where they show a value: a policy that names a group without
members may reach everybody, and any policy may be that of an account without groups.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from active_directory import Client, Entry, Equals, GroupType, UserAccountControl
from directory.groups.ancestry import Key, group_keys, primary_group_of
from directory.policies.password_policy import FineGrainedPolicy, PasswordPolicy

_MOST_LOOKED_AT = 1000
"""Objects that are looked at for groups among them: Samba takes 0.13 ms each."""
_SECONDS_TOO_LARGE = 60.0
"""For so long a longer list of members is not read again."""
_OF_ALL = ("objectClass", "uSNChanged")
_ATTRIBUTES = (*_OF_ALL, "objectSid", "groupType")
_GLOBAL_SECURITY = GroupType.GLOBAL | GroupType.SECURITY_ENABLED
_NORMAL_ACCOUNT = UserAccountControl.NORMAL_ACCOUNT.value
_TICKETS = "krbtgt"
"""So begin the names of the accounts whose keys seal tickets: to them no policy applies, or not on every server."""


@dataclass(frozen=True, slots=True)
class PolicyReach:
    """`domain` decides where no other policy reaches; those `unbounded` may reach everybody.

    `reaching` has the policies that may reach whoever has a name or is in a group of a name or SID. To the members of
    those groups, and the accounts, that are `certain` one of theirs does apply.
    """

    domain: PasswordPolicy
    unbounded: frozenset[PasswordPolicy]
    reaching: Mapping[Key, frozenset[PasswordPolicy]]
    certain: frozenset[Key]

    def possible(self, account: Entry) -> frozenset[PasswordPolicy]:
        """The policies one of which is an account's, read with ABOVE_ATTRIBUTES, userAccountControl, sAMAccountName."""
        if "memberOf" not in account or primary_group_of(account) is None:
            return self.unbounded.union((self.domain,), *self.reaching.values())
        keys = (account.dn, *group_keys(account))
        found = self.unbounded.union(*(self.reaching.get(key, ()) for key in keys))
        is_reached = not self.certain.isdisjoint(keys) and _is_subject(account)
        return found if is_reached else found | {self.domain}


def _is_subject(account: Entry) -> bool:
    """Whether fine-grained policies apply to an account at all."""
    is_normal = bool(account.number("userAccountControl") & _NORMAL_ACCOUNT)
    return is_normal and not (account.text("sAMAccountName") or _TICKETS).lower().startswith(_TICKETS)


class _Named(NamedTuple):
    """An object that a policy names, or a group below it.

    `inner`: the names of its members that are groups, or may be; None where it does not tell all. `gives`: whether a
    policy that names it does apply, on Windows too: there it does to accounts and by global security groups.
    """

    keys: tuple[Key, ...]
    inner: frozenset[str] | None
    gives: bool


class ReachReader:
    """Reads whom the policies of one directory reach, again and again, and looks at each member once."""

    def __init__(self) -> None:
        self._no_groups: dict[tuple[str, str | None], frozenset[str]] = {}
        """By the name of a group and its version: the members that are none."""
        self._too_large: dict[str, float] = {}

    def read(
        self, client: Client, domain: PasswordPolicy, fine_grained: Collection[FineGrainedPolicy], *, in_force: bool
    ) -> PolicyReach:
        """Whom they reach now; nobody for certain where the domain's functional level is below theirs."""
        known = self._look(client, {name for each in fine_grained for name in each.applies_to})
        reaching: dict[Key, frozenset[PasswordPolicy]] = {}
        unbounded: set[PasswordPolicy] = set()
        certain: set[Key] = set()
        for policy, names in fine_grained:
            below, is_whole = _below(known, names)
            for key in below:
                reaching[key] = reaching.get(key, frozenset()) | {policy}
            if not is_whole:
                unbounded.add(policy)
            if in_force:
                certain.update(key for name in names if name in known and known[name].gives for key in known[name].keys)
        return PolicyReach(domain, frozenset(unbounded), reaching, frozenset(certain))

    def _look(self, client: Client, names: set[str]) -> dict[str, _Named]:
        """What has these names and the groups below, by name: without what cannot be read or would be too much."""
        seen: dict[str, Entry] = {}
        tried: set[str] = set()
        while names and len(tried) + len(names) <= _MOST_LOOKED_AT:
            tried |= names
            found = {entry.dn: entry for entry in self._read(client, names)}
            seen |= found
            names = set[str]().union(*map(self._may_be_groups, found.values())) - tried
        groups = {dn: entry for dn, entry in seen.items() if "group" in entry.object_classes}
        others = seen.keys() - groups.keys()
        self._no_groups = {
            _version(group): _members(group) - (self._may_be_groups(group) - others) for group in groups.values()
        }
        known = {name: _Named((name,), frozenset(), gives=True) for name in others}
        for name, group in groups.items():
            sids = group.values("objectSid")
            inner = self._may_be_groups(group) if _members(group) and sids else None
            kind = GroupType.from_directory(group.number("groupType"))
            known[name] = _Named((name, *sids), inner, _GLOBAL_SECURITY in kind)
        return known

    def _may_be_groups(self, entry: Entry) -> frozenset[str]:
        return _members(entry) - self._no_groups.get(_version(entry), frozenset())

    def _read(self, client: Client, names: set[str]) -> Iterator[Entry]:
        """What can be read of what has these names: without the members of groups that had too many a moment ago."""
        now = monotonic()
        known = tuple(self._too_large.items())  # at one go: another thread may be adding to them
        self._too_large = {name: until for name, until in known if until > now}
        large = names & self._too_large.keys()
        for wanted, attributes in ((names - large, (*_ATTRIBUTES, "member")), (large, _ATTRIBUTES)):
            for entry in client.find_any((Equals("distinguishedName", name) for name in wanted), attributes):
                if len(entry.values("member")) > _MOST_LOOKED_AT:
                    self._too_large[entry.dn] = now + _SECONDS_TOO_LARGE
                if all(name in entry for name in _OF_ALL):
                    yield entry


def _members(entry: Entry) -> frozenset[str]:
    """The members of a group: none where it tells none, or too many to be looked at."""
    names = entry.texts("member")
    return frozenset(names) if len(names) <= _MOST_LOOKED_AT else frozenset()


def _version(group: Entry) -> tuple[str, str | None]:
    return group.dn, group.text("uSNChanged")


def _below(known: Mapping[str, _Named], names: Iterable[str]) -> tuple[set[Key], bool]:
    """The names and SIDs of what has these names and of the groups below, and whether these are certainly all."""
    keys: set[Key] = set()
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
