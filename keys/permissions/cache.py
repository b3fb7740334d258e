"""A cache of the facts about keys, people and agents, valid for one state of access.

The database itself keeps the state: triggers on all tables that decide about callers change it with every write
(`keys.migrations._access_state`), so two equal states mean that nothing has changed in between. The state is read
before the facts, which may thus be newer than the state that they are kept under, but never older. So a revocation, a
deactivation or a changed permission counts at the next request in every process, however it was made. Callers of the
cache judge what depends on the time, such as expiry, at each request.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import structlog
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.utils import timezone

from active_directory import WouldBlock, is_on_loop
from core.database.on_loop import RowOnLoop
from directory.models import DirectoryConnection
from keys.models import ApiKey, Link, Person, Role
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant
from keys.models.people import GroupScopes
from keys.people.account_status import CHECK_EVERY
from keys.permissions import effective
from keys.permissions.effective import KeyFacts, find_key_by_lookup_id
from keys.permissions.scopes import EffectiveAccess

State = str | bytes

ACCESS_TABLES = tuple(
    model._meta.db_table
    for model in (
        *(ApiKey, Link, Role, Role.permissions.through, DirectoryConnection),
        *(Person, Person.user_permissions.through, Person.groups.through),
        *(Group, GroupScopes, Group.permissions.through, Permission, ContentType),
        *(AgentClient, AgentGrant, AgentAccessToken),
    )
)
"""The tables that decide about who calls with a key or an agent's token."""

MAX_STATE_TOKENS = 32
"""On PostgreSQL, a reader that finds more tokens than this replaces them by a single one."""

_MOST_FACTS = 10_000
"""Callers decide about a part of what facts are known by."""

_READ_STATE = {
    "sqlite": "SELECT 1, token FROM keys_accessstate",
    "postgresql": "SELECT count(*), string_agg(token::text, '' ORDER BY token) FROM keys_accessstate",
}
_on_loop = RowOnLoop(_READ_STATE)
# One statement, so that nobody sees a state in between. Its new token keeps earlier states from coming back, and SKIP
# LOCKED keeps simultaneous readers from waiting for each other.
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


class _TriggerCheck:
    """Checks once whether the tables have their triggers: a migration may have dropped them."""

    def __init__(self) -> None:
        self._is_complete: bool | None = None

    @property
    def is_complete(self) -> bool:
        if self._is_complete is None:
            if unwatched := unwatched_tables():
                _logger.error("facts about callers are not cached: tables lack triggers", tables=unwatched)
            self._is_complete = not unwatched
        return self._is_complete

    @property
    def was_complete(self) -> bool:
        """Whether they have been found complete."""
        return self._is_complete is True


_trigger_check = _TriggerCheck()


def unwatched_tables() -> list[str]:
    """The tables among ACCESS_TABLES that lack a trigger."""
    found = dict.fromkeys(ACCESS_TABLES, 0)
    with connection.cursor() as cursor:
        cursor.execute(_TRIGGERS[connection.vendor])
        rows = cursor.fetchall()
    for table, _ in rows:
        if table in found:
            found[table] += 1
    return sorted(table for table, count in found.items() if count < _TRIGGERS_OF_A_TABLE[connection.vendor])


def read_state() -> State | None:
    """The present state of access; None if nothing may be cached because the state cannot be trusted.

    That is so inside a transaction: on PostgreSQL it adds a single token, however much it changes.
    """
    if is_on_loop():
        count, state = _on_loop.read()
        if count > MAX_STATE_TOKENS or not _trigger_check.was_complete:
            raise WouldBlock
        return state
    database = connections[DEFAULT_DB_ALIAS]  # Django's proxy looks it up for each attribute
    if database.in_atomic_block or not _trigger_check.is_complete:
        return None
    with database.cursor() as cursor:
        cursor.execute(_READ_STATE[database.vendor])
        row = cursor.fetchone()
        if row is None:
            return None
        count, state = cast(tuple[int, State | None], row)
        if count > MAX_STATE_TOKENS:
            cursor.execute(_COMPACT)
    return state


_Facts = TypeVar("_Facts")


@dataclass(frozen=True, slots=True)
class _Kept:
    """The facts of one state, read after the state was. Misses are not cached."""

    state: State | None = None
    facts: dict[Hashable, Any] = field(default_factory=dict)


class _KeptFacts:
    """The facts of the latest state. Threads may replace them, since each compares with the state that it has read."""

    def __init__(self) -> None:
        self._kept = _Kept()

    def find(
        self, key: Hashable, read: Callable[[], _Facts], may_be_old: Callable[[Any], bool] | None = None
    ) -> _Facts:
        """The facts as `read` gives them; read again if they `may_be_old` although the state is the same."""
        state = read_state()
        if state is None:
            return read()
        kept = self._kept
        if kept.state != state:
            kept = self._kept = _Kept(state)
        known = kept.facts.get(key)
        if known is not None and not (may_be_old and may_be_old(known)):
            return cast(_Facts, known)
        facts = read()
        if facts is not None:
            if len(kept.facts) >= _MOST_FACTS:
                kept.facts.clear()
            kept.facts[key] = facts
        return facts


kept_facts = _KeptFacts()


def find_key(lookup_id: str) -> KeyFacts | None:
    """The key whose present or previous value has this look-up id, possibly from the cache."""
    read = partial(find_key_by_lookup_id, lookup_id)
    return kept_facts.find(lookup_id, read, lambda facts: may_have_been_looked_up(facts.key.owner))


def may_have_been_looked_up(person: Person) -> bool:
    """Whether a person's account was last checked so long ago that there should be a later check.

    A check that finds nothing new does not change the state, so that the cached time of the check may be too old.
    """
    return person.connection_id is not None and timezone.now() - person.directory_checked_at >= CHECK_EVERY


def access_of_person(person: Person) -> EffectiveAccess:
    """What a person may do and where, possibly from the cache (see `effective.access_of_person`)."""
    known_by = (person.pk, person.is_active, person.is_superuser, repr(person.scopes))
    return kept_facts.find(known_by, partial(effective.access_of_person, person))
