"""Every call of every surface runs here: `prepare` does all but the write, `execute` writes, `approved` starts over.

The pipeline fails closed: a stage that cannot be completed ends the call, and no argument switches one off. How a
surface reads a request and renders an answer, and what an operation does, live elsewhere.
"""

from gateway.pipeline.approved import Forecast, apply_change_request, call_of, forecast, resubmit
from gateway.pipeline.ending import take_up_scheduled
from gateway.pipeline.execute import read_unrecorded, run
from gateway.pipeline.inputs import Answer, ChangeQuery, Inputs
from gateway.pipeline.prepare import refuse, require_admission
from gateway.pipeline.recording import record_replayed
from gateway.pipeline.replay import refresh_answer

__all__ = [
    "Answer",
    "ChangeQuery",
    "Forecast",
    "Inputs",
    "apply_change_request",
    "call_of",
    "forecast",
    "read_unrecorded",
    "record_replayed",
    "refresh_answer",
    "refuse",
    "require_admission",
    "resubmit",
    "run",
    "take_up_scheduled",
]
