"""Perform reads and changes of the gateway's own tables, and record them in the same step.

A read may come from a domain controller that lacks changes made at another one; a header of the answer says so.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from active_directory import is_on_loop, servers_asked
from approvals import queue
from approvals.states import retry_after
from audit import log
from audit.model_changes.descriptions import RowChange, find_audited_model
from audit.model_changes.recording import AccessNeedsTwo, recorded
from core.call import Call, RecordStream, Surface
from core.database.own_rows import lock_record
from core.database.time_limit import short_queries
from core.errors import GatewayError
from core.operation import Effect, Operation, find_operation
from directory import errors as directory_errors
from directory.lookup.access import client_of
from directory.lookup.replication import may_lack_changes
from directory.runs import requests as runs
from gateway.pipeline import recording
from gateway.pipeline.fields import record_of, stream_only
from gateway.pipeline.inputs import REPLICATION, Answer, Inputs, ValidatedInput, require_admitted
from gateway.pipeline.recording import record_refusal
from keys.sign_in.confirmation import DecisionBody, confirm

RETRY_AFTER = {
    "change-requests.read": lambda read: retry_after(read["status"]),
    "runs.read": lambda read: runs.retry_after(read["state"]),
    "runs.read-details": lambda read: runs.retry_after(read["state"]),
}
"""In how many seconds it is worth reading again what has not ended, by the read."""


def perform(operation: Operation, call: Call, accepted: ValidatedInput) -> Answer:
    """Perform a read or a change of the gateway's own tables, and record it; raises GatewayError."""
    if operation.effect is Effect.READ:
        result, headers = _read(operation, call, accepted)
        recording.record_read(operation, call, result, accepted.arguments)
        if (seconds_of := RETRY_AFTER.get(operation.name)) is not None and (seconds := seconds_of(result)) is not None:
            headers["Retry-After"] = str(seconds)
        if accepted.fields is not None and isinstance(result, RecordStream):
            stream_only(result, record_of(operation), accepted.fields)
        return Answer(operation.status, result, headers, accepted.fields)
    if operation.effect is Effect.UNDERTAKE:  # commits its steps one by one, so that a killed process loses none
        with transaction.atomic():
            require_version(operation, call, accepted.kwargs.get("id"))
        return Answer(operation.status, operation.function(call, **accepted.kwargs))
    body = accepted.kwargs.get("body")
    if isinstance(body, DecisionBody):
        call = confirm(call, body, accepted.kwargs.get("id"))
    try:
        result, _ = _administer(operation, call, accepted)
    except AccessNeedsTwo as refusal:
        return _hold_access(operation, call, accepted, refusal)
    return Answer(operation.status, result)


def _read(operation: Operation, call: Call, accepted: ValidatedInput) -> tuple[Any, dict[str, str]]:
    """Return a read's answer with its replication header, which a refusal carries, too."""
    with servers_asked() as servers:
        try:
            # On the event loop there are no queries at all.
            with nullcontext() if call.surface is Surface.WORKER or is_on_loop() else short_queries():
                result = operation.function(call, **accepted.kwargs)
        except GatewayError as refusal:
            refusal.headers |= _replication_headers(call, servers)
            raise
    if operation.needs_directory and isinstance(result, RecordStream) and len(client_of(call).settings.urls) > 1:
        servers.add(client_of(call).choose_server())  # a stream reads the directory only while it is sent
    return result, _replication_headers(call, servers)


def _replication_headers(call: Call, servers: set[str]) -> dict[str, str]:
    is_behind = servers and call.directory is not None and may_lack_changes(client_of(call), servers)
    return {REPLICATION: "pending"} if is_behind else {}


def administer(
    operation: Operation, call: Call, inputs: Inputs, *, approved_by: str | None = None
) -> tuple[Any, list[RowChange]]:
    """Change the gateway's own tables inside the caller's transaction, without a hold; raises GatewayError.

    Returns the answer and the rows that changed. Does not record a refusal.
    """
    require_admitted(operation, call)
    accepted, call = inputs.validate(operation, call)
    with directory_errors.translate_ldap_errors():
        return _administer(operation, call, accepted, approved_by=approved_by)


def _administer(
    operation: Operation, call: Call, accepted: ValidatedInput, *, approved_by: str | None = None
) -> tuple[Any, list[RowChange]]:
    """Change the gateway's own tables and record it, in one commit; return the answer and the rows that changed."""
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
    """Lock one of the gateway's own records against other changes, and compare its version with If-Match.

    The version is the one that reading the record shows. A record without a version, or yet to be made, never matches.
    """
    if id is not None:
        lock_record(operation.resource, id)
    if call.if_match is None or "*" in call.if_match:
        return
    record = find_operation(f"{operation.resource}.read").function(call, id=id) if id is not None else {}
    if record.get("version") not in call.if_match:
        raise directory_errors.VersionMismatch


def _hold_access(operation: Operation, call: Call, accepted: ValidatedInput, refusal: AccessNeedsTwo) -> Answer:
    """Hold a change that widens access until a second person decides, whoever requests it."""
    made = queue.main_change(operation, refusal.made)
    kept = {
        "arguments": dict(accepted.arguments),
        "query": dict(accepted.query),
        "document": accepted.document,
        "directory": str(call.directory.id) if operation.needs_directory and call.directory is not None else None,
    }
    with transaction.atomic():
        change_request = queue.hold_access_change(call, operation=operation, kept=kept, refusal=refusal)
        log.record_queued(
            call,
            operation=operation.name,
            target=log.TargetRef(id=change_request.target_id, kind=made.table.resource, distinguished_name=made.name),
            changes=made.changes,
            change_request_id=change_request.id,
            raised_access=refusal.reasons,
        )
    return held_answer(call, queue.queued_answer(change_request))


def held_answer(call: Call, body: queue.QueuedAnswer) -> Answer:
    """The answer 202 to a change that is held, with the address of its change request."""
    held = body["changeRequest"]
    headers = {
        "Location": f"{call.prefix}/change-requests/{held['id']}",
        "Retry-After": str(retry_after(held["status"])),
    }
    return Answer(202, body, headers)


@dataclass(slots=True)
class OwnChanges:
    """Several operations on the gateway's own tables inside one transaction of the caller's."""

    call: Call
    made: list[RowChange]
    """The rows that changed so far."""
    _last: tuple[Operation, Mapping[str, str]] | None = None

    def perform(self, name: str, *, body: Any = None, **arguments: Any) -> Any:
        """Perform an operation with the same checks as on every surface; return its answer or raise GatewayError."""
        operation = find_operation(name)
        if operation.effect is not Effect.ADMINISTER:
            raise ValueError(f"{name} does not change the gateway's own tables")
        texts = {argument: str(value) for argument, value in arguments.items()}
        self._last = operation, texts
        result, made = administer(operation, self.call, Inputs(arguments=texts, query=dict, document=lambda: body))
        self._last = None
        self.made += made
        return result

    def record_refusal(self, refusal: GatewayError) -> None:
        """Record which operation was refused; to be called after the transaction, which would take the record back."""
        if self._last is not None:
            operation, arguments = self._last
            record_refusal(operation, self.call, arguments, refusal.code)


@contextmanager
def all_or_nothing(call: Call, *, dry_run: bool = False) -> Iterator[OwnChanges]:
    """Perform operations in one transaction. A refusal rolls all of them back; so does a dry run, at the end."""
    changes = OwnChanges(call, [])
    try:
        with transaction.atomic():
            yield changes
            transaction.set_rollback(dry_run)
    except GatewayError as refusal:
        if not dry_run:
            changes.record_refusal(refusal)
        raise
