"""How a worker tells of a task that failed."""

import logging
from typing import Any

import pytest
from celery import current_app
from django.db.utils import InterfaceError, OperationalError
from structlog.testing import capture_logs

_TASK = "of.this.test"


def fail_with(error: Exception) -> list[Any]:
    """What structlog's loggers tell of a task that fails so; what other threads tell meanwhile is not of it."""

    def fail() -> None:
        raise error

    app: Any = current_app
    task = app.task(name=_TASK)(fail)
    try:
        with capture_logs() as told:
            task.apply()
    finally:
        app.tasks.pop(task.name)
    return [line for line in told if line.get("task") == _TASK]


def told_by_celery(caplog: pytest.LogCaptureFixture, level: int) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= level and _TASK in record.getMessage()]


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_that_the_database_is_away_is_told_in_one_line(caplog: pytest.LogCaptureFixture, kind: Any) -> None:
    assert fail_with(kind("the connection\nis refused")) == [
        {
            "event": "a task was not done",
            "log_level": "warning",
            "task": _TASK,
            "reason": "the connection is refused",
        }
    ]
    assert not [record for record in told_by_celery(caplog, 0) if record.exc_info or record.levelno > logging.INFO]


def test_any_other_failure_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    assert fail_with(KeyError("name")) == []
    (record,) = told_by_celery(caplog, logging.ERROR)
    assert record.exc_info
