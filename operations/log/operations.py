"""Reading the operations log, its statistics and its chain, and reverting a change. `audit.log` writes the log."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, cast
from uuid import UUID

from django.db.models import Case, Count, OuterRef, Q, QuerySet, Subquery, When
from django.utils import timezone
from pydantic import Field

from approvals.models import ChangeRequest, Status
from audit import daily_counts, log_queries, security
from audit.bounded_search import Bounds, page_of_records
from audit.chain import checkpoint, sealing, verification, verifying
from audit.chain.verified_ranges import find_ranges
from audit.models import OperationRecord, Outcome
from audit.shapes import (
    ChainJson,
    FoldedJson,
    FoundRecordJson,
    KnownRecordJson,
    LogStatisticsJson,
    OneRecordJson,
    OwnChangeJson,
    OwnRecordJson,
    RecordJson,
    VerificationBegunJson,
    own_change_as_json,
    record_as_json,
    verification_as_json,
)
from core.call import Call, CredentialKind, RecordStream
from core.database import own_rows
from core.errors import InvalidRequest
from core.operation import NO_INVERSE, SIGNED_IN, Effect, Target, operation, rest_operation
from core.paging import PageQuery, SearchedPage
from core.shapes import WHOLE_NUMBER, Flag, Guid, Query, Timestamp, render_timestamp
from core.text.messages import message
from directory.changes.revert import NotRevertible, Reverted, propose_revert
from directory.lookup.access import inside_scopes_condition
from directory.lookup.visibility import hidden_attributes, masker_for_change_requests, masker_for_log
from directory.shapes.kinds import PERMISSION_SUFFIXES
from directory.shapes.proposal import Proposal
from keys.models import Person

_SHOWN_KEYS = 10


class SearchOperations(PageQuery):
    """The filters of the log; several of them narrow each other down."""

    from_: Timestamp | None = Field(None, alias="from", description="Records of this moment and later.")
    to: Timestamp | None = Field(None, description="Records of this moment and earlier.")
    owner: str | None = Field(None, description="User name of the person the credential acts as.")
    key_name: str | None = Field(None, description="Name of the API key or agent.")
    operation: str | None = Field(None, description="An operation's name, such as `users.update`.")
    target: Guid | None = Field(
        None, description="objectGUID of the object concerned, or the id of a key, role, person …."
    )
    outcome: Outcome | None = Field(None, description="How it ended.")
    request_id: str | None = Field(None, description="X-Request-Id of the request.")
    call_id: Guid | None = Field(
        None, description="The request that made the changes, by the gateway's own identifier."
    )
    run_id: Guid | None = Field(None, description="The run over an organizational unit's accounts.")
    raises_access: Flag | None = Field(
        None, description="Only changes of the gateway's own tables that let somebody do more; false: only others."
    )
    only_changes: Flag = Field(False, description="Leave out the records of reads.")
    q: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Words that all occur in the object's name, the person, the key or what was done.",
    )
    attribute: str | None = Field(None, max_length=100, description="An attribute that was to be changed.")
    value: str | None = Field(
        None, min_length=1, max_length=200, description="A text in a value before or after, in any case of letters."
    )
    fold: Flag = Field(False, description="Of each run and each batch only the newest record, with `together`.")


@operation("operations.search", "GET operations", "Search the operations log", permission="audit.read_log")
def search_operations(call: Call, *, query: SearchOperations) -> SearchedPage[FoundRecordJson]:
    """List the operations log, newest first.

    Inside scopes only records whose target lies inside them are found. The records are not counted. A search that has
    not filled its page after two seconds answers with what it has found, if anything, and with `searchedBackTo`; its
    `nextCursor` goes on from there.
    """
    indexed = _indexed_conditions(query)
    matching = _with_value(call, _filtered(visible_records(call).filter(**indexed), query), query)
    records = _with_request_status(log_queries.fold_runs_and_batches(matching) if query.fold else matching)
    seen = renderer_for(call)

    def render(record: OperationRecord) -> FoundRecordJson:
        return cast(FoundRecordJson, seen(record))

    # A caller inside scopes could tell from the time which keys and requests the rest of the log has.
    found = page_of_records(
        call,
        records,
        query=query,
        render=render,
        bounds=Bounds.of_time(query.from_, query.to),
        indexed={} if call.scopes else indexed,
    )
    if call.stream_as is not None:
        cast(RecordStream, found).absent |= {"together", "revertedBy"}
        return found
    _note_reverts(found["items"])
    if query.fold:
        _note_folded(found["items"], matching)
    return found


def visible_records(call: Call) -> QuerySet[OperationRecord]:
    """The records that the caller may see: all, or those of targets inside the caller's scopes."""
    records = OperationRecord.objects.all()
    if not call.scopes:
        return records
    if call.directory is None:
        return records.none()
    return records.filter(inside_scopes_condition(call, "target_dn"), directory_id=call.directory.id)


def _indexed_conditions(query: SearchOperations) -> dict[str, Any]:
    conditions = {
        "owner": query.owner,
        "key_name": query.key_name,
        "operation": query.operation,
        "target_id": query.target,
        "outcome": query.outcome,
        "request_id": query.request_id,
        "call_id": query.call_id,
        "run_id": query.run_id,
    }
    return {name: value for name, value in conditions.items() if value is not None}


def _filtered(records: QuerySet[OperationRecord], query: SearchOperations) -> QuerySet[OperationRecord]:
    if query.raises_access is not None:
        records = records.filter(raised_access__isnull=not query.raises_access)
    if query.only_changes:
        records = log_queries.only_changes(records)
    if query.q is not None:
        records = log_queries.filter_by_words(records, query.q, people=_people_called)
    return own_rows.filter_optional(records, at__gte=query.from_, at__lte=query.to)


def _people_called(word: str) -> QuerySet[Any]:
    return Person.objects.filter(own_rows.containing(word, "display_name")).values("username")


def _with_value(call: Call, records: QuerySet[OperationRecord], query: SearchOperations) -> QuerySet[OperationRecord]:
    """Filter by attribute and value, but never by values that the caller would not be shown."""
    if query.value is None:
        return log_queries.filter_by_values(records, attribute=query.attribute, value=None)
    if call.scopes:  # visibility is decided value by value, which no query can do
        detail = message("cannot be searched for inside scopes")
        raise InvalidRequest.naming(detail, parameter="value")
    hidden, unreadable = hidden_attributes(call)
    if unreadable:
        records = records.exclude(directory_id__in=unreadable)
    return log_queries.filter_by_values(records, attribute=query.attribute, value=query.value, hidden=hidden)


def _with_request_status(records: QuerySet[OperationRecord]) -> QuerySet[OperationRecord]:
    status = ChangeRequest.objects.filter(pk=OuterRef("change_request_id")).values("status")[:1]
    return records.annotate(request_status=Case(When(outcome=Outcome.QUEUED, then=Subquery(status))))


def renderer_for(call: Call) -> Callable[[OperationRecord], RecordJson]:
    """A function that renders records with the values that the caller may see."""
    seen = masker_for_log(call)

    def render(record: OperationRecord) -> RecordJson:
        answer: RecordJson = {**record_as_json(record), "changes": seen(record.directory_id, record.changes)}
        if status := getattr(record, "request_status", None):
            answer["changeRequestStatus"] = status
        return answer

    return render


def _note_reverts(items: Iterable[KnownRecordJson] | Iterable[OwnRecordJson]) -> None:
    """Add to the records of reverted changes the id of the first revert that succeeded."""
    changed = [item for item in items if item["target"] and item["outcome"] == Outcome.SUCCEEDED]
    found = log_queries.find_reverts([UUID(item["id"]) for item in changed])
    for item in changed:
        if (revert := found.get(UUID(item["id"]))) is not None:
            item["revertedBy"] = str(revert)


def _note_folded(items: list[FoundRecordJson], records: QuerySet[OperationRecord]) -> None:
    """Add to records that stand for a whole run or batch the counts of its records."""
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


class ReadStatistics(Query):
    """How far back to count."""

    days: Annotated[
        int, Field(ge=1, le=90, description="Days (UTC) to count, today the last of them."), WHOLE_NUMBER
    ] = 14


@rest_operation(
    "operations.read-statistics",
    "GET operations/statistics",
    "Read the statistics of the operations log",
    permission="audit.read_log",
)
def read_statistics(call: Call, *, query: ReadStatistics) -> LogStatisticsJson:
    """Read how many changes were made each day and how they ended, and which keys did how much.

    `keys` are the ten that did most, reads included; `otherKeys` sums up the others, `persons` what was done without a
    key. A day's `queued` counts only changes that still wait for a decision. Under a role with scopes only records
    whose target lies inside them are counted, the newest first and for two seconds: all from `countedFrom` on, with
    whose day `days` then begins. Otherwise `countedFrom` is `since`.
    """
    since = counted_from = daily_counts.first_day(query.days)
    waiting = ChangeRequest.objects.filter(status=Status.PENDING, expires_at__gt=timezone.now()).values("pk")
    if call.scopes:
        records = visible_records(call)
        is_over = Q(outcome=Outcome.QUEUED, change_request_id__isnull=False) & ~Q(change_request_id__in=waiting)
        counted_from, days, usage = daily_counts.count_newest_first(records, records.exclude(is_over), query.days)
    else:
        usage = daily_counts.use_by_key(query.days)
        queued = daily_counts.count_waiting(waiting, query.days)
        days = [{**item, "queued": queued.get(item["day"], 0)} for item in daily_counts.changes_by_day(query.days)]
    keys = [item for item in usage if item["keyName"]]
    return {
        "since": render_timestamp(since) or "",
        "countedFrom": render_timestamp(counted_from) or "",
        "days": days,
        "keys": keys[:_SHOWN_KEYS],
        "otherKeys": daily_counts.sum_usage(keys[_SHOWN_KEYS:]),
        "persons": daily_counts.sum_usage(item for item in usage if not item["keyName"]),
    }


@rest_operation(
    "operations.read-chain", "GET operations/chain", "Read the chain of the operations log", permission="audit.read_log"
)
def read_chain(call: Call) -> ChainJson:  # noqa: ARG001 - every operation takes its call
    """Read how far the operations log is sealed, and how it was verified last. This verifies nothing itself."""
    marked, unsealed = checkpoint.find_checkpoint(), sealing.find_unsealed()
    return {
        "head": checkpoint.head(),
        "unsealed": unsealed.count,
        "oldestUnsealedAt": render_timestamp(unsealed.oldest),
        "refused": unsealed.refused,
        "missing": checkpoint.describe_loss(marked) if marked and not checkpoint.is_in_log(marked) else None,
        "lastVerification": verification_as_json(verification.last_verification()),
        "verifying": verifying.is_verifying(),
        "progress": verifying.find_progress(),
        "verifiedRanges": [
            {
                "firstSeal": verified.learnt.first,
                "lastSeal": verified.learnt.last,
                "at": render_timestamp(verified.at) or "",
                "wholeSince": render_timestamp(verified.whole_at) or "",
            }
            for verified in reversed(find_ranges())
        ],
    }


@rest_operation("operations.verify", "POST operations/verify", "Verify the operations log", permission="audit.read_log")
def verify_operations(call: Call) -> VerificationBegunJson:
    """Have a worker verify the whole log now. What it finds is then in the state of the chain."""
    began = verifying.request_verification()
    if began:
        security.log_event("verification of the operations log asked for", person=call.person.username)
    return {"began": began}


class SearchOwnChanges(PageQuery):
    """Which of the credential's own changes to list."""

    since: Timestamp | None = Field(None, description="Changes of this moment and later.")


@operation("operations.search-own", "GET operations/own", "Search one's own changes", permission=SIGNED_IN)
def search_own_changes(call: Call, *, query: SearchOwnChanges) -> SearchedPage[OwnRecordJson]:
    """List the changes that this key or agent has asked for, newest first, those that failed or wait included.

    It needs no permission, and shows the values that the caller may see now.
    """
    records = own_rows.filter_optional(_own_changes(call), at__gte=query.since)
    seen = masker_for_change_requests(call)

    def render(record: OperationRecord) -> OwnRecordJson:
        known = record_as_json(record)
        more = {
            "changes": seen(record.directory_id, record.changes),
            "reason": known["reason"],
            "changeRequestId": known["changeRequestId"],
        }
        return cast(OwnRecordJson, {**own_change_as_json(record), **more})

    found = page_of_records(call, records, query=query, render=render, bounds=Bounds.of_time(query.since))
    if call.stream_as is not None:
        cast(RecordStream, found).absent |= {"revertedBy"}
        return found
    _note_reverts(found["items"])
    return found


def _own_changes(call: Call) -> QuerySet[OperationRecord]:
    """The changes of the caller's credential, also those that a worker made of its approved requests.

    The log names an agent by its client, which people share and may connect to several directories.
    """
    changes = log_queries.only_changes(visible_records(call))
    if call.credential.kind is CredentialKind.AGENT_TOKEN:
        changes = changes.filter(directory_id=call.directory.id) if call.directory else changes.none()
    return changes.filter(credential_id=call.credential.id, owner_id=call.person.id)


@operation("operations.read", "GET operations/{id}", "Read {a record of the log}", permission="audit.read_log")
def read_operation(call: Call, *, id: UUID) -> OneRecordJson:
    """Read one record of the operations log."""
    record = own_rows.find(_with_request_status(visible_records(call)), id=id)
    answer = cast(OneRecordJson, renderer_for(call)(record))
    _note_reverts([answer])
    if doubt := verification.reason_for_doubt(record):
        answer["doubt"] = doubt
    return answer


@rest_operation(
    "operations.read-own",
    "GET operations/{id}/outcome",
    "Read the outcome of {a change of one's own}",
    permission=SIGNED_IN,
)
def read_own_change(call: Call, *, id: UUID) -> OwnChangeJson:
    """Read the state of a change that you requested, such as one whose answer is late."""
    changes = log_queries.only_changes(visible_records(call))
    return own_change_as_json(own_rows.find(changes, id=id, owner_id=call.person.id))


@operation(
    "operations.revert",
    "POST operations/{id}/revert",
    "Undo a change of {an object}",
    permission="audit.revert_change",
    target=Target.DIRECTORY,
    inverse=NO_INVERSE,
    effect=Effect.CHANGE,
    output=Reverted,
)
def revert_operation(call: Call, *, id: UUID) -> Proposal:
    """Undo a change: make the inverse one, if the directory still is as the change left it.

    It needs the permissions of the inverse change besides its own, and is held, checked and recorded like that one: a
    create is reverted by a delete, a delete by a restore that brings back what the recycle bin or the log has kept, and
    an enable by a disable. The new record has the inverse operation's name, and its reason names the reverted record.
    Of a membership, only members that are still as the change left them are reverted; if other values have changed
    since, the problem's `differences` has the expected and the present ones.
    """
    return _propose_revert(call, own_rows.find(visible_records(call), id=id))


CHANGE_PERMISSIONS = frozenset(
    {f"directory.{action}_{suffix}" for action in ("update", "delete") for suffix in PERMISSION_SUFFIXES}
    | {f"directory.{action}_account" for action in ("enable", "disable")}
    | {"directory.move_object", "directory.manage_membership", "directory.restore_deleted"}
)
"""The permissions of all changes that take another one back; which one is needed, the record says."""


@operation(
    "operations.undo",
    "POST operations/{id}/undo",
    "Undo one's own change of {an object}",
    permission=CHANGE_PERMISSIONS,
    target=Target.DIRECTORY,
    inverse=NO_INVERSE,
    effect=Effect.CHANGE,
    output=Reverted,
)
def undo_operation(call: Call, *, id: UUID) -> Proposal:
    """Undo a change that this key or agent has asked for, as a revert does.

    It needs the permissions of the inverse change, but neither those to read the log nor to revert what others did.
    """
    return _propose_revert(call, own_rows.find(_own_changes(call), id=id))


def _propose_revert(call: Call, record: OperationRecord) -> Proposal:
    if doubt := verification.reason_for_doubt(record):
        raise NotRevertible(
            message("The record is not to be trusted, and so nothing is made of it. {doubt}", doubt=doubt)
        )
    return propose_revert(call, record)
