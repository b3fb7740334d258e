"""Runs as their requesters see them: start a run, wait for its completion, render it. `worker` executes it.

The worker announces a completed run through Redis, so that a waiting request hears of it at once. The announcement is
only a hint: the run's state in the database decides, and the waiting request polls it as well, at longer intervals.
"""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from redis import Redis, RedisError
from typing_extensions import TypedDict

from active_directory import require_thread
from core.call import Call, CredentialKind
from core.database import shared_clock
from core.errors import ServiceUnavailable
from core.redis.broker import BrokerUnavailable, send_task
from core.redis.clients import redis_client
from core.shapes import KEPT_PROBLEM, Id, Moment, as_record
from core.text.messages import message
from directory.models.runs import AccountResult, AccountStatus, Plan, Run, RunLease, RunState
from directory.shapes.proposal import AccountsRun, Proposal

EXECUTE_RUN = "directory.tasks.execute_run"

PLAN_LIFETIME = timedelta(hours=1)
"""How long a plan can be executed after it was made."""

MAX_WAIT_SECONDS = 1.0
"""The longest wait for an announcement, before the database is polled again."""
_ANNOUNCEMENT_SECONDS = 60
"""How long an announcement stays in Redis if nobody waits for it."""
_ANSWER_SECONDS = 0.5
_WITHOUT_REDIS_SECONDS = 0.1

# After a restart of the broker a kept connection fails once; a broker that is down fails twice, and quickly.
_PUBLISH_RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}

logger = structlog.get_logger(__name__)


class RunsUnavailable(ServiceUnavailable):
    """The broker is down, so no worker would learn of the run. Nothing was changed, and no run is left behind."""

    code, title = "Runs.Unavailable", "No run can be started now"


class AccountResultJson(TypedDict):
    id: Id
    distinguishedName: str | None
    status: Literal["succeeded", "unchanged", "failed"]
    problem: Annotated[dict[str, Any], KEPT_PROBLEM] | None


class RunResult(TypedDict):
    """A run and the results it has so far."""

    runId: Id
    action: Literal["enable", "disable"]
    state: Literal["queued", "running", "completed"]
    total: int
    succeeded: int
    unchanged: int
    failed: int
    results: list[AccountResultJson]


class RunUnitJson(TypedDict):
    """The organizational unit, by the name it had when the run was asked for."""

    id: Id
    distinguishedName: str


class RunRequesterJson(TypedDict):
    """Whose run it is: a person, and the key or agent that asked for it in their name."""

    owner: str
    keyName: str | None


class RunOverview(TypedDict):
    """A run without its results. `startedAt` is when a worker took it up first, null while it waits for one.

    `agent` tells that an AI agent asked for it, by the name in `requestedBy.keyName`.
    """

    runId: Id
    action: Literal["enable", "disable"]
    state: Literal["queued", "running", "completed"]
    organizationalUnit: RunUnitJson
    total: int
    succeeded: int
    unchanged: int
    failed: int
    requestedBy: RunRequesterJson
    agent: bool
    reason: str | None
    changeRequestId: Id | None
    approvedBy: str | None
    createdAt: Moment
    startedAt: Moment | None
    completedAt: Moment | None


class RunDetails(RunOverview):
    """A run with its results so far, and what it waits for.

    `workerPresent` tells whether a worker does runs of this directory now, `runsAhead` how many it does before this
    one. `attempts` counts how often a worker took the run up: more than once when one was killed at it, or the
    directory was away.
    """

    workerPresent: bool
    runsAhead: int
    attempts: int
    results: list[AccountResultJson]


def start_run(call: Call, operation_name: str, proposal: Proposal, *, approved_by: str | None = None) -> Run:
    """Save the proposed run and enqueue it; raises RunsUnavailable when the broker is down.

    The run of a change request starts only once: a second call returns the first run.
    """
    assert proposal.run is not None
    run = _new_run(call, operation_name, proposal.run, proposal.target.distinguished_name)
    run.change_request_id, run.approved_by = call.change_request_id, approved_by
    run.assessment = proposal.run.assessment
    try:
        with transaction.atomic():  # committed before the worker hears of it, or it would not find the run
            run.save(force_insert=True)
    except IntegrityError:
        return Run.objects.get(change_request_id=call.change_request_id)
    try:
        send_task(EXECUTE_RUN, str(run.id), retry=True, retry_policy=_PUBLISH_RETRY)
    except BrokerUnavailable as error:
        # The publishing may have failed after the broker took the message: a run that a worker has begun goes on.
        withdrawn, _ = Run.objects.filter(id=run.id, state=RunState.QUEUED).delete()
        if withdrawn:
            raise RunsUnavailable(message("The broker does not answer, so no worker can do the run.")) from error
    return run


def record_unchanged_run(
    call: Call, operation_name: str, asked: AccountsRun, *, unit_dn: str, account_dns: Sequence[str | None]
) -> Run:
    """Save a completed run that needs no worker, for every account is already in the wanted state."""
    run = _new_run(call, operation_name, asked, unit_dn)
    run.state, run.started_at = RunState.COMPLETED, shared_clock.now()
    run.completed_at = run.started_at
    with transaction.atomic():
        run.save(force_insert=True)
        AccountResult.objects.bulk_create(
            AccountResult(
                run=run, position=position, account=account, distinguished_name=dn, status=AccountStatus.UNCHANGED
            )
            for position, (account, dn) in enumerate(zip(asked.accounts, account_dns, strict=True))
        )
    return run


def _new_run(call: Call, operation_name: str, asked: AccountsRun, unit_dn: str) -> Run:
    assert call.directory is not None
    return Run(
        id=uuid4(),
        connection_id=call.directory.id,
        operation=operation_name,
        action=asked.action,
        unit=asked.unit,
        unit_dn=unit_dn,
        accounts=[str(account) for account in asked.accounts],
        person_id=call.person.id,
        requester=call.person.username,
        credential_kind=call.credential.kind,
        credential_id=call.credential.unique_id,
        credential_name=call.credential.name,
        client_address=call.client_address,
        request_id=call.request_id,
        reason=call.reason,
    )


def retry_after(state: str) -> int | None:
    """In how many seconds it is worth asking again about a run in this state; None when it is completed."""
    return None if state == RunState.COMPLETED else 2


def wait_for_completion(run_id: UUID, seconds: float) -> Run:
    """The run when it is completed, or after so many seconds."""
    deadline = time.monotonic() + seconds
    open_runs = Run.objects.filter(id=run_id).exclude(state=RunState.COMPLETED)
    while (left := deadline - time.monotonic()) > 0 and open_runs.exists():
        await_completion(run_id, left)
    return Run.objects.get(id=run_id)


def announce_completion(run_id: UUID) -> None:
    """Announce that a run is over to those who wait for it."""
    try:
        with _redis(settings.REDIS_URL, _ANSWER_SECONDS).pipeline(transaction=False) as pipeline:
            pipeline.rpush(_key(run_id), b"over")
            pipeline.expire(_key(run_id), _ANNOUNCEMENT_SECONDS)
            pipeline.execute()
    except RedisError as error:
        logger.warning("who waits for the run looks for itself: Redis does not answer", error=str(error))


def await_completion(run_id: UUID, seconds: float) -> None:
    """Wait until a run is said to be over, at most for so long and MAX_WAIT_SECONDS; a moment where Redis is away."""
    require_thread()
    try:
        _redis(settings.REDIS_URL, MAX_WAIT_SECONDS + _ANSWER_SECONDS).blpop(
            [_key(run_id)], min(seconds, MAX_WAIT_SECONDS)
        )
    except RedisError:
        time.sleep(min(seconds, _WITHOUT_REDIS_SECONDS))


def _key(run_id: UUID) -> str:
    return f"gateway:run:{run_id}:over"


@lru_cache(maxsize=2)
def _redis(url: str, seconds: float) -> Redis:
    return redis_client(url, seconds=seconds, connect_seconds=_ANSWER_SECONDS, tries=2)


def render_result(run: Run) -> RunResult:
    """The run and its results so far, in the order of its accounts."""
    # Creating a hundred model instances takes longer than reading their rows.
    results = list(run.results.order_by("position").values("account", "distinguished_name", "status", "problem"))
    counts = Counter(item["status"] for item in results)
    return as_record(
        RunResult,
        run,
        runId=str(run.id),
        total=len(run.accounts),
        **{status.value: counts[status] for status in AccountStatus},
        results=[
            {
                "id": str(item["account"]),
                "distinguishedName": item["distinguished_name"],
                "status": item["status"],
                "problem": item["problem"],
            }
            for item in results
        ],
    )


def with_counts(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Annotate runs with the number of their results of each status.

    Subqueries count for the rows of one page only; a join would count the results of all runs before the limit applies.
    """
    return runs.annotate(**{status.value: _count_of(status) for status in AccountStatus})


def _count_of(status: AccountStatus) -> Coalesce:
    results = AccountResult.objects.filter(run=OuterRef("pk"), status=status).order_by().values("run")
    return Coalesce(Subquery(results.annotate(number=Count("pk")).values("number"), output_field=IntegerField()), 0)


def render_overview(run: Run) -> RunOverview:
    """A run without its results; it must have been read `with_counts`."""
    return as_record(
        RunOverview,
        run,
        runId=str(run.id),
        organizationalUnit={"id": str(run.unit), "distinguishedName": run.unit_dn},
        total=len(run.accounts),
        requestedBy={"owner": run.requester, "keyName": run.credential_name},
        agent=run.credential_kind == CredentialKind.AGENT_TOKEN,
    )


def render_details(run: Run) -> RunDetails:
    """A run, read `with_counts`, with its results so far and what it waits for."""
    ahead = Run.objects.exclude(state=RunState.COMPLETED).filter(
        connection_id=run.connection_id, created_at__lt=run.created_at
    )
    leases = RunLease.objects.filter(
        connection_id=run.connection_id, holder__isnull=False, expires_at__gt=timezone.now()
    )
    is_open = run.state != RunState.COMPLETED
    return {
        **render_overview(run),
        "workerPresent": leases.exists(),
        "runsAhead": ahead.count() if is_open else 0,
        "attempts": run.attempts,
        "results": render_result(run)["results"],
    }


def unexpired_plans() -> QuerySet[Plan]:
    """The plans that can still be executed."""
    return Plan.objects.filter(created_at__gt=shared_clock.now() - PLAN_LIFETIME)


def delete_expired_plans() -> None:
    """Delete the plans that can no longer be executed."""
    Plan.objects.filter(created_at__lte=shared_clock.now() - PLAN_LIFETIME).delete()
