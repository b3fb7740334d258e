"""Operations on computers: read, search, look up; create, update, delete; move, rename; enable, disable, unlock."""

from uuid import UUID

from directory.changes.accounts import propose_enabled, propose_unlocked
from directory.changes.create import NewAccount, propose_create
from directory.changes.delete import propose_delete
from directory.changes.move import propose_move, propose_rename
from directory.changes.update import propose_update
from directory.lookup.access import parse_reference
from directory.queries.member_lists import MembershipQuery, list_groups
from directory.queries.reading import read_by_name, read_record
from directory.queries.searches.definitions import SEARCHES
from directory.queries.searches.search import SearchQuery, run_search
from directory.shapes.inputs import (
    ByDnQuery,
    CreateComputer,
    DeleteQuery,
    MoveObject,
    ReadQuery,
    RenameObject,
    UpdateAccount,
)
from directory.shapes.kinds import KINDS_OF_RESOURCE
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject
from gateway.core.call import Call
from gateway.core.operation import Effect, RateCategory, Risk, operation
from gateway.core.paging import Page


@operation(
    "computers.search",
    "GET ad/computers",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=SearchQuery,
    output=Page[DirectoryObject],
)
def search_computers(call: Call, *, query: SearchQuery) -> Page[DirectoryObject]:
    """Search computers by text, filter and place."""
    return run_search(call, SEARCHES["computers"], query)


@operation(
    "computers.read-by-dn",
    "GET ad/computers/by-dn",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=ByDnQuery,
    output=DirectoryObject,
)
def read_computer_by_dn(call: Call, *, query: ByDnQuery) -> DirectoryObject:
    """Look up one computer by distinguished name."""
    return read_by_name(call, query.dn, kinds=KINDS_OF_RESOURCE["computers"], attributes=query.attributes)


@operation(
    "computers.read",
    "GET ad/computers/{id}",
    permission="directory.read_object",
    query=ReadQuery,
    output=DirectoryObject,
)
def read_computer(call: Call, *, id: UUID, query: ReadQuery) -> DirectoryObject:
    """Read one computer."""
    return read_record(call, id, kinds=KINDS_OF_RESOURCE["computers"], attributes=query.attributes)


@operation(
    "computers.create",
    "POST ad/computers",
    permission="directory.create_computer",
    effect=Effect.CHANGE,
    body=CreateComputer,
    output=DirectoryObject,
    batchable=True,
)
def create_computer(call: Call, *, body: CreateComputer) -> Proposal:
    """Create a computer account, disabled unless asked otherwise; an enabled one needs a password."""
    return propose_create(
        call,
        object_class="computer",
        name=body.name,
        parent=parse_reference(body.parent, pointer="#/parent"),
        updates=body,
        account=NewAccount(
            sam_account_name=body.sam_account_name,
            user_principal_name=body.user_principal_name,
            password=body.password,
            enabled=body.enabled,
            options=body.account,
        ),
    )


@operation(
    "computers.update",
    "PATCH ad/computers/{id}",
    permission="directory.update_computer",
    effect=Effect.CHANGE,
    body=UpdateAccount,
    output=DirectoryObject,
    batchable=True,
)
def update_computer(call: Call, *, id: UUID, body: UpdateAccount) -> Proposal:
    """Update attributes and account options of a computer, all in one atomic change."""
    return propose_update(call, resource="computers", id=id, updates=body, account=body.account)


@operation(
    "computers.delete",
    "DELETE ad/computers/{id}",
    permission="directory.delete_computer",
    effect=Effect.CHANGE,
    risk=Risk.DESTRUCTIVE,
    query=DeleteQuery,
    batchable=True,
)
def delete_computer(call: Call, *, id: UUID, query: DeleteQuery) -> Proposal:
    """Delete a computer."""
    return propose_delete(call, resource="computers", id=id, recursive=query.recursive)


@operation(
    "computers.enable",
    "POST ad/computers/{id}/enable",
    permission="directory.enable_account",
    effect=Effect.CHANGE,
    risk=Risk.SECURITY,
    output=DirectoryObject,
)
def enable_computer(call: Call, *, id: UUID) -> Proposal:
    """Enable a computer's account."""
    return propose_enabled(call, resource="computers", id=id, enabled=True)


@operation(
    "computers.disable",
    "POST ad/computers/{id}/disable",
    permission="directory.disable_account",
    effect=Effect.CHANGE,
    risk=Risk.DESTRUCTIVE,
    output=DirectoryObject,
)
def disable_computer(call: Call, *, id: UUID) -> Proposal:
    """Disable a computer's account."""
    return propose_enabled(call, resource="computers", id=id, enabled=False)


@operation(
    "computers.unlock",
    "POST ad/computers/{id}/unlock",
    permission="directory.unlock_account",
    effect=Effect.CHANGE,
    output=DirectoryObject,
)
def unlock_computer(call: Call, *, id: UUID) -> Proposal:
    """Unlock a computer's account after too many wrong passwords."""
    return propose_unlocked(call, resource="computers", id=id)


@operation(
    "computers.move",
    "POST ad/computers/{id}/move",
    permission="directory.move_object",
    effect=Effect.CHANGE,
    body=MoveObject,
    output=DirectoryObject,
)
def move_computer(call: Call, *, id: UUID, body: MoveObject) -> Proposal:
    """Move a computer to another parent."""
    return propose_move(call, resource="computers", id=id, parent=parse_reference(body.parent, pointer="#/parent"))


@operation(
    "computers.rename",
    "POST ad/computers/{id}/rename",
    permission="directory.update_computer",
    effect=Effect.CHANGE,
    body=RenameObject,
    output=DirectoryObject,
)
def rename_computer(call: Call, *, id: UUID, body: RenameObject) -> Proposal:
    """Give a computer another name.

    Only the object is renamed: sAMAccountName, dNSHostName and service principal names stay, and the machine keeps
    its name.
    """
    return propose_rename(call, resource="computers", id=id, name=body.name)


@operation(
    "computers.list-groups",
    "GET ad/computers/{id}/groups",
    permission="directory.read_object",
    query=MembershipQuery,
    output=Page[DirectoryObject],
)
def list_groups_of_computer(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """List the groups a computer belongs to, the primary group included."""
    return list_groups(call, resource="computers", id=id, query=query)
