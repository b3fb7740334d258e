"""Operations on groups: read, search, look-up by name, create, update, delete, move, rename, members."""

from uuid import UUID

from directory.changes.create import NewGroup, propose_create
from directory.changes.delete import propose_delete
from directory.changes.membership import MembersChanged, propose_members
from directory.changes.move import propose_move, propose_rename
from directory.changes.update import propose_update
from directory.lookup.access import parse_reference
from directory.queries.member_lists import MembershipQuery, list_groups, list_members
from directory.queries.reading import read_by_name, read_record
from directory.queries.searches.definitions import SEARCHES
from directory.queries.searches.search import SearchQuery, run_search
from directory.shapes.inputs import (
    ByDnQuery,
    ChangeMembers,
    CreateGroup,
    DeleteQuery,
    MoveObject,
    ReadQuery,
    RenameObject,
    UpdateGroup,
)
from directory.shapes.kinds import KINDS_OF_RESOURCE
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject
from gateway.core.call import Call
from gateway.core.operation import Effect, RateCategory, Risk, operation
from gateway.core.paging import Page


@operation(
    "groups.search",
    "GET ad/groups",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=SearchQuery,
    output=Page[DirectoryObject],
)
def search_groups(call: Call, *, query: SearchQuery) -> Page[DirectoryObject]:
    """Search groups by text, filter and place."""
    return run_search(call, SEARCHES["groups"], query)


@operation(
    "groups.read-by-dn",
    "GET ad/groups/by-dn",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=ByDnQuery,
    output=DirectoryObject,
)
def read_group_by_dn(call: Call, *, query: ByDnQuery) -> DirectoryObject:
    """Look up one group by distinguished name."""
    return read_by_name(call, query.dn, kinds=KINDS_OF_RESOURCE["groups"], attributes=query.attributes)


@operation(
    "groups.read", "GET ad/groups/{id}", permission="directory.read_object", query=ReadQuery, output=DirectoryObject
)
def read_group(call: Call, *, id: UUID, query: ReadQuery) -> DirectoryObject:
    """Read one group."""
    return read_record(call, id, kinds=KINDS_OF_RESOURCE["groups"], attributes=query.attributes)


@operation(
    "groups.create",
    "POST ad/groups",
    permission="directory.create_group",
    effect=Effect.CHANGE,
    body=CreateGroup,
    output=DirectoryObject,
    batchable=True,
)
def create_group(call: Call, *, body: CreateGroup) -> Proposal:
    """Create a group."""
    return propose_create(
        call,
        object_class="group",
        name=body.name,
        parent=parse_reference(body.parent, pointer="#/parent"),
        updates=body,
        group=NewGroup(
            sam_account_name=body.sam_account_name,
            scope=body.scope,
            category=body.type,
            sent=body.model_fields_set & {"scope", "type"},
        ),
    )


@operation(
    "groups.update",
    "PATCH ad/groups/{id}",
    permission="directory.update_group",
    effect=Effect.CHANGE,
    body=UpdateGroup,
    output=DirectoryObject,
    batchable=True,
)
def update_group(call: Call, *, id: UUID, body: UpdateGroup) -> Proposal:
    """Update attributes, scope and type of a group, all in one atomic change."""
    return propose_update(call, resource="groups", id=id, updates=body, group=body.group)


@operation(
    "groups.delete",
    "DELETE ad/groups/{id}",
    permission="directory.delete_group",
    effect=Effect.CHANGE,
    risk=Risk.DESTRUCTIVE,
    query=DeleteQuery,
    batchable=True,
)
def delete_group(call: Call, *, id: UUID, query: DeleteQuery) -> Proposal:
    """Delete a group."""
    return propose_delete(call, resource="groups", id=id, recursive=query.recursive)


@operation(
    "groups.move",
    "POST ad/groups/{id}/move",
    permission="directory.move_object",
    effect=Effect.CHANGE,
    body=MoveObject,
    output=DirectoryObject,
)
def move_group(call: Call, *, id: UUID, body: MoveObject) -> Proposal:
    """Move a group to another parent."""
    return propose_move(call, resource="groups", id=id, parent=parse_reference(body.parent, pointer="#/parent"))


@operation(
    "groups.rename",
    "POST ad/groups/{id}/rename",
    permission="directory.update_group",
    effect=Effect.CHANGE,
    body=RenameObject,
    output=DirectoryObject,
)
def rename_group(call: Call, *, id: UUID, body: RenameObject) -> Proposal:
    """Give a group another name.

    Its sAMAccountName stays as it is.
    """
    return propose_rename(call, resource="groups", id=id, name=body.name)


@operation(
    "groups.list-members",
    "GET ad/groups/{id}/members",
    permission="directory.read_object",
    query=MembershipQuery,
    output=Page[DirectoryObject],
)
def list_members_of_group(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """List the members of a group, those who have it for their primary group included."""
    return list_members(call, id=id, query=query)


@operation(
    "groups.change-members",
    "POST ad/groups/{id}/members",
    permission="directory.manage_membership",
    effect=Effect.CHANGE,
    body=ChangeMembers,
    output=MembersChanged,
)
def change_members_of_group(call: Call, *, id: UUID, body: ChangeMembers) -> Proposal:
    """Add members to a group and remove others from it, all in one atomic change."""
    return propose_members(call, id=id, body=body)


@operation(
    "groups.list-groups",
    "GET ad/groups/{id}/groups",
    permission="directory.read_object",
    query=MembershipQuery,
    output=Page[DirectoryObject],
)
def list_groups_of_group(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """List the groups a group belongs to."""
    return list_groups(call, resource="groups", id=id, query=query)
