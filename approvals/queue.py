"""The queue of change requests: held, claimed by one worker, finished.

The table is the queue; the message to a worker only saves waiting. `approvals.review.decisions` decides, the pipeline
applies.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any, Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from typing_extensions import TypedDict

from approvals.drift import versions_of_secrets
from approvals.errors import Changed, NotApplied, NotAppliedInTime, PartlyFailed
from approvals.models import ChangeRequest, Status
from approvals.shapes import ChangeTargetJson, changes_to_keep, target_as_json
from approvals.states import move, publish
from approvals.supervision import Assessment
from audit.identifiers import new_identifier
from audit.log import NOT_APPLIED
from audit.models import OperationRecord, Outcome
from audit.redact import ReferenceJson
from core.call import Call, CredentialKind, Surface
from core.database import shared_clock
from core.errors import Forbidden, RateLimited, ServiceUnavailable
from core.operation import Risk
from core.redis.broker import BrokerUnavailable, send_task
from core.secrets.encryption import UndecryptableSecret
from core.shapes import Id, Moment, documented_as, render_timestamp
from core.text.messages import message, wording_of
from directory.errors import Unavailable
from directory.models.runs import AccountStatus, Run, RunState
from directory.shapes.proposal import Proposal
from keys.models import ApiKey

_logger = structlog.stdlib.get_logger(__name__)

APPLY_TASK = "gateway.tasks.apply_change_request"
LEASE = timedelta(seconds=60)
"""How long a worker has for one change: proposing it, the longest write, and recording it."""
MAX_LOST_WORKERS = 5
"""A change that takes so many workers down with it is given up."""
TRY_AGAIN = frozenset({Unavailable.code, ServiceUnavailable.code, NOT_APPLIED})
"""Codes of a record that say that nothing was written, and nothing of the change itself."""
SWEEP_AFTER = timedelta(seconds=5)
"""After this an approved change that nobody claimed had its message lost."""

NONE_KEPT: Final[Mapping[str, str | None]] = MappingProxyType({})


class QueuedJson(TypedDict):
    id: Id
    status: Annotated[str, documented_as(Status)]
    operation: str
    risk: Annotated[str, documented_as(Risk)]
    target: ChangeTargetJson
    createdAt: Moment | None
    expiresAt: Moment | None


class QueuedAnswer(TypedDict):
    """The body of the 202 that a held change is answered with."""

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
    references: Mapping[str, str | None] = NONE_KEPT,
    references_in_changes: Sequence[list[ReferenceJson]] = (),
    meant_by_names: Sequence[Any] = (),
) -> ChangeRequest:
    """Keep a change until a person decides. Joins the caller's transaction, in which the change is recorded too.

    An agent that asks again for what waits already gets the request that waits: it would else fill the inbox.

    `arguments` are those of the path as text, `document` the parsed body: what the pipeline needs to begin anew.
    `references` are the objectGUIDs of the objects that names in the body mean (`directory.changes.input_references`),
    and `references_in_changes` what each of the proposal's changes refers to, in their order, and `meant_by_names` what
    services and computers in them stand for (`directory.changes.identities`).
    """
    if call.directory is None:
        raise Forbidden
    identifier, now = new_identifier()
    change_request = ChangeRequest(
        id=identifier,
        operation=operation,
        risk=assessment.risk.value,
        risk_reasons=list(assessment.reasons),
        plain_reasons=list(assessment.plain_reasons),
        wording=wording_of([*assessment.reasons, *assessment.plain_reasons]),
        protected=proposal.protected,
        target_id=proposal.target.id,
        target_kind=proposal.target.kind,
        target_dn=proposal.target.distinguished_name,
        target_account=proposal.target.account_name,
        requester_id=call.person.id,
        requester=call.person.username,
        key_id=call.credential.unique_id,
        key_name=call.credential.name,
        agent=call.surface is Surface.AGENT,
        client_address=call.client_address,
        request_id=call.request_id,
        call_id=call.call_id,
        reason=call.reason,
        directory_id=call.directory.id,
        directory=call.directory.name,
        changes=changes_to_keep(proposal.changes, references_in_changes),
        input=json.dumps(
            {
                "arguments": dict(arguments),
                "query": dict(query),
                "document": document,
                "references": dict(references),
                "meantByNames": list(meant_by_names),
                "versions": versions_of_secrets(proposal),
            }
        ),
        if_match=None if call.if_match is None else sorted(call.if_match),
        secret_for_requester=proposal.secret is not None and _hands_passwords_to_owner(call),
        created_at=now,
        expires_at=now + timedelta(hours=settings.CONFIGURATION.Approvals.ExpireAfterHours),
    )
    change_request.digest = change_request.make_digest()
    if call.credential.kind is CredentialKind.AGENT_TOKEN:
        return _hold_once(change_request)
    change_request.save(force_insert=True)
    publish(change_request)
    return change_request


def _hands_passwords_to_owner(call: Call) -> bool:
    """Whether the key that asks says that a generated password is for its owner instead of the approver."""
    is_key = call.credential.kind is CredentialKind.API_KEY
    return is_key and ApiKey.objects.filter(pk=call.credential.id, passwords_to_requester=True).exists()


def _hold_once(change_request: ChangeRequest) -> ChangeRequest:
    """Keep a change of an agent unless the same one waits already: then that one. Raises RateLimited."""
    asked = change_request.make_asked()
    change_request.asked = asked[0]
    waiting = ChangeRequest.objects.filter(status=Status.PENDING, asked__in=asked)
    for overdue in waiting.filter(expires_at__lte=shared_clock.now()).values_list("id", flat=True):
        move(overdue, Status.PENDING, Status.EXPIRED)
    known = waiting.first()
    if known is not None:
        return known
    _require_room_to_wait(change_request.key_id)
    try:
        with transaction.atomic():
            change_request.save(force_insert=True)
    except IntegrityError:  # asked for twice in the same moment
        return ChangeRequest.objects.filter(asked__in=asked).latest("created_at")
    publish(change_request)
    return change_request


_LOOK_AGAIN = 300
"""Seconds. People decide when they decide; so long an agent can do something else."""


def _require_room_to_wait(key_id: str) -> None:
    """Refuse one more change that would wait for a person while too many of the agent do; raises RateLimited."""
    most = settings.CONFIGURATION.Agents.MaxPendingRequests
    waiting = ChangeRequest.objects.filter(key_id=key_id, status=Status.PENDING, expires_at__gt=shared_clock.now())
    if waiting.count() >= most:
        why = message("{most} changes of this agent wait for a person: go on when some of them are decided", most=most)
        raise RateLimited(retry_after=_LOOK_AGAIN, why=why)


def queued_answer(change_request: ChangeRequest) -> QueuedAnswer:
    """The body of the answer to a change that was held."""
    return {
        "changeRequest": {
            "id": str(change_request.id),
            "status": change_request.status,
            "operation": change_request.operation,
            "risk": change_request.risk,
            "target": target_as_json(change_request),
            "createdAt": render_timestamp(change_request.created_at),
            "expiresAt": render_timestamp(change_request.expires_at),
        }
    }


def enqueue(request_id: UUID) -> None:
    """Tell a worker about an approved change. The broker may be away: then the sweep finds it."""
    try:
        send_task(APPLY_TASK, str(request_id), ignore_result=True)
    except BrokerUnavailable as error:
        _logger.warning("the broker is away, the sweep will find the change", request=str(request_id), error=str(error))


def find_waiting(*, limit: int = 100) -> list[UUID]:
    """Approved changes whose message was lost, the longest waiting first."""
    waiting = ChangeRequest.objects.filter(status=Status.APPROVED, decided_at__lte=shared_clock.now() - SWEEP_AFTER)
    return list(waiting.order_by("decided_at").values_list("id", flat=True)[:limit])


def claim(request_id: UUID) -> ChangeRequest | None:
    """Take an approved change up, for this worker alone; None when there is nothing (more) to do.

    One that was approved too long ago fails, and so does a row whose input does not fit its digest any more, or cannot
    be decrypted: it is not what was approved.
    """
    if fail_late(request_id):
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
        problem=Changed(message("The stored request was altered.")).as_problem(),
    )
    return None


def fail_late(request_id: UUID | None = None) -> int:
    """End the approved changes that no worker applied in time (or this one, if it is late); how many.

    Whoever approved a change has forgotten it after days, and nobody expects it any more.
    """
    within = timedelta(hours=settings.CONFIGURATION.Approvals.ApplyWithinHours)
    late = ChangeRequest.objects.filter(status=Status.APPROVED, decided_at__lte=shared_clock.now() - within)
    if request_id is not None:
        late = late.filter(id=request_id)
    problem = NotAppliedInTime(
        message("It was to be applied within {hours} hours.", hours=within // timedelta(hours=1))
    ).as_problem()
    failed = [
        id for id in late.values_list("id", flat=True) if move(id, Status.APPROVED, Status.FAILED, problem=problem)
    ]
    for id in failed:
        _logger.error("an approved change was not applied in time", request=str(id))
    return len(failed)


def finish(change_request: ChangeRequest, *, status: str, problem: dict[str, Any] | None = None) -> None:
    """End a claimed change, or put it back (`approved`) for a sweep to find when it could not be tried.

    Where the operations log has a record of the write, the log decides.

    A worker whose lease is over and whose request was taken up by another one changes nothing any more. A change that
    is still `applying` is a run that others have in hand now (`follow_run`).
    """
    end = Status(status)
    if end is Status.APPLYING:
        return
    if end in (Status.FAILED, Status.STALE, Status.APPROVED):
        recorded = _recorded_end(change_request.id)
        if recorded is Status.APPLYING:  # another attempt is writing, or its writer is gone: the settler will know
            return
        if recorded in (Status.APPLIED, Status.UNKNOWN):
            end, problem = recorded, None
    move(change_request.id, Status.APPLYING, end, if_attempt=change_request.attempt, problem=problem)


def follow_run(change_request: ChangeRequest, run_id: UUID) -> None:
    """Note the run that a claimed change has become: it is over when the run is, whatever becomes of this worker."""
    mine = ChangeRequest.objects.filter(id=change_request.id, status=Status.APPLYING, attempt=change_request.attempt)
    mine.update(run_id=run_id, lease_until=shared_clock.now())


def end_with_run(run: Run) -> bool:
    """End the change that a run is, if it is one, now that the run is completed; whether that was still to be done.

    The change was to try each account once. If some of them failed it is said to be partly failed; the run tells which.
    """
    if run.change_request_id is None:
        return False
    failed, total = run.results.filter(status=AccountStatus.FAILED).count(), run.results.count()
    if not failed:
        return move(run.change_request_id, Status.APPLYING, Status.APPLIED, run_id=run.id)
    problem = PartlyFailed(message("Of {total} accounts {failed} failed.", total=total, failed=failed)).as_problem()
    return move(run.change_request_id, Status.APPLYING, Status.PARTLY_FAILED, run_id=run.id, problem=problem)


def settle_applying() -> int:
    """End the changes whose worker is gone, by what the operations log says; how many ended or are taken up anew.

    Those that are runs end with them, and go on while the run does: a run has workers of its own. Of all others:
    without a record nothing was written (the intent comes first, and while it is open a second one is refused by the
    database), nor with one that was settled as not applied: the change goes to the next worker.
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
        end = _recorded_end(request_id)
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


def _application(request_id: UUID) -> QuerySet[OperationRecord]:
    """The records of the change being carried out: one for each attempt, or one for each account of a run.

    An attempt follows another one only when that one wrote nothing: a single record may be open or have succeeded.
    """
    return OperationRecord.objects.filter(change_request_id=request_id, surface=Surface.WORKER)


def _recorded_end(request_id: UUID) -> Status | None:
    """How the operations log says that the change ended (`applying` if it has not); None if it was not written.

    A run that was started is under way, or has ended the change itself.
    """
    if Run.objects.filter(change_request_id=request_id).exists():
        return Status.APPLYING
    records = _application(request_id).exclude(outcome=Outcome.FAILED, code__in=TRY_AGAIN)
    record = records.order_by("-id").values("outcome", "run_id").first()
    if record is None:
        return None
    if record["run_id"] is not None:  # the run went with its directory's connection
        return Status.APPLIED
    return _END_BY_OUTCOME[Outcome(record["outcome"])]


def _problem_of(request_id: UUID) -> dict[str, Any]:
    code = _application(request_id).order_by("-id").values_list("code", flat=True).first()
    return NotApplied(code).as_problem()


def expire_overdue() -> int:
    """Mark the pending requests that nobody decided in time; how many."""
    overdue = ChangeRequest.objects.filter(status=Status.PENDING, expires_at__lte=shared_clock.now())
    return sum(move(request_id, Status.PENDING, Status.EXPIRED) for request_id in overdue.values_list("id", flat=True))
