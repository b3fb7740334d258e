"""What would become of a waiting change request: asked of the pipeline, which alone can tell."""

import time
from typing import Annotated, Any, Final
from uuid import UUID

from typing_extensions import TypedDict

from approvals.errors import NotPending
from approvals.models import ChangeRequest, Status
from approvals.review.decisions import find_request, find_requests
from audit.redact import ChangeJson
from core.call import Call, Surface
from core.operation import SIGNED_IN, RateCategory, operation
from core.shapes import KEPT_PROBLEM, Id
from directory.lookup.prefetch import Prefetches
from directory.lookup.visibility import may_see_values, requested_changes_seen_by
from gateway import pipeline
from operations.approvals.change_requests.grouped_review import MOST, ReadTogether, chosen_requests
from operations.approvals.change_requests.requests import find_visible, without_values

_SECONDS: Final = 10
"""For so long the directory is asked about several requests."""
_AT_ONCE: Final = 50
"""Requests whose objects are read together."""


class ForecastJson(TypedDict):
    """`problem` is what the change would fail with now, `stale` whether the values concerned have changed since it was
    asked for; `changes` are what it would do to the values of now."""

    problem: Annotated[dict[str, Any], KEPT_PROBLEM] | None
    stale: bool
    changes: list[ChangeJson]
    warnings: list[str]


@operation(
    "change-requests.read-forecast",
    "GET change-requests/{id}/forecast",
    "Read the forecast of {a change request}",
    permission=SIGNED_IN,
    rate=RateCategory.DIRECTORY_SEARCH,
    output=ForecastJson,
    surfaces=frozenset({Surface.REST}),
)
def read_forecast(call: Call, *, id: UUID) -> ForecastJson:
    """Read what would become of a waiting change if it were approved now: applied, refused, or found stale.

    409 for a request that does not wait any more.
    """
    if find_visible(call, id).status != Status.PENDING:
        raise NotPending
    request = find_request(id, with_input=True)
    return _as_json(call, request, pipeline.forecast(request))


def _as_json(call: Call, request: ChangeRequest, forecast: pipeline.Forecast) -> ForecastJson:
    """A forecast with the values that the reader may see: it was made under the requester's key."""
    problem, may_see = forecast.refusal.as_problem() if forecast.refusal else None, may_see_values(call)
    return {
        "problem": problem if may_see else without_values(problem),
        "stale": forecast.stale,
        "changes": requested_changes_seen_by(call)(request.directory_id, list(forecast.changes)),
        "warnings": list(forecast.warnings) if may_see else [],
    }


class ForecastOfOneJson(TypedDict):
    """What would become of one of the requests; `target` is what it is about, by its distinguished name."""

    id: Id
    target: str
    forecast: ForecastJson


class ForecastsJson(TypedDict):
    """The requests that would not simply be applied as they were asked for: stale ones, failing ones.

    `looked` is how many waiting requests were looked at, `left` how many there are besides: the time was over.
    """

    looked: int
    left: int
    exceptions: list[ForecastOfOneJson]


@operation(
    "change-requests.read-forecasts",
    "GET change-requests/forecasts",
    "Read the forecasts of change requests",
    permission=SIGNED_IN,
    rate=RateCategory.DIRECTORY_SEARCH,
    query=ReadTogether,
    output=ForecastsJson,
    surfaces=frozenset({Surface.REST}),
)
def read_forecasts(call: Call, *, query: ReadTogether) -> ForecastsJson:
    """Read which of several waiting changes would fail or be found stale if they were approved now.

    Each is judged as its application would judge it. As many are looked at as ten seconds allow, the oldest first.
    """
    waiting = list(
        chosen_requests(call, query).filter(status=Status.PENDING).order_by("id").values_list("id", flat=True)[:MOST]
    )
    deadline = time.monotonic() + _SECONDS
    exceptions: list[ForecastOfOneJson] = []
    looked = 0
    prefetches = Prefetches()
    for start in range(0, len(waiting), _AT_ONCE):
        part = find_requests(waiting[start : start + _AT_ONCE])
        with prefetches.of([request.target_id for request in part if request.target_id is not None]) as prefetch:
            for request in part:
                if time.monotonic() > deadline:
                    break
                forecast = pipeline.forecast(request, prefetch=prefetch)
                looked += 1
                if forecast.stale or forecast.refusal is not None:
                    told = _as_json(call, request, forecast)
                    exceptions.append({"id": str(request.id), "target": request.target_dn, "forecast": told})
    return {"looked": looked, "left": len(waiting) - looked, "exceptions": exceptions}
