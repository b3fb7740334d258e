"""The one way of every call, on every surface: `prepare` until the write, then `execute`; `approved` begins anew.

It fails closed: a stage that cannot be done ends the call, and no argument switches one off. How a surface reads a
request and renders an answer, and what an operation does, live elsewhere.
"""

from gateway.pipeline.approved import Forecast, apply_change_request, call_of, forecast, resubmit
from gateway.pipeline.disclosure import record_replayed
from gateway.pipeline.execute import run
from gateway.pipeline.inputs import Answer, ChangeQuery, Inputs
from gateway.pipeline.prepare import require_admission
from gateway.pipeline.replay import review

__all__ = [
    "Answer",
    "ChangeQuery",
    "Forecast",
    "Inputs",
    "apply_change_request",
    "call_of",
    "forecast",
    "record_replayed",
    "require_admission",
    "resubmit",
    "review",
    "run",
]
