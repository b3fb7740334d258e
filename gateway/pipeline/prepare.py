"""Everything before the write, in its order: admission, validation, proposal, risk, dry run, hold.

Read `prepare`: that is the whole order of checks. A refusal is recorded here.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from django.db import transaction

from approvals import queue, supervision
from approvals.models import ChangeRequest
from approvals.supervision import Assessment
from audit import log
from core import tracing
from core.call import Call
from core.deadlines import require_time
from core.errors import Forbidden, GatewayError
from core.operation import SIGNED_IN, Effect, Operation, Risk
from core.text.messages import Message
from directory import errors as directory_errors
from directory.changes.identities import described, meant_by_names
from directory.changes.input_references import resolve_input
from directory.lookup.access import client_of
from directory.lookup.look_alikes import look_alikes
from directory.lookup.visibility import visibility_of
from directory.protection.reasons import why_protected
from directory.queries.reading import version_seen_by
from directory.shapes.proposal import Proposal
from gateway.pipeline import disclosure, replay, replication
from gateway.pipeline.charges import charge, count_change_of_agent
from gateway.pipeline.inputs import Answer, Change, InputSource, ValidatedInput
from gateway.pipeline.perform import perform, queued
from gateway.pipeline.recording import loggable_changes, record_refusal, target_ref
from keys.permissions import more_privileged_people


@tracing.traced(lambda operation, *_: f"prepare {operation.name}")
def prepare(operation: Operation, call: Call, inputs: InputSource) -> Answer | Change:
    """Everything but the write: the answer if none is needed (now); raises GatewayError, after recording the refusal.

    Execute the change immediately; its checks go stale.
    """
    try:
        require_admitted(operation, call)
        accepted, call = inputs.validate(operation, call)
        require_time(changes=operation.effect is not Effect.READ and not call.dry_run)
        if call.batch_index is None:
            charge(call, [accepted.document])
        with directory_errors.translated():
            if operation.effect is not Effect.CHANGE:
                return perform(operation, call, accepted)
            disclosure.require_preview_allowed(call)
            if (answer := _answer_of_interrupted(operation, call)) is not None:
                disclosure.record_replayed(operation, call, inputs.arguments, answer.body)
                return answer
            return _judge(operation, call, accepted)
    except GatewayError as refusal:
        record_refusal(operation, call, inputs.arguments, refusal.code)
        raise
    except Exception:
        record_refusal(operation, call, inputs.arguments, GatewayError.code)
        raise


def _answer_of_interrupted(operation: Operation, call: Call) -> Answer | None:
    """What an earlier attempt of the same request would have been answered, had it not been killed when it was done."""
    found = None if call.dry_run else replay.find_answer(call, operation)
    if found is None:
        return None
    status, body = found
    return queued(call, body) if status == 202 else Answer(status, body)


def prepare_again(change: Change) -> Answer | Change:
    """Propose anew a change that has lost a race: somebody else changed the object since the change was prepared.

    Raises VersionMismatch when the caller is to decide what to do now (with If-Match, or for an approval, which is for
    the values seen), GatewayError as `prepare`.
    """
    if change.call.if_match is not None or change.call.change_request_id is not None:
        raise directory_errors.VersionMismatch
    with directory_errors.translated():
        return _judge(change.operation, change.call, change.accepted)


def _judge(operation: Operation, call: Call, accepted: ValidatedInput) -> Answer | Change:
    proposal, assessment = propose(operation, call, accepted)
    call = with_reason(call, proposal)
    held = _is_held(call, proposal, assessment.risk)
    if call.dry_run:
        disclosure.record_shown(operation, call, proposal)
        return Answer(200, _dry_run(call, proposal, assessment, held=held))
    if proposal.write is None and proposal.run is None:
        disclosure.record_shown(operation, call, proposal)
        return Answer(operation.status, proposal.answer())
    count_change_of_agent(call)
    if held:
        return queued(call, queue.queued_answer(hold(operation, call, accepted, proposal, assessment)))
    return Change(operation=operation, call=call, accepted=accepted, proposal=proposal)


def require_admission(operation: Operation, call: Call, arguments: Mapping[str, str] = MappingProxyType({})) -> None:
    """The first stage alone, for what must be authorised before it is looked at; refusals are recorded."""
    try:
        require_admitted(operation, call)
    except GatewayError as refusal:
        record_refusal(operation, call, arguments, refusal.code)
        raise


def require_admitted(operation: Operation, call: Call) -> None:
    if SIGNED_IN not in operation.permission and not operation.permission & call.permissions:
        raise Forbidden
    if operation.on_directory and call.directory is None:
        raise call.directory_refusal or Forbidden()


def propose(operation: Operation, call: Call, accepted: ValidatedInput) -> tuple[Proposal, Assessment]:
    """The proposal with its own permissions, protection and version checked, and its risk with the reasons."""
    proposal = replication.judged_by_all(operation, call, accepted)
    person = more_privileged_people.why_protected(call, proposal)
    if person is not None:
        proposal = replace(proposal, protected=True)
    needed = proposal.requires | ({"directory.manage_protected"} if proposal.protected else frozenset())
    if not needed <= call.permissions:
        raise Forbidden
    meant = call.if_match
    if meant is not None and "*" not in meant and version_seen_by(call, proposal.target) not in meant:
        raise directory_errors.VersionMismatch
    client = client_of(call)

    def is_confidential(name: str) -> bool:
        attribute = client.schema.attribute(name)
        return attribute is not None and attribute.confidential

    def why() -> str | None:
        if person or proposal.target.id is None or (call.dry_run and call.scopes):  # it would name groups outside
            return person
        return why_protected(client, proposal.target.id)

    def alike() -> tuple[Message, ...]:
        # It takes searches, and matters to a person who looks at the change, or where its risk decides.
        is_looked_at = call.dry_run or (call.change_request_id is None and call.supervision in supervision.HOLDING)
        return look_alikes(call, proposal) if is_looked_at else ()

    assessment = supervision.risk_of(
        operation, proposal, is_confidential=is_confidential, why_protected=why, look_alikes=alike
    )
    return proposal, assessment


def with_reason(call: Call, proposal: Proposal) -> Call:
    return call if proposal.reason is None else replace(call, reason=proposal.reason)


def _is_held(call: Call, proposal: Proposal, risk: Risk) -> bool:
    """Whether the change waits for a person. An approved one does not, a change that changes nothing neither."""
    return bool(proposal.changes) and call.change_request_id is None and supervision.must_wait(call.supervision, risk)


def _dry_run(call: Call, proposal: Proposal, assessment: Assessment, *, held: bool) -> dict[str, Any]:
    changes = [change.as_json() for change in proposal.changes]
    return {
        "dryRun": True,
        "wouldQueue": held,
        "risk": assessment.risk.value,
        "changes": visibility_of(call).changes(changes) if call.scopes else changes,
        "warnings": [*(assessment.reasons if proposal.changes else ()), *proposal.warnings],
    }


def hold(
    operation: Operation, call: Call, accepted: ValidatedInput, proposal: Proposal, assessment: Assessment
) -> ChangeRequest:
    """Keep a change until a person decides, with its record."""
    document = accepted.document
    if proposal.run is not None:  # what was selected now is what will be done, not what the unit holds then
        document = {"accounts": [str(account) for account in proposal.run.accounts]}
    client = client_of(call)
    references = resolve_input(client, document)
    in_changes = described(client, proposal.changes, proposal.identities)
    with transaction.atomic():
        change_request = queue.hold(
            call,
            operation=operation.name,
            arguments=accepted.arguments,
            query=accepted.query,
            document=document,
            references=references,
            proposal=proposal,
            references_in_changes=in_changes,
            meant_by_names=meant_by_names(client, proposal.changes),
            assessment=assessment,
        )
        log.record_queued(
            call,
            operation=proposal.operation or operation.name,
            target=target_ref(proposal.target),
            changes=loggable_changes(proposal.changes),
            change_request_id=change_request.id,
        )
    return change_request
