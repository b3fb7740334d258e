"""Looking at runs: a list of them, one as it stands, what its page shows, and what trying again would do.

Starting one is `organization_unit_accounts`'.
"""

from functools import partial
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.db.models import Q, QuerySet
from pydantic import Field
from typing_extensions import TypedDict

from core.call import Call, Surface
from core.errors import NotFound
from core.operation import SIGNED_IN, Target, operation
from core.paging import Page, PageQuery, page_of
from core.shapes import KEPT_PROBLEM, Guid, Id
from directory.lookup.access import client_of, find_object, named_inside_scopes
from directory.models.runs import AccountStatus, Run, RunState
from directory.runs import requests as runs
from directory.runs.assessment import Action, assess_named
from directory.runs.overview import RunDetails, RunOverview, RunUnitJson, details, overview, with_counts
from directory.runs.requests import RunResult
from directory.shapes.kinds import Kind
from keys.permissions.more_privileged_people import more_privileged_people

REST_ONLY = frozenset({Surface.REST})


class SearchRuns(PageQuery):
    """The filters of the list; several of them narrow each other down."""

    state: Annotated[RunState | None, Field(description="Only runs in this state.")] = None
    action: Annotated[Action | None, Field(description="Only runs that enable, or only those that disable.")] = None
    organizational_unit: Annotated[Guid | None, Field(description="Only runs over this unit (objectGUID).")] = None
    change_request_id: Annotated[Guid | None, Field(description="Only the run that this change request became.")] = None


class RetriedAccount(TypedDict):
    """An account that failed, why it did, and what another run would mean for it: `absent` is not in the unit now."""

    id: Id
    distinguishedName: str | None
    effect: Literal["change", "none", "protected", "absent"]
    problem: Annotated[dict[str, Any], KEPT_PROBLEM] | None


class RetryPlan(TypedDict):
    """What a new run over exactly these accounts would do now."""

    runId: Id
    action: Action
    organizationalUnit: RunUnitJson
    accounts: list[RetriedAccount]


@operation(
    "runs.search",
    "GET ad/runs",
    "Search runs",
    permission=SIGNED_IN,
    target=Target.DIRECTORY,
    query=SearchRuns,
    output=Page[RunOverview],
)
def search_runs(call: Call, *, query: SearchRuns) -> Page[RunOverview]:
    """List runs over organizational units' accounts, newest first: your own, and those you could have started."""
    wanted = {
        "state": query.state,
        "action": query.action,
        "unit": query.organizational_unit,
        "change_request_id": query.change_request_id,
    }
    found = _visible_runs(call).filter(**{name: value for name, value in wanted.items() if value is not None})
    return page_of(call, with_counts(found), query=query, order=("-created_at", "-id"), render=overview)


@operation(
    "runs.read", "GET ad/runs/{id}", "Read {a run}", permission=SIGNED_IN, target=Target.DIRECTORY, output=RunResult
)
def read_run(call: Call, *, id: UUID) -> RunResult:
    """Read the state and the results so far of a run over an organizational unit's accounts."""
    return runs.result(_find_run(_visible_runs(call), id))


@operation(
    "runs.read-details",
    "GET ad/runs/{id}/details",
    "Read the details of {a run}",
    permission=SIGNED_IN,
    target=Target.DIRECTORY,
    output=RunDetails,
    surfaces=REST_ONLY,
)
def read_run_details(call: Call, *, id: UUID) -> RunDetails:
    """Read a run with its results so far, whose it is, its times, and what it waits for."""
    return details(_find_run(with_counts(_visible_runs(call)), id))


@operation(
    "runs.plan-retry",
    "GET ad/runs/{id}/retry-plan",
    "Plan a retry of {a run}",
    permission="directory.run_accounts",
    target=Target.DIRECTORY,
    output=RetryPlan,
    surfaces=REST_ONLY,
)
def plan_retry(call: Call, *, id: UUID) -> RetryPlan:
    """Show what a new run over the failed accounts of a completed one would do now, without changing anything."""
    run = _find_run(_visible_runs(call).filter(state=RunState.COMPLETED), id)
    unit = find_object(call, run.unit, kinds={Kind.ORGANIZATIONAL_UNIT})
    failed = {item.account: item for item in run.results.filter(status=AccountStatus.FAILED).order_by("position")}
    action = cast(Action, run.action)
    return {
        "runId": str(run.id),
        "action": action,
        "organizationalUnit": {"id": str(run.unit), "distinguishedName": unit.dn},
        "accounts": [
            {
                "id": str(account.id),
                "distinguishedName": account.distinguished_name or failed[account.id].distinguished_name,
                "effect": account.effect.value,
                "problem": failed[account.id].problem,
            }
            for account in assess_named(
                client_of(call), run.unit, failed, action, more_privileged_people=partial(more_privileged_people, call)
            )
        ],
    }


def _visible_runs(call: Call) -> QuerySet[Run]:
    """One's own, and those the caller could have started: others' are shown to those who manage the same accounts."""
    assert call.directory is not None
    visible = Q(credential_kind=call.credential.kind, credential_id=call.credential.unique_id)
    if call.may("directory.run_accounts"):
        visible |= named_inside_scopes(call, "unit_dn")
    return Run.objects.filter(visible, connection_id=call.directory.id)


def _find_run(visible: QuerySet[Run], id: UUID) -> Run:
    run = visible.filter(id=id).first()
    if run is None:
        raise NotFound
    return run
