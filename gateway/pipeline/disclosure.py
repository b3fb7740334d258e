"""The gate that every answer with values of the directory passes: who may see them, and that they were shown.

Reads ask for a permission of their own. A dry run and a change that changes nothing show values, too: they are reads by
another name. `directory.lookup.visibility` decides which values a caller sees, and `directory.queries.reading` what a
record holds for callers who may not read objects.
"""

from collections.abc import Mapping
from typing import Any

from audit import log
from core.call import Call, Surface
from core.errors import Forbidden
from core.operation import Operation
from core.streams import RecordStream
from directory.lookup.visibility import may_see_values
from directory.shapes.kinds import resource_of
from directory.shapes.proposal import Proposal
from gateway.pipeline.recording import target_of, target_ref


def require_preview_allowed(call: Call) -> None:
    """Raise Forbidden for the dry run of somebody who may not read objects."""
    if call.dry_run and not may_see_values(call):
        raise Forbidden


def record_read(operation: Operation, call: Call, result: Any, arguments: Mapping[str, str]) -> None:
    """Note that a read was answered."""
    target = target_of(result, arguments, operation)
    _record(call, operation.name, target)
    if isinstance(result, RecordStream):  # what breaks it comes to light after this answer has begun
        result.failed = lambda error: _record(call, operation.name, target, outcome="failed", code=error.code)


def record_shown(operation: Operation, call: Call, proposal: Proposal) -> None:
    """Note that a change was answered without being made: as a read of the object, for it was no change."""
    resource = operation.resource if operation.names_object else resource_of(proposal.target.kind)
    _record(call, f"{resource}.read", target_ref(proposal.target))


def record_replayed(operation: Operation, call: Call, arguments: Mapping[str, str], body: Any) -> None:
    """Note that an answer was given once more: as a read of each object whose values it shows."""
    if not operation.on_directory or not isinstance(body, dict):
        return
    for shown in (body, body.get("object"), *body.get("results", ())):
        if isinstance(shown, dict) and not shown.keys().isdisjoint(("attributes", "changes")):
            named = (shown.get("id") or arguments.get("id", "")) if operation.names_object else ""
            target = target_of(shown, {"id": named}, operation)
            resource = operation.resource if operation.names_object else resource_of(target.kind if target else None)
            _record(call, f"{resource}.read", target)


def _record(call: Call, operation: str, target: log.TargetRef | None, **outcome: Any) -> None:
    if call.surface is not Surface.REST:
        log.record_read(call, operation=operation, target=target, **outcome)
