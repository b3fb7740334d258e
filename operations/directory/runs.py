"""Reading runs: their list, the state and details of one, and what a retry would do.

`organization_units` starts them.
"""

from functools import partial
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.db.models import Q, QuerySet
from pydantic import Field
from typing_extensions import TypedDict

from core.call import Call
from core.database import own_rows
from core.operation import SIGNED_IN, Target, operation, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import KEPT_PROBLEM, Guid, Id
from directory.lookup.access import client_of, find_object, inside_scopes_condition
from directory.models.runs import AccountStatus, Run, RunState
from directory.runs import requests as runs
from directory.runs.assessment import Action, assess_named
from directory.runs.requests import (
    RunDetails,
    RunOverview,
    RunResult,
    RunUnitJson,
    render_details,
    render_overview,
    with_counts,
)
from directory.shapes.kinds import Kind
from keys.permissions.more_privileged_people import more_privileged_people
from operations.waiting import AT_ONCE, WaitingQuery, wait_for_end


class SearchRuns(PageQuery):
    """The filters of the list; several of them narrow each other down."""

    state: RunState | None = Field(None, description="Only runs in this state.")
    action: Action | None = Field(None, description="Only runs that enable, or only those that disable.")
    organizational_unit: Guid | None = Field(None, description="Only runs over this unit (objectGUID).")
    change_request_id: Guid | None = Field(None, description="Only the run that this change request became.")


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


@operation("runs.search", "GET ad/runs", "Search runs", permission=SIGNED_IN, target=Target.DIRECTORY)
def search_runs(call: Call, *, query: SearchRuns) -> Page[RunOverview]:
    """List runs over organizational units' accounts, newest first: your own, and those you could have started."""
    found = own_rows.filter_optional(
        _visible_runs(call),
        state=query.state,
        action=query.action,
        unit=query.organizational_unit,
        change_request_id=query.change_request_id,
    )
    return page_of(call, with_counts(found), query=query, order=("-created_at", "-id"), render=render_overview)


@operation("runs.read", "GET ad/runs/{id}", "Read {a run}", permission=SIGNED_IN, target=Target.DIRECTORY)
def read_run(call: Call, *, id: UUID, query: WaitingQuery = AT_ONCE) -> RunResult:
    """Read the state and the results so far of a run over an organizational unit's accounts.

    With `wait` the answer comes when the run is completed, or after so many seconds: then `Retry-After` says when to
    ask again. Few requests can wait at a time, one of a credential; others are answered at once.
    """
    found = wait_for_end(
        lambda: own_rows.find(_visible_runs(call), id=id),
        has_ended=lambda run: run.state == RunState.COMPLETED,
        query=query,
        credential=call.credential.unique_id,
    )
    return runs.render_result(found)


@rest_operation(
    "runs.read-details",
    "GET ad/runs/{id}/details",
    "Read the details of {a run}",
    permission=SIGNED_IN,
    target=Target.DIRECTORY,
)
def read_run_details(call: Call, *, id: UUID) -> RunDetails:
    """Read a run with its results so far, whose it is, its times, and what it waits for."""
    return render_details(own_rows.find(with_counts(_visible_runs(call)), id=id))


@rest_operation(
    "runs.plan-retry",
    "GET ad/runs/{id}/retry-plan",
    "Plan a retry of {a run}",
    permission="directory.run_accounts",
    target=Target.DIRECTORY,
)
def plan_retry(call: Call, *, id: UUID) -> RetryPlan:
    """Show what a new run over the failed accounts of a completed one would do now, without changing anything."""
    run = own_rows.find(_visible_runs(call), id=id, state=RunState.COMPLETED)
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
    """The caller's own runs, and those that the caller could have started, since they manage the same accounts."""
    assert call.directory is not None
    visible = Q(credential_kind=call.credential.kind, credential_id=call.credential.unique_id)
    if call.may("directory.run_accounts"):
        visible |= inside_scopes_condition(call, "unit_dn")
    return Run.objects.filter(visible, connection_id=call.directory.id)
