"""Objects that links list with their names and objectGUIDs, so that no search has to look for them in the whole domain.

Samba has no index for `memberOf`: such a search compares each object of the domain. A list of members takes 7 µs for
each, and a list of those that also meet a condition 40 µs for each.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from active_directory import Client, DistinguishedName, Entry, Equals, Filter, Scope
from directory.groups import relative_id
from directory.lookup.access import is_within_any
from directory.lookup.visibility import Visibility, parent_of
from directory.queries.searches.area import Area
from directory.queries.searches.known_members import read_members

Listed = Mapping[bytes, str]
"""Objects that are known before a search looks for them: their names by objectGUID."""

FEW = 1000
"""So many may be looked at without waiting for a turn."""


def members_of(client: Client, groups: Sequence[Entry], *, primary: bool = True) -> Listed:
    """The members of these groups, with `primary` also the accounts whose primary group one of them is.

    They include members that the gateway's account may not read, and those of other domains.
    """
    listed = read_members(client, (group.guid.bytes_le for group in groups))
    for account in client.find_any(have_primary(groups) if primary else (), ("objectGUID",)):
        listed.update((guid, account.dn) for guid in account.values("objectGUID"))
    return listed


def have_primary(groups: Iterable[Entry]) -> list[Filter]:
    """Conditions on the accounts whose primary group one of these is."""
    return [Equals("primaryGroupID", number) for number in map(relative_id, groups) if number is not None]


def in_both(some: Listed | None, others: Listed | None) -> Listed | None:
    """What both list; None lists everything."""
    if some is None or others is None:
        return others if some is None else some
    return {guid: name for guid, name in some.items() if guid in others}


def listed_in(area: Area, client: Client, listed: Listed | None) -> Listed | None:
    """Those that lie in the area; None where a search must tell."""
    domain = client.default_naming_context
    is_whole = area.scope is Scope.SUBTREE and area.deleted_area is None
    if listed is None or not is_whole or not all(is_within_any(base, (domain,)) for base in area.bases):
        return None
    is_seen = name_filter(client, Visibility.of(client, confidential=False, bases=area.bases))
    return {guid: name for guid, name in listed.items() if is_seen(name)}


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
        parent = parent_of(name)
        if parent not in known:
            known[parent] = decide(parent)
        verdict = known[parent]
        return all(visibility.can_see(name) for visibility in seen) if verdict is None else verdict

    return is_seen
