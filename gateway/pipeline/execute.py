"""Execute a prepared change: record the intent, write to the directory once, record the outcome, read the answer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction

from active_directory import Client, Write, name_by_guid
from approvals import ends, secrets
from approvals.budgets import Budget, open_ledger
from audit import log
from audit.models import OperationRecord
from core import tracing
from core.call import Call, Surface
from core.errors import GatewayError
from core.operation import Operation, Risk
from core.text.messages import message
from directory import errors as directory_errors
from directory.lookup.access import client_of
from directory.lookup.connection import count_protection_change, note_own_protection_change
from directory.outcomes import writer
from directory.outcomes.writer import RecordedWrite, Result
from directory.protection.state import may_change_protection
from directory.queries.reading import read_after_change
from directory.runs import requests as runs
from directory.shapes.proposal import UNTIL, DependentChange, MembershipEnd, Proposal, Rollback, Target
from gateway.pipeline.inputs import Answer, Change, Inputs
from gateway.pipeline.prepare import (
    count_changes,
    counted_risk,
    hold_over_budget,
    prepare,
    prepare_again,
    prepare_unrecorded,
)
from gateway.pipeline.recording import intent_of, target_of
from gateway.pipeline.schedules import END_HEADER, plan_ends, plan_membership_end
from gateway.pipeline.time_to_live import with_tickets, without_time_to_live

logger = structlog.get_logger(__name__)

_Result = TypeVar("_Result")

MAX_ATTEMPTS = 3
"""How often a change without If-Match is tried when others keep changing the object in between."""


def run(operation: Operation, call: Call, inputs: Inputs) -> Answer:
    """Run one call of one operation; raises GatewayError, after recording the refusal."""
    prepared = prepare(operation, call, inputs)
    return prepared if isinstance(prepared, Answer) else execute(prepared)


def read_unrecorded(operation: Operation, call: Call, inputs: Inputs) -> Answer:
    """Run a read as `run` does, but record a success only; raises GatewayError."""
    answer = prepare_unrecorded(operation, call, inputs)
    assert isinstance(answer, Answer), "a read changes nothing"
    return answer


def capture_error(step: Callable[[], _Result]) -> _Result | Exception:
    """Run a step of one of many calls, whose failure must not end the others; return its error."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - nothing is hidden: it is the answer to this call
        return error


@tracing.traced(lambda change: f"execute {change.operation.name}")
def execute(change: Change) -> Answer:
    """Record the intent, write once, record the outcome, answer. A lost race is proposed again, with a new record."""
    if change.proposal.run is not None:
        return _start_run(change)
    if change.proposal.write is None:
        return _move_ends(change)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            return _write(change)
        except directory_errors.VersionMismatch:
            if attempt == MAX_ATTEMPTS:
                raise
        prepared = prepare_again(change)
        if isinstance(prepared, Answer):  # somebody else has done it, or the change is now held for approval
            return prepared
        change = prepared
    raise AssertionError("unreachable")


def record_intents(
    call: Call, changes: Sequence[Change], *, seconds_until_write: float = log.SECONDS_UNTIL_WRITE
) -> list[OperationRecord | Budget]:
    """Record the intents of changes, store their ends and count them in their budgets, in one commit.

    A change that exceeds a budget is not recorded; the budget takes the record's place. Raises NotRecorded.
    """
    intents = [change.intent for change in changes]
    risks = [counted_risk(change) for change in changes]
    planned = [plan_ends(change.operation, change.call, change.proposal, change.risk) for change in changes]
    if not any(planned) and all(risk is Risk.ORDINARY for risk in risks):
        return [*log.record_intents(call, intents, seconds_until_write=seconds_until_write)]
    try:
        with transaction.atomic(durable=True), open_ledger(call) as ledger:
            exceeded = [ledger.take(risk) for risk in risks]
            admitted = [intent for intent, budget in zip(intents, exceeded, strict=True) if budget is None]
            records = iter(log.record_intents(call, admitted, seconds_until_write=seconds_until_write, durable=False))
            recorded = [next(records) if budget is None else budget for budget in exceeded]
            for change, its_ends, record in zip(changes, planned, recorded, strict=True):
                if isinstance(record, OperationRecord):
                    for end in its_ends:
                        ends.schedule(change.call, end, record)
            return recorded
    except (DatabaseError, InterfaceError) as error:
        raise log.NotRecorded from error


def _write(change: Change) -> Answer:
    operation, proposal = change.operation, change.proposal
    client = client_of(change.call)
    (record,) = record_intents(change.call, [change])
    if isinstance(record, Budget):
        return hold_over_budget(change, record)
    recorded = RecordedWrite(record=record, write=change.write)
    dependent_writes = record_dependent_changes(
        change.call, proposal.dependent_changes, proposal.membership_ends, approved_by=change.approved_by
    )
    result = _send(change, client, recorded)
    if (plain := without_time_to_live(recorded.write, result)) is not None:
        recorded = replace(recorded, write=plain)
        result = _send(change, client, recorded)
    if result.refusal is not None:
        refusal = explain_refusal(change, result.refusal)
        writer.close([replace(result, refusal=refusal), *writer.results_not_sent(dependent_writes, refusal)])
        raise refusal from result.refusal.__cause__
    execute_dependent_changes(client, dependent_writes)
    writes = [(recorded.write, proposal.target), *((each.write, each.target) for each in proposal.dependent_changes)]
    # The answer must show protection as it is after these writes; other processes are told in the outcome's commit.
    notify = _invalidate_protection_caches(change.call, client, writes)
    try:
        rollback = None if proposal.post_check is None else read_after_change(proposal.post_check)
        body = read_after_change(proposal.answer) if rollback is None else None
    except GatewayError:
        if proposal.target.id is not None:  # the record of a new object stays open until its objectGUID is found
            writer.close([result], beside=notify)
        elif notify is not None:
            _notify_without_record(notify)
        raise
    created = target_of(body, {}, operation) if proposal.target.id is None else None
    writer.close([replace(result, created=created)], beside=notify)
    if rollback is not None:
        raise _roll_back(change, rollback)
    _settle_earlier_ends(proposal)
    if _has_end(change):
        body = with_tickets(body, operation, recorded.write, was_refused=plain is not None)
    return Answer(operation.status, body if operation.output is not None else None, end_headers(change, record))


def _settle_earlier_ends(proposal: Proposal) -> None:
    """Move the ends of what a change has made for good. One that comes now sees that from the log.

    Raises what kept it from moving the end of a value that the change only confirms, of which the log tells nothing.
    """
    try:
        if proposal.move_ends is not None:
            proposal.move_ends()
    except (DatabaseError, GatewayError):
        if any(change.attribute == UNTIL for change in proposal.changes):
            raise
        logger.warning("an end could not be moved with the change of its values", exc_info=True)


def _has_end(change: Change) -> bool:
    schedule = change.call.schedule
    return bool(change.proposal.membership_ends) or (schedule is not None and schedule.ends)


def end_headers(change: Change, record: OperationRecord) -> dict[str, str]:
    """The header that names the end of a change; none for one that does not end."""
    end = ends.find_end_of(record.id) if _has_end(change) else None
    return {} if end is None else {END_HEADER: str(end)}


def _move_ends(change: Change) -> Answer:
    """Make a change that only moves the ends of earlier ones: in the gateway's own tables, with its record."""
    call, proposal, intent = change.call, change.proposal, change.intent
    assert proposal.move_ends is not None
    with transaction.atomic(durable=True):
        with open_ledger(call) as ledger:
            exceeded = ledger.take(counted_risk(change))
        if exceeded is None:
            proposal.move_ends()
            log.record_administration(
                call,
                operation=intent.operation,
                target=intent.target,
                changes=intent.changes,
                approved_by=change.approved_by,
            )
    if exceeded is not None:
        return hold_over_budget(change, exceeded)
    return Answer(change.operation.status, proposal.answer() if change.operation.output is not None else None)


def _send(change: Change, client: Client, recorded: RecordedWrite) -> Result:
    """Store a generated secret for the approver before writing: if it were lost, nobody could sign in."""
    if change.proposal.secret is not None and change.call.change_request_id is not None:
        try:
            secrets.keep(change.call.change_request_id, change.proposal.secret)
        except GatewayError as refusal:
            return Result(record=recorded.record, refusal=refusal)
    return writer.write(client, recorded)


def _invalidate_protection_caches(
    call: Call, client: Client, writes: Iterable[tuple[Write, Target]]
) -> Callable[[], None] | None:
    """Drop this process's protection cache; return a callback that drops the others', or None.

    Without the callback, other processes may show the old protection for two seconds.
    """
    if call.directory is None or not any(may_change_protection(write, target.kind) for write, target in writes):
        return None
    note_own_protection_change(client)
    return count_protection_change


def _notify_without_record(notify: Callable[[], None]) -> None:
    """Notify the other processes in a commit of its own, without an outcome."""
    try:
        notify()
    except DatabaseError:  # the change is made; its record is closed when the database is back
        logger.warning("other processes may show for two seconds who was protected before")


def _roll_back(change: Change, rollback: Rollback) -> GatewayError:
    """Undo the write that was just made, with a record of its own; return the error for the caller."""
    call = replace(change.call, reason=f"Taken back: {rollback.refusal.detail}")
    undoing = record_dependent_changes(call, [rollback.change], approved_by=change.approved_by)
    client = client_of(call)
    is_rolled_back = all(result.is_applied for result in execute_dependent_changes(client, undoing))
    notify = _invalidate_protection_caches(call, client, [(rollback.change.write, rollback.change.target)])
    if notify is not None:
        _notify_without_record(notify)
    if is_rolled_back:
        return rollback.refusal
    return directory_errors.OutcomeUnknown(
        message("The change could not be undone: {detail}", detail=rollback.refusal.detail)
    )


def explain_refusal(change: Change, refusal: GatewayError) -> GatewayError:
    """Return the directory's refusal in terms of this change."""
    explain = change.proposal.explain
    return refusal if explain is None else explain(refusal)


def _start_run(change: Change) -> Answer:
    call, risk, counted = change.call, counted_risk(change), count_changes(change.proposal)
    if risk is not Risk.ORDINARY:
        with open_ledger(call) as ledger:  # before the run starts, so that it counts even if this process is killed
            exceeded = ledger.take(risk, counted)
        if exceeded is not None:
            return hold_over_budget(change, exceeded)
    name = change.proposal.operation or change.operation.name
    try:
        started = runs.start_run(call, name, change.proposal, approved_by=change.approved_by)
    except runs.RunsUnavailable:  # nothing is left behind
        if risk is not Risk.ORDINARY:
            with open_ledger(call) as ledger:
                ledger.take(risk, -counted)
        raise
    wait = 0.0 if call.respond_async or call.surface is Surface.WORKER else settings.CONFIGURATION.Runs.WaitSeconds
    finished = runs.wait_for_completion(started.id, wait)
    if finished.state != "completed":
        headers = {
            "Location": f"{call.prefix}/ad/runs/{finished.id}",
            "Retry-After": str(runs.retry_after(finished.state)),
        }
        return Answer(202, runs.render_result(finished), headers)
    result = runs.render_result(finished)
    return Answer(207 if result["failed"] else 200, result)


# Dependent changes alter other objects and follow a change, such as the memberships of a restored account. Each is one
# write with its own record. All are recorded before anything is written, so that a crash leaves none unrecorded; they
# are written after the first write, and one that fails undoes nothing.

SECONDS_UNTIL_WRITE = 60.0
"""Long enough for the first write, and for settling it if its answer is lost, which come before."""


def record_dependent_changes(
    call: Call,
    changes: Sequence[DependentChange],
    membership_ends: Sequence[MembershipEnd] = (),
    *,
    approved_by: str | None,
) -> list[RecordedWrite]:
    """Record the intents, in order, and store their ends.

    Only the first write's record carries the change request's id; these do not.
    """
    if not changes:
        return []
    client = client_of(call)
    intents = [intent_of(each.operation, each, client=client, approved_by=approved_by) for each in changes]
    call = replace(call, change_request_id=None)
    try:
        with transaction.atomic(durable=True):
            records = log.record_intents(call, intents, seconds_until_write=SECONDS_UNTIL_WRITE, durable=False)
            for each, record in zip(changes, records, strict=True):
                for end in membership_ends:
                    if end.group.id == each.target.id:
                        ends.schedule(call, plan_membership_end(call, end), record)
    except (DatabaseError, InterfaceError) as error:
        raise log.NotRecorded from error
    return [
        RecordedWrite(record=record, write=name_by_guid(each.write, client.schema, each.identities))
        for record, each in zip(records, changes, strict=True)
    ]


def execute_dependent_changes(client: Client, writes: Sequence[RecordedWrite]) -> list[Result]:
    """Write them all, record each outcome, and return the results.

    Never raises for the directory: the change itself is done. Writes whose answer was lost are settled later.
    """
    waiting = {each.record.id: each for each in writes}
    results: list[Result] = []
    refusal: GatewayError = directory_errors.Unavailable()
    try:
        for each, result in writer.write_many(client, writes):
            del waiting[each.record.id]
            results.append(result)
    except GatewayError as error:  # before anything was sent
        refusal = error
    results += writer.results_not_sent(waiting.values(), refusal)
    writer.close(results)
    return results
