"""What the tests of batches share: a supervised key, and users to be changed."""

from collections.abc import Callable
from uuid import UUID

import pytest

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.support.cast import Integration, make_integration


@pytest.fixture
def careful(connection: DirectoryConnection) -> Integration:
    """May do everything; destructive and security changes are held."""
    return make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)


@pytest.fixture
def users(directory: Directory, organizational_unit: str) -> Callable[[int], list[UUID]]:
    """Makes so many users with the title Analyst."""
    return lambda count: [directory.add_user(parent=organizational_unit, title="Analyst") for _ in range(count)]
