"""What the tests of supervision share: a key that asks, and what workers are told."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from core.call import SupervisionLevel
from core.database import shared_clock
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory
from tests.approvals.estate import Estate, estate_in
from tests.approvals.temporary import Later, Place
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


@pytest.fixture
def free(connection: DirectoryConnection) -> Integration:
    """Supervision holds none of its changes."""
    return make_integration(connection, level=SupervisionLevel.ACT)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """Let time pass by the shared clock, and a worker do what is due then."""
    monkeypatch.setattr(shared_clock._offset, "measure", lambda _: None)

    def pass_time(**time: float) -> None:
        monkeypatch.setattr(shared_clock._offset, "value", shared_clock.ahead() + timedelta(**time))
        while pipeline.take_up_scheduled():
            pass

    return pass_time


@pytest.fixture
def place(directory: Directory, organizational_unit: str) -> Place:
    return Place(directory, organizational_unit)
