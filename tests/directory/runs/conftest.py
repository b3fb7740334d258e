"""What the tests of runs share: a unit, and a worker that sees what they do."""

import pytest

from directory.models import DirectoryConnection
from tests.directory.runs.unit import Unit
from tests.support.directory import Directory
from tests.support.gateway import LiveGateway


@pytest.fixture
def connection(transactional_db: None, connection: DirectoryConnection) -> DirectoryConnection:
    """Committed, so that a worker sees it."""
    return connection


@pytest.fixture
def unit(directory: Directory, organizational_unit: str) -> Unit:
    """An empty unit."""
    return Unit(directory, organizational_unit)


@pytest.fixture
def worker(live_gateway: LiveGateway) -> LiveGateway:
    """A worker in processes of its own; a test that kills it starts it again."""
    return live_gateway
