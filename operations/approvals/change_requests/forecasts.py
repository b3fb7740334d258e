"""Forecasts of waiting change requests, made by the pipeline, and resubmitting a stale request."""

import time
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db import transaction
from typing_extensions import TypedDict

from approvals.errors import NotPending
from approvals.models import ChangeRequest, Status
from approvals.review.decisions import find_request, find_requests, make_way
from approvals.shapes import ChangeRequestJson
from audit.model_changes.descriptions import find_audited_model
from audit.model_changes.recording import recorded
from audit.redact import ChangeJson
from core.call import Call
from core.errors import NotFound
from core.operation import SIGNED_IN, Effect, RateCategory, rest_operation
from core.shapes import KEPT_PROBLEM, Id, parse_guid
from directory import errors as directory_errors
from directory.lookup.access import client_of
from directory.lookup.prefetch import Prefetches
from directory.lookup.visibility import masker_for_change_requests, may_see_values
from directory.runs.assessment import Account, Action, assess_named
from gateway import pipeline
from keys.permissions.more_privileged_people import more_privileged_people
from operations.approvals.change_requests.grouped_review import MAX_REQUESTS, ReadTogether, chosen_requests
from operations.approvals.change_requests.requests import (
    DECIDE,
    find_visible,
    renderer_for,
    require_decidable,
    without_values,
)

_TIME_LIMIT_SECONDS = 10
"""How long forecasts of several requests may take."""
_PREFETCHED = 50
"""How many requests have their objects read with one search."""


class ForecastJson(TypedDict):
    """`problem` is what the change would fail with now, `stale` whether the values concerned have changed since it was
    asked for; `changes` are what it would do to the values of now."""

    problem: Annotated[dict[str, Any], KEPT_PROBLEM] | None
    stale: bool
    changes: list[ChangeJson]
    warnings: list[str]


@rest_operation(
    "change-requests.read-forecast",
    "GET change-requests/{id}/forecast",
    "Read the forecast of {a change request}",
    permission=SIGNED_IN,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def read_forecast(call: Call, *, id: UUID) -> ForecastJson:
    """Read what would become of a waiting change if it were approved now: applied, refused, or found stale.

    409 if the request no longer waits.
    """
    if find_visible(call, id).status != Status.PENDING:
        raise NotPending
    request = find_request(id, with_input=True)
    return _as_json(call, request, pipeline.forecast(request))


def _as_json(call: Call, request: ChangeRequest, forecast: pipeline.Forecast) -> ForecastJson:
    """A forecast with the values that the reader may see; it was made with the requester's rights."""
    problem, may_see = forecast.refusal.as_problem() if forecast.refusal else None, may_see_values(call)
    return {
        "problem": problem if may_see else without_values(problem),
        "stale": forecast.stale,
        "changes": masker_for_change_requests(call)(request.directory_id, list(forecast.changes)),
        "warnings": list(forecast.warnings) if may_see else [],
    }


class ForecastOfOneJson(TypedDict):
    """What would become of one of the requests; `target` is what it is about, by its distinguished name."""

    id: Id
    target: str
    forecast: ForecastJson


class ForecastsJson(TypedDict):
    """The requests that would not simply be applied as they were asked for: stale ones, failing ones.

    `looked` counts the waiting requests that were checked, `left` those that time did not allow.
    """

    looked: int
    left: int
    exceptions: list[ForecastOfOneJson]


@rest_operation(
    "change-requests.read-forecasts",
    "GET change-requests/forecasts",
    "Read the forecasts of change requests",
    permission=SIGNED_IN,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def read_forecasts(call: Call, *, query: ReadTogether) -> ForecastsJson:
    """Read which of several waiting changes would fail or be found stale if they were approved now.

    Each is judged as its application would judge it. Checks as many as it can in ten seconds, the oldest first.
    """
    waiting = list(
        chosen_requests(call, query)
        .filter(status=Status.PENDING)
        .order_by("id")
        .values_list("id", flat=True)[:MAX_REQUESTS]
    )
    deadline = time.monotonic() + _TIME_LIMIT_SECONDS
    exceptions: list[ForecastOfOneJson] = []
    looked = 0
    prefetches = Prefetches()
    for start in range(0, len(waiting), _PREFETCHED):
        part = find_requests(waiting[start : start + _PREFETCHED])
        with prefetches.of([request.target_id for request in part if request.target_id is not None]) as prefetch:
            for request in part:
                if time.monotonic() > deadline:
                    break
                forecast = pipeline.forecast(request, prefetch=prefetch)
                looked += 1
                if forecast.stale or forecast.refusal is not None:
                    shown = _as_json(call, request, forecast)
                    exceptions.append({"id": str(request.id), "target": request.target_dn, "forecast": shown})
    return {"looked": looked, "left": len(waiting) - looked, "exceptions": exceptions}


_ACTIONS: tuple[Action, ...] = ("enable", "disable")
_ACTION_OF_OPERATION: dict[str, Action] = {
    f"organization-units.{action}{which}": action for action in _ACTIONS for which in ("-accounts", "-all-accounts")
}


class WaitingAccountJson(TypedDict):
    """An account of the run. `changed` tells that the run would now do something else to it than when it was requested.

    An account that no longer exists has only its id.
    """

    id: Id
    distinguishedName: str | None
    samAccountName: str | None
    kind: str
    effect: Literal["change", "none", "protected", "absent"]
    changed: bool


class WaitingRunJson(TypedDict):
    """What the run would do now, with its accounts in order."""

    action: Action
    organizationalUnit: str
    total: int
    accounts: list[WaitingAccountJson]


@rest_operation(
    "change-requests.read-run-plan",
    "GET change-requests/{id}/run-plan",
    "Read the run that {a change request} asks for",
    permission=SIGNED_IN,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def read_run_plan(call: Call, *, id: UUID) -> WaitingRunJson:
    """Read what a run that waits for approval would mean for each of its accounts now.

    404 if the request is for something else; 409 if it no longer waits.
    """
    seen = find_visible(call, id)
    action = _ACTION_OF_OPERATION.get(seen.operation)
    if action is None:
        raise NotFound
    if seen.status != Status.PENDING:
        raise NotPending
    request = find_request(id, with_input=True)
    kept = request.kept_input()
    asked = [guid for text in kept["document"]["accounts"] if (guid := parse_guid(text)) is not None]
    then = {item["attribute"] for item in request.changes}
    run_call = pipeline.call_of(request)
    with directory_errors.translate_ldap_errors():
        accounts = assess_named(
            client_of(run_call),
            UUID(kept["arguments"]["id"]),
            asked,
            action,
            more_privileged_people=partial(more_privileged_people, run_call),
        )
    return {
        "action": action,
        "organizationalUnit": request.target_dn,
        "total": len(accounts),
        "accounts": [_account_as_json(account, then, may_see=may_see_values(call)) for account in accounts],
    }


def _account_as_json(account: Account, then: set[str], *, may_see: bool) -> WaitingAccountJson:
    name = account.distinguished_name
    return {
        "id": str(account.id),
        "distinguishedName": name,
        "samAccountName": account.entry.text("sAMAccountName") if account.entry and may_see else None,
        "kind": account.kind,
        "effect": account.effect.value,
        "changed": name is None or (account.effect == "change") != (name in then),
    }


@rest_operation(
    "change-requests.ask-anew",
    "POST change-requests/{id}/ask-anew",
    "Resubmit {a change request}",
    permission=DECIDE,
    effect=Effect.UNDERTAKE,
)
def resubmit(call: Call, *, id: UUID) -> ChangeRequestJson:
    """Put a new request in the place of a waiting one whose values have changed; the answer is the new one.

    The new request has the same requester and input, and shows the present values. The old one is rejected with a
    comment. Only people who may decide the old one can do this. 409 if nothing would change any more.
    """
    require_decidable(call, id)
    name = "change-requests.reject"
    with transaction.atomic():  # rejected without a successor, the change would be lost
        old = find_request(id, with_input=True)
        with recorded(call, operation=name) as administration:
            administration.watch(find_audited_model("change-requests"), id)
            make_way(call.person, id, comment="The values have changed since; it was asked for anew.")
        new = pipeline.resubmit(old)
    return renderer_for(call)(find_visible(call, new.id))
