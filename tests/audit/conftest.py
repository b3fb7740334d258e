"""What the tests of the operations log share."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import count

import pytest
from django.apps import apps
from django.db import connection

from audit import identifiers
from audit.chain import retention
from audit.migrations._append_only import protect_records
from audit.migrations._claims import make_triggers
from audit.migrations._closing import let_owner_close
from audit.migrations._removal import let_owner_remove
from lab.directory import Directory
from tests.audit.every_change import World
from tests.support.cast import Integration

In = Callable[[datetime], None]


@pytest.fixture
def now_is(monkeypatch: pytest.MonkeyPatch) -> In:
    """Set the clock that records are made by."""

    def set_clock(moment: datetime) -> None:
        ticks = count(int(moment.timestamp() * 1000) * 4096)
        monkeypatch.setattr(identifiers, "_now_in_ticks", lambda: next(ticks))

    return set_clock


@pytest.fixture
def world(integration: Integration, directory: Directory, organizational_unit: str) -> World:
    """What every change there is can be tried on."""
    return World(integration, directory, organizational_unit)


@pytest.fixture
def seals_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seals of removed records stay, as while the release before may come back."""
    monkeypatch.setattr(retention, "CLOSED_AFTER", timedelta(days=36_500))


@pytest.fixture
def guards_come_back(transactional_db: None) -> Iterator[None]:
    """For tests that take the triggers off, as whoever may alter the tables can."""
    yield
    with connection.schema_editor() as editor:
        protect_records(apps, editor)
        let_owner_remove(apps, editor)
        let_owner_close(apps, editor)
    with connection.cursor() as cursor:
        make_triggers(cursor, connection)
