"""The queue of change requests: holding a change, claiming it for one worker, ending it.

The table is the queue; a message to a worker only saves the wait for the next sweep. `pipeline.approved` applies them.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Any, Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest
from django.db.models.lookups import LessThanOrEqual
from typing_extensions import TypedDict

from approvals import errors
from approvals.drift import secret_versions
from approvals.ends import schedule_columns
from approvals.models import ChangeRequest, Status
from approvals.shapes import ChangeTargetJson, changes_to_keep, target_as_json
from approvals.states import move, publish
from approvals.supervision import Assessment
from audit.identifiers import new_identifier
from audit.log import NOT_APPLIED
from audit.model_changes.descriptions import RowChange, fingerprint_of
from audit.model_changes.recording import AccessNeedsTwo
from audit.models import OperationRecord, Outcome
from audit.redact import ReferenceJson
from core.call import Call, CredentialKind, Surface
from core.database import row_lease, shared_clock
from core.errors import Forbidden, RateLimited, ServiceUnavailable
from core.operation import Operation, Risk
from core.redis.broker import BrokerUnavailable, send_task
from core.secrets.encryption import UndecryptableSecret
from core.shapes import Id, Moment, as_record, documented_as
from core.text.messages import message, wording_of
from directory.errors import Unavailable
from directory.models.runs import AccountStatus, Run, RunState
from directory.shapes.proposal import Proposal
from keys.models import ApiKey

_logger = structlog.stdlib.get_logger(__name__)

APPLY_TASK = "gateway.tasks.apply_change_request"
LEASE = timedelta(seconds=10)
"""How long after a worker was lost another one takes up the change that it had claimed."""
MAX_LOST_WORKERS = 5
"""After this many lost workers a change is given up: it is probably what brings them down."""
RETRYABLE_CODES = frozenset({Unavailable.code, ServiceUnavailable.code, NOT_APPLIED})
"""Codes of log records of attempts that wrote nothing, for reasons that say nothing about the change itself."""
SWEEP_AFTER, SWEEP_AGAIN_AFTER = timedelta(seconds=5), timedelta(seconds=15)
"""After what time an approved change that nobody has claimed is sent to a worker again, and then again."""

NO_REFERENCES: Final[Mapping[str, str | None]] = MappingProxyType({})


class QueuedJson(TypedDict):
    id: Id
    status: Annotated[str, documented_as(Status)]
    operation: str
    risk: Annotated[str, documented_as(Risk)]
    target: ChangeTargetJson
    createdAt: Moment | None
    expiresAt: Moment | None


class QueuedAnswer(TypedDict):
    """The body of the 202 for a held change."""

    changeRequest: QueuedJson


def hold(
    call: Call,
    *,
    operation: str,
    arguments: Mapping[str, str],
    query: Mapping[str, str],
    document: Any,
    proposal: Proposal,
    assessment: Assessment,
    references: Mapping[str, str | None] = NO_REFERENCES,
    references_in_changes: Sequence[list[ReferenceJson]] = (),
    meant_by_names: Sequence[Any] = (),
    decision_needed: bool = True,
) -> ChangeRequest:
    """Hold a change until a person decides, or only until its time.

    Joins the caller's transaction, in which the change is recorded too.

    An agent that repeats a request which still waits gets that one: otherwise it would fill the inbox.

    `arguments` are the path's, as text, and `document` is the parsed body: with them the pipeline can start over.
    `references` maps names in the body to objectGUIDs, `references_in_changes` lists the objects that each of the
    proposal's changes refers to, and `meant_by_names` has the services and computers that stand in them
    (`directory.changes.references`).
    """
    if call.directory is None:
        raise Forbidden
    change_request = _new_request(
        call,
        reasons=assessment.reasons,
        plain_reasons=list(assessment.plain_reasons),
        kept={
            "arguments": dict(arguments),
            "query": dict(query),
            "document": document,
            "references": dict(references),
            "meantByNames": list(meant_by_names),
            "versions": secret_versions(proposal),
        },
        operation=operation,
        risk=assessment.risk.value,
        protected=proposal.protected,
        target_id=proposal.target.id,
        target_kind=proposal.target.kind,
        target_dn=proposal.target.distinguished_name,
        target_account=proposal.target.account_name,
        key_id=call.credential.unique_id,
        agent=call.surface is Surface.AGENT,
        directory_id=call.directory.id,
        directory=call.directory.name,
        changes=changes_to_keep(proposal.changes, references_in_changes),
        secret_for_requester=proposal.secret is not None and (not decision_needed or _hands_passwords_to_owner(call)),
        **schedule_columns(call, decision_needed=decision_needed),
    )
    if decision_needed and call.credential.kind is CredentialKind.AGENT_TOKEN:
        return _hold_once(change_request)
    change_request.save(force_insert=True)
    publish(change_request)
    return change_request


def _new_request(
    call: Call, *, reasons: Sequence[str], plain_reasons: list[str] | None = None, kept: Any, **columns: Any
) -> ChangeRequest:
    """An unsaved request of the caller; `kept` is its input."""
    identifier, now = new_identifier()
    expiry = {"expires_at": now + timedelta(hours=settings.CONFIGURATION.Approvals.ExpireAfterHours)}
    change_request = ChangeRequest(
        id=identifier,
        risk_reasons=list(reasons),
        plain_reasons=plain_reasons,
        wording=wording_of([*reasons, *(plain_reasons or ())]),
        requester_id=call.person.id,
        requester=call.person.username,
        key_name=call.credential.name,
        client_address=call.client_address,
        request_id=call.request_id,
        call_id=call.call_id,
        reason=call.reason,
        input=json.dumps(kept),
        if_match=None if call.if_match is None else sorted(call.if_match),
        created_at=now,
        **(expiry | columns),
    )
    change_request.digest = change_request.make_digest()
    return change_request


def _hands_passwords_to_owner(call: Call) -> bool:
    """Whether the calling key hands generated passwords to its owner instead of the approver."""
    is_key = call.credential.kind is CredentialKind.API_KEY
    return is_key and ApiKey.objects.filter(pk=call.credential.id, passwords_to_requester=True).exists()


def _hold_once(change_request: ChangeRequest) -> ChangeRequest:
    """Save an agent's change, or return the identical one that waits already. Raises RateLimited."""
    asked = change_request.make_asked_digests()
    change_request.asked = asked[0]
    waiting = ChangeRequest.objects.filter(status=Status.PENDING, asked__in=asked)
    for overdue in waiting.filter(expires_at__lte=shared_clock.now()).values_list("id", flat=True):
        move(overdue, Status.PENDING, Status.EXPIRED)
    known = waiting.first()
    if known is not None:
        return known
    _require_below_pending_limit(change_request)
    try:
        with transaction.atomic():  # a savepoint, so that the caller's transaction survives the error
            change_request.save(force_insert=True)
    except IntegrityError:  # the same request arrived twice at the same moment
        return ChangeRequest.objects.filter(asked__in=asked).latest("created_at")
    publish(change_request)
    return change_request


_RETRY_AFTER = 300
"""Seconds. Nobody knows when people will decide; an agent that came back sooner would only poll."""


def _require_below_pending_limit(asked: ChangeRequest) -> None:
    """Refuse another waiting change of an agent that has too many; raises RateLimited.

    The changes of one call, which people decide about together, count once.
    """
    most = settings.CONFIGURATION.Agents.MaxPendingRequests
    waiting = ChangeRequest.objects.filter(
        key_id=asked.key_id, status=Status.PENDING, expires_at__gt=shared_clock.now()
    ).exclude(call_id=asked.call_id)
    if waiting.aggregate(calls=Count(Coalesce("call_id", "id"), distinct=True))["calls"] >= most:
        why = message("{most} changes of this agent wait for a person: go on when some of them are decided", most=most)
        raise RateLimited(retry_after=_RETRY_AFTER, why=why)


def hold_access_change(
    call: Call, *, operation: Operation, kept: Mapping[str, Any], refusal: AccessNeedsTwo
) -> ChangeRequest:
    """Hold a change of the gateway's own tables until a second person decides. Joins the caller's transaction.

    `kept` is its input: the path's `arguments`, the `query`, the `document`, and the `directory` that it needs, if any.
    """
    made = main_change(operation, refusal.made)
    change_request = _new_request(
        call,
        reasons=[message("This gives more access: {reason}.", reason=reason) for reason in refusal.reasons],
        kept={**kept, "made": fingerprint_of(refusal.made)},
        operation=operation.name,
        risk=Risk.SECURITY.value,
        target_id=made.id if made.before else None,
        target_kind=made.table.resource,
        target_dn=made.name,
        key_id=call.credential.id,
        changes=made.changes,
    )
    change_request.save(force_insert=True)
    publish(change_request)
    return change_request


def main_change(operation: Operation, made: list[RowChange]) -> RowChange:
    """Of all rows that an operation changed, the one that it is about."""
    return next((item for item in made if item.table.resource == operation.resource), made[0])


def queued_answer(change_request: ChangeRequest) -> QueuedAnswer:
    """The answer to a change that was held."""
    return {"changeRequest": as_record(QueuedJson, change_request, target=target_as_json(change_request))}


def enqueue(request_id: UUID) -> None:
    """Tell a worker about an approved change. If the broker is away, the sweep will find it."""
    try:
        send_task(APPLY_TASK, str(request_id), ignore_result=True)
    except BrokerUnavailable as error:
        _logger.warning("the broker is away, the sweep will find the change", request=str(request_id), error=str(error))


def take_unclaimed(*, limit: int = 100) -> list[UUID]:
    """The ids of approved changes whose message was lost, the longest waiting first; each again after a while only.

    Their messages may just wait for their turn: with more of them for each sweep, that would never come.
    """
    now = shared_clock.now()
    waiting = _ready_since(now - SWEEP_AFTER).filter(row_lease.is_free("lease_until"))
    found = list(waiting.order_by(_READY_AT).values_list("id", flat=True)[:limit])
    ChangeRequest.objects.filter(id__in=found, status=Status.APPROVED).update(lease_until=now + SWEEP_AGAIN_AFTER)
    return found


_READY_AT = Greatest(Coalesce("due_at", "decided_at"), Coalesce("decided_at", "due_at"))
"""When an approved change could be applied: it was decided, and its time had come."""


def _ready_since(moment: datetime) -> QuerySet[ChangeRequest]:
    """The approved changes that could have been applied since a moment."""
    return ChangeRequest.objects.filter(LessThanOrEqual(_READY_AT, moment), status=Status.APPROVED)


def claim(request_id: UUID) -> ChangeRequest | None:
    """Claim an approved change for this worker alone; None if there is nothing left to do.

    A change that was approved too long ago fails, and so does one whose input no longer fits its digest or cannot be
    decrypted: it is not what was approved.
    """
    if fail_overdue(request_id):
        return None
    lease = shared_clock.now() + LEASE
    if not move(request_id, Status.APPROVED, Status.APPLYING, lease_until=lease, attempt=F("attempt") + 1):
        return None
    try:
        change_request = ChangeRequest.objects.get(id=request_id)
        if change_request.has_intact_input():
            return change_request
    except (UndecryptableSecret, ValueError):
        _logger.exception("an approved change cannot be read", request=str(request_id))
    move(
        request_id,
        Status.APPLYING,
        Status.FAILED,
        problem=errors.Changed(message("The stored request was altered.")).as_problem(),
    )
    return None


def fail_overdue(request_id: UUID | None = None) -> int:
    """Fail the approved changes that no worker applied in time, or just this one if it is overdue; return how many.

    Days after an approval nobody expects the change any more.
    """
    within = timedelta(hours=settings.CONFIGURATION.Approvals.ApplyWithinHours)
    late = _ready_since(shared_clock.now() - within)
    if request_id is not None:
        late = late.filter(id=request_id)
    problem = errors.NotAppliedInTime(
        message("It was to be applied within {hours} hours.", hours=within // timedelta(hours=1))
    ).as_problem()
    failed = [
        id for id in late.values_list("id", flat=True) if move(id, Status.APPROVED, Status.FAILED, problem=problem)
    ]
    for id in failed:
        _logger.error("an approved change was not applied in time", request=str(id))
    return len(failed)


def finish(change_request: ChangeRequest, *, status: str, problem: dict[str, Any] | None = None) -> None:
    """End a claimed change, or return it to `approved` for a sweep to find if it could not be tried.

    Where the operations log has a record of the write, the log decides. A worker whose lease has lapsed and whose
    request another one has claimed changes nothing. A change that is still `applying` is a run, which the run's own
    workers complete (`follow_run`).
    """
    end = Status(status)
    if end is Status.APPLYING:
        return
    if end in (Status.FAILED, Status.STALE, Status.APPROVED):
        recorded = recorded_status(change_request.id)
        if (
            recorded is Status.APPLYING
        ):  # another attempt is writing, or its worker is gone: `settle_applying` will find out
            return
        if recorded in (Status.APPLIED, Status.UNKNOWN):
            end, problem = recorded, None
    fields: dict[str, Any] = {"problem": problem}
    if end is Status.APPROVED:
        fields["lease_until"] = None  # for the next sweep
    move(change_request.id, Status.APPLYING, end, if_attempt=change_request.attempt, **fields)


def keep_claim(change_request: ChangeRequest) -> AbstractContextManager[None]:
    """Keep a claimed change from other workers while the block runs."""
    own = ChangeRequest.objects.filter(id=change_request.id, status=Status.APPLYING, attempt=change_request.attempt)
    return row_lease.renewed(own, lasts=LEASE)


def follow_run(change_request: ChangeRequest, run_id: UUID) -> None:
    """Note the run that a claimed change has become: it ends when the run does, even if this worker is lost."""
    mine = ChangeRequest.objects.filter(id=change_request.id, status=Status.APPLYING, attempt=change_request.attempt)
    mine.update(run_id=run_id, lease_until=shared_clock.now())


def end_with_run(run: Run) -> bool:
    """End the change request behind a completed run, if there is one; return whether it was still to be ended.

    The request was to try each account once. If some accounts failed, it ends as partly failed; the run says which.
    """
    if run.change_request_id is None:
        return False
    failed, total = run.results.filter(status=AccountStatus.FAILED).count(), run.results.count()
    if not failed:
        return move(run.change_request_id, Status.APPLYING, Status.APPLIED, run_id=run.id)
    problem = errors.PartlyFailed(
        message("Of {total} accounts {failed} failed.", total=total, failed=failed)
    ).as_problem()
    return move(run.change_request_id, Status.APPLYING, Status.PARTLY_FAILED, run_id=run.id, problem=problem)


def settle_applying() -> int:
    """End the changes whose worker is gone, by what the operations log says; return how many ended or go to a new one.

    A change that became a run ends when the run does, since a run has workers of its own. Of the others, nothing was
    written if there is no record: the intent is recorded first, and while it is open the database refuses a second one.
    Nor was anything if the record was settled as not applied. In both cases the next worker gets the change.
    """
    now = shared_clock.now()
    lost = Q(status=Status.APPLYING, lease_until__lte=now) | Q(status=Status.UNKNOWN)
    settled = 0
    rows = ChangeRequest.objects.filter(lost).values_list("id", "status", "attempt", "lost_workers")
    runs = {run.change_request_id: run for run in Run.objects.filter(change_request_id__in=rows.values("id"))}
    for request_id, status, attempt, lost_workers in rows:
        if (run := runs.get(request_id)) is not None:
            ChangeRequest.objects.filter(id=request_id, run_id=None).update(run_id=run.id)
            settled += run.state == RunState.COMPLETED and end_with_run(run)
            continue
        end = recorded_status(request_id)
        fields: dict[str, Any] = {}
        if end is None:
            end = Status.APPROVED if lost_workers + 1 < MAX_LOST_WORKERS else Status.FAILED
            fields["lost_workers"] = lost_workers + 1
        if end == status or end is Status.APPLYING:
            continue
        problem = _problem_of(request_id) if end is Status.FAILED else None
        if move(request_id, Status(status), end, if_attempt=attempt, problem=problem, **fields):
            settled += 1
            _logger.info("settled an approved change", request=str(request_id), status=end)
            if end is Status.APPROVED:
                enqueue(request_id)
    return settled


_END_BY_OUTCOME = {
    Outcome.PENDING: Status.APPLYING,
    Outcome.SUCCEEDED: Status.APPLIED,
    Outcome.FAILED: Status.FAILED,
    Outcome.UNKNOWN: Status.UNKNOWN,
}


def _application_records(request_id: UUID) -> QuerySet[OperationRecord]:
    """The log records of applying the change: one per attempt, or one per account of a run.

    There is another attempt only if the one before wrote nothing, so at most one record is open or has succeeded.
    """
    return OperationRecord.objects.filter(change_request_id=request_id, surface=Surface.WORKER)


def recorded_status(request_id: UUID) -> Status | None:
    """How the change ended by the operations log (`applying` if it has not yet); None if nothing was written.

    A run that was started is still going on, or has ended the change itself.
    """
    if Run.objects.filter(change_request_id=request_id).exists():
        return Status.APPLYING
    records = _application_records(request_id).exclude(outcome=Outcome.FAILED, code__in=RETRYABLE_CODES)
    record = records.order_by("-id").values("outcome", "run_id").first()
    if record is None:
        return None
    if record["run_id"] is not None:  # the run was deleted with its directory's connection
        return Status.APPLIED
    return _END_BY_OUTCOME[Outcome(record["outcome"])]


def _problem_of(request_id: UUID) -> dict[str, Any]:
    code = _application_records(request_id).order_by("-id").values_list("code", flat=True).first()
    return errors.NotApplied(code).as_problem()


def expire_overdue() -> int:
    """Expire the pending requests that nobody decided in time; return how many."""
    overdue = ChangeRequest.objects.filter(status=Status.PENDING, expires_at__lte=shared_clock.now())
    return sum(move(request_id, Status.PENDING, Status.EXPIRED) for request_id in overdue.values_list("id", flat=True))
