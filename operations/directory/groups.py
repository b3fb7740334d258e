"""Operations on groups: those that every kind has, members, memberships."""

from uuid import UUID

from core.call import Call
from core.operation import Effect, Target, operation
from core.paging import Page
from directory.changes.membership import MembersChanged, propose_members
from directory.queries.member_lists import MembershipQuery, list_groups, list_members
from directory.shapes.inputs import ChangeMembers, CreateGroup, UpdateGroup
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject
from operations.directory.common_operations import declare_ordinary_operations

declare_ordinary_operations(
    "groups",
    create=CreateGroup,
    update=UpdateGroup,
    documentation={
        "update": "Update attributes, scope and type of a group, all in one atomic change.",
        "rename": """Give a group another name.

        Its sAMAccountName stays as it is.
        """,
    },
)


@operation(
    "groups.list-members",
    "GET ad/groups/{id}/members",
    "List the members of {a group}",
    permission="directory.read_object",
    target=Target.OBJECT,
)
def list_members_of_group(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """List the members of a group, those who have it for their primary group included."""
    return list_members(call, id=id, query=query)


@operation(
    "groups.change-members",
    "POST ad/groups/{id}/members",
    "Change the members of {a group}",
    permission="directory.manage_membership",
    target=Target.OBJECT,
    inverse="change-members",
    effect=Effect.CHANGE,
    output=MembersChanged,
)
def change_members_of_group(call: Call, *, id: UUID, body: ChangeMembers) -> Proposal:
    """Add members to a group and remove others from it, all in one atomic change."""
    return propose_members(call, id=id, body=body)


@operation(
    "groups.list-groups",
    "GET ad/groups/{id}/groups",
    "List the groups of {a group}",
    permission="directory.read_object",
    target=Target.OBJECT,
)
def list_groups_of_group(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """List the groups a group belongs to."""
    return list_groups(call, resource="groups", id=id, query=query)
