"""Which objects are protected, and why: owners of the domain, what it depends on, and the gateway's own accounts.

docs/api.md#protected-objects lists them. SIDs, nested memberships, access control, flags and containers decide; names
never do, because people choose them. A group that the gateway's account may not read could be an administrative one, so
all its members are protected. The pipeline decides whether a caller may write a protected object.
"""

from collections.abc import Collection, Iterable, Iterator
from uuid import UUID

from active_directory import (
    ANYTHING,
    Client,
    DistinguishedName,
    Entry,
    Scope,
    SystemFlags,
    UserAccountControl,
    sid_to_text,
)
from core.call import Call
from core.errors import Forbidden
from core.text.messages import message
from directory.groups import (
    GroupKey,
    UnreadableGroup,
    direct_group_keys,
    groups_above,
    groups_with_unreadable_ancestors,
    iter_ancestors,
)
from directory.lookup.prefetch import Prefetch
from directory.protection.bind_accounts import bind_accounts, groups_of_bind_accounts
from directory.protection.domain_control import (
    critical_container_reason,
    critical_containers,
    domain_owners,
    is_default_container,
)
from directory.protection.state import (
    administrative_accounts,
    administrative_groups,
    drop_contradicted_state,
    has_protection_marks,
    is_administrative_somewhere,
    protection_state,
)
from directory.shapes.record import PROTECTION_ATTRIBUTES, PROTECTION_COMPUTED


def require_may_write(call: Call, *, protected: bool) -> bool:
    """Raise Forbidden when a target is protected and the caller may not write such objects; else return `protected`.

    Every proposal calls it before an answer or an error reveals anything else about the target.
    """
    if protected and not call.may("directory.manage_protected"):
        raise Forbidden
    return protected


def is_protected(client: Client, entry: Entry, *, max_age: float = 0, prefetch: Prefetch | None = None) -> bool:
    """Whether an entry, read with PROTECTION_ATTRIBUTES, is protected.

    The answer may be `max_age` seconds old. With a `prefetch` all changes of a batch share one state.
    """
    if max_age:
        return protection_state(client, max_age=max_age).is_protected(entry)
    if prefetch is not None:
        return bool(protected_among(client, [entry], prefetch=prefetch))
    protected = _is_protected_now(client, entry)
    drop_contradicted_state(client, entry, protected=protected)
    return protected


def _is_protected_now(client: Client, entry: Entry) -> bool:
    """The same for a single entry, following its groups upwards instead of privileged groups downwards.

    Every write in the domain, even a sign-in, outdates the cached state of all groups. Reading that again takes nine
    times as long as the one or two searches from an account up to its last group.
    """
    containers = critical_containers(client)
    sids = frozenset(entry.values("objectSid"))
    if has_protection_marks(entry) or containers.contains(entry.dn):
        return True
    administrative = administrative_groups(containers.domain_sid)
    if not sids.isdisjoint(administrative | administrative_accounts(containers.domain_sid)):
        return True
    if not sids.isdisjoint(bind_accounts(client)):
        return True
    wanted = administrative.union(domain_owners(client))
    return not sids.isdisjoint(wanted) or _is_protected_by_groups(client, entry, wanted)


def _is_protected_by_groups(client: Client, entry: Entry, wanted: frozenset[bytes]) -> bool:
    """Whether groups above an entry protect it, or bind accounts below it."""
    is_doubtful = False
    for step in iter_ancestors(client, entry):
        if not isinstance(step, UnreadableGroup):
            if not wanted.isdisjoint(step.group.values("objectSid")):
                return True
        elif step.is_in_other_domain:
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
    # A group gives bind accounts their rights only as a security group, which has a SID, and unlike accounts has no
    # primary group.
    return "primaryGroupID" not in entry and entry.values("objectSid")[0] in groups_of_bind_accounts(client)


def _token_groups(client: Client, entry: Entry) -> list[bytes]:
    """The SIDs of all security groups above an entry, computed by the domain controller whatever the gateway may read.

    They include groups of other domains, and groups above one whose `memberOf` cannot be read. Samba computes them for
    accounts only. No search returns them, but a read of a single object may have brought them already.
    """
    found: Entry | None = entry
    if not all(name in entry or entry.was_asked(name) for name in PROTECTION_COMPUTED):
        found = client.find(entry.guid, PROTECTION_COMPUTED)
    return [] if found is None else [sid for name in PROTECTION_COMPUTED for sid in found.values(name)]


def protected_among(client: Client, entries: Iterable[Entry], *, prefetch: Prefetch | None = None) -> set[UUID]:
    """The objectGUIDs of the protected entries among some that were read with PROTECTION_ATTRIBUTES."""
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
    doubtful = _doubtful_groups(client, {key for entry in others for key in direct_group_keys(entry)}, prefetch)
    in_doubt = (entry for entry in others if not doubtful.isdisjoint(direct_group_keys(entry)))
    return protected | {entry.guid for entry in in_doubt if _is_protected_now(client, entry)}


def _doubtful_groups(client: Client, keys: Collection[GroupKey], prefetch: Prefetch | None = None) -> set[GroupKey]:
    """The groups that cannot be read, or have one above them that cannot; a prefetch asks about each group once."""
    known: dict[GroupKey, bool] = {} if prefetch is None else prefetch.get_or_read((_doubtful_groups, client), dict)
    if fresh := [key for key in keys if key not in known]:
        doubtful = groups_with_unreadable_ancestors(client, fresh)
        known.update((key, key in doubtful) for key in fresh)
    return {key for key in keys if known[key]}


def contains_protected(client: Client, dn: str) -> bool:
    """Whether the object of this name or anything below it, however deep, is protected."""
    return critical_containers(client).contains(dn) or find_protected_below(client, dn) is not None


def is_content_protected(client: Client, container: Entry) -> bool:
    """Whether objects put into a container, read with PROTECTION_ATTRIBUTES, govern the domain or the forest.

    They do in critical containers (`domain_control`), and in a container with protection marks of its own, unless it
    has the marks only as a default container for ordinary objects.
    """
    if critical_containers(client).contains_children_of(container.dn):
        return True
    return has_protection_marks(container) and not is_default_container(client, container)


def find_protected_below(client: Client, dn: str) -> Entry | None:
    """A protected object among this one and all below it, or None.

    It looks at all of them, because no filter finds unreadable objects ([MS-ADTS] 3.1.1.3.1.3.1), which count as
    protected.
    """
    state = protection_state(client)
    keys: set[GroupKey] = set()
    for entry in client.search_in_parts(dn, Scope.SUBTREE, ANYTHING, PROTECTION_ATTRIBUTES):
        if "objectGUID" not in entry or state.is_protected(entry):
            return entry
        keys.update(direct_group_keys(entry))
    doubtful = _doubtful_groups(client, keys)
    if not doubtful:
        return None
    # Read again: the entries of a large subtree are not kept for this rare case.
    rows = client.search_in_parts(dn, Scope.SUBTREE, ANYTHING, PROTECTION_ATTRIBUTES)
    in_doubt = [entry for entry in rows if not doubtful.isdisjoint(direct_group_keys(entry))]
    return next((entry for entry in in_doubt if _is_protected_now(client, entry)), None)


def path_to_domain_owners(client: Client, entry: Entry) -> tuple[list[str], str | None]:
    """A shortest chain of groups from an entry, read with PROTECTION_ATTRIBUTES, to one that protects its members.

    Empty where there is none. Also what the last group may do by access control; None for a built-in administrative
    group.
    """
    administrative, by_access = administrative_groups(critical_containers(client).domain_sid), domain_owners(client)
    for group, way in groups_above(client, entry):
        for sid in group.values("objectSid"):
            if sid in administrative or sid in by_access:
                return [*way, group.dn], None if sid in administrative else by_access[sid]
    return [], None


def path_to_unreadable_group(client: Client, entry: Entry) -> list[str]:
    """The chain of groups to the nearest one that the gateway's account may not read, which may be given by its SID."""
    for step in iter_ancestors(client, entry):
        if isinstance(step, UnreadableGroup):
            return [*step.path, step.key if isinstance(step.key, str) else sid_to_text(step.key)]
    return []


_DOMAIN_CONTROLLER_BITS = UserAccountControl.SERVER_TRUST_ACCOUNT | UserAccountControl.PARTIAL_SECRETS_ACCOUNT


def protection_reason(client: Client, guid: UUID) -> str | None:
    """Why an object is protected, such as "member of Domain Admins through Helpdesk"; None when it is not (any more).

    For an object that only contains a protected one: which that is, and why it is protected.
    """
    entry = client.find(guid, PROTECTION_ATTRIBUTES)
    if entry is None:
        return None
    if own := _own_reason(client, entry):
        return own
    below = find_protected_below(client, entry.dn)
    if below is None:
        return None
    if "objectGUID" not in below:
        return message("it holds {name}, which the gateway's account may not read", name=_short_name(below.dn))
    return message(
        "it holds {name}, {protection}",
        name=_short_name(below.dn),
        protection=_own_reason(client, below) or message("which is protected"),
    )


def _own_reason(client: Client, entry: Entry) -> str | None:
    """The most telling reason. The marks come last: they are traces of the other reasons, and may outlast them."""
    return next(_reasons(client, entry), None)


def _reasons(client: Client, entry: Entry) -> Iterator[str]:
    domain_sid = critical_containers(client).domain_sid
    sid = next(iter(entry.values("objectSid")), None)
    if sid in administrative_accounts(domain_sid):
        yield message("a built-in administrative account")
    if sid in administrative_groups(domain_sid):
        yield message("a built-in administrative group")
    if sid is not None and (connection := bind_accounts(client).get(sid)) is not None:
        yield (
            message("the account that the gateway signs in with (connection {name})", name=connection)
            if connection
            else message("the account that the gateway signs in with")
        )
    path, right = path_to_domain_owners(client, entry)
    if path:
        *between, group = (_short_name(dn) for dn in path)
        way = message("member of {group}", group=group)
        if between:
            way = message("member of {group} through {between}", group=group, between=" and ".join(between))
        yield message("{membership}, which {right}", membership=way, right=right) if right else way
    if sid is not None and sid in (by_access := domain_owners(client)):
        yield message("one that {right}", right=by_access[sid])
    if path := path_to_unreadable_group(client, entry):
        yield message("member of {group}, which the gateway's account may not read", group=path[-1])
    if sid is not None and "primaryGroupID" not in entry and sid in groups_of_bind_accounts(client):
        yield message("a group that gives the gateway's own account its rights")
    if entry.number("userAccountControl") & _DOMAIN_CONTROLLER_BITS:
        yield message("a domain controller")
    if location := critical_container_reason(client, entry.dn):
        yield location
    yield from (words for is_so, words in _mark_reasons(entry) if is_so)


def _mark_reasons(entry: Entry) -> tuple[tuple[bool, str], ...]:
    control, flags = entry.number("userAccountControl"), entry.number("systemFlags")
    return (
        (
            bool(control & UserAccountControl.INTERDOMAIN_TRUST_ACCOUNT),
            message("the account of a trust between domains"),
        ),
        (entry.boolean("isCriticalSystemObject"), message("marked as a critical system object")),
        (entry.integer("adminCount") == 1, message("marked as an administrator's: its adminCount is 1")),
        (bool(flags & SystemFlags.DISALLOW_DELETE), message("marked as not to be deleted")),
    )


def _short_name(dn: str) -> str:
    return DistinguishedName.parse(dn).rdn_value
