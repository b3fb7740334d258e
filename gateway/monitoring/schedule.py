"""The sweeps' clock: every worker asks for the sweeps from time to time, so none of them needs a scheduler beside it.

What a sweep does is in `gateway.tasks` and `gateway.run_tasks`; any number of them at once is harmless.
"""

from collections.abc import Callable
from typing import Any

import structlog
from celery import bootsteps
from django.conf import settings

from core.redis.broker import BrokerUnavailable, send_task

logger = structlog.get_logger(__name__)

_CLOCKS_DIFFER = 300
"""Seconds. Celery drops a task by the clock of the worker that gets it, which may be ahead of the one that asked; a
domain does not bear more of that (Kerberos)."""


def _sweeps() -> dict[str, int]:
    """Each task, and every how many seconds. The settings are not there yet when Celery imports this module."""
    return {
        "gateway.tasks.sweep": 10,
        "directory.tasks.sweep_runs": 10,
        "gateway.tasks.tell_people": 10,
        "gateway.tasks.check_people": 20,
        "gateway.tasks.seal_log": 2,
        "gateway.tasks.deliver_webhooks": 2,
        "gateway.tasks.keep_log_head": settings.CONFIGURATION.OperationsLog.HeadMinutes * 60,
    }


class TimedStep(bootsteps.StartStopStep):
    """What a worker does from time to time while it has a connection to the broker and takes tasks."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._timers: list[Any] = []

    def repeat(self, consumer: Any, seconds: float, function: Callable[..., None], *arguments: Any) -> None:
        """Call the function every so many seconds until the step ends."""
        self._timers.append(consumer.timer.call_repeatedly(seconds, function, arguments))

    def stop(self, consumer: Any) -> None:
        while self._timers:
            self._timers.pop().cancel()


class SweepStep(TimedStep):
    """Asks for sweeps, and for one at once with each connection to the broker, as after an outage."""

    def start(self, consumer: Any) -> None:
        for name, seconds in _sweeps().items():
            self._ask(name, seconds)
            self.repeat(consumer, seconds, self._ask, name, seconds)

    def _ask(self, name: str, seconds: int) -> None:
        """Ask for a sweep. One that no worker gets to for long is dropped, so they do not pile up."""
        try:
            send_task(name, expires=seconds + _CLOCKS_DIFFER)
        except BrokerUnavailable as error:
            logger.warning("no sweep could be asked for", sweep=name, reason=str(error))
