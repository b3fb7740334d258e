"""The gateway's LDAP client, by itself, and whom the gateway signs in as."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from active_directory import Client, ServerSettings
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import make_connection
from tests.support.delegated import Delegated, delegated_account

ADMINISTRATOR, DELEGATED = "administrator", "delegated"

either_account = pytest.mark.parametrize("bind", [ADMINISTRATOR, DELEGATED], indirect=True)
"""Run a test twice: the gateway's account is an administrator of the domain, and it has its rights by delegation."""


@pytest.fixture(scope="module")
def delegated(domain: Domain, directory: Directory) -> Iterator[Delegated]:
    """An account with its rights by delegation."""
    with delegated_account(domain, directory) as account:
        yield account


@pytest.fixture
def bind(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Whom the gateway signs in as, as fields of a connection; those of the tests' domain by default."""
    if getattr(request, "param", ADMINISTRATOR) == ADMINISTRATOR:
        return {}
    account: Delegated = request.getfixturevalue("delegated")
    return {"bind_dn": account.bind_dn, "bind_password": account.password}


@pytest.fixture
def connection(db: None, domain: Domain, bind: dict[str, Any]) -> DirectoryConnection:
    """The domain, connected to the gateway."""
    return make_connection(domain, **bind)


@pytest.fixture(scope="session")
def server_settings(domain: Domain) -> ServerSettings:
    """As a stored connection of the domain has them, but patient: a busy machine lets a domain controller take long."""
    return ServerSettings(
        connect_seconds=60,
        operation_seconds=120,
        urls=(domain.url,),
        base_dn=domain.base_dn,
        bind_dn=domain.bind_dn,
        bind_password=domain.bind_password,
        ca_certificate=domain.ca_pem,
    )


@pytest.fixture
def client(server_settings: ServerSettings, bind: dict[str, Any]) -> Iterator[Client]:
    """A client of its own for each test."""
    client = Client(replace(server_settings, **bind))
    yield client
    client.close()
