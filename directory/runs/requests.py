"""Runs over an organizational unit's accounts as seen by those who ask for them: start one, wait for it, show it.

Doing the run is `worker`'s, in a Celery worker; what an account's run would mean is `assessment`'s.
"""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from typing_extensions import TypedDict

from core.call import Call
from core.database import shared_clock
from core.errors import ServiceUnavailable
from core.redis.broker import BrokerUnavailable, send_task
from core.shapes import KEPT_PROBLEM, Id
from core.text.messages import message
from directory.models.runs import AccountResult, AccountStatus, Plan, Run, RunState
from directory.runs.completion import await_announcement
from directory.shapes.proposal import AccountsRun, Proposal

EXECUTE_RUN = "directory.tasks.execute_run"

# A connection kept from before the broker's restart fails once; a broker that is away fails twice, and soon.
_PUBLISH_RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}

PLAN_LIFE = timedelta(hours=1)
"""How long a plan can be run."""


class RunsUnavailable(ServiceUnavailable):
    """No broker takes the run, so no worker would hear of it. Nothing was changed, nothing is left to be done."""

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


def start(
    call: Call,
    operation_name: str,
    proposal: Proposal,
    *,
    change_request_id: UUID | None = None,
    approved_by: str | None = None,
) -> Run:
    """Keep the proposed run and tell a worker of it; raises RunsUnavailable when the broker does not take it.

    The run is committed before the worker hears of it, so that it is there to be found. A change request's run is
    started once: a second time gives the first one.
    """
    assert proposal.run is not None
    run = _new_run(call, operation_name, proposal.run, proposal.target.distinguished_name)
    run.change_request_id, run.approved_by = change_request_id, approved_by
    try:
        with transaction.atomic():
            run.save(force_insert=True)
    except IntegrityError:
        return Run.objects.get(change_request_id=change_request_id)
    try:
        send_task(EXECUTE_RUN, str(run.id), retry=True, retry_policy=_PUBLISH_RETRY)
    except BrokerUnavailable as error:
        withdrawn, _ = Run.objects.filter(id=run.id, state=RunState.QUEUED).delete()
        if withdrawn:
            raise RunsUnavailable(message("The broker does not answer, so no worker can do the run.")) from error
    return run


def record_unchanged(
    call: Call, operation_name: str, asked: AccountsRun, *, unit_dn: str, account_dns: Sequence[str | None]
) -> Run:
    """A run that needs no worker, as each account is already as it should be: completed at once."""
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


def wait_for(run_id: UUID, seconds: float) -> Run:
    """The run as it is when completed, or when the time is over."""
    deadline = time.monotonic() + seconds
    open_runs = Run.objects.filter(id=run_id).exclude(state=RunState.COMPLETED)
    while (left := deadline - time.monotonic()) > 0 and open_runs.exists():
        await_announcement(run_id, left)
    return Run.objects.get(id=run_id)


def result(run: Run) -> RunResult:
    """The run and the results so far, in the order of its accounts."""
    # A hundred model instances take longer to be made than to be read.
    results = list(run.results.order_by("position").values("account", "distinguished_name", "status", "problem"))
    counts = Counter(item["status"] for item in results)
    return {
        "runId": str(run.id),
        "action": run.action,  # type: ignore[typeddict-item] # the two that the operations write
        "state": run.state,  # type: ignore[typeddict-item]
        "total": len(run.accounts),
        "succeeded": counts[AccountStatus.SUCCEEDED],
        "unchanged": counts[AccountStatus.UNCHANGED],
        "failed": counts[AccountStatus.FAILED],
        "results": [
            {
                "id": str(item["account"]),
                "distinguishedName": item["distinguished_name"],
                "status": item["status"],  # type: ignore[typeddict-item]
                "problem": item["problem"],
            }
            for item in results
        ],
    }


def living_plans() -> QuerySet[Plan]:
    """The plans that can still be run."""
    return Plan.objects.filter(created_at__gt=shared_clock.now() - PLAN_LIFE)


def delete_old_plans() -> None:
    """Forget the plans nobody can run any more."""
    Plan.objects.filter(created_at__lte=shared_clock.now() - PLAN_LIFE).delete()
