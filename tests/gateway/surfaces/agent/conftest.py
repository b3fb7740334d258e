"""An agent that may do all that a person can let an agent do."""

import pytest

from directory.models import DirectoryConnection
from tests.support.agents import Agent, make_agent


@pytest.fixture
def agent(connection: DirectoryConnection) -> Agent:
    """It waits for a person before destructive and security changes, as agents do unless told otherwise."""
    return make_agent(connection)
