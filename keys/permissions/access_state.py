"""Which state the tables that decide about who calls are in, by the word of the database itself.

Triggers give them another state with every change (`keys.migrations._access_state` says how). Two equal states mean
that nothing has changed in between. Whoever keeps what follows from the tables reads the state first and the tables
after it: what is kept may then be newer than its state, and never older.
"""

from collections.abc import Mapping
from typing import Any, Final

import structlog
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection

from directory.models import DirectoryConnection
from keys.models import ApiKey, Link, Person, Role
from keys.models.groups import GroupScopes

State = str | bytes

DECIDING: Final = tuple(
    model._meta.db_table
    for model in (
        *(ApiKey, Link, Role, Role.permissions.through, DirectoryConnection),
        *(Person, Person.user_permissions.through, Person.groups.through),
        *(Group, GroupScopes, Group.permissions.through, Permission, ContentType),
    )
)
"""The tables that decide about who calls with a key."""

MOST_TOKENS: Final = 32
"""With so many tokens on PostgreSQL, whoever reads them puts one in their place."""

_STATE = {
    "sqlite": "SELECT 1, token FROM keys_accessstate",
    "postgresql": "SELECT count(*), string_agg(token::text, '' ORDER BY token) FROM keys_accessstate",
}
# One statement, so that no state is seen in between; its new token keeps the states of before from coming back. Nobody
# waits for anybody else who does the same.
_COMPACT = (
    "WITH old AS (SELECT transaction FROM keys_accessstate FOR UPDATE SKIP LOCKED),"
    " gone AS (DELETE FROM keys_accessstate WHERE transaction IN (SELECT transaction FROM old))"
    " INSERT INTO keys_accessstate DEFAULT VALUES"
)

_TRIGGERS = {
    "sqlite": "SELECT tbl_name, name FROM sqlite_master WHERE type = 'trigger'"
    " AND name LIKE tbl_name || '\\_access\\_%' ESCAPE '\\'",
    "postgresql": "SELECT relname, tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
    " WHERE tgname LIKE 'keys\\_access\\_%' AND tgenabled = 'A' AND pg_table_is_visible(pg_class.oid)",
}
_TRIGGERS_OF_A_TABLE = {"sqlite": 3, "postgresql": 2}

_logger = structlog.get_logger(__name__)


class _Watch:
    """Whether the tables have their triggers, looked up once: a migration may have forgotten them."""

    def __init__(self) -> None:
        self._is_complete: bool | None = None

    @property
    def is_complete(self) -> bool:
        if self._is_complete is None:
            if unwatched := unwatched_tables():
                _logger.error("what is known of keys is not kept: tables without triggers", tables=unwatched)
            self._is_complete = not unwatched
        return self._is_complete


_watch: Final = _Watch()


def unwatched_tables() -> list[str]:
    """The tables that decide about who calls and lack a trigger."""
    found = dict.fromkeys(DECIDING, 0)
    for table, _ in _fetch(_TRIGGERS):
        if table in found:
            found[table] += 1
    return sorted(table for table, count in found.items() if count < _TRIGGERS_OF_A_TABLE[connection.vendor])


def read_state() -> State | None:
    """The present state; None when the database cannot tell, so that nothing may be kept.

    Inside of a transaction it cannot: on PostgreSQL that has one token, however much it changes.
    """
    if connection.in_atomic_block or not _watch.is_complete:
        return None
    rows = _fetch(_STATE)
    if not rows:
        return None
    count: int
    state: State | None
    count, state = rows[0]
    if count > MOST_TOKENS:
        with connection.cursor() as cursor:
            cursor.execute(_COMPACT)
    return state


def _fetch(statements: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """The rows of the database's own statement."""
    with connection.cursor() as cursor:
        cursor.execute(statements[connection.vendor])
        return list(cursor.fetchall())
