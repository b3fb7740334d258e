"""Operations on objects of any class: read, search, look-up by name, create, update, delete, move, rename."""

from uuid import UUID

from directory.changes.create import propose_create
from directory.changes.delete import propose_delete
from directory.changes.move import propose_move, propose_rename
from directory.changes.update import propose_update
from directory.lookup.access import parse_reference
from directory.queries.reading import read_by_name, read_record
from directory.queries.searches.definitions import SEARCHES
from directory.queries.searches.search import SearchQuery, run_search
from directory.shapes.inputs import (
    ByDnQuery,
    CreateObject,
    DeleteQuery,
    MoveObject,
    ReadQuery,
    RenameObject,
    UpdateObject,
)
from directory.shapes.kinds import KINDS_OF_RESOURCE, permissions_for_any
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject
from gateway.core.call import Call
from gateway.core.operation import Effect, RateCategory, Risk, operation
from gateway.core.paging import Page


@operation(
    "objects.search",
    "GET ad/objects",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=SearchQuery,
    output=Page[DirectoryObject],
)
def search_objects(call: Call, *, query: SearchQuery) -> Page[DirectoryObject]:
    """Search objects of any class by text, filter and place."""
    return run_search(call, SEARCHES["objects"], query)


@operation(
    "objects.read-by-dn",
    "GET ad/objects/by-dn",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=ByDnQuery,
    output=DirectoryObject,
)
def read_object_by_dn(call: Call, *, query: ByDnQuery) -> DirectoryObject:
    """Look up one object of any class by distinguished name."""
    return read_by_name(call, query.dn, kinds=KINDS_OF_RESOURCE["objects"], attributes=query.attributes)


@operation(
    "objects.read", "GET ad/objects/{id}", permission="directory.read_object", query=ReadQuery, output=DirectoryObject
)
def read_object(call: Call, *, id: UUID, query: ReadQuery) -> DirectoryObject:
    """Read one object of any class."""
    return read_record(call, id, kinds=KINDS_OF_RESOURCE["objects"], attributes=query.attributes)


@operation(
    "objects.create",
    "POST ad/objects",
    permission=permissions_for_any("create"),
    effect=Effect.CHANGE,
    body=CreateObject,
    output=DirectoryObject,
)
def create_object(call: Call, *, body: CreateObject) -> Proposal:
    """Create an object of any structural class."""
    return propose_create(
        call,
        object_class=body.object_class,
        name=body.name,
        parent=parse_reference(body.parent, pointer="#/parent"),
        updates=body,
    )


@operation(
    "objects.update",
    "PATCH ad/objects/{id}",
    permission=permissions_for_any("update"),
    effect=Effect.CHANGE,
    body=UpdateObject,
    output=DirectoryObject,
)
def update_object(call: Call, *, id: UUID, body: UpdateObject) -> Proposal:
    """Update attributes of an object of any class, all in one atomic change."""
    return propose_update(call, resource="objects", id=id, updates=body, account=body.account, group=body.group)


@operation(
    "objects.delete",
    "DELETE ad/objects/{id}",
    permission=permissions_for_any("delete"),
    effect=Effect.CHANGE,
    risk=Risk.DESTRUCTIVE,
    query=DeleteQuery,
)
def delete_object(call: Call, *, id: UUID, query: DeleteQuery) -> Proposal:
    """Delete an object of any class."""
    return propose_delete(call, resource="objects", id=id, recursive=query.recursive)


@operation(
    "objects.move",
    "POST ad/objects/{id}/move",
    permission="directory.move_object",
    effect=Effect.CHANGE,
    body=MoveObject,
    output=DirectoryObject,
)
def move_object(call: Call, *, id: UUID, body: MoveObject) -> Proposal:
    """Move an object of any class to another parent."""
    return propose_move(call, resource="objects", id=id, parent=parse_reference(body.parent, pointer="#/parent"))


@operation(
    "objects.rename",
    "POST ad/objects/{id}/rename",
    permission=permissions_for_any("update"),
    effect=Effect.CHANGE,
    body=RenameObject,
    output=DirectoryObject,
)
def rename_object(call: Call, *, id: UUID, body: RenameObject) -> Proposal:
    """Give an object of any class another name.

    The distinguished names of everything below change with it.
    """
    return propose_rename(call, resource="objects", id=id, name=body.name)
