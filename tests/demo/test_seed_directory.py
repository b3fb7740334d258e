"""`manage.py seed_directory`: what it adds, that it continues, and where it refuses."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import make_connection


@pytest.fixture
def connection(db: None, domain: Domain, organizational_unit: str) -> DirectoryConnection:
    """Everything is added below the test's own unit."""
    return make_connection(domain, base_dn=organizational_unit)


def seed(**options: Any) -> str:
    output = StringIO()
    call_command("seed_directory", stdout=output, **options)
    return output.getvalue()


def people(directory: Directory, unit: str) -> dict[str, dict[str, list[bytes]]]:
    return directory.search("(&(objectClass=user)(employeeID=*))", base=unit)


def test_it_works_and_continues(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    assert "12 people added" in seed(users=12)
    first = people(directory, organizational_unit)
    assert len(first) == 12
    assert all(int(entry["userAccountControl"][0]) & 2 for entry in first.values())
    assert all(entry["memberOf"] for entry in first.values())
    directory.delete(next(iter(first)))
    output = seed(users=20)
    assert "0 units added" in output
    assert "9 people added" in output
    again = people(directory, organizational_unit)
    assert len(again) == 20
    assert set(first) <= set(again)
    assert "0 memberships added" in seed(users=20)


def test_it_needs_a_connection(db: None) -> None:
    with pytest.raises(CommandError, match="no directory connection"):
        seed(users=1)
