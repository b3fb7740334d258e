"""What the tests of the operations log share."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import connection

from audit.migrations._append_only import protect_records
from audit.migrations._claims import make_triggers
from audit.migrations._removal import let_owner_remove
from lab.directory import Directory
from tests.audit.every_change import World
from tests.support.cast import Integration


@pytest.fixture
def world(integration: Integration, directory: Directory, organizational_unit: str) -> World:
    """What every change there is can be tried on."""
    return World(integration, directory, organizational_unit)


@pytest.fixture
def guards_come_back(transactional_db: None) -> Iterator[None]:
    """For tests that take the triggers off, as whoever may alter the tables can."""
    yield
    with connection.schema_editor() as editor:
        protect_records(apps, editor)
        let_owner_remove(apps, editor)
    with connection.cursor() as cursor:
        make_triggers(cursor, connection)
