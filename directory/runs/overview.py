"""How runs stand: what lists show of them, and what the page of one needs besides its results.

The shape that a started run is answered with is `directory.runs.requests.RunResult`.
"""

from typing import Literal

from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from typing_extensions import TypedDict

from core.call import CredentialKind
from core.shapes import Id, Moment, render_timestamp
from directory.models.runs import AccountResult, AccountStatus, Run, RunLease, RunState
from directory.runs.requests import AccountResultJson, result


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


def with_counts(runs: QuerySet[Run]) -> QuerySet[Run]:
    """The same runs, each with how many of its accounts ended in which way.

    Counted for the rows of a page only: joined, the results of all runs would be counted before the page is cut.
    """
    return runs.annotate(**{status.value: _number_of(status) for status in AccountStatus})


def _number_of(status: AccountStatus) -> Coalesce:
    results = AccountResult.objects.filter(run=OuterRef("pk"), status=status).order_by().values("run")
    return Coalesce(Subquery(results.annotate(number=Count("pk")).values("number"), output_field=IntegerField()), 0)


def overview(run: Run) -> RunOverview:
    """A run that was read `with_counts`."""
    counts = {status: getattr(run, status.value) for status in AccountStatus}
    return {
        "runId": str(run.id),
        "action": run.action,  # type: ignore[typeddict-item] # the two that the operations write
        "state": run.state,  # type: ignore[typeddict-item]
        "organizationalUnit": {"id": str(run.unit), "distinguishedName": run.unit_dn},
        "total": len(run.accounts),
        "succeeded": counts[AccountStatus.SUCCEEDED],
        "unchanged": counts[AccountStatus.UNCHANGED],
        "failed": counts[AccountStatus.FAILED],
        "requestedBy": {"owner": run.requester, "keyName": run.credential_name},
        "agent": run.credential_kind == CredentialKind.AGENT_TOKEN,
        "reason": run.reason,
        "changeRequestId": str(run.change_request_id) if run.change_request_id else None,
        "approvedBy": run.approved_by,
        "createdAt": render_timestamp(run.created_at) or "",
        "startedAt": render_timestamp(run.started_at),
        "completedAt": render_timestamp(run.completed_at),
    }


def details(run: Run) -> RunDetails:
    """The same with the results so far and what the run waits for."""
    ahead = Run.objects.exclude(state=RunState.COMPLETED).filter(
        connection_id=run.connection_id, created_at__lt=run.created_at
    )
    leases = RunLease.objects.filter(
        connection_id=run.connection_id, holder__isnull=False, expires_at__gt=timezone.now()
    )
    is_open = run.state != RunState.COMPLETED
    return {
        **overview(run),
        "workerPresent": leases.exists(),
        "runsAhead": ahead.count() if is_open else 0,
        "attempts": run.attempts,
        "results": result(run)["results"],
    }
