"""What the tests of credentials share: a connection that is never called, and people to sign in."""

from collections.abc import Callable

import pytest

from directory.models import DirectoryConnection
from keys.models import Person
from lab.directory import random_name
from tests.support.cast import Console, make_person


@pytest.fixture
def make_directory(db: None) -> Callable[..., DirectoryConnection]:
    """Makes connections to a directory that nobody needs to reach."""

    def make(**fields: object) -> DirectoryConnection:
        return DirectoryConnection.objects.create(
            **{
                "name": random_name("corp"),
                "urls": ["ldaps://127.0.0.1:1"],
                "base_dn": "DC=corp,DC=example,DC=test",
                "bind_dn": "gateway@corp.example.test",
                "bind_password": "secret",
                **fields,
            }
        )

    return make


@pytest.fixture
def connection(make_directory: Callable[..., DirectoryConnection]) -> DirectoryConnection:
    return make_directory()


@pytest.fixture
def superuser(db: None) -> Person:
    return make_person(superuser=True)


@pytest.fixture
def console(superuser: Person) -> Console:
    """A superuser, signed in."""
    return Console(superuser)
