"""Groups in groups: what lies below one, and which groups may hold which. Reads; proposes nothing."""

from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from active_directory import BUILTIN_DOMAIN_SID, And, Client, Entry, Equals, GroupType, Or, text_to_sid
from core.text.messages import message
from directory import errors
from directory.groups.ancestry import NESTING_ATTRIBUTES, groups_above
from directory.shapes.modifications import Delta

MEMBER_ATTRIBUTES = ("objectGUID", "objectClass", "groupType", "primaryGroupID")
"""What a member must have been read with to be judged."""

_GROUP = Equals("objectClass", "group")
_GROUP_CLASS, _FOREIGN = b"group", b"foreignSecurityPrincipal"
_SCOPES = GroupType.GLOBAL | GroupType.UNIVERSAL | GroupType.DOMAIN_LOCAL
_NAMED = {GroupType.GLOBAL: "global", GroupType.UNIVERSAL: "universal", GroupType.DOMAIN_LOCAL: "domain-local"}
# Group scopes in Active Directory ([MS-SAMR] 3.1.1.8.9); a domain-local group may hold every one.
_MAY_HOLD = {GroupType.GLOBAL: GroupType.GLOBAL, GroupType.UNIVERSAL: GroupType.GLOBAL | GroupType.UNIVERSAL}


def groups_below(client: Client, group: Entry) -> list[Entry]:
    """The group and every group nested in it, however deep, each once."""
    known = {group.dn: group}
    level = [group]
    while level:
        is_inside = [Equals("memberOf", holder.dn) for holder in level]
        members = {member.dn: member for member in client.find_any(is_inside, NESTING_ATTRIBUTES, within=_GROUP)}
        level = [member for dn, member in members.items() if dn not in known]
        known.update((member.dn, member) for member in level)
    return list(known.values())


def require_no_cycle(client: Client, group: Entry, members: Collection[Entry]) -> None:
    """Refuse members that are the group or hold it already, at any depth: Samba accepts them. Raises GroupCycle.

    One member at a time is enough: every new membership ends in the same group, so a cycle has one of them only.
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


def complaint_about_scopes(group: Entry, members: Iterable[Entry]) -> tuple[Entry, str] | None:
    """The first of the members that a security group cannot hold by their scopes, and why, or None: Samba takes any.

    Distribution groups are left to the directory, which is not so strict with them.
    """
    holder = GroupType.from_directory(group.number("groupType"))
    allowed = _MAY_HOLD.get(holder & _SCOPES)
    if allowed is None or not holder & GroupType.SECURITY_ENABLED:
        return None
    described = f"A {_NAMED[holder & _SCOPES]} group cannot have"
    for member in members:
        classes = member.values("objectClass")
        if _FOREIGN in classes:
            return member, f"{described} a member from another domain or a well-known principal."
        if _GROUP_CLASS not in classes:
            continue
        held = GroupType.from_directory(member.number("groupType"))
        if held & GroupType.SECURITY_ENABLED and not held & _SCOPES & allowed:
            return member, f"{described} a {_NAMED.get(held & _SCOPES, 'local')} group as a member."
    return None


def require_type_fits(client: Client, group: Entry, delta: Delta, *, tell: Callable[[str], str]) -> None:
    """Refuse a scope or type that does not suit the group's members, or the groups that it is a member of.

    Samba looks at neither. Raises DirectoryRejected naming one of them, as far as `tell` lets the caller know it.
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
    if complaint := complaint_about_scopes(changed, members):
        raise errors.DirectoryRejected(
            message("{complaint} It has {tell}.", complaint=complaint[1], tell=tell(complaint[0].dn))
        )
    for holder in client.search_domain(And(_GROUP, Equals("member", group.dn)), NESTING_ATTRIBUTES):
        if complaint := complaint_about_scopes(holder, [changed]):
            raise errors.DirectoryRejected(
                message("{complaint} It would be one of {tell}.", complaint=complaint[1], tell=tell(holder.dn))
            )


def is_group(entry: Entry) -> bool:
    return _GROUP_CLASS in entry.values("objectClass")


def is_foreign(entry: Entry) -> bool:
    """Whether an entry stands for somebody of another domain, or for a well-known principal such as Everyone."""
    return _FOREIGN in entry.values("objectClass")


def those_with_primary_group(group: Entry, accounts: Iterable[Entry]) -> set[UUID]:
    """Which of the accounts have the group for their primary group: they belong to it without being listed."""
    number = relative_id(group)
    if number is None:
        return set()
    wanted = [str(number).encode()]
    return {account.guid for account in accounts if account.values("primaryGroupID") == wanted}


def require_nobodys_primary_group(client: Client, leaving: Collection[Entry], *, tell: Callable[[str], str]) -> None:
    """Refuse to delete objects, read with objectSid, among which is the primary group of an account.

    The directory refuses it too, but Samba's words for it are those of a name in use. Of a group and an account that
    are deleted together either may come first: that it might go well is no reason to begin. Raises PrimaryGroup naming
    an account, as far as `tell` lets the caller know it.
    """
    groups = {str(number): group for group in leaving if is_group(group) and (number := relative_id(group)) is not None}
    is_primary = (Equals("primaryGroupID", number) for number in groups)
    for account in client.find_any(is_primary, ("primaryGroupID",)):
        group = groups[account.text("primaryGroupID") or ""]
        raise errors.PrimaryGroup(message("{dn} is the primary group of {tell}.", dn=group.dn, tell=tell(account.dn)))


def relative_id(group: Entry) -> int | None:
    """The number by which accounts name a group as their primary group.

    None for groups of the built-in domain: there are no accounts in it, and elsewhere its numbers mean others.
    """
    sids = group.values("objectSid")
    if not sids or sids[0][8:-4] == text_to_sid(BUILTIN_DOMAIN_SID)[8:]:
        return None
    return int.from_bytes(sids[0][-4:], "little")
