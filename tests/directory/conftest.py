"""The gateway's LDAP client, by itself."""

from collections.abc import Iterator

import pytest

from directory.ldap import Client, ServerSettings
from tests.support.domain import Domain


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
    """A client of its own for each test."""
    client = Client(server_settings)
    yield client
    client.close()
