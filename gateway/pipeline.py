"""The one way of every call, on every surface. Read `consider` and `carry_out`: that is the whole order of checks.

It fails closed: a stage that cannot be done ends the call, and no argument switches one off.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction

from approvals import queue, secrets, supervision
from approvals.access_requests import changed_by, hold_access, is_stale
from approvals.models import ChangeRequest
from approvals.supervision import Assessment
from audit import log
from audit.administration import AccessNeedsTwo, recorded
from audit.models import OperationRecord
from audit.own_things import Changed, find_thing
from audit.redact import ChangeJson, redacted
from directory import errors as directory_errors
from directory import runs
from directory.access import client_of
from directory.connection import count_protection_change
from directory.identities import described
from directory.input_references import ReferenceChanged, rename_input, resolve_input
from directory.ldap import Client, Delete, Write, by_identity
from directory.proposal import Proposal, TakenBack, Target
from directory.protection import why_protected
from directory.protection_state import may_change_protection, show_nothing_before
from directory.reading import await_answer
from directory.references import references_of
from directory.rivals import await_recorded_outcome
from directory.shapes.bags import Bags, check_limits
from directory.visibility import sight_of
from gateway import follow_ups, interrupted
from gateway.core.call import Call, CredentialKind, CredentialRef, Surface
from gateway.core.errors import Forbidden, GatewayError, NotFound, ServiceUnavailable
from gateway.core.operation import SIGNED_IN, Effect, Operation, Risk, find_operation
from gateway.core.shapes import Flag, NoQuery, Query, load_body, load_query, parse_guid
from gateway.core.streams import RecordStream
from gateway.core.versions import lock_record
from gateway.recording import intent_of, record_refusal, shown, target_of, target_ref
from keys import protected_people
from keys.confirmation import ConfirmedBody, require_confirmation
from keys.policy import call_for_key, call_for_person

logger = structlog.get_logger(__name__)

_Result = TypeVar("_Result")

ATTEMPTS = 3
"""How often a change without If-Match is proposed anew when somebody else changed the object in between."""

DIRECTLY_BY_IDENTITY = 20
"""So many references of a change that was not held are written by objectGUID."""


class ChangeQuery(Query):
    """The parameter that every change of the directory takes."""

    dry_run: Flag = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a surface renders. `body` is None for an empty answer."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The raw input of a call. `document` reads and parses the body: only after the permission is known."""

    arguments: Mapping[str, str]
    query: Callable[[], Mapping[str, str]]
    document: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Accepted:
    """The validated input, and what is kept of it for an approved change."""

    given: dict[str, Any]
    arguments: dict[str, str]
    query: dict[str, str]
    document: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that has passed every check and waits for nothing but its write. Only the pipeline makes one."""

    operation: Operation
    call: Call
    accepted: _Accepted
    proposal: Proposal
    approved_by: str | None = None

    @property
    def write(self) -> Write:
        """The write to send. What names objects does so by objectGUID, so that no rename at this moment diverts it.

        A direct change of many members goes by the names resolved right before: Samba takes a fifth longer for a
        thousand objectGUIDs than for their names.
        """
        write, identities = self.proposal.write, self.proposal.identities
        assert write is not None
        is_direct = self.call.change_request_id is None
        if is_direct and (isinstance(write, Delete) or len(identities) > DIRECTLY_BY_IDENTITY):
            return write
        return by_identity(write, client_of(self.call).schema, identities) if identities else write

    @property
    def intent(self) -> log.Intent:
        """What the log keeps of it before it is written."""
        return intent_of(
            self.proposal.operation or self.operation.name,
            self.proposal,
            client=client_of(self.call),
            batch_index=self.call.batch_index,
            approved_by=self.approved_by,
        )


def run(operation: Operation, call: Call, inputs: Inputs) -> Answer:
    """Run one call of one operation; raises GatewayError, after recording the refusal."""
    considered = consider(operation, call, inputs)
    return considered if isinstance(considered, Answer) else carry_out(considered)


def consider(operation: Operation, call: Call, inputs: Inputs) -> Answer | Change:
    """Everything but the write: the answer if none is needed (now); raises GatewayError, after recording the refusal.

    A change is carried out at once, or its reasons grow old.
    """
    try:
        _require_admission(operation, call)
        accepted, call = _validate(operation, call, inputs)
        with directory_errors.translated():
            if operation.effect is not Effect.CHANGE:
                return _perform(operation, call, accepted)
            if (answer := _answer_of_interrupted(operation, call)) is not None:
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
    found = None if call.dry_run else interrupted.find_answer(call, operation)
    if found is None:
        return None
    status, body = found
    return _queued(call, body) if status == 202 else Answer(status, body)


def reconsider(change: Change) -> Answer | Change:
    """Propose anew what has lost a race: somebody else changed the object since the change was considered.

    Raises VersionMismatch when the caller is to decide what to do now (with If-Match, or for an approval, which is for
    the values seen), GatewayError as `consider`.
    """
    if change.call.if_match is not None or change.call.change_request_id is not None:
        raise directory_errors.VersionMismatch
    with directory_errors.translated():
        return _judge(change.operation, change.call, change.accepted)


def attempt(step: Callable[[], _Result]) -> _Result | Exception:
    """Take a step for one of many calls, whose failure is not the others'; the surface says what it means."""
    try:
        return step()
    except Exception as error:  # noqa: BLE001 - nothing is hidden: it is the answer to this call
        return error


def _judge(operation: Operation, call: Call, accepted: _Accepted) -> Answer | Change:
    proposal, assessment = _propose(operation, call, accepted)
    call = _with_reason(call, proposal)
    held = _is_held(call, proposal, assessment.risk)
    if call.dry_run:
        return Answer(200, _dry_run(call, proposal, assessment, held=held))
    if proposal.write is None and proposal.run is None:
        return Answer(operation.status, proposal.answer())
    if held:
        return _hold(operation, call, accepted, proposal, assessment)
    return Change(operation=operation, call=call, accepted=accepted, proposal=proposal)


def require_admission(operation: Operation, call: Call, inputs: Inputs) -> None:
    """The first stage alone, for what must be authorised before it is looked at; refusals are recorded."""
    try:
        _require_admission(operation, call)
    except GatewayError as refusal:
        record_refusal(operation, call, inputs.arguments, refusal.code)
        raise


def _require_admission(operation: Operation, call: Call) -> None:
    if SIGNED_IN not in operation.permission and not operation.permission & call.permissions:
        raise Forbidden
    if operation.on_directory and call.directory is None:
        raise call.directory_refusal or Forbidden()


def _validate(operation: Operation, call: Call, inputs: Inputs) -> tuple[_Accepted, Call]:
    given: dict[str, Any] = {}
    for name, text in inputs.arguments.items():
        value = parse_guid(text)
        if value is None:
            raise NotFound
        given[_snake(name)] = value
    document = inputs.document() if operation.body is not None else None
    query = dict(inputs.query())
    if operation.effect is Effect.CHANGE and operation.on_directory:
        dry_run = {name: query.pop(name) for name in ("dryRun",) if name in query}
        call = replace(call, dry_run=load_query(ChangeQuery, dry_run).dry_run)
    parameters = load_query(operation.query or NoQuery, query)
    if operation.query is not None:
        given["query"] = parameters
    if operation.body is not None:
        given["body"] = load_body(operation.body, {} if document is None else document)
        if isinstance(given["body"], Bags):
            check_limits(given["body"])
    return _Accepted(given=given, arguments=dict(inputs.arguments), query=query, document=document), call


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def _perform(operation: Operation, call: Call, accepted: _Accepted) -> Answer:
    """A read, or a change of the gateway's own tables (recorded with its intent, as every change)."""
    if operation.effect is Effect.READ:
        result = operation.function(call, **accepted.given)
        if call.surface is not Surface.REST:
            target = target_of(result, accepted.arguments, operation)
            log.record_read(call, operation=operation.name, target=target)
            if isinstance(result, RecordStream):  # what breaks it comes to light after this answer has begun
                result.failed = lambda error: log.record_read(
                    call, operation=operation.name, target=target, outcome="failed", code=error.code
                )
        return Answer(operation.status, result)
    if operation.effect is Effect.UNDERTAKE:  # its steps are committed one by one, so that a kill loses none
        with transaction.atomic():
            _require_version(operation, call, accepted.given.get("id"))
        return Answer(operation.status, operation.function(call, **accepted.given))
    body = accepted.given.get("body")
    if isinstance(body, ConfirmedBody):
        require_confirmation(call, body.code)
    try:
        result, _ = _administer(operation, call, accepted)
    except AccessNeedsTwo as refusal:
        return _hold_access(operation, call, accepted, refusal)
    return Answer(operation.status, result)


def _administer(
    operation: Operation, call: Call, accepted: _Accepted, *, approved_by: str | None = None
) -> tuple[Any, list[Changed]]:
    """Change the gateway's own tables and record it, in one commit; the answer, and what became different."""
    thing, id = find_thing(operation.noun), accepted.given.get("id")
    with recorded(call, operation=operation.name, approved_by=approved_by) as administration:
        if id is not None:
            administration.watch(thing, id, with_dependents=operation.method == "DELETE")
        _require_version(operation, call, id)
        result = operation.function(call, **accepted.given)
        if id is None:
            administration.note_new(thing, UUID(result["id"]))
    return result, administration.made


def _require_version(operation: Operation, call: Call, id: UUID | None) -> None:
    """Let others wait who change the same record of the gateway's own, and compare its version with If-Match.

    The version is the one that reading it shows. A record without one, or one still to be made, is never the one meant.
    """
    if id is not None:
        lock_record(operation.noun, id)
    if call.if_match is None or "*" in call.if_match:
        return
    record = find_operation(f"{operation.noun}.read").function(call, id=id) if id is not None else {}
    if record.get("version") not in call.if_match:
        raise directory_errors.VersionMismatch


def _propose(operation: Operation, call: Call, accepted: _Accepted) -> tuple[Proposal, Assessment]:
    """The proposal with its own permissions, protection and version checked, and its risk with the reasons."""
    proposal: Proposal = operation.function(call, **accepted.given)
    person = protected_people.why_protected(call, proposal)
    if person is not None:
        proposal = replace(proposal, protected=True)
    needed = proposal.requires | ({"directory.manage_protected"} if proposal.protected else frozenset())
    if not needed <= call.permissions:
        raise Forbidden
    if call.if_match is not None and "*" not in call.if_match and proposal.target.version not in call.if_match:
        raise directory_errors.VersionMismatch
    client = client_of(call)

    def is_confidential(name: str) -> bool:
        attribute = client.schema.attribute(name)
        return attribute is not None and attribute.confidential

    def why() -> str | None:
        return person if person or proposal.target.id is None else why_protected(client, proposal.target.id)

    return proposal, supervision.risk_of(operation, proposal, is_confidential=is_confidential, why_protected=why)


def _with_reason(call: Call, proposal: Proposal) -> Call:
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
        "changes": sight_of(call).changes(changes) if call.scopes else changes,
        "warnings": [*(assessment.reasons if proposal.changes else ()), *proposal.warnings],
    }


def _hold(operation: Operation, call: Call, accepted: _Accepted, proposal: Proposal, assessment: Assessment) -> Answer:
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
            assessment=assessment,
        )
        log.record_queued(
            call,
            operation=proposal.operation or operation.name,
            target=target_ref(proposal.target),
            changes=shown(proposal.changes),
            change_request_id=change_request.id,
        )
    return _queued(call, queue.queued_answer(change_request))


def _hold_access(operation: Operation, call: Call, accepted: _Accepted, refusal: AccessNeedsTwo) -> Answer:
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
            target=log.TargetRef(id=change_request.target_id, kind=made.thing.noun, distinguished_name=made.name),
            changes=made.changes,
            change_request_id=change_request.id,
            raised_access=refusal.reasons,
        )
    return _queued(call, queue.queued_answer(change_request))


def _queued(call: Call, body: queue.QueuedAnswer) -> Answer:
    prefix = "/rest" if call.surface is Surface.REST else "/api"
    return Answer(202, body, {"Location": f"{prefix}/change-requests/{body['changeRequest']['id']}"})


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
    following = follow_ups.record(change.call, proposal.follow_ups, approved_by=change.approved_by)
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
            log.complete_many([completion_of(record, lost), *follow_ups.given_up(following, lost.code)])
            raise lost from None
    except GatewayError as refusal:
        told = explained(change, refusal)
        log.complete_many([completion_of(record, told), *follow_ups.given_up(following, told.code)])
        raise told from refusal.__cause__
    follow_ups.carry_out(client, proposal.follow_ups, following)
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
    records = follow_ups.record(call, [taken_back.change], approved_by=change.approved_by)
    client = client_of(call)
    is_undone = follow_ups.carry_out(client, [taken_back.change], records)
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


_TRY_AGAIN = (directory_errors.Unavailable, ServiceUnavailable)


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
    call = _call_of(change_request)
    operation, inputs = _asked(change_request, call)
    if operation.effect is Effect.ADMINISTER:
        return _apply_access(change_request, operation, call, inputs)
    try:
        call, accepted, proposal, _ = _propose_anew(operation, call, inputs)
        call = _with_reason(call, proposal)
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
    carry_out(Change(operation=operation, call=call, accepted=accepted, proposal=proposal, approved_by=approved_by))
    return "applied"


def _apply_access(change_request: ChangeRequest, operation: Operation, call: Call, inputs: Inputs) -> str:
    """Give the access that was approved, if it still is the same from the same state."""
    try:
        with transaction.atomic():
            made = _administer_anew(operation, call, inputs, approved_by=change_request.approvers)
            if is_stale(change_request, made):
                transaction.set_rollback(True)
                return "stale"
    except _TRY_AGAIN:
        raise
    except GatewayError as refusal:
        record_refusal(operation, call, inputs.arguments, refusal.code)
        raise
    return "applied"


def _administer_anew(
    operation: Operation, call: Call, inputs: Inputs, *, approved_by: str | None = None
) -> list[Changed]:
    _require_admission(operation, call)
    accepted, call = _validate(operation, call, inputs)
    with directory_errors.translated():
        _, made = _administer(operation, call, accepted, approved_by=approved_by)
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


def forecast(change_request: ChangeRequest) -> Forecast:
    """Judge a waiting change request as its application would, changing and recording nothing."""
    try:
        call = _call_of(change_request)
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


def _call_of(change_request: ChangeRequest) -> Call:
    """The call under which a change request is applied: its key's, as the key is now; raises Forbidden.

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
    schema = client_of(call).schema
    return queue.has_drifted(change_request, proposal, lambda change: references_of(schema, change))


def _propose_anew(operation: Operation, call: Call, inputs: Inputs) -> tuple[Call, _Accepted, Proposal, Assessment]:
    _require_admission(operation, call)
    accepted, call = _validate(operation, call, inputs)
    with directory_errors.translated():
        return call, accepted, *_propose(operation, call, accepted)
