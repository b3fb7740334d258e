"""Reading the operations log, how much it holds, and how far it is sealed. Writing it is `audit.log`'s."""

from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

from django.db.models import QuerySet
from pydantic import Field

from audit import statistics
from audit.chain import heads, mark, sealing, verification
from audit.identifiers import identifier_bounds
from audit.models import OperationRecord, Outcome
from audit.overview_shapes import ChainJson, LogStatisticsJson, day_as_json, usage_as_json, verification_as_json
from audit.shapes import RecordJson, record_as_json
from directory.lookup.access import named_inside_scopes
from directory.lookup.visibility import changes_seen_by
from gateway.core.call import Call, Surface
from gateway.core.errors import NotFound
from gateway.core.operation import operation
from gateway.core.paging import Page, PageQuery, page_of
from gateway.core.shapes import WHOLE_NUMBER, Flag, Guid, Query, Timestamp, render_timestamp

REST_ONLY = frozenset({Surface.REST})
KEYS_SHOWN = 10


class SearchOperations(PageQuery):
    """The filters of the log; several of them narrow each other down."""

    from_: Annotated[Timestamp | None, Field(alias="from", description="Records of this moment and later.")] = None
    to: Annotated[Timestamp | None, Field(description="Records of this moment and earlier.")] = None
    owner: Annotated[str | None, Field(description="User name of the person the credential acts as.")] = None
    key_name: Annotated[str | None, Field(description="Name of the API key or agent.")] = None
    operation: Annotated[str | None, Field(description="An operation's name, such as `users.update`.")] = None
    target: Annotated[
        Guid | None, Field(description="objectGUID of the object concerned, or the id of a key, role, person ….")
    ] = None
    outcome: Annotated[Outcome | None, Field(description="How it ended.")] = None
    request_id: Annotated[str | None, Field(description="X-Request-Id of the request.")] = None
    run_id: Annotated[Guid | None, Field(description="The run over an organizational unit's accounts.")] = None
    raises_access: Annotated[
        Flag | None,
        Field(description="Only changes of the gateway's own tables that let somebody do more; false: only others."),
    ] = None
    only_changes: Annotated[Flag, Field(description="Leave out the records of reads.")] = False


class ReadStatistics(Query):
    """How far back to count."""

    days: Annotated[
        int, Field(ge=1, le=90, description="Days (UTC) to count, today the last of them."), WHOLE_NUMBER
    ] = 14


_COLUMNS = {
    "owner": "owner",
    "key_name": "key_name",
    "operation": "operation",
    "target": "target_id",
    "outcome": "outcome",
    "request_id": "request_id",
    "run_id": "run_id",
}
"""The filters that compare a column with their value."""


def visible_records(call: Call) -> QuerySet[OperationRecord]:
    """What the caller may see of the log: all of it, or under a role with scopes the records of targets inside them."""
    records = OperationRecord.objects.all()
    if not call.scopes:
        return records
    if call.directory is None:
        return records.none()
    return records.filter(named_inside_scopes(call, "target_dn"), directory_id=call.directory.id)


def renderer_for(call: Call) -> Callable[[OperationRecord], RecordJson]:
    """What makes a record of the log as the caller may see it, with the values that the caller may see."""
    seen = changes_seen_by(call)

    def render(record: OperationRecord) -> RecordJson:
        return {**record_as_json(record), "changes": seen(record.directory_id, record.changes)}

    return render


def _filtered(records: QuerySet[OperationRecord], query: SearchOperations) -> QuerySet[OperationRecord]:
    for parameter, column in _COLUMNS.items():
        value: Any = getattr(query, parameter)
        if value is not None:
            records = records.filter(**{column: value})
    if query.raises_access is not None:
        records = records.filter(raised_access__isnull=not query.raises_access)
    if query.only_changes:
        records = statistics.only_changes(records)
    # An identifier holds its moment, so that a time range is a range of the key the list is read by.
    if query.from_ is not None:
        records = records.filter(at__gte=query.from_, id__gte=identifier_bounds(query.from_)[0])
    if query.to is not None:
        records = records.filter(at__lte=query.to, id__lte=identifier_bounds(query.to)[1])
    return records


@operation(
    "operations.search", "GET operations", permission="audit.read_log", query=SearchOperations, output=Page[RecordJson]
)
def search_operations(call: Call, *, query: SearchOperations) -> Page[RecordJson]:
    """List the operations log, newest first.

    Under a role with scopes only records whose target lies inside them are found. The records are not counted.
    """
    records = _filtered(visible_records(call), query)
    return page_of(call, records, query=query, order=("-id",), render=renderer_for(call), counted=False)


@operation(
    "operations.read-statistics",
    "GET operations/statistics",
    permission="audit.read_log",
    query=ReadStatistics,
    output=LogStatisticsJson,
    surfaces=REST_ONLY,
)
def read_statistics(call: Call, *, query: ReadStatistics) -> LogStatisticsJson:
    """Read how many changes were made each day and how they ended, and which keys did how much.

    `keys` are the ten that did most, reads included; `otherKeys` are the others together, `persons` what was done
    without a key. Under a role with scopes only records whose target lies inside them are counted.
    """
    records = visible_records(call)
    days = statistics.count_changes(records, query.days)
    usage = statistics.count_usage(records, query.days)
    keys = [item for item in usage if item.key_name]
    return {
        "since": render_timestamp(statistics.first_day(query.days)) or "",
        "days": [day_as_json(day) for day in days],
        "keys": [usage_as_json([item], key_name=item.key_name) for item in keys[:KEYS_SHOWN]],
        "otherKeys": usage_as_json(keys[KEYS_SHOWN:]),
        "persons": usage_as_json([item for item in usage if not item.key_name]),
    }


@operation(
    "operations.read-chain",
    "GET operations/chain",
    permission="audit.read_log",
    output=ChainJson,
    surfaces=REST_ONLY,
)
def read_chain(call: Call) -> ChainJson:  # noqa: ARG001 - every operation takes its call
    """Read how far the operations log is sealed, and how it was verified last. This verifies nothing itself."""
    marked, unsealed = mark.find_mark(), sealing.find_unsealed()
    return {
        "head": heads.head(),
        "unsealed": unsealed.count,
        "oldestUnsealedAt": render_timestamp(unsealed.oldest),
        "refused": unsealed.refused,
        "missing": mark.what_is_missing(marked) if marked and not mark.is_held(marked) else None,
        "lastVerification": verification_as_json(verification.last_verification()),
    }


@operation("operations.read", "GET operations/{id}", permission="audit.read_log", output=RecordJson)
def read_operation(call: Call, *, id: UUID) -> RecordJson:
    """Read one record of the operations log."""
    record = visible_records(call).filter(id=id).first()
    if record is None:
        raise NotFound
    return renderer_for(call)(record)
