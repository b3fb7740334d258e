"""What the tests of directory objects share: a connection, a key that may do everything, Ada, and LDAP clients."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from directory.ldap import Client, ServerSettings
from directory.models import DirectoryConnection
from tests.support.cast import Integration, make_connection, make_integration
from tests.support.directory import Directory
from tests.support.domain import Domain


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def integration(connection: DirectoryConnection) -> Integration:
    """May do everything, without asking."""
    return make_integration(connection)


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada Lovelace", parent=organizational_unit, title="Analyst")


@pytest.fixture(scope="session")
def server_settings(domain: Domain) -> ServerSettings:
    """As a stored connection of the domain has them."""
    return ServerSettings(
        urls=(domain.url,),
        base_dn=domain.base_dn,
        bind_dn=domain.bind_dn,
        bind_password=domain.bind_password,
        ca_certificate=domain.ca_pem,
    )


@pytest.fixture
def client(server_settings: ServerSettings) -> Iterator[Client]:
    """The gateway's LDAP client, one of its own for each test."""
    client = Client(server_settings)
    yield client
    client.close()
