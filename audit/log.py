"""Writes the operations log: the intent before a change, its outcome after, refusals, queued changes and reads.

`operations.log` reads it. Callers pass in the functions that settle open records by reading the directory.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import sleep
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.models import UUIDField, Value
from django.db.models.functions import Coalesce, Greatest

from audit.chain.seals import mac_of
from audit.identifiers import new_identifier
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome, Reversible, seconds_of_a_write
from audit.read_buffer import reads, reads_together
from audit.redact import redacted
from core import tracing
from core.background_writer import BackgroundWriter
from core.call import Call
from core.database import row_lease, shared_clock
from core.errors import ServiceUnavailable
from core.text.messages import message

_logger = structlog.stdlib.get_logger(__name__)

NOT_APPLIED = "AD.Directory.NotApplied"
"""Code of a record that a settler closed because the directory shows that the write never happened."""
OUTCOME_UNKNOWN = "AD.Directory.OutcomeUnknown"
"""Code of a record whose write may or may not have happened."""

SECONDS_UNTIL_WRITE = 5.0
"""How long after recording its intent a writer may still send the write."""
SETTLER_LEASE = timedelta(seconds=30)
"""How long a settler has a record to itself."""
RETRY_UNKNOWN = timedelta(seconds=15)
"""The time until the next attempt to find an unknown outcome."""
SECONDS_OF_ABSENCE = 2.0
"""How long a change must be absent to count as not applied: the domain controller may have queued the write."""


class NotRecorded(ServiceUnavailable):
    """The operations log cannot be written, so the operation was not carried out."""

    def __init__(self) -> None:
        super().__init__(message("The operation cannot be recorded, so it was not carried out."))


Changes = Iterable[Mapping[str, Any]]
"""`{"attribute", "before": [...], "after": [...]}` each."""


@dataclass(frozen=True, slots=True)
class TargetRef:
    """The object an operation is about. `id` is None if it does not exist (yet); unknown text is empty."""

    id: UUID | None
    kind: str
    distinguished_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A change about to be made. `evidence` lets a settler find out later whether it was made."""

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
    """The fields of a new record except its MAC, which is computed from them."""
    identifier, at = new_identifier()
    facts = {
        "id": identifier,
        "at": at,
        "completed_at": None if outcome == Outcome.PENDING else at,
        "surface": str(call.surface),
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


def _new_record(call: Call, intent: Intent, **fields: Any) -> OperationRecord:
    described = {name: getattr(intent, name) for name in Intent.__dataclass_fields__}
    facts = _facts(call, **{**described, "changes": redacted(intent.changes), **fields})
    return OperationRecord(**facts, mac=mac_of(facts))


def _insert(records: Sequence[OperationRecord], *, durable: bool = True, of_change: Call | None = None) -> None:
    """Insert new records. Raises NotRecorded, also if the call `of_change` no longer holds its idempotency key.

    `durable` commits them at once, and therefore refuses to run inside a transaction; otherwise they join the caller's.
    """
    try:
        with transaction.atomic(durable=durable):
            if of_change is not None and not of_change.holds_key():
                raise NotRecorded
            OperationRecord.objects.bulk_create(records)
    except (DatabaseError, InterfaceError) as error:
        _logger.exception("the operations log cannot be written", operation=records[0].operation)
        raise NotRecorded from error


@tracing.traced("record intents")
def record_intents(
    call: Call,
    intents: Iterable[Intent],
    *,
    seconds_until_write: float = SECONDS_UNTIL_WRITE,
    durable: bool = True,
) -> list[OperationRecord]:
    """Record changes about to be made, in order, in one commit. Raises NotRecorded; the caller then writes nothing.

    The writes may be sent for `seconds_until_write` (`record.may_be_written()`). Once the time for their answers has
    passed, too, a settler may take the records. Unless `durable`, they join the caller's transaction, which is to be
    committed before the write.
    """
    records = [_new_record(call, intent, outcome=Outcome.PENDING) for intent in intents]
    for record in records:
        record.settle_at = record.at + timedelta(seconds=seconds_until_write + seconds_of_a_write())
    if records:
        _insert(records, durable=durable, of_change=call)
    return records


def record_intent(call: Call, intent: Intent) -> OperationRecord:
    """Record one change about to be made; see `record_intents`."""
    return record_intents(call, [intent])[0]


def record_refusals(call: Call, intents: Iterable[Intent], *, code: str) -> list[OperationRecord]:
    """Record changes that were all refused with `code`, in one commit. Raises NotRecorded."""
    records = [_new_record(call, intent, outcome=Outcome.FAILED, code=code) for intent in intents]
    if records:
        _insert(records)
    return records


def record_refusal(call: Call, *, code: str, **intent: Any) -> OperationRecord:
    """Record a change, described as in `Intent`, that was refused with `code`. Raises NotRecorded."""
    return record_refusals(call, [Intent(batch_index=call.batch_index, **intent)], code=code)[0]


def record_administration(
    call: Call,
    *,
    raised_access: Sequence[str] = (),
    outcome: str = Outcome.SUCCEEDED,
    change_request_id: UUID | None = None,
    **intent: Any,
) -> OperationRecord:
    """Record a change of the gateway's own tables, described as in `Intent`. Raises NotRecorded.

    It joins the caller's transaction, so that neither change nor record exists without the other. `raised_access`
    lists, in words, what somebody can do now and could not before. `audit.model_changes` calls this for most changes.
    """
    record = _new_record(
        call,
        Intent(batch_index=call.batch_index, **intent),
        outcome=outcome,
        raised_access=list(raised_access) or None,
        change_request_id=change_request_id or call.change_request_id,
    )
    _insert([record], durable=False, of_change=call)
    return record


def record_queued(call: Call, *, change_request_id: UUID, **described: Any) -> OperationRecord:
    """Record a change that waits for a person; otherwise as `record_administration`."""
    return record_administration(call, outcome=Outcome.QUEUED, change_request_id=change_request_id, **described)


def record_read(
    call: Call,
    *,
    operation: str,
    target: TargetRef | None = None,
    outcome: str = Outcome.SUCCEEDED,
    code: str | None = None,
) -> None:
    """Record a read, which reaches the database within a second. Neither waits for the database nor raises.

    A key may have it wait for a minute, for others that are alike.
    """
    is_for_several = call.credential.aggregates_reads and outcome == Outcome.SUCCEEDED
    buffer = reads_together if is_for_several else reads
    buffer.add(_facts(call, operation=operation, target=target, outcome=outcome, code=code, call_id=None))


def complete(record_id: UUID, **outcome: Any) -> bool:
    """Close an open record, as in `Completion`; False if somebody has closed it or the database is away."""
    return complete_many([Completion(record_id=record_id, **outcome)]) == 1


def keep_open(record_ids: Sequence[UUID]) -> int:
    """Keep settlers away from open records for a while; return how many are still open. Raises DatabaseError."""
    still_open = OperationRecord.objects.filter(id__in=record_ids, outcome__in=OPEN_OUTCOMES)
    # The greater one: the deadline of a run's intents is further away already.
    return still_open.update(settle_at=Greatest("settle_at", Value(shared_clock.now() + SETTLER_LEASE)))


@tracing.traced("record outcomes")
def complete_many(completions: Iterable[Completion], *, beside: Callable[[], None] | None = None) -> int:
    """Close open records in one transaction, which also runs `beside`; return how many were closed.

    Does not raise for the database: the directory has changed already, and the caller must be told so. Outcomes that
    could not be stored wait in memory until the database is back; if this process ends earlier, a settler finds them in
    the directory. `beside` is not retried then.
    """
    done, at = list(completions), shared_clock.now()
    if not done:
        return 0
    for is_last_attempt in (False, True):
        try:
            return _close(done, at, beside)
        except (DatabaseError, InterfaceError):
            if is_last_attempt:
                _logger.exception("outcomes wait for the database", records=len(done))
                _late_outcomes.add((done, at))
                break
            connection.close_if_unusable_or_obsolete()  # the second attempt replaces a connection that was lost
    return 0


def _close(completions: Sequence[Completion], at: datetime, beside: Callable[[], None] | None = None) -> int:
    alike: dict[Any, list[Completion]] = defaultdict(list)
    for done in completions:
        alike[done.outcome, done.code, done.server, done.target].append(done)
    with transaction.atomic(durable=True):  # inside a caller's transaction a rollback would lose known outcomes
        closed = sum(_close_alike(some, at) for some in alike.values())
        if beside is not None:
            beside()
    if closed != len(completions):
        _logger.error("records were closed already when their outcome came", expected=len(completions), closed=closed)
    return closed


def _close_alike(completions: Sequence[Completion], at: datetime) -> int:
    """Close records that all ended in the same way with one UPDATE."""
    done = completions[0]
    is_unknown = done.outcome == Outcome.UNKNOWN
    ended: dict[str, Any] = {
        "outcome": done.outcome,
        "code": done.code,
        "completed_at": None if is_unknown else at,
        "settle_at": at + RETRY_UNKNOWN if is_unknown else None,
    }
    # Keep the server and target that are known already: the database's triggers refuse anything else.
    if done.server is not None:
        ended["server"] = Coalesce("server", Value(done.server))
    if done.target is not None:
        ended["target_id"] = Coalesce("target_id", Value(done.target.id, UUIDField()))
        ended["target_dn"] = Coalesce("target_dn", Value(done.target.distinguished_name))
    still_open = OperationRecord.objects.filter(
        id__in=[each.record_id for each in completions], outcome__in=OPEN_OUTCOMES
    )
    return still_open.update(**ended)


def _close_late(outcomes: list[tuple[list[Completion], datetime]]) -> bool:
    """Store outcomes that came while the database was away; False if it still is.

    A settler would have to find them in the directory, where a later change may have overwritten the evidence. Records
    that somebody else has closed meanwhile stay as they are.
    """
    try:
        for completions, at in outcomes:
            _close(completions, at)
    except (OperationalError, InterfaceError):
        return False
    except DatabaseError:  # the database answers and refuses them: trying again would not help
        _logger.exception("outcomes are left to the settler")
    else:
        _logger.info("outcomes written late", records=sum(len(completions) for completions, _ in outcomes))
    finally:
        connection.close()  # this thread seldom needs one
    return True


_late_outcomes: Final = BackgroundWriter("late-outcomes", _close_late, batch=1, retry=0.5)


def _nobody(_: OperationRecord) -> UUID | None:
    return None


def settle_pending(
    resolve: Callable[[OperationRecord], bool | None],
    identify: Callable[[OperationRecord], UUID | None] = _nobody,
    *,
    limit: int = 500,
) -> int:
    """Close open records whose writer is gone; return how many were closed.

    `resolve` reads the directory and returns whether the write was applied, or None while that cannot be known. A False
    must be confirmed `SECONDS_OF_ABSENCE` later. `identify` returns the object that a creation has made. Neither may
    raise if the directory does not answer. Any number of processes may settle at once: each leases a record by
    compare-and-swap. A record is due when its writer's deadline is over, so nobody settles a live request.
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
    """Store what is known of a record's outcome; return whether the record is closed now."""
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
    """Take a due record for this settler; False if another one was faster."""
    due = OperationRecord.objects.filter(id=record_id, outcome__in=OPEN_OUTCOMES)
    return row_lease.try_take(due, "settle_at", seen=seen, lasts=SETTLER_LEASE, counting="settle_attempts")
