"""How a worker tells of a task that failed."""

import logging
from typing import Any

import pytest
from celery import current_app
from django.db.utils import InterfaceError, OperationalError
from structlog.testing import capture_logs


def fail_with(error: Exception) -> None:
    def fail() -> None:
        raise error

    app: Any = current_app
    task = app.task(name="of.this.test")(fail)
    try:
        task.apply()
    finally:
        app.tasks.pop(task.name)


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_that_the_database_is_away_is_told_in_one_line(caplog: pytest.LogCaptureFixture, kind: Any) -> None:
    with capture_logs() as told:
        fail_with(kind("the connection\nis refused"))
    assert told == [
        {
            "event": "a task was not done",
            "log_level": "warning",
            "task": "of.this.test",
            "reason": "the connection is refused",
        }
    ]
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.INFO]


def test_any_other_failure_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    with capture_logs() as told:
        fail_with(KeyError("name"))
    assert told == []
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info
