"""The proposal to add members to a group and to remove others from it, all in one atomic modify."""

from typing import Literal
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import Modification
from core.call import Call
from core.errors import InvalidRequest
from core.operation import Risk
from core.text.messages import message
from directory import errors
from directory.changes.checks.group_cycles import cycle_check
from directory.changes.targets import find_target, guarded_modify, target_of
from directory.groups.ancestry import NESTING_ATTRIBUTES
from directory.groups.nesting import (
    MEMBER_ATTRIBUTES,
    complaint_about_scopes,
    is_group,
    require_no_cycle,
    those_with_primary_group,
)
from directory.lookup.access import client_of, find_objects
from directory.outcomes.evidence import evidence_of
from directory.shapes.attribute_updates import MAX_VALUES
from directory.shapes.inputs import ChangeMembers
from directory.shapes.proposal import AttributeChange, Proposal


class MembersChanged(TypedDict):
    """How many members came and went, and how many were as asked already."""

    added: int
    removed: int
    unchanged: int


def propose_members(call: Call, *, id: UUID, body: ChangeMembers) -> Proposal:
    """Add and remove what really changes. Its values guard the modify: a membership changed meanwhile is a lost race.

    Raises TooManyValues, InvalidRequest for an object in both lists, ObjectNotFound naming the one that does not exist,
    Forbidden when one is outside the caller's scopes, PrimaryGroup, GroupCycle, and DirectoryRejected when the scopes
    of groups forbid a member.
    """
    adding, removing = _read(body)
    client = client_of(call)
    find_members = find_objects(call, (*adding, *removing), attributes=MEMBER_ATTRIBUTES)
    group, protected = find_target(call, "groups", id, *NESTING_ATTRIBUTES, "member")
    found = find_members()
    for guid, where in (adding | removing).items():
        if guid not in found:
            raise errors.ObjectNotFound.naming(message("there is no object {guid}", guid=guid), pointer=where)

    fixed = those_with_primary_group(group, found.values())
    for guid in fixed & removing.keys():
        raise errors.PrimaryGroup.naming(
            message("it is the primary group of {dn}", dn=found[guid].dn), pointer=removing[guid]
        )
    listed = frozenset(group.values("member"))  # the directory spells a name in one way wherever it occurs
    members = fixed | {guid for guid, entry in found.items() if entry.dn.encode() in listed} if listed else fixed
    added = [found[guid] for guid in adding if guid not in members]
    removed = [found[guid] for guid in removing if guid in members]
    nested = [member for member in added if is_group(member)]
    if complaint := complaint_about_scopes(group, added):
        member, reason = complaint
        raise errors.DirectoryRejected.naming(reason, pointer=adding[member.guid])
    require_no_cycle(client, group, nested)

    gone, come = (tuple(member.dn for member in members) for members in (removed, added))
    sides: tuple[tuple[Literal["delete", "add"], tuple[str, ...]], ...] = (("delete", gone), ("add", come))
    steps = [Modification(op, "member", tuple(map(str.encode, names))) for op, names in sides if names]
    write = guarded_modify(group, steps)
    # A membership is recorded as what was added and removed (docs/api.md#log-records).
    changes = (AttributeChange("member", gone, come, kept=len(listed) - len(removed)),) if write else ()
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
    target = target_of(group)
    identities = {member.dn: member.guid for member in (*added, *removed)}
    return Proposal(
        target=target,
        changes=changes,
        write=write,
        answer=lambda: answer,
        protected=protected,
        risk=risk,
        risk_reason=why_risky,
        evidence=evidence_of(write, entry=group, schema=client.schema, identities=identities) if write else {},
        identities=identities,
        post_check=cycle_check(client, target, nested, write, changes, identities=identities),
    )


def _read(body: ChangeMembers) -> tuple[dict[UUID, str], dict[UUID, str]]:
    """Whom to add and whom to remove, each once, with the pointer to where the body says so first."""
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
    for guid, where in removing.items():
        if guid in adding:
            raise InvalidRequest.naming(message("{guid} is also in the list to add", guid=guid), pointer=where)
    return adding, removing
