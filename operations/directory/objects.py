"""Operations on objects of any class: those that every kind has, access control and history."""

from uuid import UUID

from audit.bounded_search import page_of_records
from audit.shapes import RecordJson
from core.call import Call
from core.operation import RateCategory, Target, operation
from core.paging import PageQuery, SearchedPage
from directory import errors
from directory.lookup.access import find_object
from directory.queries import counts
from directory.queries.counts import CountQuery, Counts
from directory.queries.deleted_objects import find_deleted
from directory.security import access_control
from directory.security.access_control import AccessControl
from directory.shapes.inputs import CreateObject, UpdateObject
from operations.directory.common_operations import declare_ordinary_operations
from operations.log.operations import renderer_for, visible_records

declare_ordinary_operations(
    "objects",
    create=CreateObject,
    update=UpdateObject,
    documentation={
        "create": "Create an object of any structural class.",
        "rename": """Give an object of any class another name.

        The distinguished names of everything below change with it.
        """,
    },
    batchable=False,
)


@operation(
    "objects.count",
    "GET ad/objects/count",
    "Count objects",
    permission="directory.read_object",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def count_objects(call: Call, *, query: CountQuery) -> Counts:
    """Count objects of one kind, by the values of an attribute, by unit or by account state."""
    return counts.count_objects(call, query)


@operation(
    "objects.read-access-control",
    "GET ad/objects/{id}/access-control",
    "Read the access control of {an object}",
    permission="directory.read_acl",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def read_access_control(call: Call, *, id: UUID) -> AccessControl:
    """Read who may do what with an object: owner, group and access control list, resolved to names."""
    return access_control.read_access_control(call, id)


@operation(
    "objects.history",
    "GET ad/objects/{id}/history",
    "Read the history of {an object}",
    permission="audit.read_log",
    target=Target.OBJECT,
)
def read_history(call: Call, *, id: UUID, query: PageQuery) -> SearchedPage[RecordJson]:
    """List an object's records of the operations log, newest first, also when the object is deleted.

    Under a role with scopes the records made while it was inside them are found. The records are not counted.
    """
    assert call.directory is not None
    records = visible_records(call).filter(directory_id=call.directory.id, target_id=id)
    found = page_of_records(call, records, query=query, render=renderer_for(call), bound_to=f"history of {id}")
    if call.stream_as is not None:
        is_empty = not records.exists()
    else:
        is_empty = not found["items"] and found["nextCursor"] is None
    if query.cursor is None and is_empty:
        _require_known(call, id)
    return found


def _require_known(call: Call, id: UUID) -> None:
    """Raise ObjectNotFound unless the object exists or is deleted: its history may be empty, but it is known."""
    try:
        find_object(call, id)
    except errors.ObjectNotFound:
        find_deleted(call, id)
