"""Record calls in the operations log: the intent of a change and its target, refusals, and values that were shown.

A dry run and a change that changes nothing show values, too, so they are recorded as reads.
`directory.lookup.visibility` decides which values a caller sees, and `directory.queries.reading` what a record holds
for callers who may not read objects.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from django.db import DatabaseError

from active_directory import Client
from audit import log
from core.call import Call, RecordStream, Surface
from core.errors import Forbidden, GatewayError
from core.operation import Effect, Operation
from core.shapes import parse_guid
from directory.changes.references import evidence_with_references
from directory.changes.revert import reversibility
from directory.lookup.visibility import may_see_values
from directory.shapes.kinds import resource_of
from directory.shapes.proposal import AttributeChange, DependentChange, Proposal, Target

logger = structlog.get_logger(__name__)


def intent_of(
    operation: str,
    change: Proposal | DependentChange,
    *,
    client: Client,
    batch_index: int | None = None,
    approved_by: str | None = None,
) -> log.Intent:
    """What the log records of a change before it is written, under the name of an operation."""
    return log.Intent(
        operation=operation,
        target=target_ref(change.target),
        changes=loggable_changes(change.changes),
        evidence=evidence_with_references(client.schema, change),
        batch_index=batch_index,
        reversible=reversibility(operation, change.changes),
        approved_by=approved_by,
    )


def target_ref(target: Target) -> log.TargetRef:
    return log.TargetRef(id=target.id, kind=target.kind, distinguished_name=target.distinguished_name)


def loggable_changes(changes: Sequence[AttributeChange]) -> list[dict[str, Any]]:
    return [dict(change.as_json()) for change in changes]


def target_of(result: Any, arguments: Mapping[str, str], operation: Operation) -> log.TargetRef | None:
    """The directory object that an answer shows, else the one that the path names."""
    if operation.needs_directory and isinstance(result, dict) and "distinguishedName" in result and "kind" in result:
        return log.TargetRef(
            id=parse_guid(result["id"]), kind=result["kind"], distinguished_name=result["distinguishedName"]
        )
    return target_by_id(operation, arguments.get("id"))


def target_by_id(operation: Operation, text: str | None) -> log.TargetRef | None:
    """A target of which only the identifier is known; None if `text` is no GUID or the operation has no directory."""
    named = parse_guid(text or "") if operation.needs_directory else None
    if named is None:
        return None
    return log.TargetRef(id=named, kind="" if operation.names_object else operation.resource, distinguished_name="")


def record_refusal(operation: Operation, call: Call, arguments: Mapping[str, str], code: str) -> None:
    """Record a refused call. An unavailable log must not hide the refusal itself, so it only gets a warning."""
    target = target_by_id(operation, arguments.get("id"))
    try:
        if operation.effect is Effect.READ:
            _record(call, operation.name, target, outcome="failed", code=code)
        else:
            log.record_refusal(call, operation=operation.name, code=code, target=target)
    except (DatabaseError, GatewayError):
        logger.warning("refusal not recorded", operation=operation.name, code=code)


def require_preview_allowed(call: Call) -> None:
    """Raise Forbidden for a dry run if the caller may not read objects: it shows their values."""
    if call.dry_run and not may_see_values(call):
        raise Forbidden


def record_read(operation: Operation, call: Call, result: Any, arguments: Mapping[str, str]) -> None:
    """Record that a read was answered."""
    target = target_of(result, arguments, operation)
    _record(call, operation.name, target)
    if isinstance(result, dict) and (manager := result.get("manager")) and "distinguishedName" in result:
        _record(call, operation.name, target_of(manager, {}, operation))  # its values are shown, too
    if isinstance(result, RecordStream):  # it may still fail after the answer has begun
        result.failed = lambda error: _record(call, operation.name, target, outcome="failed", code=error.code)


def record_shown(operation: Operation, call: Call, proposal: Proposal) -> None:
    """Record a dry run, or a change that changed nothing, as a read of the object."""
    resource = operation.resource if operation.names_object else resource_of(proposal.target.kind)
    _record(call, f"{resource}.read", target_ref(proposal.target))


def record_replayed(operation: Operation, call: Call, arguments: Mapping[str, str], body: Any) -> None:
    """Record a replayed answer as a read of each object whose values it shows."""
    if not operation.needs_directory or not isinstance(body, dict):
        return
    for shown in (body, body.get("object"), *body.get("results", ())):
        if isinstance(shown, dict) and not shown.keys().isdisjoint(("attributes", "changes")):
            named = (shown.get("id") or arguments.get("id", "")) if operation.names_object else ""
            target = target_of(shown, {"id": named}, operation)
            resource = operation.resource if operation.names_object else resource_of(target.kind if target else None)
            _record(call, f"{resource}.read", target)


def _record(call: Call, operation: str, target: log.TargetRef | None, **outcome: Any) -> None:
    """Record a read, unless a person made it in the console."""
    if call.surface is not Surface.REST:
        log.record_read(call, operation=operation, target=target, **outcome)
