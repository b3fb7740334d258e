"""What would become of a waiting change request: asked of the pipeline, which alone can tell."""

from typing import Annotated, Any
from uuid import UUID

from typing_extensions import TypedDict

from approvals.decisions import find_request
from approvals.errors import NotPending
from approvals.models import Status
from approvals.operations.change_requests import find_visible
from audit.redact import ChangeJson
from gateway import pipeline
from gateway.core.call import Call, Surface
from gateway.core.operation import SIGNED_IN, RateCategory, operation
from gateway.core.problem_shapes import KEPT_PROBLEM


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
    forecast = pipeline.forecast(find_request(id, with_input=True))
    return {
        "problem": forecast.refusal.as_problem() if forecast.refusal else None,
        "stale": forecast.stale,
        "changes": list(forecast.changes),
        "warnings": list(forecast.warnings),
    }
