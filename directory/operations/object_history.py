"""The history of one object: its records of the operations log. The log itself is read in `audit.operations`."""

from uuid import UUID

from audit.operations.operations_log import renderer_for, visible_records
from audit.shapes import RecordJson
from directory import errors
from directory.lookup.access import find_object
from directory.queries.deleted_objects import find_deleted
from gateway.core.call import Call
from gateway.core.operation import Target, operation
from gateway.core.paging import Page, PageQuery, page_of


@operation(
    "objects.history",
    "GET ad/objects/{id}/history",
    permission="audit.read_log",
    target=Target.OBJECT,
    query=PageQuery,
    output=Page[RecordJson],
)
def read_history(call: Call, *, id: UUID, query: PageQuery) -> Page[RecordJson]:
    """List an object's records of the operations log, newest first, also when the object is deleted.

    Under a role with scopes the records made while it was inside them are found. The records are not counted.
    """
    assert call.directory is not None
    records = visible_records(call).filter(directory_id=call.directory.id, target_id=id)
    if query.cursor is None and not records.exists():
        _require_known(call, id)
    return page_of(
        call,
        records,
        query=query,
        order=("-id",),
        render=renderer_for(call),
        counted=False,
        bound_to=f"history of {id}",
    )


def _require_known(call: Call, id: UUID) -> None:
    """An object without records has an empty history, also a deleted one; one that never was has none."""
    try:
        find_object(call, id)
    except errors.ObjectNotFound:
        find_deleted(call, id)
