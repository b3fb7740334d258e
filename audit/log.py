"""Writing the operations log: the intent before a change, its outcome after, refusals, queued changes and reads.

Reading it is `operations.log`; what settles open records in the directory is handed in from above.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import sleep
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import DatabaseError, InterfaceError, connection, transaction

from audit.chain.append_only import TABLE
from audit.chain.seals import mac_of
from audit.identifiers import new_identifier
from audit.late_outcomes import LateOutcomes
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome, Reversible, seconds_of_a_write
from audit.read_buffer import reads
from audit.redact import redacted
from core import tracing
from core.call import Call
from core.database import row_lease, shared_clock
from core.database.prepared import PreparedInsert, execute_alone, execute_each
from core.errors import ServiceUnavailable

_logger = structlog.stdlib.get_logger(__name__)
_prepared: Final = PreparedInsert(OperationRecord)

NOT_APPLIED = "AD.Directory.NotApplied"
"""Code of a record that a settler closed: the directory says that the write never happened."""
OUTCOME_UNKNOWN = "AD.Directory.OutcomeUnknown"
"""Code of a record of which nobody can say so far whether the write happened."""

SECONDS_UNTIL_WRITE = 5.0
"""How long after its intent a writer may take to send the write."""
SETTLER_LEASE = timedelta(seconds=30)
"""For how long a settler has a record to itself."""
RETRY_UNKNOWN = timedelta(seconds=15)
"""When an unknown outcome is looked for again."""
SECONDS_OF_ABSENCE = 2.0
"""How long a change must have been absent to count as not applied: what the directory took may still wait its turn."""


class NotRecorded(ServiceUnavailable):
    """The operations log cannot be written, so the operation was not carried out."""


Changes = Iterable[Mapping[str, Any]]
"""`{"attribute", "before": [...], "after": [...]}` each."""


@dataclass(frozen=True, slots=True)
class TargetRef:
    """The object an operation is about. `id` is None for one that does not exist (yet); what is not known is empty."""

    id: UUID | None
    kind: str
    distinguished_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A change about to be made. `evidence` is what a settler needs to find out later whether it was."""

    operation: str
    target: TargetRef | None = None
    changes: Changes = ()
    evidence: dict[str, Any] | None = None
    run_id: UUID | None = None
    batch_index: int | None = None
    reversible: str = Reversible.NONE
    approved_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """How a recorded change ended. `server` is the domain controller that did it, `target` an object just created."""

    record_id: UUID
    outcome: str
    code: str | None = None
    server: str | None = None
    target: TargetRef | None = None


def _facts(call: Call, *, operation: str, target: TargetRef | None, outcome: str, **fields: Any) -> dict[str, Any]:
    """A new record's fields but for its code, which is made of them."""
    identifier, at = new_identifier()
    facts = {
        "id": identifier,
        "at": at,
        "completed_at": None if outcome == Outcome.PENDING else at,
        "surface": call.surface.value,
        "operation": operation,
        "owner": call.person.username,
        "owner_id": call.person.id,
        "key_name": call.credential.name,
        "credential_id": call.credential.id,
        "client_address": call.client_address,
        "request_id": call.request_id,
        "call_id": call.call_id,
        "reason": call.reason,
        "outcome": str(outcome),
        "change_request_id": call.change_request_id,
        "batch_index": call.batch_index,
        **fields,
    }
    if call.directory:
        facts |= {"directory_id": call.directory.id, "directory": call.directory.name}
    if target:
        facts |= {
            "target_id": target.id,
            "target_kind": target.kind or None,
            "target_dn": target.distinguished_name or None,
        }
    return facts


def _new_record(call: Call, **fields: Any) -> OperationRecord:
    facts = _facts(call, **fields)
    return OperationRecord(**facts, mac=mac_of(facts))


def _insert(facts: Iterable[dict[str, Any]]) -> list[OperationRecord]:
    """Insert with their codes, and commit.

    Inside a caller's transaction, whose rollback would take the records with it, that is refused.
    """
    records = [{**fields, "mac": mac_of(fields)} for fields in facts]
    try:
        if len(records) == 1:
            _prepared.execute_alone(records[0])
        else:
            with transaction.atomic(durable=True):
                _prepared.execute(records)
    except (DatabaseError, InterfaceError) as error:
        _logger.exception("the operations log cannot be written", operation=records[0]["operation"])
        raise NotRecorded("The operation cannot be recorded, so it was not carried out.") from error
    return [OperationRecord(**record) for record in records]


@tracing.traced("record intents")
def record_intents(
    call: Call, intents: Iterable[Intent], *, seconds_until_write: float = SECONDS_UNTIL_WRITE
) -> list[OperationRecord]:
    """Record changes about to be made, all in one commit, in order; raises NotRecorded: then write nothing.

    Until `seconds_until_write` are over the writes may be sent (`record.may_be_written()`); when the time for an
    answer has passed too, a settler may take the records up.
    """
    records = [
        _facts(
            call,
            operation=intent.operation,
            target=intent.target,
            outcome=Outcome.PENDING,
            changes=redacted(intent.changes),
            evidence=intent.evidence,
            run_id=intent.run_id,
            batch_index=intent.batch_index,
            reversible=intent.reversible,
            approved_by=intent.approved_by,
        )
        for intent in intents
    ]
    for record in records:
        record["settle_at"] = record["at"] + timedelta(seconds=seconds_until_write + seconds_of_a_write())
    return _insert(records) if records else []


def record_intent(call: Call, intent: Intent) -> OperationRecord:
    """Record one change about to be made; see `record_intents`."""
    return record_intents(call, [intent])[0]


def record_refusal(
    call: Call,
    *,
    operation: str,
    code: str,
    target: TargetRef | None = None,
    changes: Changes = (),
    run_id: UUID | None = None,
) -> OperationRecord:
    """Record a change that was refused with `code`; raises NotRecorded."""
    record = _facts(
        call,
        operation=operation,
        target=target,
        outcome=Outcome.FAILED,
        code=code,
        changes=redacted(changes),
        run_id=run_id,
    )
    return _insert([record])[0]


def record_refusals(call: Call, intents: Iterable[Intent], *, code: str) -> None:
    """Record changes of a batch that were all refused with `code`, in one commit; raises NotRecorded."""
    refused = [
        _facts(
            call,
            operation=intent.operation,
            target=intent.target,
            outcome=Outcome.FAILED,
            code=code,
            batch_index=intent.batch_index,
        )
        for intent in intents
    ]
    if refused:
        _insert(refused)


def _insert_with(record: OperationRecord) -> None:
    """Insert in the caller's transaction, which ends with the exception; raises NotRecorded."""
    try:
        record.save(force_insert=True)
    except (DatabaseError, InterfaceError) as error:
        _logger.exception("the operations log cannot be written", operation=record.operation)
        raise NotRecorded("The operation cannot be recorded, so it was not carried out.") from error


def record_queued(
    call: Call,
    *,
    operation: str,
    target: TargetRef,
    changes: Changes,
    change_request_id: UUID,
    raised_access: Sequence[str] = (),
) -> OperationRecord:
    """Record a change that waits for a person; raises NotRecorded.

    Joins the caller's transaction: request and record stand together.
    """
    record = _new_record(
        call,
        operation=operation,
        target=target,
        outcome=Outcome.QUEUED,
        changes=redacted(changes),
        change_request_id=change_request_id,
        raised_access=list(raised_access) or None,
    )
    _insert_with(record)
    return record


def record_administration(
    call: Call,
    *,
    operation: str,
    target: TargetRef,
    changes: Changes,
    raised_access: Sequence[str] = (),
    approved_by: str | None = None,
) -> OperationRecord:
    """Record a change of the gateway's own tables; raises NotRecorded.

    Joins the caller's transaction: change and record stand together. `raised_access` says in words what somebody may
    do from now on and could not do before. Who changes tables comes here by `audit.model_changes`.
    """
    record = _new_record(
        call,
        operation=operation,
        target=target,
        outcome=Outcome.SUCCEEDED,
        changes=redacted(changes),
        raised_access=list(raised_access) or None,
        approved_by=approved_by,
    )
    _insert_with(record)
    return record


def record_read(
    call: Call,
    *,
    operation: str,
    target: TargetRef | None = None,
    outcome: str = Outcome.SUCCEEDED,
    code: str | None = None,
) -> None:
    """Note a read; it is in the database within a second. Neither waits for the database nor raises."""
    reads.add(_facts(call, operation=operation, target=target, outcome=outcome, code=code, call_id=None))


def complete(
    record_id: UUID,
    *,
    outcome: str,
    code: str | None = None,
    server: str | None = None,
    target: TargetRef | None = None,
) -> bool:
    """Close an open record; False if it was closed already or the database is away. See `complete_many`."""
    done = Completion(record_id=record_id, outcome=outcome, code=code, server=server, target=target)
    return complete_many([done]) == 1


def keep_open(record_ids: Sequence[UUID]) -> int:
    """Leave open records to their writer for another while; how many are still open. Raises DatabaseError."""
    still_open = OperationRecord.objects.filter(id__in=record_ids, outcome__in=OPEN_OUTCOMES)
    return still_open.update(settle_at=shared_clock.now() + SETTLER_LEASE)


@tracing.traced("record outcomes")
def complete_many(completions: Iterable[Completion], *, beside: Callable[[], None] | None = None) -> int:
    """Close open records in one transaction, which does `beside` too; how many were closed.

    Never raises for the database: the directory is changed already and the caller must hear so. What could not be
    closed is kept, and closed when the database is back; if this process ends before, a settler finds the outcome in
    the directory. `beside` is not retried.
    """
    rows = [_closing(done) for done in completions]
    if not rows:
        return 0
    for is_last_attempt in (False, True):
        try:
            return _close(rows, beside)
        except (DatabaseError, InterfaceError):
            if is_last_attempt:
                _logger.exception("outcomes wait for the database", records=len(rows))
                _late_outcomes.keep(rows)
                break
            connection.close_if_unusable_or_obsolete()  # a connection that was cut is replaced for the second attempt
    return 0


def _close(rows: Sequence[Sequence[Any]], beside: Callable[[], None] | None = None) -> int:
    if len(rows) == 1 and beside is None:
        closed = execute_alone(_CLOSE, rows[0])
    else:
        with transaction.atomic(durable=True):
            closed = execute_each(_CLOSE, rows)
            if beside is not None:
                beside()
    if closed != len(rows):
        _logger.error("records were closed already when their outcome came", expected=len(rows), closed=closed)
    return closed


_late_outcomes: Final = LateOutcomes[Sequence[Any]](_close)

# What was known of server and target stays (the database refuses anything else).
_CLOSE: Final = f"""
UPDATE {TABLE}
SET outcome = %s, code = %s, completed_at = %s, settle_at = %s,
    server = coalesce(server, %s), target_id = coalesce(target_id, %s), target_dn = coalesce(target_dn, %s)
WHERE id = %s AND outcome IN ('pending', 'unknown')
"""  # noqa: S608 - our own name


def _closing(done: Completion) -> Sequence[Any]:
    now = shared_clock.now()
    completed_at, settle_at = (None, now + RETRY_UNKNOWN) if done.outcome == Outcome.UNKNOWN else (now, None)
    target_id, target_dn = (done.target.id, done.target.distinguished_name) if done.target else (None, None)
    return str(done.outcome), done.code, completed_at, settle_at, done.server, target_id, target_dn, done.record_id


def _nobody(_: OperationRecord) -> UUID | None:
    return None


def settle_pending(
    resolve: Callable[[OperationRecord], bool | None],
    identify: Callable[[OperationRecord], UUID | None] = _nobody,
    *,
    limit: int = 500,
) -> int:
    """Close open records whose writer is gone; how many were closed.

    `resolve` looks whether the write was applied: True, False, or None when that cannot be known (now). False is
    believed when it says so again, `SECONDS_OF_ABSENCE` later. `identify` tells the object that an applied creation has
    made. Neither must raise for a directory that does not answer. Any number of processes may settle at once: each
    record is leased to one of them by a compare-and-swap. A record is due when its writer's deadline is over, so a live
    request is never settled.
    """
    due = OperationRecord.objects.filter(outcome__in=OPEN_OUTCOMES, settle_at__lte=shared_clock.now())
    settled, absent = 0, []
    for record in due.order_by("settle_at")[:limit]:
        if record.settle_at is None or not _lease(record.id, seen=record.settle_at):
            continue
        applied = resolve(record)
        if applied is False:
            absent.append(record)
        else:
            settled += _settle(record, applied, identify)
    if absent:
        sleep(SECONDS_OF_ABSENCE)
    return settled + sum(_settle(record, resolve(record), identify) for record in absent)


def _settle(record: OperationRecord, applied: bool | None, identify: Callable[[OperationRecord], UUID | None]) -> bool:
    """Note what came of a record; whether it is closed now."""
    if applied is None:
        if record.outcome == Outcome.PENDING:
            _logger.warning("the outcome of a change is unknown", record=str(record.id), operation=record.operation)
        complete(record.id, outcome=Outcome.UNKNOWN, code=record.code or OUTCOME_UNKNOWN)
        return False
    outcome, code = (Outcome.SUCCEEDED, None) if applied else (Outcome.FAILED, NOT_APPLIED)
    created = identify(record) if applied and record.target_id is None else None
    target = None if created is None else TargetRef(created, record.target_kind or "", record.target_dn or "")
    is_closed = complete(record.id, outcome=outcome, code=code, target=target)
    if is_closed:
        _logger.info("settled an open record", record=str(record.id), operation=record.operation, outcome=outcome)
    return is_closed


def _lease(record_id: UUID, *, seen: datetime) -> bool:
    """Take a due record for this settler: `settle_at` is still what was seen, or another one was faster."""
    due = OperationRecord.objects.filter(id=record_id, outcome__in=OPEN_OUTCOMES)
    return row_lease.take(due, "settle_at", seen=seen, lasts=SETTLER_LEASE, counting="settle_attempts")
