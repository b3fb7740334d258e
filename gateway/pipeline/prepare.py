"""Everything before the write, in its order: admission, validation, limits, proposal, risk, dry run, hold.

Read `prepare`: it is the whole order of checks. Refusals are recorded here.

After a fail-over the domain controller in use may lack changes made at another one. A conclusion from such an older
state (nothing to do, another version, no such object, the result of a dry run) is refused until the object's own
changes have replicated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

from django.conf import settings
from django.db import transaction

from active_directory import servers_asked
from approvals import budgets, queue, supervision
from approvals.models import ChangeRequest
from approvals.supervision import Assessment
from audit import log
from core import tracing
from core.call import Call, CredentialKind, Surface
from core.configuration_sections import RateLimit
from core.deadlines import require_time
from core.errors import LIMIT_REACHED, Forbidden, GatewayError, RateLimited, ServiceUnavailable
from core.operation import Effect, Operation, Risk
from core.rate_limits import CountersUnavailable, Policy, count, count_besides
from core.text.messages import Message, message
from directory import errors as directory_errors
from directory.changes.membership import count_staying_members
from directory.changes.references import describe_references, resolve_names_in_input, resolve_names_in_use
from directory.lookup.access import client_of
from directory.lookup.look_alikes import look_alikes
from directory.lookup.visibility import visibility_of
from directory.outcomes.evidence import require_reads_replicated
from directory.protection.rules import protection_reason
from directory.queries.reading import visible_version
from directory.shapes.proposal import Proposal, Target
from gateway.pipeline import membership_rules, recording, replay, schedules
from gateway.pipeline.inputs import Answer, Change, InputSource, ValidatedInput, require_admitted
from gateway.pipeline.perform import held_answer, perform
from gateway.pipeline.recording import loggable_changes, record_refusal, target_ref
from keys.permissions import more_privileged_people

_STATE_STATUSES = frozenset({404, 409, 412})
"""The statuses of refusals that tell something about the state of the directory."""

VALUES_PER_ITEM = 10
"""How many values count as one item: each may be a name that has to be looked up."""


@tracing.traced(lambda operation, *_: f"prepare {operation.name}")
def prepare(operation: Operation, call: Call, inputs: InputSource) -> Answer | Change:
    """Do everything but the write. Return the answer if no write is needed now; raise GatewayError after recording it.

    Execute a returned change immediately: its checks go stale.
    """
    try:
        return prepare_unrecorded(operation, call, inputs)
    except Exception as error:  # noqa: BLE001 - it is raised again
        refuse(operation, call, inputs.arguments, error)


def refuse(operation: Operation, call: Call, arguments: Mapping[str, str], error: Exception) -> NoReturn:
    """Record and raise what a call was refused with."""
    record_refusal(operation, call, arguments, error.code if isinstance(error, GatewayError) else GatewayError.code)
    raise error


def prepare_unrecorded(operation: Operation, call: Call, inputs: InputSource) -> Answer | Change:
    """Do the same without recording a refusal, which the caller has to see to."""
    require_admitted(operation, call)
    accepted, call = inputs.validate(operation, call)
    schedules.require_schedulable(operation, call)
    require_time(changes=operation.effect is not Effect.READ and not call.dry_run)
    if call.batch_index is None and accepted.document is not None:
        charge(call, [accepted.document])
    with directory_errors.translate_ldap_errors():
        if operation.effect is not Effect.CHANGE:
            return perform(operation, call, accepted)
        recording.require_preview_allowed(call)
        if not call.dry_run and (answer := replay.find_answer(call, operation)) is not None:
            recording.record_replayed(operation, call, inputs.arguments, answer.body)
            return answer
        return _judge(operation, call, accepted)


def prepare_again(change: Change) -> Answer | Change:
    """Propose a change again after it lost a race: somebody else changed the object after it was prepared.

    Raises VersionMismatch with If-Match, and for an approved change, since the approval is for the values shown;
    otherwise GatewayError as `prepare` does.
    """
    if change.call.if_match is not None or change.call.change_request_id is not None:
        raise directory_errors.VersionMismatch
    with directory_errors.translate_ldap_errors():
        return _judge(change.operation, change.call, change.accepted)


def _judge(operation: Operation, call: Call, accepted: ValidatedInput) -> Answer | Change:
    proposal, assessment = propose(operation, call, accepted)
    call = with_reason(call, proposal)
    held = _is_held(call, proposal, assessment.risk)
    later = schedules.begins_later(call)
    if call.dry_run:
        recording.record_shown(operation, call, proposal)
        return Answer(200, _dry_run(call, proposal, assessment, held=held))
    if proposal.write is None and proposal.run is None and proposal.move_ends is None and not later:
        recording.record_shown(operation, call, proposal)
        return Answer(operation.status, proposal.answer(), schedules.headers_of_earlier_end(call, proposal))
    count_agent_change(call)
    if held or later:
        waiting = hold(operation, call, accepted, proposal, assessment, decision_needed=held)
        return held_answer(call, queue.queued_answer(waiting))
    return Change(operation=operation, call=call, accepted=accepted, proposal=proposal, assessment=assessment)


def require_admission(operation: Operation, call: Call, arguments: Mapping[str, str] = MappingProxyType({})) -> None:
    """Run only the first stage, before input that must not be read for an unauthorised caller; records refusals."""
    try:
        require_admitted(operation, call)
    except GatewayError as refusal:
        record_refusal(operation, call, arguments, refusal.code)
        raise


def propose(
    operation: Operation, call: Call, accepted: ValidatedInput, *, is_decided: bool = False
) -> tuple[Proposal, Assessment]:
    """Return the proposal, with its own permissions, protection and version checked, and its risk with the reasons.

    `is_decided` if somebody has approved it, so that its risk does not decide any more whether it waits.
    """
    proposal = membership_rules.with_rules(call, _proposal_of(operation, call, accepted))
    proposal = schedules.with_schedule(operation, call, proposal)
    person = more_privileged_people.protection_reason(call, proposal)
    if person is not None:
        proposal = replace(proposal, protected=True)
    needed = proposal.requires | ({"directory.manage_protected"} if proposal.protected else frozenset())
    if not needed <= call.permissions:
        raise Forbidden(needed - call.permissions)
    expected = call.if_match
    if expected is not None and "*" not in expected and visible_version(call, proposal.target) not in expected:
        raise directory_errors.VersionMismatch
    client = client_of(call)

    def is_confidential(name: str) -> bool:
        attribute = client.schema.attribute(name)
        return attribute is not None and attribute.is_confidential

    def find_protection_reason() -> str | None:
        # The reason names groups, which may be outside the scopes of a confined caller.
        if person or proposal.target.id is None or (call.dry_run and call.scopes):
            return person
        return protection_reason(client, proposal.target.id)

    def find_look_alikes() -> tuple[Message, ...]:
        # This takes searches, so only where a person sees the result or the risk decides whether the change waits.
        is_needed = call.dry_run or (not is_decided and call.supervision in supervision.HOLDING_LEVELS)
        return look_alikes(call, proposal) if is_needed else ()

    assessment = supervision.risk_of(
        operation,
        proposal,
        is_confidential=is_confidential,
        protection_reason=find_protection_reason,
        look_alikes=find_look_alikes,
    )
    return proposal, assessment


def _proposal_of(operation: Operation, call: Call, accepted: ValidatedInput) -> Proposal:
    """Return the proposal; raises NotReplicatedYet if a logged change of an object that it rests on is still missing.

    A refusal for the object's state counts only if no change of the object has yet to replicate.
    """
    with servers_asked() as servers:
        try:
            proposal: Proposal = operation.function(call, **accepted.kwargs)
        except GatewayError as refusal:
            if operation.names_object and "id" in accepted.kwargs and refusal.status in _STATE_STATUSES:
                named = Target(accepted.kwargs["id"], operation.resource, "")
                require_reads_replicated(client_of(call), servers, [named])
            raise
    require_reads_replicated(client_of(call), servers, proposal.judged)
    return proposal


def with_reason(call: Call, proposal: Proposal) -> Call:
    return call if proposal.reason is None else replace(call, reason=proposal.reason)


def _is_held(call: Call, proposal: Proposal, risk: Risk) -> bool:
    """Whether the change waits for a person. An approved change does not, nor one that changes nothing."""
    return bool(proposal.changes) and call.change_request_id is None and supervision.must_wait(call.supervision, risk)


def _dry_run(call: Call, proposal: Proposal, assessment: Assessment, *, held: bool) -> dict[str, Any]:
    changes = [change.as_json() for change in proposal.changes]
    concerned: list[budgets.Budget] = []
    if changes and assessment.risk is not Risk.ORDINARY:
        concerned = [each for each in budgets.budgets_of(call) if each.risk is assessment.risk]
        exceeded = budgets.find_exceeded(concerned, assessment.risk, count_changes(proposal))
        if exceeded is not None and not held:
            held, assessment = True, budgets.with_exceeded(assessment, exceeded)
    return {
        "dryRun": True,
        "wouldQueue": held,
        "risk": assessment.risk.value,
        "changes": visibility_of(call).visible_changes(changes) if call.scopes else changes,
        "warnings": [*(assessment.reasons if proposal.changes else ()), *proposal.warnings],
        **schedules.described(call, proposal),
        **({"budgets": [each.as_json() for each in concerned]} if concerned else {}),
    }


def count_changes(proposal: Proposal) -> int:
    """How many changes a proposal counts as in budgets: each account of a run is one."""
    return 1 if proposal.run is None else len(proposal.run.accounts)


def counted_risk(change: Change) -> Risk:
    """The risk by which budgets count a change; ordinary for one that they leave alone."""
    if change.assessment is None or not change.proposal.changes:
        return Risk.ORDINARY
    return change.assessment.risk


def hold_over_budget(change: Change, exceeded: budgets.Budget) -> Answer:
    """Hold a change that would have been made at once, had its budget not been used up."""
    assert change.assessment is not None
    assessment = budgets.with_exceeded(change.assessment, exceeded)
    held = hold(change.operation, change.call, change.accepted, change.proposal, assessment)
    return held_answer(change.call, queue.queued_answer(held))


def asked_again(call: Call) -> Call:
    """The call of a change request that a worker takes up, as if its key, agent or person asked for it now."""
    assert call.change_request_id is not None
    address = ChangeRequest.objects.values_list("client_address", flat=True).get(id=call.change_request_id)
    surface = Surface.AGENT if call.credential.kind is CredentialKind.AGENT_TOKEN else Surface.API
    return replace(call, surface=surface, change_request_id=None, client_address=address)


def hold(
    operation: Operation,
    call: Call,
    accepted: ValidatedInput,
    proposal: Proposal,
    assessment: Assessment,
    *,
    decision_needed: bool = True,
) -> ChangeRequest:
    """Hold a change until a person decides, or until its time comes if no decision is needed, and record that."""
    if call.change_request_id is not None:  # the new request takes the place of one whose time has come
        call = asked_again(call)
    document = accepted.document
    if proposal.run is not None:  # the accounts selected now are approved, not what the unit will hold by then
        document = {"accounts": [str(account) for account in proposal.run.accounts]}
    client = client_of(call)
    proposal = count_staying_members(client, proposal)
    references = resolve_names_in_input(client, document)
    in_changes = describe_references(client, proposal.changes, proposal.identities)
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
            meant_by_names=resolve_names_in_use(client, proposal.changes),
            assessment=assessment,
            decision_needed=decision_needed,
        )
        log.record_queued(
            call,
            operation=proposal.operation or operation.name,
            target=target_ref(proposal.target),
            changes=loggable_changes(proposal.changes),
            change_request_id=change_request.id,
        )
    return change_request


# Limits on work (`RateLimiting:BatchItems`, `Agents:ChangesPerHour`): they keep a deceived or runaway agent from
# flooding the people who decide, and the directory.


def charge(call: Call, documents: Sequence[Any], *, items: int = 0) -> None:
    """Count the items of a batch, or the values in a single call's body; raises RateLimited before anything is done.

    A worker's calls were counted when they were requested.
    """
    weight = items + _count_list_values(documents) // VALUES_PER_ITEM
    if not weight or call.surface is Surface.WORKER:
        return
    policy, why = Policy.of("BatchItems", settings.CONFIGURATION.RateLimiting.BatchItems), LIMIT_REACHED
    if weight > policy.quota:
        why = message(
            "This counts as {weight} items and the limit is {quota}: split it", weight=weight, quota=policy.quota
        )
    count_besides(policy, call.credential.unique_id, amount=weight, is_needed=False, why=why)


def count_agent_change(call: Call) -> None:
    """Count a change requested by an agent; raises RateLimited, or ServiceUnavailable if counters are unavailable.

    The limit is for one agent of one person. Refused requests and dry runs are free. `approvals.queue` limits how many
    may wait for a person.
    """
    if call.surface is not Surface.AGENT:
        return
    limit = RateLimit(Requests=settings.CONFIGURATION.Agents.ChangesPerHour, WindowSeconds=3600)
    try:
        (usage,) = count([(Policy.of("AgentChanges", limit), call.credential.unique_id)])
    except CountersUnavailable:
        raise ServiceUnavailable(message("Changes of agents wait until they can be counted.")) from None
    if usage.is_exceeded:
        why = message("This agent has asked for {requests} changes within an hour", requests=limit.Requests)
        raise RateLimited(retry_after=usage.seconds_left, why=why)


def _count_list_values(documents: Sequence[Any]) -> int:
    """Count the values in all lists of the documents, at any depth."""
    number, rest = 0, list(documents)
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest.extend(each.values())
        elif isinstance(each, list):
            number += len(each)
            rest.extend(each)
    return number
