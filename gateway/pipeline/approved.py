"""Apply approved changes, exactly once and with every check made again; forecast what applying one would do."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from approvals import drift, queue, supervision
from approvals.models import ChangeRequest, Status
from approvals.supervision import Assessment
from audit.redact import ChangeJson, redacted
from core import tracing
from core.call import Call, CredentialKind, CredentialRef, Schedule, Surface
from core.errors import Conflict, GatewayError, ServiceUnavailable
from core.operation import Effect, Operation, find_operation
from core.text.messages import message
from directory import errors as directory_errors
from directory.changes.references import (
    ReferenceChanged,
    names_referenced_by,
    resolve_names_in_use,
    update_names_in_input,
)
from directory.lookup.access import client_of
from directory.lookup.prefetch import Prefetch
from directory.shapes.proposal import Proposal
from gateway.pipeline.execute import execute
from gateway.pipeline.inputs import Change, Inputs, ValidatedInput, require_admitted
from gateway.pipeline.perform import administer
from gateway.pipeline.prepare import asked_again, hold, propose, with_reason
from gateway.pipeline.recording import record_refusal
from keys.agents.identification import call_for_agent
from keys.permissions.effective import call_for_key, call_for_person

_TRANSIENT = (directory_errors.Unavailable, ServiceUnavailable)


@tracing.traced("apply an approved change")
def apply_change_request(change_request_id: UUID) -> None:
    """Apply an approved change once: every check is made again, and it must still be the change that was approved."""
    change_request = queue.claim(change_request_id)
    if change_request is None:
        return
    try:
        with queue.keep_claim(change_request):
            status, problem = _apply(change_request), None
    except directory_errors.OutcomeUnknown as lost:
        status, problem = "unknown", lost.as_problem()
    except _TRANSIENT:  # nothing was written, and nothing was found wrong with the change: a sweep takes it up
        status, problem = "approved", None
    except GatewayError as refusal:
        status, problem = "failed", refusal.as_problem()
    queue.finish(change_request, status=status, problem=problem)


def _apply(change_request: ChangeRequest) -> str:
    call = call_of(change_request)
    operation, inputs = _requested(change_request, call)
    try:
        if operation.effect is Effect.ADMINISTER:
            return _apply_access(change_request, operation, call, inputs)
        is_decided = change_request.decided_by_id is not None
        call, accepted, proposal, assessment = _propose_again(operation, call, inputs, is_decided=is_decided)
        call = with_reason(call, proposal)
    except _TRANSIENT:
        raise
    except ReferenceChanged:
        return "stale"
    except GatewayError as refusal:
        record_refusal(operation, call, inputs.arguments, refusal.code)
        raise
    if not is_decided:
        change = Change(operation=operation, call=call, accepted=accepted, proposal=proposal, assessment=assessment)
        return _make_scheduled(change_request, change)
    if _has_drifted(change_request, call, proposal):
        return "stale"
    approved_by = change_request.approvers
    answer = execute(
        Change(operation=operation, call=call, accepted=accepted, proposal=proposal, approved_by=approved_by)
    )
    if proposal.run is None:
        return "applied"
    queue.follow_run(change_request, UUID(answer.body["runId"]))
    return "applying"


def _make_scheduled(change_request: ChangeRequest, change: Change) -> str:
    """Make a change whose time has come and that nobody had to approve, as if it were asked for now.

    If it has to be approved by now, a new request takes its place.
    """
    proposal = change.proposal
    if proposal.write is None and proposal.run is None and proposal.move_ends is None:
        return Status.APPLIED
    assert change.assessment is not None
    if proposal.changes and supervision.must_wait(change.call.supervision, change.assessment.risk):
        hold(change.operation, change.call, change.accepted, proposal, change.assessment)
        return Status.SUPERSEDED
    try:
        answer = execute(change)
    except directory_errors.VersionMismatch:
        if change.call.if_match is not None:
            raise
        return Status.APPROVED  # somebody changed the object at the same moment
    if proposal.run is not None and "runId" in answer.body:
        queue.follow_run(change_request, UUID(answer.body["runId"]))
        return Status.APPLYING
    is_held = answer.status == 202
    return Status.SUPERSEDED if is_held else Status.APPLIED


def _apply_access(change_request: ChangeRequest, operation: Operation, call: Call, inputs: Inputs) -> str:
    """Grant the approved access, unless the tables have changed so that it would now do something else."""
    with transaction.atomic():
        _, made = administer(operation, call, inputs, approved_by=change_request.approvers)
        if drift.has_access_drifted(change_request, made):
            transaction.set_rollback(True)
            return "stale"
    return "applied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What would happen if a pending change request were approved now.

    `refusal` is the error that it would fail with, `stale` whether the values concerned have changed since, `changes`
    what it would change now, `warnings` what its approver should know.
    """

    refusal: GatewayError | None = None
    stale: bool = False
    changes: tuple[ChangeJson, ...] = ()
    warnings: tuple[str, ...] = ()


def forecast(change_request: ChangeRequest, *, prefetch: Prefetch | None = None) -> Forecast:
    """Check a pending change request as applying it would, changing and recording nothing.

    A `prefetch` holds directory data that was read for several requests at once.
    """
    try:
        call = replace(call_of(change_request), prefetch=prefetch)
        operation, inputs = _requested(change_request, call)
        if operation.effect is Effect.ADMINISTER:
            with transaction.atomic():
                _, made = administer(operation, call, inputs)
                transaction.set_rollback(True)
            return Forecast(
                stale=drift.has_access_drifted(change_request, made),
                changes=tuple(queue.main_change(operation, made).changes if made else ()),
            )
        _, _, proposal, _ = _propose_again(operation, call, inputs)
        stale = _has_drifted(change_request, call, proposal)
    except GatewayError as refusal:
        return Forecast(refusal=refusal)
    except ReferenceChanged:
        return Forecast(stale=True)
    return Forecast(
        stale=stale,
        changes=tuple(redacted(change.as_json() for change in proposal.changes)),
        warnings=proposal.warnings,
    )


def resubmit(change_request: ChangeRequest) -> ChangeRequest:
    """Submit a request's change again, against the current values; return the new, pending request.

    The new request belongs to the same key or agent and is held even if that could change this without approval. Joins
    the caller's transaction. Raises what submitting it would raise, and Conflict if nothing would change any more.
    """
    call = asked_again(call_of(change_request))
    operation, inputs = _requested(change_request, call)
    if operation.effect is Effect.ADMINISTER:
        raise Conflict(message("More access has to be asked for anew by who wants it."))
    try:
        call, accepted, proposal, assessment = _propose_again(operation, call, inputs, is_decided=False)
    except ReferenceChanged:
        raise Conflict(message("An object that it refers to is gone.")) from None
    if not proposal.changes:
        raise Conflict(message("Nothing would change any more: the values are as they were asked for."))
    return hold(operation, call, accepted, proposal, assessment)


def call_of(change_request: ChangeRequest) -> Call:
    """The call that applies a change request, with its key's or agent's current permissions; raises Forbidden."""
    connection_id = change_request.directory_id
    if connection_id is None and (named := change_request.kept_input().get("directory")):  # of a request for access
        connection_id = UUID(named)
    facts: dict[str, Any] = {
        "surface": Surface.WORKER,
        "request_id": change_request.request_id,
        "change_request_id": change_request.id,
    }
    if change_request.agent and connection_id is not None:
        call = call_for_agent(change_request.key_id, connection_id=connection_id, **facts)
    elif change_request.key_name is not None and connection_id is not None:
        call = call_for_key(change_request.key_id, connection_id=connection_id, **facts)
    else:  # a person's: one for access, or one that a budget of the directory held
        credential = CredentialRef(kind=CredentialKind.SESSION, id=change_request.key_id)
        call = call_for_person(change_request.requester_id, credential=credential, connection_id=connection_id, **facts)
    if_match = frozenset(change_request.if_match) if change_request.if_match else None
    schedule = None
    if change_request.has_schedule:
        after = change_request.revert_after
        schedule = Schedule(
            apply_at=change_request.due_at,
            revert_at=change_request.revert_at,
            revert_after=None if after is None else timedelta(seconds=after),
        )
    return replace(call, reason=change_request.reason, if_match=if_match, schedule=schedule)


def _requested(change_request: ChangeRequest, call: Call) -> tuple[Operation, Inputs]:
    """Return the operation and its input, with the current names of the objects that the input refers to.

    Reading the document raises ReferenceChanged if one of them is gone.
    """
    kept = change_request.kept_input()

    def document() -> Any:
        if not kept.get("references"):
            return kept["document"]
        with directory_errors.translate_ldap_errors():
            return update_names_in_input(client_of(call), kept["document"], kept["references"])

    inputs = Inputs(arguments=kept["arguments"], query=lambda: dict(kept["query"]), document=document)
    return find_operation(change_request.operation), inputs


def _has_drifted(change_request: ChangeRequest, call: Call, proposal: Proposal) -> bool:
    """Whether the change differs from the one approved. References are compared by object, not by name."""
    client = client_of(call)
    meant = change_request.kept_input().get("meantByNames")  # None in what an earlier release held
    if meant is not None and meant != resolve_names_in_use(client, proposal.changes):
        return True
    return drift.has_drifted(change_request, proposal, lambda change: names_referenced_by(client.schema, change))


def _propose_again(
    operation: Operation, call: Call, inputs: Inputs, *, is_decided: bool = True
) -> tuple[Call, ValidatedInput, Proposal, Assessment]:
    require_admitted(operation, call)
    accepted, call = inputs.validate(operation, call)
    with directory_errors.translate_ldap_errors():
        return call, accepted, *propose(operation, call, accepted, is_decided=is_decided)
