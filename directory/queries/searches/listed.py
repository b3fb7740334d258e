"""Objects that links list with their names and objectGUIDs, so that no search has to look for them in the whole domain.

Samba has no index for `memberOf`: such a search compares each object of the domain. A list of members takes 7 µs for
each, and a list of those that also meet a condition 40 µs for each.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from django.core.cache.backends.locmem import LocMemCache

from active_directory import Client, DistinguishedName, Entry, Equals, Filter, Not, Scope, has_slow_broad_indexes
from directory.groups import relative_id
from directory.lookup.access import is_within_any
from directory.lookup.visibility import Visibility, parent_of
from directory.queries.searches.area import Area
from directory.queries.searches.known_members import read_members, unpacked

FEW = 1000
"""So many may be looked at without waiting for a turn."""


@dataclass(frozen=True)
class Listed:
    """Objects that are known before a search looks for them, at most `size`. The same `state` lists the same ones."""

    state: bytes
    size: int
    make_names: Callable[[], dict[bytes, str]]

    @cached_property
    def names(self) -> dict[bytes, str]:
        """Their names by objectGUID, which take longer to put together than to receive."""
        return self.make_names()


def members_of(client: Client, groups: Sequence[Entry], *, primary: bool = True) -> Listed:
    """The members of these groups, with `primary` also the accounts whose primary group one of them is.

    They include members that the gateway's account may not read, and those of other domains.
    """
    lists = read_members(client, (group.guid.bytes_le for group in groups))
    accounts = {
        guid: account.dn
        for account in find_accounts(client, have_primary(groups) if primary else (), "objectGUID")
        for guid in account.values("objectGUID")
    }
    if accounts:
        lists.append((b"".join(accounts), "\0".join(accounts.values()).encode()))

    def names() -> dict[bytes, str]:
        found: dict[bytes, str] = {}
        for guids, joined in lists:
            found.update(zip(unpacked(guids), joined.decode("utf-8", "replace").split("\0"), strict=True))
        return found

    state = hashlib.sha256()
    for each in chain.from_iterable(lists):
        state.update(b"%d " % len(each))
        state.update(each)
    return Listed(state.digest(), sum(len(guids) // 16 for guids, _ in lists), names)


def have_primary(groups: Iterable[Entry]) -> list[Filter]:
    """Conditions on the accounts whose primary group one of these is."""
    return [Equals("primaryGroupID", number) for number in map(relative_id, groups) if number is not None]


_DOMAIN_USERS = Equals("primaryGroupID", 513)  # [MS-DTYP] 2.4.2.4


def find_accounts(client: Client, primary: Iterable[Filter], attribute: str) -> Iterator[Entry]:
    """The accounts that have one of these primary groups.

    Domain Users is that of most objects (`filters.past_user_index`), so its accounts are waited for.
    """
    others = []
    for condition in primary:
        if condition == _DOMAIN_USERS:
            broad = Not(Not(condition)) if has_slow_broad_indexes(client) else condition
            yield from client.search_domain(broad, (attribute,), patient=True)
        else:
            others.append(condition)
    yield from client.find_any(others, (attribute,))


_remembered = LocMemCache("listed objects", {"OPTIONS": {"MAX_ENTRIES": 10}})
_MAX_REMEMBERED = 50_000


def in_order(listed: Listed, *, key: str) -> Iterable[bytes]:
    """The objectGUIDs in order, which are remembered by a key."""
    state, guids = _remembered.get(key, (b"", b""))
    if state == listed.state:
        return unpacked(guids)
    return _remember(key, listed.state, listed.names)


def of_classes(client: Client, condition: Filter, listed: Listed, *, key: str) -> Iterable[bytes]:
    """Those in order that meet a condition on classes alone.

    An object keeps its classes. So those that met it are remembered by a key, and only others are looked at.
    """
    _, guids = _remembered.get(key, (b"", b""))
    known = listed.names.keys() & set(unpacked(guids))
    found = client.read_each(listed.names.keys() - known, ("objectGUID",), of_domain=True, within=condition)
    return _remember(key, b"", known.union(guid for entry in found for guid in entry.values("objectGUID")))


def _remember(key: str, state: bytes, guids: Iterable[bytes]) -> list[bytes]:
    ordered = sorted(guids)
    if len(ordered) <= _MAX_REMEMBERED:
        _remembered.set(key, (state, b"".join(ordered)), timeout=None)
    return ordered


def in_both(some: Listed | None, others: Listed | None) -> Listed | None:
    """What both list; None lists everything."""
    if some is None or others is None:
        return others if some is None else some
    return Listed(
        some.state + others.state,
        min(some.size, others.size),
        lambda: {guid: name for guid, name in some.names.items() if guid in others.names},
    )


def listed_in(area: Area, client: Client, listed: Listed | None) -> Listed | None:
    """Those that lie in the area; None where a search must tell."""
    domain = client.default_naming_context
    is_whole = area.scope is Scope.SUBTREE and area.deleted_area is None
    if listed is None or not is_whole or not all(is_within_any(base, (domain,)) for base in area.bases):
        return None
    is_seen = name_filter(client, Visibility.of(client, confidential=False, bases=area.bases))
    return replace(listed, make_names=lambda: {guid: name for guid, name in listed.names.items() if is_seen(name)})


def name_filter(client: Client, *seen: Visibility) -> Callable[[str], bool]:
    """Tests whether an object of this name is of this domain and may be seen; quick for many below one parent.

    The names of a child domain end as those of this one do, but its objects are not here.
    """
    domain = DistinguishedName.parse(client.default_naming_context)
    known: dict[str, bool | None] = {}

    def decide(parent: str) -> bool | None:
        """What holds for everything below a parent; None where it depends on the name."""
        if DistinguishedName.parse(parent).domain != domain:
            return False
        verdicts = [visibility.can_see_below(parent) for visibility in seen]
        return False if False in verdicts else None if None in verdicts else True

    def is_seen(name: str) -> bool:
        first, _, parent = name.partition(",")
        if "\\" in first:
            parent = parent_of(name)
        if parent not in known:
            known[parent] = decide(parent)
        verdict = known[parent]
        return all(visibility.can_see(name) for visibility in seen) if verdict is None else verdict

    return is_seen
