"""The Celery application (`celery -A gateway worker`), and the metrics and traces of every task.

Web processes import it too, to declare and send tasks; metrics begin only when a worker starts.
"""

import os
import sys
from importlib import import_module
from time import perf_counter
from typing import Any

import structlog
from celery import Celery, Task, signals
from django.db.utils import InterfaceError, OperationalError

from core import tracing
from core.redis import broker
from gateway.monitoring import metrics_folder
from gateway.monitoring.workers import Heartbeats, PrimaryWatch, ReconnectDelay, SweepStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")

logger = structlog.get_logger(__name__)

_TRACE_HEADERS = ("traceparent", "tracestate")


class MeasuredTask(Task):
    """The base of all tasks: counts each one and continues its caller's trace."""

    throws = (OperationalError, InterfaceError)
    """Logged without a stack trace: while the database is down, every sweep of every worker raises one of these."""

    def on_failure(self, exc: BaseException, *_: Any) -> None:
        """Log these as warnings; Celery itself logs exceptions in `throws` at level INFO."""
        if isinstance(exc, self.throws):
            logger.warning("a task was not done", task=self.name, reason=" ".join(str(exc).split()))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from gateway.monitoring.metrics import count_task  # reads settings, which Celery loads later

        began, outcome = perf_counter(), "failed"
        try:
            result = self._traced(*arguments, **named)
            outcome = "done"
            return result
        finally:
            count_task(self.name, outcome, perf_counter() - began)

    def _traced(self, *arguments: Any, **named: Any) -> Any:
        """Run the task in a span below its sender's. A sweep has no sender, and a trace only if it does something."""
        carrier = {name: value for name in _TRACE_HEADERS if (value := self.request.get(name))}
        name = f"task {self.name}"
        with (
            tracing.span(name, kind="consumer", carrier=carrier)
            if carrier
            else tracing.quiet_span(name, kind="consumer")
        ):
            return super().__call__(*arguments, **named)


# Celery puts its working directory first in sys.path: whoever can write there could replace a package such as `keys`.
_path = sys.path.copy()
app = Celery("gateway", task_cls=MeasuredTask)
sys.path[:] = _path
broker.register_transports()
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["gateway"])
app.steps["consumer"].add(SweepStep)
app.steps["consumer"].add(Heartbeats)
app.steps["consumer"].add(PrimaryWatch)
app.steps["consumer"].add(ReconnectDelay)


@signals.worker_init.connect
def _begin_metrics(**_: object) -> None:
    """Choose the metrics folder before the worker forks, so that all its processes count in it."""
    metrics_folder.use_for_worker()
    import_module("gateway.monitoring.metrics")


@signals.worker_ready.connect
def _serve_metrics(**_: object) -> None:
    import_module("gateway.monitoring.health").serve()


if tracing.IS_ON:

    @signals.before_task_publish.connect
    def _add_trace_headers(headers: dict[str, Any], **_: Any) -> None:
        tracing.inject_context(headers)

    @signals.worker_process_shutdown.connect
    def _flush_spans(**_: Any) -> None:
        tracing.shut_down()
