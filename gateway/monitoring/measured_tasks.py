"""What every Celery task does besides its work: it is counted, and it is a part of the trace of whoever asked for it.

Imported where tasks are declared, in web processes too, so nothing is counted before a worker runs a task.
"""

from time import perf_counter
from typing import Any

import structlog
from celery import Task, signals
from django.db.utils import InterfaceError, OperationalError

from core import tracing

logger = structlog.get_logger(__name__)

_CARRIED = ("traceparent", "tracestate")


class MeasuredTask(Task):
    """The base of all tasks."""

    throws = (OperationalError, InterfaceError)
    """Told without the stack: while the database is away every sweep of every worker meets one of these."""

    def on_failure(self, exc: BaseException, *_: Any) -> None:
        """Celery tells of these as of something that does not matter."""
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
        """In a span below that of whoever asked. Sweeps, which nobody asked for, have a trace if they do something."""
        carrier = {name: value for name in _CARRIED if (value := self.request.get(name))}
        name = f"task {self.name}"
        with (
            tracing.span(name, kind="consumer", carrier=carrier)
            if carrier
            else tracing.quiet_span(name, kind="consumer")
        ):
            return super().__call__(*arguments, **named)


if tracing.IS_ON:

    @signals.before_task_publish.connect
    def _hand_on(headers: dict[str, Any], **_: Any) -> None:
        tracing.hand_on(headers)

    @signals.worker_process_shutdown.connect
    def _send_the_rest(**_: Any) -> None:
        tracing.end()
