"""What the tests of runs share: a unit, and a worker that sees what they do."""

import pytest

from lab.directory import Directory
from lab.gateway import LiveGateway
from tests.directory.runs.unit import Unit
from tests.support.configuration import Configure


@pytest.fixture(autouse=True)
def _committed(transactional_db: None) -> None:
    """A worker sees what is committed."""


@pytest.fixture(autouse=True)
def _patient(configure: Configure) -> None:
    """Who waits for a run hears of its end, and of nothing before, however long a busy machine takes."""
    configure("Runs", WaitSeconds=300)


@pytest.fixture
def unit(directory: Directory, organizational_unit: str) -> Unit:
    """An empty unit."""
    return Unit(directory, organizational_unit)


@pytest.fixture
def worker(live_gateway: LiveGateway) -> LiveGateway:
    """A worker in processes of its own; a test that kills it starts it again, unless it fails before."""
    live_gateway.worker.start_and_wait()
    return live_gateway
