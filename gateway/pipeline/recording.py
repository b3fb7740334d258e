"""What the operations log keeps of calls: the intent of a change, whom or what it is about, refusals.

Only `record_refusal` writes; callers decide when anything else is recorded.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import structlog
from django.db import DatabaseError

from active_directory import Client
from audit import log
from core.call import Call, Surface
from core.errors import GatewayError
from core.operation import Effect, Operation
from core.shapes import parse_guid
from directory.changes.identities import RECORDED, recorded
from directory.changes.reversibility import reversible_as
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
    """What the log keeps of a change before it is written, under the name of an operation."""
    kept = recorded(client.schema, change.changes, change.identities) if change.identities else {}
    return log.Intent(
        operation=operation,
        target=target_ref(change.target),
        changes=loggable_changes(change.changes),
        evidence={**change.evidence, RECORDED: kept} if kept else change.evidence,
        batch_index=batch_index,
        reversible=reversible_as(operation, change.changes),
        approved_by=approved_by,
    )


def target_ref(target: Target) -> log.TargetRef:
    return log.TargetRef(id=target.id, kind=target.kind, distinguished_name=target.distinguished_name)


def loggable_changes(changes: Sequence[AttributeChange]) -> list[dict[str, Any]]:
    return [dict(change.as_json()) for change in changes]


def target_of(result: Any, arguments: Mapping[str, str], operation: Operation) -> log.TargetRef | None:
    """The directory object an answer is about, else what its path names."""
    if operation.on_directory and isinstance(result, dict) and "distinguishedName" in result and "kind" in result:
        return log.TargetRef(id=UUID(result["id"]), kind=result["kind"], distinguished_name=result["distinguishedName"])
    return target_named(operation, arguments.get("id"))


def target_named(operation: Operation, text: str | None) -> log.TargetRef | None:
    """What was named by its identifier alone: a directory object, or a row of an own table by its resource."""
    named = parse_guid(text or "") if operation.on_directory else None
    if named is None:
        return None
    return log.TargetRef(id=named, kind="" if operation.names_object else operation.resource, distinguished_name="")


def record_refusal(operation: Operation, call: Call, arguments: Mapping[str, str], code: str) -> None:
    """One record of a refused call. The log being away must not hide the refusal itself."""
    target = target_named(operation, arguments.get("id"))
    try:
        if operation.effect is Effect.READ:
            if call.surface is not Surface.REST:
                log.record_read(call, operation=operation.name, target=target, outcome="failed", code=code)
        else:
            log.record_refusal(call, operation=operation.name, code=code, target=target)
    except (DatabaseError, GatewayError):
        logger.warning("refusal not recorded", operation=operation.name, code=code)
