"""Reads, and changes of the gateway's own tables: what is done at once, and recorded with it."""

from typing import Any
from uuid import UUID

from django.db import transaction

from approvals import queue
from approvals.review.access_requests import changed_by, hold_access
from audit import log
from audit.model_changes.descriptions import Changed, find_audited_model
from audit.model_changes.recording import AccessNeedsTwo, recorded
from core.call import Call, Surface
from core.operation import Effect, Operation, find_operation
from core.versions import lock_record
from directory import errors as directory_errors
from gateway.pipeline import disclosure, replication
from gateway.pipeline.inputs import Answer, ValidatedInput
from keys.sign_in.confirmation import ConfirmedBody, require_confirmation


def perform(operation: Operation, call: Call, accepted: ValidatedInput) -> Answer:
    """A read, or a change of the gateway's own tables (recorded with its intent, as every change)."""
    if operation.effect is Effect.READ:
        result, headers = replication.read(operation, call, accepted)
        disclosure.record_read(operation, call, result, accepted.arguments)
        return Answer(operation.status, result, headers)
    if operation.effect is Effect.UNDERTAKE:  # its steps are committed one by one, so that a kill loses none
        with transaction.atomic():
            require_version(operation, call, accepted.kwargs.get("id"))
        return Answer(operation.status, operation.function(call, **accepted.kwargs))
    body = accepted.kwargs.get("body")
    if isinstance(body, ConfirmedBody):
        require_confirmation(call, body.code)
    try:
        result, _ = administer(operation, call, accepted)
    except AccessNeedsTwo as refusal:
        return _hold_access(operation, call, accepted, refusal)
    return Answer(operation.status, result)


def administer(
    operation: Operation, call: Call, accepted: ValidatedInput, *, approved_by: str | None = None
) -> tuple[Any, list[Changed]]:
    """Change the gateway's own tables and record it, in one commit; the answer, and what became different."""
    table, id = find_audited_model(operation.resource), accepted.kwargs.get("id")
    with recorded(call, operation=operation.name, approved_by=approved_by) as administration:
        if id is not None:
            administration.watch(table, id, with_dependents=operation.method == "DELETE")
        require_version(operation, call, id)
        result = operation.function(call, **accepted.kwargs)
        if id is None:
            administration.note_new(table, UUID(result["id"]))
    return result, administration.made


def require_version(operation: Operation, call: Call, id: UUID | None) -> None:
    """Let others wait who change the same record of the gateway's own, and compare its version with If-Match.

    The version is the one that reading it shows. A record without one, or one still to be made, is never the one meant.
    """
    if id is not None:
        lock_record(operation.resource, id)
    if call.if_match is None or "*" in call.if_match:
        return
    record = find_operation(f"{operation.resource}.read").function(call, id=id) if id is not None else {}
    if record.get("version") not in call.if_match:
        raise directory_errors.VersionMismatch


def _hold_access(operation: Operation, call: Call, accepted: ValidatedInput, refusal: AccessNeedsTwo) -> Answer:
    """More access waits for a second person, whoever asks for it."""
    made = changed_by(operation, refusal.made)
    with transaction.atomic():
        change_request = hold_access(
            call,
            operation=operation,
            arguments=accepted.arguments,
            query=accepted.query,
            document=accepted.document,
            refusal=refusal,
        )
        log.record_queued(
            call,
            operation=operation.name,
            target=log.TargetRef(id=change_request.target_id, kind=made.table.resource, distinguished_name=made.name),
            changes=made.changes,
            change_request_id=change_request.id,
            raised_access=refusal.reasons,
        )
    return queued(call, queue.queued_answer(change_request))


def queued(call: Call, body: queue.QueuedAnswer) -> Answer:
    prefix = "/rest" if call.surface is Surface.REST else "/api"
    return Answer(202, body, {"Location": f"{prefix}/change-requests/{body['changeRequest']['id']}"})
