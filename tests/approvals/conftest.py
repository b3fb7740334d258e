"""What the tests of supervision share: a key that asks, and what workers are told."""

from collections.abc import Iterator
from typing import Any

import pytest

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.approvals.estate import Estate, estate_in
from tests.support.cast import Integration, make_integration


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What workers would have been told, without a broker: each task with its arguments."""
    sent: list[Any] = []
    monkeypatch.setattr("core.redis.broker.current_app.send_task", lambda name, args, **_: sent.append((name, args)))
    return sent


@pytest.fixture
def careful(connection: DirectoryConnection) -> Integration:
    """May do everything; every change is held."""
    return make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)


@pytest.fixture(scope="module")
def estate(directory: Directory) -> Iterator[Estate]:
    with estate_in(directory) as estate:
        yield estate
