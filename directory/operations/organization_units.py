"""Operations on organizational units: read, search, look-up by name, create, update, delete, move, rename."""

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
    CreateOrganizationalUnit,
    DeleteQuery,
    MoveObject,
    ReadQuery,
    RenameObject,
    UpdateOrganizationalUnit,
)
from directory.shapes.kinds import KINDS_OF_RESOURCE
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject
from gateway.core.call import Call
from gateway.core.operation import Effect, RateCategory, Risk, operation
from gateway.core.paging import Page


@operation(
    "organization-units.search",
    "GET ad/organization-units",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=SearchQuery,
    output=Page[DirectoryObject],
)
def search_organizational_units(call: Call, *, query: SearchQuery) -> Page[DirectoryObject]:
    """Search organizational units by text, filter and place."""
    return run_search(call, SEARCHES["organization-units"], query)


@operation(
    "organization-units.read-by-dn",
    "GET ad/organization-units/by-dn",
    permission="directory.read_object",
    rate=RateCategory.DIRECTORY_SEARCH,
    query=ByDnQuery,
    output=DirectoryObject,
)
def read_organizational_unit_by_dn(call: Call, *, query: ByDnQuery) -> DirectoryObject:
    """Look up one organizational unit by distinguished name."""
    return read_by_name(call, query.dn, kinds=KINDS_OF_RESOURCE["organization-units"], attributes=query.attributes)


@operation(
    "organization-units.read",
    "GET ad/organization-units/{id}",
    permission="directory.read_object",
    query=ReadQuery,
    output=DirectoryObject,
)
def read_organizational_unit(call: Call, *, id: UUID, query: ReadQuery) -> DirectoryObject:
    """Read one organizational unit."""
    return read_record(call, id, kinds=KINDS_OF_RESOURCE["organization-units"], attributes=query.attributes)


@operation(
    "organization-units.create",
    "POST ad/organization-units",
    permission="directory.create_organizationalunit",
    effect=Effect.CHANGE,
    body=CreateOrganizationalUnit,
    output=DirectoryObject,
    batchable=True,
)
def create_organizational_unit(call: Call, *, body: CreateOrganizationalUnit) -> Proposal:
    """Create an organizational unit."""
    return propose_create(
        call,
        object_class="organizationalUnit",
        name=body.name,
        parent=parse_reference(body.parent, pointer="#/parent"),
        updates=body,
    )


@operation(
    "organization-units.update",
    "PATCH ad/organization-units/{id}",
    permission="directory.update_organizationalunit",
    effect=Effect.CHANGE,
    body=UpdateOrganizationalUnit,
    output=DirectoryObject,
    batchable=True,
)
def update_organizational_unit(call: Call, *, id: UUID, body: UpdateOrganizationalUnit) -> Proposal:
    """Update attributes of an organizational unit, all in one atomic change."""
    return propose_update(call, resource="organization-units", id=id, updates=body)


@operation(
    "organization-units.delete",
    "DELETE ad/organization-units/{id}",
    permission="directory.delete_organizationalunit",
    effect=Effect.CHANGE,
    risk=Risk.DESTRUCTIVE,
    query=DeleteQuery,
    batchable=True,
)
def delete_organizational_unit(call: Call, *, id: UUID, query: DeleteQuery) -> Proposal:
    """Delete an organizational unit."""
    return propose_delete(call, resource="organization-units", id=id, recursive=query.recursive)


@operation(
    "organization-units.move",
    "POST ad/organization-units/{id}/move",
    permission="directory.move_object",
    effect=Effect.CHANGE,
    risk=Risk.DESTRUCTIVE,
    body=MoveObject,
    output=DirectoryObject,
)
def move_organizational_unit(call: Call, *, id: UUID, body: MoveObject) -> Proposal:
    """Move an organizational unit to another parent."""
    return propose_move(
        call, resource="organization-units", id=id, parent=parse_reference(body.parent, pointer="#/parent")
    )


@operation(
    "organization-units.rename",
    "POST ad/organization-units/{id}/rename",
    permission="directory.update_organizationalunit",
    effect=Effect.CHANGE,
    body=RenameObject,
    output=DirectoryObject,
)
def rename_organizational_unit(call: Call, *, id: UUID, body: RenameObject) -> Proposal:
    """Give an organizational unit another name.

    The distinguished names of everything below change with it.
    """
    return propose_rename(call, resource="organization-units", id=id, name=body.name)
