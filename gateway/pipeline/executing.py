"""The write: the intent is recorded, the directory is changed once, the outcome is recorded, the answer is read."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import DatabaseError

from approvals import secrets
from audit import log
from audit.models import OperationRecord
from directory import errors as directory_errors
from directory.ldap import Client, Write
from directory.lookup.access import client_of
from directory.lookup.connection import count_protection_change
from directory.lookup.protection_changes import show_nothing_before
from directory.outcomes.attribution import await_recorded_outcome
from directory.protection.state import may_change_protection
from directory.queries.reading import await_answer
from directory.runs import requests as runs
from directory.shapes.proposal import TakenBack, Target
from gateway.core.call import Call, Surface
from gateway.core.errors import GatewayError, ServiceUnavailable
from gateway.core.operation import Operation
from gateway.pipeline import dependent_changes
from gateway.pipeline.inputs import Answer, Change, Inputs
from gateway.pipeline.preparing import consider, reconsider
from gateway.pipeline.recording import target_of

logger = structlog.get_logger(__name__)


_Result = TypeVar("_Result")


ATTEMPTS = 3
"""How often a change without If-Match is proposed anew when somebody else changed the object in between."""


def run(operation: Operation, call: Call, inputs: Inputs) -> Answer:
    """Run one call of one operation; raises GatewayError, after recording the refusal."""
    considered = consider(operation, call, inputs)
    return considered if isinstance(considered, Answer) else carry_out(considered)


def attempt(step: Callable[[], _Result]) -> _Result | Exception:
    """Take a step for one of many calls, whose failure is not the others'; the surface says what it means."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - nothing is hidden: it is the answer to this call
        return error


def carry_out(change: Change) -> Answer:
    """Record the intent, write once, record the outcome, answer. A lost race is proposed anew, with its own record."""
    if change.proposal.run is not None:
        return _start_run(change)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _write(change)
        except directory_errors.VersionMismatch:
            if attempt == ATTEMPTS:
                raise
        considered = reconsider(change)
        if isinstance(considered, Answer):  # done by somebody else, or no longer harmless and so held
            return considered
        change = considered
    raise AssertionError("unreachable")


def _write(change: Change) -> Answer:
    operation, proposal = change.operation, change.proposal
    client = client_of(change.call)
    record = log.record_intent(change.call, change.intent)
    following = dependent_changes.record(change.call, proposal.follow_ups, approved_by=change.approved_by)
    server = None
    try:
        if proposal.secret is not None and change.call.change_request_id is not None:
            secrets.keep(change.call.change_request_id, proposal.secret)
        require_in_time(record)
        with directory_errors.translated():
            server = client.write(change.write)
    except directory_errors.OutcomeUnknown:
        lost = refusal_of(await_recorded_outcome(client, record))
        if lost is not None:
            log.complete_many([completion_of(record, lost), *dependent_changes.given_up(following, lost.code)])
            raise lost from None
    except GatewayError as refusal:
        told = explained(change, refusal)
        log.complete_many([completion_of(record, told), *dependent_changes.given_up(following, told.code)])
        raise told from refusal.__cause__
    dependent_changes.carry_out(client, proposal.follow_ups, following)
    writes = [(change.write, proposal.target), *((each.write, each.target) for each in proposal.follow_ups)]
    _tell_of_protection(change.call, client, writes)
    try:
        taken_back = None if proposal.look_back is None else await_answer(proposal.look_back)
        body = await_answer(proposal.answer) if taken_back is None else None
    except GatewayError:
        if proposal.target.id is not None:  # of a new object the settler has yet to find the identity
            log.complete(record.id, outcome="succeeded", server=server)
        raise
    created = target_of(body, {}, operation) if proposal.target.id is None else None
    log.complete(record.id, outcome="succeeded", server=server, target=created)
    if taken_back is not None:
        raise _take_back(change, taken_back)
    return Answer(operation.status, body if operation.output is not None else None)


def _tell_of_protection(call: Call, client: Client, writes: Iterable[tuple[Write, Target]]) -> None:
    """Let nobody be shown any more who was protected before these writes, in whichever process."""
    directory = call.directory
    if directory is None or not any(may_change_protection(write, target.kind) for write, target in writes):
        return
    try:
        show_nothing_before(client, count_protection_change(directory.id))
    except DatabaseError:  # the change is made, and its record is closed when the database is back
        logger.warning("other processes may show for two seconds who was protected before", directory=directory.name)


def _take_back(change: Change, taken_back: TakenBack) -> GatewayError:
    """Undo the write that was just made, with a record of its own; what the caller is told."""
    call = replace(change.call, reason=f"Taken back: {taken_back.refusal.detail}")
    records = dependent_changes.record(call, [taken_back.change], approved_by=change.approved_by)
    client = client_of(call)
    is_undone = dependent_changes.carry_out(client, [taken_back.change], records)
    _tell_of_protection(call, client, [(taken_back.change.write, taken_back.change.target)])
    if is_undone:
        return taken_back.refusal
    return directory_errors.OutcomeUnknown(f"The change could not be taken back: {taken_back.refusal.detail}")


def require_in_time(record: OperationRecord) -> None:
    """Refuse a write that was held up so long that a settler may have closed its record meanwhile."""
    if not record.may_be_written():
        raise ServiceUnavailable("The change was held up for too long and was not sent.")


def refusal_of(applied: bool | None) -> GatewayError | None:
    """What is said of a write without an answer, by whether it was found to be applied: nothing when it was."""
    if applied is None:
        return directory_errors.OutcomeUnknown()
    return None if applied else directory_errors.Unavailable()


def explained(change: Change, refusal: GatewayError) -> GatewayError:
    """What a refusal by the directory means for this change."""
    explain = change.proposal.explain
    return refusal if explain is None else explain(refusal)


def completion_of(record: OperationRecord, refusal: GatewayError) -> log.Completion:
    """How the record of a change that did not succeed is closed."""
    is_unknown = isinstance(refusal, directory_errors.OutcomeUnknown)
    return log.Completion(record_id=record.id, outcome="unknown" if is_unknown else "failed", code=refusal.code)


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
