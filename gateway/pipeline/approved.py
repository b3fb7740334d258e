"""Approved changes: applied once, as what was approved, with everything checked anew; and what would become of one."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from approvals import drift, queue
from approvals.models import ChangeRequest
from approvals.review.access_requests import changed_by, is_stale
from approvals.supervision import Assessment
from audit.model_changes.descriptions import Changed
from audit.redact import ChangeJson, redacted
from core import tracing
from core.call import Call, CredentialKind, CredentialRef, Surface
from core.errors import Conflict, GatewayError, ServiceUnavailable
from core.operation import Effect, Operation, find_operation
from core.text.messages import message
from directory import errors as directory_errors
from directory.changes.identities import meant_by_names
from directory.changes.input_references import ReferenceChanged, rename_input
from directory.changes.references import references_of
from directory.lookup.access import client_of
from directory.lookup.prefetch import Prefetch
from directory.shapes.proposal import Proposal
from gateway.pipeline.execute import execute
from gateway.pipeline.inputs import Change, Inputs, ValidatedInput
from gateway.pipeline.perform import administer
from gateway.pipeline.prepare import hold, propose, require_admitted, with_reason
from gateway.pipeline.recording import record_refusal
from keys.agents.identification import call_for_agent
from keys.permissions.effective import call_for_key, call_for_person

_TRY_AGAIN = (directory_errors.Unavailable, ServiceUnavailable)


@tracing.traced("apply an approved change")
def apply_change_request(change_request_id: UUID) -> None:
    """Apply an approved change once: everything is checked anew, and it must still be the change that was approved."""
    change_request = queue.claim(change_request_id)
    if change_request is None:
        return
    try:
        status, problem = _apply(change_request), None
    except directory_errors.OutcomeUnknown as lost:
        status, problem = "unknown", lost.as_problem()
    except _TRY_AGAIN:  # nothing was written, and nothing was found wrong with the change: a sweep takes it up
        status, problem = "approved", None
    except GatewayError as refusal:
        status, problem = "failed", refusal.as_problem()
    queue.finish(change_request, status=status, problem=problem)


def _apply(change_request: ChangeRequest) -> str:
    call = call_of(change_request)
    operation, inputs = _asked(change_request, call)
    try:
        if operation.effect is Effect.ADMINISTER:
            return _apply_access(change_request, operation, call, inputs)
        call, accepted, proposal, _ = _propose_anew(operation, call, inputs)
        call = with_reason(call, proposal)
    except _TRY_AGAIN:
        raise
    except ReferenceChanged:
        return "stale"
    except GatewayError as refusal:
        record_refusal(operation, call, inputs.arguments, refusal.code)
        raise
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


def _apply_access(change_request: ChangeRequest, operation: Operation, call: Call, inputs: Inputs) -> str:
    """Give the access that was approved, if it still is the same from the same state."""
    with transaction.atomic():
        made = _administer_anew(operation, call, inputs, approved_by=change_request.approvers)
        if is_stale(change_request, made):
            transaction.set_rollback(True)
            return "stale"
    return "applied"


def _administer_anew(
    operation: Operation, call: Call, inputs: Inputs, *, approved_by: str | None = None
) -> list[Changed]:
    require_admitted(operation, call)
    accepted, call = inputs.validate(operation, call)
    with directory_errors.translated():
        _, made = administer(operation, call, accepted, approved_by=approved_by)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What would become of a waiting change request if it were approved now.

    `refusal` is what it would fail with, `stale` whether the values concerned have changed since, `changes` what it
    would change now, `warnings` what its approver should know.
    """

    refusal: GatewayError | None = None
    stale: bool = False
    changes: tuple[ChangeJson, ...] = ()
    warnings: tuple[str, ...] = ()


def forecast(change_request: ChangeRequest, *, prefetch: Prefetch | None = None) -> Forecast:
    """Judge a waiting change request as its application would, changing and recording nothing.

    With a `prefetch` it is judged by what was read for several at once.
    """
    try:
        call = replace(call_of(change_request), prefetch=prefetch)
        operation, inputs = _asked(change_request, call)
        if operation.effect is Effect.ADMINISTER:
            with transaction.atomic():
                made = _administer_anew(operation, call, inputs)
                transaction.set_rollback(True)
            return Forecast(
                stale=is_stale(change_request, made), changes=tuple(changed_by(operation, made).changes if made else ())
            )
        _, _, proposal, _ = _propose_anew(operation, call, inputs)
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
    """Hold what a request asks for once more, as a change of the values of now; the new request.

    It is under the same key or agent, whatever that may do without asking. Joins the caller's transaction. Raises
    what asking for it would be refused with, and Conflict when nothing would change any more.
    """
    surface = Surface.AGENT if change_request.agent else Surface.API
    call = replace(
        call_of(change_request),
        surface=surface,
        change_request_id=None,
        client_address=change_request.client_address,
    )
    operation, inputs = _asked(change_request, call)
    if operation.effect is Effect.ADMINISTER:
        raise Conflict(message("More access has to be asked for anew by who wants it."))
    try:
        call, accepted, proposal, assessment = _propose_anew(operation, call, inputs)
    except ReferenceChanged:
        raise Conflict(message("An object that it refers to is gone.")) from None
    if not proposal.changes:
        raise Conflict(message("Nothing would change any more: the values are as they were asked for."))
    return hold(operation, call, accepted, proposal, assessment)


def call_of(change_request: ChangeRequest) -> Call:
    """The call under which a change request is applied: its key's or agent's, as that is now; raises Forbidden.

    Only access is asked for without a directory, by a person.
    """
    facts: dict[str, Any] = {
        "surface": Surface.WORKER,
        "request_id": change_request.request_id,
        "change_request_id": change_request.id,
    }
    if change_request.directory_id is None:
        credential = CredentialRef(kind=CredentialKind.SESSION, id=change_request.key_id)
        call = call_for_person(change_request.requester_id, credential=credential, connection_id=None, **facts)
    elif change_request.agent:
        call = call_for_agent(change_request.key_id, connection_id=change_request.directory_id, **facts)
    else:
        call = call_for_key(change_request.key_id, connection_id=change_request.directory_id, **facts)
    if_match = frozenset(change_request.if_match) if change_request.if_match else None
    return replace(call, reason=change_request.reason, if_match=if_match)


def _asked(change_request: ChangeRequest, call: Call) -> tuple[Operation, Inputs]:
    """What was asked for, with the names that the objects it refers to have now.

    Reading its document raises ReferenceChanged when one of them is gone.
    """
    kept = change_request.kept_input()

    def document() -> Any:
        if not kept.get("references"):
            return kept["document"]
        with directory_errors.translated():
            return rename_input(client_of(call), kept["document"], kept["references"])

    inputs = Inputs(arguments=kept["arguments"], query=lambda: dict(kept["query"]), document=document)
    return find_operation(change_request.operation), inputs


def _has_drifted(change_request: ChangeRequest, call: Call, proposal: Proposal) -> bool:
    """Whether it is not what was asked for any more; objects that it refers to count, whatever they are called now."""
    client = client_of(call)
    meant = change_request.kept_input().get("meantByNames")  # None in what an earlier release held
    if meant is not None and meant != meant_by_names(client, proposal.changes):
        return True
    return drift.has_drifted(change_request, proposal, lambda change: references_of(client.schema, change))


def _propose_anew(
    operation: Operation, call: Call, inputs: Inputs
) -> tuple[Call, ValidatedInput, Proposal, Assessment]:
    require_admitted(operation, call)
    accepted, call = inputs.validate(operation, call)
    with directory_errors.translated():
        return call, accepted, *propose(operation, call, accepted)
