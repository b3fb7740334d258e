"""What the tests of pages share: a connection, people at browsers without scripts, Ada."""

from collections.abc import Callable
from uuid import UUID

import pytest

from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, make_connection, make_person

Visitor = Callable[..., PlainBrowser]


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def visitor(connection: DirectoryConnection) -> Visitor:
    """Signs in a person with these permissions, and that to read objects."""
    return lambda *may: PlainBrowser(Console(make_person(may=["directory.read_object", *may])))


@pytest.fixture
def administrator(connection: DirectoryConnection) -> PlainBrowser:
    return PlainBrowser(Console(make_person(superuser=True)))


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(
        "Ada Lovelace", parent=organizational_unit, givenName="Ada", sn="Lovelace", title="Analyst"
    )
