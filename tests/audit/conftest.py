"""What the tests of the operations log share."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import connection

from audit.append_only import protect_records


@pytest.fixture
def guards_come_back(transactional_db: None) -> Iterator[None]:
    """For tests that take the triggers off, as whoever may alter the tables can."""
    yield
    with connection.schema_editor() as editor:
        protect_records(apps, editor)
