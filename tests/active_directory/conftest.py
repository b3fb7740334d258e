"""What tests of the LDAP client share."""

import pytest

from active_directory.connections import connection
from tests.directory.conftest import bind, client, delegated, server_settings

__all__ = ["bind", "client", "delegated", "server_settings"]


@pytest.fixture
def nobody_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No read moves to a new connection because the machine is busy and its answer takes long."""
    monkeypatch.setattr(connection, "SILENT_SECONDS", 600.0)
