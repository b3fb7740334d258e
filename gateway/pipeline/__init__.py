"""The one way of every call, on every surface: `preparing` until the write, then `executing`; `approved` begins anew.

It fails closed: a stage that cannot be done ends the call, and no argument switches one off. How a surface reads a
request and renders an answer, and what an operation does, live elsewhere.
"""

from gateway.pipeline.approved import Forecast, apply_change_request, forecast
from gateway.pipeline.executing import (
    attempt,
    carry_out,
    completion_of,
    explained,
    refusal_of,
    require_in_time,
    run,
)
from gateway.pipeline.inputs import Answer, Change, ChangeQuery, Inputs
from gateway.pipeline.preparing import consider, reconsider, require_admission

__all__ = [
    "Answer",
    "Change",
    "ChangeQuery",
    "Forecast",
    "Inputs",
    "apply_change_request",
    "attempt",
    "carry_out",
    "completion_of",
    "consider",
    "explained",
    "forecast",
    "reconsider",
    "refusal_of",
    "require_admission",
    "require_in_time",
    "run",
]
