"""Which objects are protected: whoever holds the domain, what it rests on, and the gateway's own accounts.

docs/api.md#protected-objects lists them. What the directory computes decides (SIDs, nested membership, access control,
flags, places), never a name: names can be chosen. A group that the gateway's account may not read could be an
administrative one, so it protects whatever is below it. Whether a caller may write a protected object is the
pipeline's business.
"""

from collections.abc import Collection, Iterable
from uuid import UUID

from active_directory import Client, Entry, Scope, sid_to_text
from core.call import Call
from core.errors import Forbidden
from directory.groups.ancestry import (
    Key,
    UnreadableGroup,
    doubtful_groups,
    group_keys,
    groups_above,
    iter_ancestors,
)
from directory.lookup.prefetch import Prefetch
from directory.protection.bind_accounts import bind_accounts, groups_of_bind_accounts
from directory.protection.domain_control import domain_owners
from directory.protection.domain_infrastructure import is_for_everybody, places_of
from directory.protection.state import (
    administrative_accounts,
    administrative_groups,
    compare_with_state,
    is_administrative_somewhere,
    is_protected_by_itself,
    protection_state,
)
from directory.shapes.record import PROTECTION_ATTRIBUTES, PROTECTION_COMPUTED


def require_may_write(call: Call, *, protected: bool) -> bool:
    """Give back whether a target is protected; raises Forbidden when it is and the caller may not write such.

    Every proposal asks this before anything else is told of the target.
    """
    if protected and not call.may("directory.manage_protected"):
        raise Forbidden
    return protected


def is_protected(client: Client, entry: Entry, *, max_age: float = 0, prefetch: Prefetch | None = None) -> bool:
    """Whether an entry, read with PROTECTION_ATTRIBUTES, is protected.

    With `max_age` the answer may be so many seconds old. With a `prefetch` it is by the state that its changes share.
    """
    if max_age:
        return protection_state(client, max_age=max_age).is_protected(entry)
    if prefetch is not None:
        return bool(protected_among(client, [entry], prefetch=prefetch))
    protected = _is_protected_now(client, entry)
    compare_with_state(client, entry, protected=protected)
    return protected


def _is_protected_now(client: Client, entry: Entry) -> bool:
    """The same for a single entry, from its own groups upwards instead of from those who hold the domain down.

    Every write of the domain, a sign-in too, makes what is known of all groups old; reading them anew takes nine times
    as long as the one or two searches that lead from an account to the end of its groups.
    """
    places = places_of(client)
    sids = frozenset(entry.values("objectSid"))
    if is_protected_by_itself(entry) or places.contains(entry.dn):
        return True
    administrative = administrative_groups(places.domain_sid)
    if not sids.isdisjoint(administrative | administrative_accounts(places.domain_sid)):
        return True
    if not sids.isdisjoint(bind_accounts(client)):
        return True
    wanted = administrative.union(domain_owners(client))
    return not sids.isdisjoint(wanted) or _is_protected_by_groups(client, entry, wanted)


def _is_protected_by_groups(client: Client, entry: Entry, wanted: frozenset[bytes]) -> bool:
    """Whether it is by the groups above it, or because bind accounts are below it."""
    is_doubtful = False
    for step in iter_ancestors(client, entry):
        if not isinstance(step, UnreadableGroup):
            if not wanted.isdisjoint(step.group.values("objectSid")):
                return True
        elif step.elsewhere:
            is_doubtful = True
        else:
            return True
    if "objectSid" not in entry:
        return is_doubtful
    computed = _token_groups(client, entry)
    if not computed:
        return is_doubtful or protection_state(client).is_protected(entry)  # the groups of bind accounts are in it
    if any(sid in wanted or is_administrative_somewhere(sid) for sid in computed):
        return True
    # Only a security group gives rights, and only of accounts the directory computes to which they belong. What has a
    # SID and no primary group, as every account has, may be a group.
    return "primaryGroupID" not in entry and entry.values("objectSid")[0] in groups_of_bind_accounts(client)


def _token_groups(client: Client, entry: Entry) -> list[bytes]:
    """The SIDs of all security groups above, as the domain controller computes them whatever the gateway may read.

    So they also tell of groups of other domains, and of those above one whose `memberOf` cannot be read. Samba computes
    them for accounts only; none of a search but of a single object, with which they may have come already.
    """
    found: Entry | None = entry
    if not all(name in entry or entry.was_asked(name) for name in PROTECTION_COMPUTED):
        found = client.find(entry.guid, PROTECTION_COMPUTED)
    return [] if found is None else [sid for name in PROTECTION_COMPUTED for sid in found.values(name)]


def protected_among(client: Client, entries: Iterable[Entry], *, prefetch: Prefetch | None = None) -> set[UUID]:
    """The objectGUIDs of those entries, read with PROTECTION_ATTRIBUTES, that are protected; as `is_protected`."""
    max_age = 0.0 if prefetch is None else prefetch.age
    protected: set[UUID] = set()
    others: list[Entry] = []
    state = None
    for entry in entries:
        state = state or protection_state(client, max_age=max_age)
        if state.is_protected(entry):
            protected.add(entry.guid)
        else:
            others.append(entry)
    doubtful = _doubtful_groups(client, {key for entry in others for key in group_keys(entry)}, prefetch)
    in_doubt = (entry for entry in others if not doubtful.isdisjoint(group_keys(entry)))
    return protected | {entry.guid for entry in in_doubt if _is_protected_now(client, entry)}


def _doubtful_groups(client: Client, keys: Collection[Key], prefetch: Prefetch | None = None) -> set[Key]:
    """Those of the groups that cannot be read or are below one that cannot be; a prefetch asks about each once."""
    known: dict[Key, bool] = {} if prefetch is None else prefetch.keep((_doubtful_groups, client), dict)
    if fresh := [key for key in keys if key not in known]:
        doubtful = doubtful_groups(client, fresh)
        known.update((key, key in doubtful) for key in fresh)
    return {key for key in keys if known[key]}


def holds_protected(client: Client, dn: str) -> bool:
    """Whether the object of this name or anything below it, however deep, is protected."""
    return places_of(client).contains(dn) or find_protected_below(client, dn) is not None


def protects_its_content(client: Client, container: Entry) -> bool:
    """Whether what is put into a container, read with PROTECTION_ATTRIBUTES, governs the domain or the forest.

    So it is in the places that do (`domain_infrastructure`), and in a container that is protected by its own marks, but
    for those that carry them only because they cannot be deleted and are there for everybody's objects.
    """
    if places_of(client).contains_children_of(container.dn):
        return True
    return is_protected_by_itself(container) and not is_for_everybody(client, container)


def find_protected_below(client: Client, dn: str) -> Entry | None:
    """One protected object of those that are this one or below it, if there is any.

    All are looked at, and one that cannot be read counts as protected: no filter finds those ([MS-ADTS] 3.1.1.3.1.3.1).
    """
    state = protection_state(client)
    keys: set[Key] = set()
    for entry in client.search(dn, Scope.SUBTREE, attributes=PROTECTION_ATTRIBUTES):
        if "objectGUID" not in entry or state.is_protected(entry):
            return entry
        keys.update(group_keys(entry))
    doubtful = _doubtful_groups(client, keys)
    if not doubtful:
        return None
    rows = client.search(dn, Scope.SUBTREE, attributes=PROTECTION_ATTRIBUTES)
    in_doubt = [entry for entry in rows if not doubtful.isdisjoint(group_keys(entry))]
    return next((entry for entry in in_doubt if _is_protected_now(client, entry)), None)


def path_to_holders(client: Client, entry: Entry) -> tuple[list[str], str | None]:
    """The groups by which an entry, read with PROTECTION_ATTRIBUTES, belongs to a group that protects its members.

    From the entry's own group to that one, one of the shortest ways; empty when there is none. With them what that one
    may do by access control, None for a built-in administrative group.
    """
    administrative, by_access = administrative_groups(places_of(client).domain_sid), domain_owners(client)
    for group, way in groups_above(client, entry):
        for sid in group.values("objectSid"):
            if sid in administrative or sid in by_access:
                return [*way, group.dn], None if sid in administrative else by_access[sid]
    return [], None


def path_to_unreadable_group(client: Client, entry: Entry) -> list[str]:
    """The same to the nearest group that the gateway's account may not read, which may be called by its SID."""
    for step in iter_ancestors(client, entry):
        if isinstance(step, UnreadableGroup):
            return [*step.way, step.key if isinstance(step.key, str) else sid_to_text(step.key)]
    return []
