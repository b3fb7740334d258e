"""Operations on deleted objects: search, read, restore."""

from uuid import UUID

from pydantic import Field

from core.call import Call
from core.operation import Effect, RateCategory, Risk, Target, operation
from core.paging import Page
from core.shapes import Body, example
from directory.changes.restore import propose_restore
from directory.lookup.access import parse_reference
from directory.queries.deleted_objects import DeletedObject, deleted_search, read_deleted
from directory.queries.searches.definitions import SearchQuery
from directory.queries.searches.search import run_search
from directory.shapes.inputs import AnyName, ReadQuery
from directory.shapes.proposal import Proposal
from directory.shapes.record import DirectoryObject


class RestoreDeletedObject(Body):
    """The parent and the name with which to restore the object."""

    model_config = example(parent="OU=Staff,DC=corp,DC=example,DC=com", name="Ada Lovelace")

    parent: str | None = Field(
        None, min_length=1, description="UUID or distinguished name; default the last known parent."
    )
    name: AnyName | None = Field(None, description="Default the last known name.")


@operation(
    "deleted-objects.search",
    "GET ad/deleted-objects",
    "Search deleted objects",
    permission="directory.read_deleted",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
    output=Page[DeletedObject],
)
def search_deleted_objects(call: Call, *, query: SearchQuery) -> Page[DirectoryObject]:
    """Search deleted objects by text, filter and last known parent."""
    return run_search(call, deleted_search(call), query)


@operation(
    "deleted-objects.read",
    "GET ad/deleted-objects/{id}",
    "Read {a deleted object}",
    permission="directory.read_deleted",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def read_deleted_object(call: Call, *, id: UUID, query: ReadQuery) -> DeletedObject:
    """Read one deleted object."""
    return read_deleted(call, id, attributes=query.attributes)


@operation(
    "deleted-objects.restore",
    "POST ad/deleted-objects/{id}/restore",
    "Restore {a deleted object}",
    permission="directory.restore_deleted",
    target=Target.OBJECT,
    inverse="delete",
    effect=Effect.CHANGE,
    risk=Risk.SECURITY,
    output=DirectoryObject,
)
def restore_deleted_object(call: Call, *, id: UUID, body: RestoreDeletedObject) -> Proposal:
    """Restore a deleted object, with what the recycle bin or the operations log has kept of it.

    The dry run tells what comes back and what stays lost. Without the recycle bin memberships are given back one by one
    after the object, each with a record of its own; `memberOf` of the answer shows those that are there.
    """
    parent = None if body.parent is None else parse_reference(body.parent, pointer="#/parent")
    return propose_restore(call, id=id, parent=parent, name=body.name)
