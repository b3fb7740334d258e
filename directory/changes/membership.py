"""Changes of a group's members: the proposal to add and remove them, and the checks of every membership change."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from typing_extensions import NotRequired, TypedDict

from active_directory import Client, DistinguishedName, Entry, Equals, GroupType, Modification, Modify
from core.call import Call
from core.errors import InvalidRequest
from core.operation import Risk
from core.text.messages import message
from directory import errors
from directory.changes.targets import find_target, propose_modify
from directory.groups import (
    MEMBER_ATTRIBUTES,
    NESTING_ATTRIBUTES,
    accounts_with_primary_group,
    find_scope_violation,
    is_group,
    require_no_cycle,
)
from directory.lookup.access import client_of, find_objects, require_inside_scopes
from directory.lookup.visibility import Visibility
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES, evidence_of
from directory.queries.member_counts import member_counts
from directory.shapes.inputs import MAX_VALUES, ChangeMembers
from directory.shapes.modifications import Delta
from directory.shapes.proposal import AttributeChange, DependentChange, Proposal, Rollback

# The type that the directory gives a group created without one.
_DEFAULT_GROUP_TYPE = (str((GroupType.GLOBAL | GroupType.SECURITY_ENABLED).signed).encode(),)


class MembersChanged(TypedDict):
    """How many members were added and removed, and how many were as requested already.

    `warnings` say of a change for a while which memberships do not end with it. `directoryTtl` and `ticketsMayOutlive`
    are of memberships for a while only.
    """

    added: int
    removed: int
    unchanged: int
    warnings: NotRequired[list[str]]
    directoryTtl: NotRequired[int]
    ticketsMayOutlive: NotRequired[bool]


def propose_members(call: Call, *, id: UUID, body: ChangeMembers) -> Proposal:
    """Propose to add and remove members; those that are in the wanted state already are left out.

    The values guard the modify, so that a concurrent change of one of the memberships makes it fail. Raises
    TooManyValues, InvalidRequest for an object in both lists, ObjectNotFound naming the missing one, Forbidden when one
    is outside the caller's scopes, PrimaryGroup, GroupCycle, and DirectoryRejected when a group's scope does not allow
    a member.
    """
    adding, removing = _read_lists(body)
    client = client_of(call)
    find_members = find_objects(call, (*adding, *removing), attributes=MEMBER_ATTRIBUTES)
    group, protected = find_target(call, "groups", id, *NESTING_ATTRIBUTES, "member")
    found = find_members()
    for guid, pointer in (adding | removing).items():
        if guid not in found:
            raise errors.ObjectNotFound.naming(message("there is no object {guid}", guid=guid), pointer=pointer)

    fixed = accounts_with_primary_group(group, found.values())
    for guid in fixed & removing.keys():
        raise errors.PrimaryGroup.naming(
            message("it is the primary group of {dn}", dn=found[guid].dn), pointer=removing[guid]
        )
    listed = frozenset(group.values("member"))  # AD spells a name the same way wherever it occurs
    members = fixed | {guid for guid, entry in found.items() if entry.dn.encode() in listed} if listed else fixed
    joining = {guid: found[guid] for guid in adding if guid not in members}
    leaving = {guid: found[guid] for guid in removing if guid in members}
    added, removed = [*joining.values()], [*leaving.values()]
    nested = [member for member in added if is_group(member)]
    if complaint := find_scope_violation(group, added):
        member, reason = complaint
        raise errors.DirectoryRejected.naming(reason, pointer=adding[member.guid])
    require_no_cycle(client, group, nested)

    delta = _members_delta(added, removed, kept=len(listed) - len(removed))
    risk, why_risky = Risk.ORDINARY, None
    if added:
        risk, why_risky = Risk.SECURITY, message("it adds members to the group")
    elif removed:
        risk, why_risky = Risk.DESTRUCTIVE, message("it removes members from the group")
    answer: MembersChanged = {
        "added": len(added),
        "removed": len(removed),
        "unchanged": len(found) - len(added) - len(removed),
    }
    confirmed = frozenset(found[guid].dn for guid in (*adding, *removing) if (guid in adding) == (guid in members))
    identities = {member.dn: guid for guid, member in (joining | leaving).items()}
    proposal = propose_modify(call, group, delta, protected=protected, identities=identities)
    return replace(
        proposal,
        answer=lambda: answer,
        risk=risk,
        risk_reason=why_risky,
        post_check=cycle_post_check(client, proposal, nested),
        confirmed={"member": confirmed} if confirmed else {},
    )


def _read_lists(body: ChangeMembers) -> tuple[dict[UUID, str], dict[UUID, str]]:
    """The members to add and to remove, each once, with the JSON pointer to its first occurrence in the body."""
    adding: dict[UUID, str] = {}
    removing: dict[UUID, str] = {}
    for name, guids, found in (("add", body.add, adding), ("remove", body.remove, removing)):
        if len(guids) > MAX_VALUES:
            detail = message("more than {count} members", count=MAX_VALUES)
            raise errors.TooManyValues.naming(
                detail,
                pointer=f"#/{name}",
                subject=name,
                maxValues=MAX_VALUES,
            )
        for index, guid in enumerate(guids):
            found.setdefault(guid, f"#/{name}/{index}")
    for guid, pointer in removing.items():
        if guid in adding:
            raise InvalidRequest.naming(message("{guid} is also in the list to add", guid=guid), pointer=pointer)
    return adding, removing


def count_staying_members(client: Client, proposal: Proposal) -> Proposal:
    """Let a change of members tell how many stay as `memberCount` counts them, with those of its primary group."""
    if proposal.target.id is None or all(change.attribute.lower() != "member" for change in proposal.changes):
        return proposal
    group = client.find(proposal.target.id, ("objectSid", "member"))
    if group is None:
        return proposal
    (count,) = member_counts(client, Visibility.of(client, confidential=False, bases=None), [group])

    def counted(change: AttributeChange) -> AttributeChange:
        is_told = change.attribute.lower() == "member" and change.kept is not None
        return replace(change, kept=max(0, count - len(change.before))) if is_told else change

    return replace(proposal, changes=tuple(map(counted, proposal.changes)))


def _members_delta(added: Sequence[Entry], removed: Sequence[Entry], *, kept: int) -> Delta:
    """The changes that add and remove members; `kept` is the number of members that stay in `member`."""
    names_before, names_after = (tuple(member.dn for member in members) for members in (removed, added))
    steps = (
        Modification("delete", "member", tuple(map(str.encode, names_before))),
        Modification("add", "member", tuple(map(str.encode, names_after))),
    )
    delta = Delta([step for step in steps if step.values])
    if delta.modifications:  # the log records added and removed members only (docs/api.md#log-records)
        delta.changes.append(AttributeChange("member", names_before, names_after, kept=kept))
    return delta


def require_members_allowed(call: Call, group: Entry, delta: Delta, identities: Mapping[str, UUID]) -> list[Entry]:
    """Check the members that a change adds and removes; return those added. `group` was read with NESTING_ATTRIBUTES.

    `identities` maps names to objectGUIDs. An account whose primary group this is counts as a member already, so its
    addition is dropped from the delta. Raises Forbidden when a member is outside the caller's scopes, GroupCycle when
    the group would contain itself, DirectoryRejected when its scope does not allow a member.
    """
    steps = [step for step in delta.modifications if step.attribute.lower() == "member"]
    if not steps:
        return []
    client = client_of(call)
    names = [name.decode() for step in steps if step.op != "delete" for name in step.values]
    added = _find_members(client, names, identities)
    all_names = [name.decode() for step in steps for name in step.values]
    require_inside_scopes(call, *all_names, *(member.dn for member in added))
    if already := accounts_with_primary_group(group, added):
        _drop_additions(delta, {DistinguishedName.parse(member.dn) for member in added if member.guid in already})
        added = [member for member in added if member.guid not in already]
    if complaint := find_scope_violation(group, added):
        raise errors.DirectoryRejected(complaint[1])
    require_no_cycle(client, group, added)
    return added


def require_new_members_allowed(
    call: Call, values: Mapping[str, Sequence[bytes]], identities: Mapping[str, UUID]
) -> None:
    """Check the members of a new group with these values. Raises Forbidden and DirectoryRejected."""
    if "member" not in values:
        return
    names = [name.decode() for name in values["member"]]
    added = _find_members(client_of(call), names, identities)
    require_inside_scopes(call, *names, *(member.dn for member in added))
    group = Entry("", {"groupType": list(values.get("groupType", _DEFAULT_GROUP_TYPE))})
    if complaint := find_scope_violation(group, added):
        raise errors.DirectoryRejected(complaint[1])


def _find_members(client: Client, names: Sequence[str], identities: Mapping[str, UUID]) -> list[Entry]:
    """The objects to become members: by their resolved objectGUIDs, so that a rename does no harm, else by name."""
    resolved = client.read_many([identities[name] for name in names if name in identities], MEMBER_ATTRIBUTES)
    unresolved = (Equals("distinguishedName", name) for name in names if name not in identities)
    return [*resolved.values(), *client.find_any(unresolved, MEMBER_ATTRIBUTES)]


def _drop_additions(delta: Delta, members: Collection[DistinguishedName]) -> None:
    """Remove the additions of these members from a delta."""

    def others(names: Iterable[str]) -> list[str]:
        return [name for name in names if DistinguishedName.parse(name) not in members]

    for index, step in enumerate(delta.modifications):
        if step.attribute.lower() == "member" and step.op == "add":
            values = tuple(name.encode() for name in others(value.decode() for value in step.values))
            delta.modifications[index] = replace(step, values=values)
    delta.modifications[:] = [step for step in delta.modifications if step.values or step.op != "add"]
    for index, change in enumerate(delta.changes):
        if change.attribute.lower() == "member":
            delta.changes[index] = replace(change, after=tuple(others(change.after)))
    delta.changes[:] = [change for change in delta.changes if change.before or change.after]


def cycle_post_check(
    client: Client, proposal: Proposal, added: Collection[Entry]
) -> Callable[[], Rollback | None] | None:
    """The post-check (`Proposal.post_check`) of a change that nests groups into a group; None if it nests none.

    Two concurrent changes may nest groups into each other, and neither can see the other in advance: LDAP has no guard
    over two objects, and a lock would bind the gateway's own changes only. So every change that nests a group checks
    again afterwards. At least the last of the changes that close a cycle sees it, and every one that does is rolled
    back.
    """
    nested = [member for member in added if is_group(member)]
    target, write, identities = proposal.target, proposal.write, proposal.identities
    if target.id is None or not isinstance(write, Modify) or not nested:
        return None
    guid = target.id

    def check() -> Rollback | None:
        group = client.find(guid, (*NESTING_ATTRIBUTES, *EVIDENCE_ATTRIBUTES))
        if group is None:
            return None
        try:
            require_no_cycle(client, group, nested)
        except errors.GroupCycle as refusal:
            undoing = _inverse_modify(write)
            change = DependentChange(
                operation="groups.update",
                target=target,
                changes=tuple(AttributeChange(each.attribute, each.after, each.before) for each in proposal.changes),
                write=undoing,
                evidence=evidence_of(undoing, entry=group, schema=client.schema, identities=identities),
                identities=identities,
            )
            return Rollback(change, refusal)
        return None

    return check


def _inverse_modify(write: Modify) -> Modify:
    """The guarded modify that undoes another one, which added and removed single values."""
    steps = tuple(
        Modification("add" if step.op == "delete" else "delete", step.attribute, step.values)
        for step in reversed(write.modifications)
    )
    return Modify(write.dn, steps, guarded=True)
