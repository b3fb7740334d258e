"""The sweeps' clock: every worker asks for the sweeps from time to time, so none of them needs a scheduler beside it.

What a sweep does is in `gateway.tasks` and `directory.tasks`; any number of them at once is harmless.
"""

from typing import Any

import structlog
from celery import bootsteps
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

logger = structlog.get_logger(__name__)

EVERY_SECONDS = 10
SWEEPS = ("gateway.tasks.sweep", "directory.tasks.sweep_runs")


class SweepStep(bootsteps.StartStopStep):
    """Begins with each connection to the broker (after an outage too, with a sweep at once) and ends with it."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._timer: Any = None

    def start(self, consumer: Any) -> None:
        self._ask(consumer.app)
        self._timer = consumer.timer.call_repeatedly(EVERY_SECONDS, self._ask, (consumer.app,))

    def stop(self, consumer: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self, app: Any) -> None:
        """Ask for each sweep. One that no worker gets to before the next is dropped, so none pile up."""
        try:
            for name in SWEEPS:
                app.send_task(name, expires=EVERY_SECONDS)
        except (OperationalError, RedisError, OSError) as error:
            logger.warning("no sweep could be asked for", reason=str(error))
