"""What the tests of runs share: a connection, a key that may run accounts, a unit, a worker."""

import pytest

from directory.models import DirectoryConnection
from tests.directory.runs.unit import Unit
from tests.support.cast import Integration, make_connection, make_integration
from tests.support.directory import Directory
from tests.support.domain import Domain
from tests.support.gateway import LiveGateway


@pytest.fixture
def connection(transactional_db: None, domain: Domain) -> DirectoryConnection:
    """Committed, so that a worker sees it."""
    return make_connection(domain)


@pytest.fixture
def integration(connection: DirectoryConnection) -> Integration:
    """May do everything, without asking."""
    return make_integration(connection)


@pytest.fixture
def unit(directory: Directory, organizational_unit: str) -> Unit:
    """An empty unit."""
    return Unit(directory, organizational_unit)


@pytest.fixture
def worker(live_gateway: LiveGateway) -> LiveGateway:
    """A worker in processes of its own; a test that kills it starts it again."""
    return live_gateway
