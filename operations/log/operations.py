"""Reading the operations log, how much it holds, and how far it is sealed. Writing it is `audit.log`'s."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, cast
from uuid import UUID

from django.db.models import Case, Count, OuterRef, Q, QuerySet, Subquery, When
from django.utils import timezone
from pydantic import Field

from approvals.models import ChangeRequest, Status
from audit import log_search, security, statistics
from audit.chain import checkpoint, head_export, sealing, verification, verification_requests
from audit.chain.verification import why_doubted
from audit.identifiers import identifier_bounds
from audit.models import OperationRecord, Outcome
from audit.overview_shapes import (
    ChainJson,
    LogStatisticsJson,
    VerificationBegunJson,
    verification_as_json,
)
from audit.reverts import BEGINNING, reverted_by
from audit.shapes import (
    FoldedJson,
    FoundRecordJson,
    KnownRecordJson,
    OneRecordJson,
    OwnChangeJson,
    RecordJson,
    own_change_as_json,
    record_as_json,
)
from core.call import Call, Surface
from core.errors import InvalidRequest, NotFound
from core.operation import NO_INVERSE, SIGNED_IN, Effect, Target, operation
from core.paging import Page, PageQuery, page_of
from core.shapes import WHOLE_NUMBER, Flag, Guid, Query, Timestamp, render_timestamp
from core.streams import RecordStream
from core.text.messages import message
from directory.changes.revert import NotRevertible, Reverted, propose_revert
from directory.lookup.access import named_inside_scopes
from directory.lookup.visibility import changes_seen_by, hidden_attributes
from directory.shapes.proposal import Proposal
from keys.models import Person

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
    call_id: Annotated[
        Guid | None, Field(description="The request that made the changes, by the gateway's own identifier.")
    ] = None
    run_id: Annotated[Guid | None, Field(description="The run over an organizational unit's accounts.")] = None
    raises_access: Annotated[
        Flag | None,
        Field(description="Only changes of the gateway's own tables that let somebody do more; false: only others."),
    ] = None
    only_changes: Annotated[Flag, Field(description="Leave out the records of reads.")] = False
    q: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="Words that all occur in the object's name, the person, the key or what was done.",
        ),
    ] = None
    attribute: Annotated[str | None, Field(max_length=100, description="An attribute that was to be changed.")] = None
    value: Annotated[
        str | None,
        Field(min_length=1, max_length=200, description="A text in a value before or after, in any case of letters."),
    ] = None
    fold: Annotated[Flag, Field(description="Of each run and each batch only the newest record, with `together`.")] = (
        False
    )


class ReadStatistics(Query):
    """How far back to count."""

    days: Annotated[
        int, Field(ge=1, le=90, description="Days (UTC) to count, today the last of them."), WHOLE_NUMBER
    ] = 14


_COLUMNS = {
    **{name: name for name in ("owner", "key_name", "operation", "outcome", "request_id", "call_id", "run_id")},
    "target": "target_id",
}
"""The filters that compare a column with their value."""


def visible_records(call: Call) -> QuerySet[OperationRecord]:
    """What the caller may see of the log: all of it, or inside scopes the records of targets inside them."""
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
        answer: RecordJson = {**record_as_json(record), "changes": seen(record.directory_id, record.changes)}
        if status := getattr(record, "request_status", None):
            answer["changeRequestStatus"] = status
        return answer

    return render


def _people_called(word: str) -> QuerySet[Any]:
    return Person.objects.filter(display_name__icontains=word).values("username")


def _of_values(call: Call, records: QuerySet[OperationRecord], query: SearchOperations) -> QuerySet[OperationRecord]:
    """By attribute and value, as far as the caller would be shown the value."""
    if query.value is None:
        return log_search.of_values(records, attribute=query.attribute, value=None)
    if call.scopes:  # which values of others they may see is decided value by value
        detail = message("cannot be searched for inside scopes")
        raise InvalidRequest.naming(detail, parameter="value")
    hidden, unreadable = hidden_attributes(call)
    if unreadable:
        records = records.exclude(directory_id__in=unreadable)
    return log_search.of_values(records, attribute=query.attribute, value=query.value, hidden=hidden)


def _with_request_status(records: QuerySet[OperationRecord]) -> QuerySet[OperationRecord]:
    status = ChangeRequest.objects.filter(pk=OuterRef("change_request_id")).values("status")[:1]
    return records.annotate(request_status=Case(When(outcome=Outcome.QUEUED, then=Subquery(status))))


def _note_reverts(items: Iterable[KnownRecordJson]) -> None:
    """Add to the records of changes that were taken back which record that is: the first that succeeded."""
    changed = [item for item in items if item["target"] and item["outcome"] == Outcome.SUCCEEDED]
    if not changed:
        return
    reverts = OperationRecord.objects.filter(outcome=Outcome.SUCCEEDED, reason__startswith=BEGINNING)
    of_them = reverts.filter(target_id__in={item["target"]["id"] for item in changed if item["target"]})
    later = of_them.filter(id__gt=min(item["id"] for item in changed)).order_by("-id")
    found = {reverted_by(reason): id for id, reason in later.values_list("id", "reason")}
    for item in changed:
        if (revert := found.get(UUID(item["id"]))) is not None:
            item["revertedBy"] = str(revert)


def _note_together(items: list[FoundRecordJson], records: QuerySet[OperationRecord]) -> None:
    """Add to the records that stand for their run or batch what is in it."""
    runs = {item["runId"] for item in items if item["runId"]}
    batches = {item["callId"] for item in items if item["batchIndex"] is not None and "callId" in item}
    of_them = records.filter(Q(run_id__in=runs) | Q(call_id__in=batches, batch_index__isnull=False)).order_by()
    rows = of_them.values_list("run_id", "call_id", "operation", "outcome")
    counted: dict[str, FoldedJson] = {}
    for run, batch, name, outcome, count in rows.annotate(count=Count("id")):
        together = counted.setdefault(str(run or batch), {"count": 0, "failed": 0, "operations": []})
        together["count"] += count
        together["failed"] += count if outcome == Outcome.FAILED else 0
        together["operations"] = sorted({*together["operations"], name})
    for item in items:
        whole = item["runId"] or (item.get("callId") if item["batchIndex"] is not None else None)
        if whole in counted and counted[whole]["count"] > 1:
            item["together"] = counted[whole]


def _filtered(records: QuerySet[OperationRecord], query: SearchOperations) -> QuerySet[OperationRecord]:
    for parameter, column in _COLUMNS.items():
        value: Any = getattr(query, parameter)
        if value is not None:
            records = records.filter(**{column: value})
    if query.raises_access is not None:
        records = records.filter(raised_access__isnull=not query.raises_access)
    if query.only_changes:
        records = statistics.only_changes(records)
    if query.q is not None:
        records = log_search.of_words(records, query.q, people=_people_called)
    # An identifier holds its moment, so that a time range is a range of the key the list is read by.
    if query.from_ is not None:
        records = records.filter(at__gte=query.from_, id__gte=identifier_bounds(query.from_)[0])
    if query.to is not None:
        records = records.filter(at__lte=query.to, id__lte=identifier_bounds(query.to)[1])
    return records


@operation(
    "operations.search",
    "GET operations",
    "Search the operations log",
    permission="audit.read_log",
    query=SearchOperations,
    output=Page[FoundRecordJson],
)
def search_operations(call: Call, *, query: SearchOperations) -> Page[FoundRecordJson]:
    """List the operations log, newest first.

    Inside scopes only records whose target lies inside them are found. The records are not counted.
    """
    matching = _of_values(call, _filtered(visible_records(call), query), query)
    records = _with_request_status(log_search.folded(matching) if query.fold else matching)
    seen = renderer_for(call)

    def render(record: OperationRecord) -> FoundRecordJson:
        return cast(FoundRecordJson, seen(record))

    found = page_of(call, records, query=query, order=("-id",), render=render, counted=False)
    if call.stream_as is not None:
        cast(RecordStream, found).absent |= {"together", "revertedBy"}
        return found
    _note_reverts(found["items"])
    if query.fold:
        _note_together(found["items"], matching)
    return found


@operation(
    "operations.read-statistics",
    "GET operations/statistics",
    "Read the statistics of the operations log",
    permission="audit.read_log",
    query=ReadStatistics,
    output=LogStatisticsJson,
    surfaces=REST_ONLY,
)
def read_statistics(call: Call, *, query: ReadStatistics) -> LogStatisticsJson:
    """Read how many changes were made each day and how they ended, and which keys did how much.

    `keys` are the ten that did most, reads included; `otherKeys` are the others together, `persons` what was done
    without a key. A day's `queued` are those that still wait for a decision: the others became something else. Under a
    role with scopes only records whose target lies inside them are counted.
    """
    records = visible_records(call)
    waiting = ChangeRequest.objects.filter(status=Status.PENDING, expires_at__gt=timezone.now()).values("pk")
    is_over = Q(outcome=Outcome.QUEUED, change_request_id__isnull=False) & ~Q(change_request_id__in=waiting)
    usage = statistics.count_usage(records, query.days)
    keys = [item for item in usage if item["keyName"]]
    return {
        "since": render_timestamp(statistics.first_day(query.days)) or "",
        "days": statistics.count_changes(records.exclude(is_over), query.days),
        "keys": keys[:KEYS_SHOWN],
        "otherKeys": statistics.added_up(keys[KEYS_SHOWN:]),
        "persons": statistics.added_up(item for item in usage if not item["keyName"]),
    }


@operation(
    "operations.read-chain",
    "GET operations/chain",
    "Read the chain of the operations log",
    permission="audit.read_log",
    output=ChainJson,
    surfaces=REST_ONLY,
)
def read_chain(call: Call) -> ChainJson:  # noqa: ARG001 - every operation takes its call
    """Read how far the operations log is sealed, and how it was verified last. This verifies nothing itself."""
    marked, unsealed = checkpoint.find_mark(), sealing.find_unsealed()
    return {
        "head": head_export.head(),
        "unsealed": unsealed.count,
        "oldestUnsealedAt": render_timestamp(unsealed.oldest),
        "refused": unsealed.refused,
        "missing": checkpoint.what_is_missing(marked) if marked and not checkpoint.is_held(marked) else None,
        "lastVerification": verification_as_json(verification.last_verification()),
        "verifying": verification_requests.is_under_way(),
    }


@operation(
    "operations.verify",
    "POST operations/verify",
    "Verify the operations log",
    permission="audit.read_log",
    output=VerificationBegunJson,
    surfaces=REST_ONLY,
)
def verify_operations(call: Call) -> VerificationBegunJson:
    """Have a worker verify the whole log now. What it finds is then in the state of the chain."""
    began = verification_requests.begin()
    if began:
        security.noted("verification of the operations log asked for", person=call.person.username)
    return {"began": began}


@operation(
    "operations.read",
    "GET operations/{id}",
    "Read {a record of the log}",
    permission="audit.read_log",
    output=OneRecordJson,
)
def read_operation(call: Call, *, id: UUID) -> OneRecordJson:
    """Read one record of the operations log."""
    record = _with_request_status(visible_records(call)).filter(id=id).first()
    if record is None:
        raise NotFound
    answer = cast(OneRecordJson, renderer_for(call)(record))
    _note_reverts([answer])
    if doubt := verification.why_doubted(record):
        answer["doubt"] = doubt
    return answer


@operation(
    "operations.read-own",
    "GET operations/{id}/outcome",
    "Read the outcome of {a change of one's own}",
    permission=SIGNED_IN,
    output=OwnChangeJson,
    surfaces=REST_ONLY,
)
def read_own_change(call: Call, *, id: UUID) -> OwnChangeJson:
    """Read how a change stands that you have asked for: one whose answer is late is followed by it."""
    own = statistics.only_changes(visible_records(call)).filter(owner_id=call.person.id)
    record = own.filter(id=id).first()
    if record is None:
        raise NotFound
    return own_change_as_json(record)


@operation(
    "operations.revert",
    "POST operations/{id}/revert",
    "Revert a change of {an object}",
    permission="audit.revert_change",
    target=Target.DIRECTORY,
    inverse=NO_INVERSE,
    effect=Effect.CHANGE,
    output=Reverted,
)
def revert_operation(call: Call, *, id: UUID) -> Proposal:
    """Revert a change: make the inverse one, if the directory still is as the change left it.

    It needs the permissions of the inverse change besides its own, and is held, checked and recorded like that one: a
    create is reverted by a delete, a delete by a restore that gives back what the recycle bin or the log has kept, and
    an enable by a disable. The new record has the inverse operation's name, and its reason names the record reverted.
    Of a membership those are put back who are still as the change left them; for other values that have changed since,
    `differences` of the problem tells what was expected and what there is.
    """
    record = visible_records(call).filter(id=id).first()
    if record is None:
        raise NotFound
    if doubt := why_doubted(record):
        raise NotRevertible(
            message("The record is not to be trusted, and so nothing is made of it. {doubt}", doubt=doubt)
        )
    return propose_revert(call, record)
