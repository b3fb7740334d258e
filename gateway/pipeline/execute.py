"""The write: the intent is recorded, the directory is changed once, the outcome is recorded, the answer is read."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import DatabaseError

from active_directory import Client, Write
from approvals import secrets
from audit import log
from core import tracing
from core.call import Call, Surface
from core.errors import GatewayError
from core.operation import Operation
from core.text.messages import message
from directory import errors as directory_errors
from directory.lookup.access import client_of
from directory.lookup.connection import count_protection_change
from directory.lookup.protection_changes import show_nothing_before_now
from directory.outcomes import writer
from directory.outcomes.writer import RecordedWrite, Result
from directory.protection.state import may_change_protection
from directory.queries.reading import await_answer
from directory.runs import requests as runs
from directory.shapes.proposal import Rollback, Target
from gateway.pipeline import dependent_changes
from gateway.pipeline.inputs import Answer, Change, Inputs
from gateway.pipeline.prepare import prepare, prepare_again
from gateway.pipeline.recording import target_of

logger = structlog.get_logger(__name__)


_Result = TypeVar("_Result")


ATTEMPTS = 3
"""How often a change without If-Match is proposed anew when somebody else changed the object in between."""


def run(operation: Operation, call: Call, inputs: Inputs) -> Answer:
    """Run one call of one operation; raises GatewayError, after recording the refusal."""
    prepared = prepare(operation, call, inputs)
    return prepared if isinstance(prepared, Answer) else execute(prepared)


def capture_error(step: Callable[[], _Result]) -> _Result | Exception:
    """Take a step for one of many calls, whose failure is not the others'; the surface says what it means."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - nothing is hidden: it is the answer to this call
        return error


@tracing.traced(lambda change: f"execute {change.operation.name}")
def execute(change: Change) -> Answer:
    """Record the intent, write once, record the outcome, answer. A lost race is proposed anew, with its own record."""
    if change.proposal.run is not None:
        return _start_run(change)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _write(change)
        except directory_errors.VersionMismatch:
            if attempt == ATTEMPTS:
                raise
        prepared = prepare_again(change)
        if isinstance(prepared, Answer):  # done by somebody else, or no longer harmless and so held
            return prepared
        change = prepared
    raise AssertionError("unreachable")


def _write(change: Change) -> Answer:
    operation, proposal = change.operation, change.proposal
    client = client_of(change.call)
    recorded = RecordedWrite(record=log.record_intent(change.call, change.intent), write=change.write)
    dependent = dependent_changes.record(change.call, proposal.dependent_changes, approved_by=change.approved_by)
    result = _send(change, client, recorded)
    if result.refusal is not None:
        refusal = explained(change, result.refusal)
        writer.close([replace(result, refusal=refusal), *writer.not_sent(dependent, refusal)])
        raise refusal from result.refusal.__cause__
    dependent_changes.execute(client, dependent)
    writes = [(recorded.write, proposal.target), *((each.write, each.target) for each in proposal.dependent_changes)]
    # Whom these writes protect is found out anew for the answer; the other processes hear of it with the outcome.
    tell = _invalidate_protection_caches(change.call, client, writes)
    try:
        rollback = None if proposal.post_check is None else await_answer(proposal.post_check)
        body = await_answer(proposal.answer) if rollback is None else None
    except GatewayError:
        if proposal.target.id is not None:  # of a new object the settler has yet to find the identity
            writer.close([result], beside=tell)
        elif tell is not None:
            _notify_without_record(tell)
        raise
    created = target_of(body, {}, operation) if proposal.target.id is None else None
    writer.close([replace(result, created=created)], beside=tell)
    if rollback is not None:
        raise _roll_back(change, rollback)
    return Answer(operation.status, body if operation.output is not None else None)


def _send(change: Change, client: Client, recorded: RecordedWrite) -> Result:
    """Write, when a secret that nobody knows yet is kept for the approver: were it lost, nobody could sign in."""
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
    show_nothing_before_now(client)
    return count_protection_change


def _notify_without_record(tell: Callable[[], None]) -> None:
    """Tell the other processes where there is no outcome to record with it."""
    try:
        tell()
    except DatabaseError:  # the change is made, and its record is closed when the database is back
        logger.warning("other processes may show for two seconds who was protected before")


def _roll_back(change: Change, rollback: Rollback) -> GatewayError:
    """Undo the write that was just made, with a record of its own; what the caller is told."""
    call = replace(change.call, reason=f"Taken back: {rollback.refusal.detail}")
    undoing = dependent_changes.record(call, [rollback.change], approved_by=change.approved_by)
    client = client_of(call)
    is_undone = dependent_changes.execute(client, undoing)
    if (
        tell := _invalidate_protection_caches(call, client, [(rollback.change.write, rollback.change.target)])
    ) is not None:
        _notify_without_record(tell)
    if is_undone:
        return rollback.refusal
    return directory_errors.OutcomeUnknown(
        message("The change could not be taken back: {detail}", detail=rollback.refusal.detail)
    )


def explained(change: Change, refusal: GatewayError) -> GatewayError:
    """What a refusal by the directory means for this change."""
    explain = change.proposal.explain
    return refusal if explain is None else explain(refusal)


def _start_run(change: Change) -> Answer:
    call = change.call
    started = runs.start(
        call,
        change.operation.name,
        change.proposal,
        change_request_id=call.change_request_id,
        approved_by=change.approved_by,
    )
    wait = 0.0 if call.respond_async or call.surface is Surface.WORKER else settings.CONFIGURATION.Runs.WaitSeconds
    finished = runs.wait_for(started.id, wait)
    if finished.state != "completed":
        prefix = "/rest" if call.surface is Surface.REST else "/api"
        return Answer(202, runs.result(finished), {"Location": f"{prefix}/ad/runs/{finished.id}"})
    result = runs.result(finished)
    return Answer(207 if result["failed"] else 200, result)
