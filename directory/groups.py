"""Group nesting: the groups above and below an object, and the rules for memberships. This module only reads.

It follows `memberOf` level by level. LDAP_MATCHING_RULE_IN_CHAIN takes a hundred times as long on Samba, and
tokenGroups omits distribution groups and, on Samba, the groups of a group.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

from active_directory import (
    BUILTIN_DOMAIN_SID,
    MANGLED,
    And,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    GroupType,
    Or,
    Present,
    text_to_sid,
)
from core.text.messages import message
from directory import errors
from directory.shapes.modifications import Delta

NESTING_ATTRIBUTES = ("objectGUID", "objectSid", "objectClass", "groupType", "memberOf")
"""The attributes that locate a group among nested groups."""

MEMBERSHIP_ATTRIBUTES = ("objectSid", "memberOf", "primaryGroupID")
"""The attributes that lead from an object to its groups."""

MEMBER_ATTRIBUTES = ("objectGUID", "objectClass", "groupType", "primaryGroupID")
"""The attributes that the checks of a member need."""

GroupKey = str | bytes
"""Identifies a group: its distinguished name or its SID."""

_GROUP = Equals("objectClass", "group")
_GROUP_CLASS, _FOREIGN_CLASS = b"group", b"foreignSecurityPrincipal"
_SCOPES = GroupType.GLOBAL | GroupType.UNIVERSAL | GroupType.DOMAIN_LOCAL
_SCOPE_NAMES = {GroupType.GLOBAL: "global", GroupType.UNIVERSAL: "universal", GroupType.DOMAIN_LOCAL: "domain-local"}
# The scopes that a group's members may have ([MS-SAMR] 3.1.1.8.9); a domain-local group takes every scope.
_MEMBER_SCOPES = {GroupType.GLOBAL: GroupType.GLOBAL, GroupType.UNIVERSAL: GroupType.GLOBAL | GroupType.UNIVERSAL}


class Ancestor(NamedTuple):
    """A group above an object, and the distinguished names of the groups on a shortest path to it."""

    group: Entry
    path: tuple[str, ...]


class UnreadableGroup(NamedTuple):
    """A group above an object that the bind account cannot read, so that the groups above it are unknown.

    `is_in_other_domain`: the group belongs to another domain, whose objects these domain controllers do not hold.
    """

    key: GroupKey
    path: tuple[str, ...]
    is_in_other_domain: bool


def groups_above(client: Client, entry: Entry) -> Iterator[Ancestor]:
    """All groups that an entry, read with MEMBERSHIP_ATTRIBUTES, belongs to, directly or nested; nearest first.

    It leaves out groups that cannot be read; `iter_ancestors` yields these too.
    """
    return (step for step in iter_ancestors(client, entry) if isinstance(step, Ancestor))


def iter_ancestors(client: Client, entry: Entry) -> Iterator[Ancestor | UnreadableGroup]:
    """Yield the groups above an entry, read with MEMBERSHIP_ATTRIBUTES, each once and nearest first."""
    found: dict[GroupKey, Entry] = {}
    level: dict[GroupKey, tuple[str, ...]] = dict.fromkeys(direct_group_keys(entry), ())
    reached: set[GroupKey] = set()
    while level:
        reached |= level.keys()
        level |= {name: () for name in _read_groups(client, level, found) if name not in reached}
        following: dict[GroupKey, tuple[str, ...]] = {}
        for key, path in level.items():
            above = found.get(key)
            if above is None:
                if (missing := _unreadable_group(client, key, path)) is not None:
                    yield missing
                continue
            if isinstance(key, bytes) and above.dn in reached:
                continue  # a primary group that memberOf of an ancestor names too
            reached.add(above.dn)
            yield Ancestor(above, path)
            for name in above.texts("memberOf"):
                if name not in reached:
                    following.setdefault(name, (*path, above.dn))
        level = following


def groups_with_unreadable_ancestors(client: Client, keys: Iterable[GroupKey]) -> set[GroupKey]:
    """Of these groups and all above them, those that cannot be read or have an unreadable group above them.

    One walk serves the keys of many objects; `iter_ancestors` names the unreadable group for a single one.
    """
    found: dict[GroupKey, Entry] = {}
    above: dict[GroupKey, list[str]] = {}
    level = set(keys)
    while level:
        _read_groups(client, level, found)
        above |= {key: found[key].texts("memberOf") if key in found else [] for key in level}
        level = {name for key in level for name in above[key] if name not in above}
    doubtful = {key for key in above if key not in found and not is_deleted_name(client, key)}
    while below := {key for key in above.keys() - doubtful if not doubtful.isdisjoint(above[key])}:
        doubtful |= below
    return doubtful


def direct_group_keys(entry: Entry) -> list[GroupKey]:
    """The keys of the groups that directly contain an entry, read with MEMBERSHIP_ATTRIBUTES."""
    sid = primary_group_sid(entry)
    return [*entry.texts("memberOf"), *(() if sid is None else (sid,))]


def primary_group_sid(entry: Entry) -> bytes | None:
    """The SID of an account's primary group, which memberOf omits; None for an object without one.

    primaryGroupID is the RID of a group in the account's own domain ([MS-ADA3] 2.120).
    """
    sids, number = entry.values("objectSid"), entry.integer("primaryGroupID")
    return sids[0][:-4] + struct.pack("<I", number) if sids and number is not None else None


def is_deleted_name(client: Client, key: GroupKey) -> bool:
    """Whether a key is the name of a deleted object: with the recycle bin, Samba keeps such groups in `memberOf`."""
    if isinstance(key, bytes) or MANGLED not in key:
        return False
    return DistinguishedName.parse(key).parent == DistinguishedName.parse(
        f"CN=Deleted Objects,{client.default_naming_context}"
    )


def _read_groups(client: Client, keys: Iterable[GroupKey], found: dict[GroupKey, Entry]) -> list[str]:
    """Read the groups that `found` lacks into it; return the names of those whose key was spelled differently."""
    missing = {key for key in keys if key not in found}
    conditions = (Equals("objectSid" if isinstance(key, bytes) else "distinguishedName", key) for key in missing)
    spelled_otherwise = []
    for group in client.find_any(conditions, NESTING_ATTRIBUTES):
        if _is_readable(group):
            names: tuple[GroupKey, ...] = (group.dn, *group.values("objectSid"))
            found |= dict.fromkeys(names, group)
            if missing.isdisjoint(names):
                spelled_otherwise.append(group.dn)
    return spelled_otherwise


def _is_readable(group: Entry) -> bool:
    """Whether an entry identifies its group: AD omits attributes that may not be read ([MS-ADTS] 3.1.1.4.4)."""
    return "objectGUID" in group and "objectSid" in group


def _unreadable_group(client: Client, key: GroupKey, path: tuple[str, ...]) -> UnreadableGroup | None:
    """The unreadable group behind a key that the search did not find.

    None for a deleted group, and for one that was found under another spelling.
    """
    if is_deleted_name(client, key):
        return None
    if isinstance(key, str):
        # A comparison of suffixes would not do: a child domain's names end with the name of this domain.
        if DistinguishedName.parse(key).domain != DistinguishedName.parse(client.default_naming_context):
            return UnreadableGroup(key, path, is_in_other_domain=True)
        group = client.find(key, ("objectGUID", "objectSid"))
        if group is not None and _is_readable(group):
            return None
    return UnreadableGroup(key, path, is_in_other_domain=False)


def nested_groups(client: Client, group: Entry, *, has_index: bool) -> list[Entry]:
    """The group and every group nested in it at any depth, each once."""
    known = {group.dn: group}
    level = [group.dn]
    groups_in = group_finder(client, NESTING_ATTRIBUTES, has_index=has_index)
    while level:
        members = {member.dn: member for member in groups_in(level)}
        level = [dn for dn in members if dn not in known]
        known.update((dn, members[dn]) for dn in level)
    return list(known.values())


def group_finder(
    client: Client, attributes: Collection[str], *, has_index: bool
) -> Callable[[Iterable[str]], list[Entry]]:
    """A function that reads the groups that are members of groups of these names.

    Active Directory has an index for memberOf (`has_index`). Samba compares each group with each name, which takes
    eight times as long as reading memberOf of all groups once. The nested ones are then picked here. Their members
    would be many to read of all groups, and are read by objectGUID, which a rename in between does not change.
    """
    wanted = tuple(attributes)
    if has_index:
        return lambda names: list(client.find_any((Equals("memberOf", name) for name in names), wanted, within=_GROUP))
    is_small = "member" not in wanted
    inside: dict[str, dict[bytes, Entry]] = {}
    needs = dict.fromkeys(("objectGUID", "memberOf", *(wanted if is_small else ())))
    for group in client.search_domain(And(_GROUP, Present("memberOf")), tuple(needs)):
        for guid in group.values("objectGUID"):
            for name in group.texts("memberOf"):
                inside.setdefault(name, {})[guid] = group

    def find(names: Iterable[str]) -> list[Entry]:
        found = {guid: group for name in names for guid, group in inside.get(name, {}).items()}
        if is_small:
            return list(found.values())
        return list(client.find_any((Equals("objectGUID", guid) for guid in found), wanted))

    return find


def require_no_cycle(client: Client, group: Entry, members: Collection[Entry]) -> None:
    """Refuse members that are the group or contain it at any depth: Samba accepts them. Raises GroupCycle.

    Each member is checked alone: all new memberships end in the same group, so a cycle contains only one of them.
    """
    nested = {member.guid: member for member in members if is_group(member)}
    if group.guid in nested:
        raise errors.GroupCycle(message("A group cannot be a member of itself."))
    if not nested:
        return
    for holder, _ in groups_above(client, group):
        if holder.guid in nested:
            raise errors.GroupCycle(
                message("The group is a member of {dn} already, directly or through others.", dn=holder.dn)
            )


def find_scope_violation(group: Entry, members: Iterable[Entry]) -> tuple[Entry, str] | None:
    """The first member whose scope a security group does not allow, and the reason, or None. Samba does not check it.

    Distribution groups are left to the directory, whose rules for them are less strict.
    """
    holder = GroupType.from_directory(group.number("groupType"))
    allowed = _MEMBER_SCOPES.get(holder & _SCOPES)
    if allowed is None or not holder & GroupType.SECURITY_ENABLED:
        return None
    described = f"A {_SCOPE_NAMES[holder & _SCOPES]} group cannot have"
    for member in members:
        classes = member.values("objectClass")
        if _FOREIGN_CLASS in classes:
            return member, f"{described} a member from another domain or a well-known principal."
        if _GROUP_CLASS not in classes:
            continue
        held = GroupType.from_directory(member.number("groupType"))
        if held & GroupType.SECURITY_ENABLED and not held & _SCOPES & allowed:
            return member, f"{described} a {_SCOPE_NAMES.get(held & _SCOPES, 'local')} group as a member."
    return None


def require_group_type_fits(client: Client, group: Entry, delta: Delta, *, display_name: Callable[[str], str]) -> None:
    """Refuse a scope or type that the group's members, or the groups it is a member of, do not allow.

    Samba checks neither. Raises DirectoryRejected, which names one of these groups as `display_name` renders it.
    """
    after = [step.values for step in delta.modifications if step.attribute == "groupType" and step.op != "delete"]
    if not after:
        return
    changed = Entry(group.dn, {"objectClass": [b"group"], "groupType": list(after[0])})
    leaving = {name for step in delta.modifications if step.op == "delete" for name in step.values}
    may_not_suit = And(Or(_GROUP, Equals("objectClass", "foreignSecurityPrincipal")), Equals("memberOf", group.dn))
    members = [
        member for member in client.search_domain(may_not_suit, NESTING_ATTRIBUTES) if member.dn.encode() not in leaving
    ]
    if complaint := find_scope_violation(changed, members):
        raise errors.DirectoryRejected(
            message("{complaint} It has {tell}.", complaint=complaint[1], tell=display_name(complaint[0].dn))
        )
    for holder in client.search_domain(And(_GROUP, Equals("member", group.dn)), NESTING_ATTRIBUTES):
        if complaint := find_scope_violation(holder, [changed]):
            raise errors.DirectoryRejected(
                message("{complaint} It would be one of {tell}.", complaint=complaint[1], tell=display_name(holder.dn))
            )


def is_group(entry: Entry) -> bool:
    return _GROUP_CLASS in entry.values("objectClass")


def is_foreign_principal(entry: Entry) -> bool:
    """Whether an entry stands for a principal of another domain, or a well-known one such as Everyone."""
    return _FOREIGN_CLASS in entry.values("objectClass")


def accounts_with_primary_group(group: Entry, accounts: Iterable[Entry]) -> set[UUID]:
    """The accounts whose primary group this is: they are members, but the group's `member` omits them."""
    number = relative_id(group)
    if number is None:
        return set()
    wanted = [str(number).encode()]
    return {account.guid for account in accounts if account.values("primaryGroupID") == wanted}


def require_not_primary_group(
    client: Client, leaving: Collection[Entry], *, display_name: Callable[[str], str]
) -> None:
    """Refuse to delete objects, read with objectSid, that include an account's primary group.

    The directory refuses it too, but Samba reports a name in use. An account that is deleted along with its group is no
    exception: the directory might delete the group first, and fail. Raises PrimaryGroup, which names an account as
    `display_name` renders it.
    """
    groups = {str(number): group for group in leaving if is_group(group) and (number := relative_id(group)) is not None}
    is_primary = (Equals("primaryGroupID", number) for number in groups)
    for account in client.find_any(is_primary, ("primaryGroupID",)):
        group = groups[account.text("primaryGroupID") or ""]
        raise errors.PrimaryGroup(
            message("{dn} is the primary group of {tell}.", dn=group.dn, tell=display_name(account.dn))
        )


def relative_id(group: Entry) -> int | None:
    """A group's RID, which its accounts have as their primaryGroupID.

    None for groups of the built-in domain: it has no accounts, and its RIDs mean other groups in an account domain.
    """
    sids = group.values("objectSid")
    if not sids or sids[0][8:-4] == text_to_sid(BUILTIN_DOMAIN_SID)[8:]:
        return None
    return int.from_bytes(sids[0][-4:], "little")
