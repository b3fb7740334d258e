"""What processes keep of keys is good for one state of access, and the database gives another one with every change."""

# ruff: noqa: S608 - statements are made of identifiers of the test's own

import http.client
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain, product
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection as database
from django.db import transaction
from django.utils import timezone

from directory.models import DirectoryConnection
from keys.agents import identification
from keys.migrations._access_state import WATCHED, watch
from keys.models import ApiKey, Person
from keys.permissions import cache
from keys.permissions.cache import ACCESS_TABLES, MAX_STATE_TOKENS, read_state
from lab.gateway import LiveGateway
from tests.support.agent_tools import list_tools, send
from tests.support.agents import AUDIENCE, make_agent
from tests.support.cast import Integration, make_integration, make_person, permissions
from tests.support.configuration import Configure
from tests.support.database import live_database_url
from tests.support.sql_process import SqlProcess

pytestmark = pytest.mark.sqlite

READ = "directory.read_object"
ROUNDS = 3
"""Each makes every change in every way and takes it back, in another order: both processes are asked in turns."""


@pytest.fixture
def unreachable(transactional_db: None) -> DirectoryConnection:
    """A connection to a directory that is not asked."""
    return DirectoryConnection.objects.create(
        name="nowhere", urls=["ldaps://127.0.0.1:9"], base_dn="DC=nowhere", bind_dn="CN=none", bind_password="none"
    )


@pytest.fixture
def elsewhere(transactional_db: None) -> Iterator[SqlProcess]:
    with closing(SqlProcess(live_database_url())) as process:
        yield process


class Asking:
    """Connections that are kept open, so that both processes of the web server are asked, in turns."""

    def __init__(self, gateway: LiveGateway, key: str) -> None:
        host = gateway.base_url.removeprefix("http://")
        self._connections = [http.client.HTTPConnection(host, timeout=300) for _ in range(6)]
        self._key = key
        self._next = 0

    def __call__(self) -> Any:
        """What the gateway says of the key's holder: `/api/me`, None when it refuses the key."""
        connection = self._connections[self._next % len(self._connections)]
        self._next += 1
        connection.request("GET", "/api/me", headers={"X-API-Key": self._key})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status in (200, 401), body
        return body if answer.status == 200 else None


def changes_of(integration: Integration) -> list[tuple[str, str]]:
    """Statements that change what the key's holder is told, each with the one that takes it back."""
    key = integration.key
    link = key.links.get()
    of_key, of_role, of_owner = f"id = '{key.id.hex}'", f"id = '{key.role_id.hex}'", f"id = {key.owner_id}"
    of_connection = f"id = '{link.connection_id.hex}'"
    (granted,) = key.role.permissions.values_list("pk", flat=True)
    role, owner = f"role_id = '{key.role_id.hex}'", f"person_id = {key.owner_id}"
    return [
        (
            f"UPDATE keys_apikey SET revoked_at = CURRENT_TIMESTAMP WHERE {of_key}",
            f"UPDATE keys_apikey SET revoked_at = NULL WHERE {of_key}",
        ),
        (
            f"UPDATE keys_person SET is_active = false WHERE {of_owner}",
            f"UPDATE keys_person SET is_active = true WHERE {of_owner}",
        ),
        (
            f"DELETE FROM keys_role_permissions WHERE {role}",
            f"INSERT INTO keys_role_permissions (role_id, permission_id) VALUES ('{key.role_id.hex}', {granted})",
        ),
        (
            f"DELETE FROM keys_person_user_permissions WHERE {owner}",
            f"INSERT INTO keys_person_user_permissions (person_id, permission_id) VALUES ({key.owner_id}, {granted})",
        ),
        (
            f"UPDATE keys_apikey SET supervision_level = 'ask_every_change' WHERE {of_key}",
            f"UPDATE keys_apikey SET supervision_level = 'act' WHERE {of_key}",
        ),
        (
            f'UPDATE keys_role SET scopes = \'[{{"guid": "{key.id}"}}]\' WHERE {of_role}',
            f"UPDATE keys_role SET scopes = '[]' WHERE {of_role}",
        ),
        (
            f"UPDATE directory_directoryconnection SET enabled = false WHERE {of_connection}",
            f"UPDATE directory_directoryconnection SET enabled = true WHERE {of_connection}",
        ),
        (
            f"UPDATE keys_link SET client_id = '{key.id.hex}' WHERE api_key_id = '{key.id.hex}'",
            f"UPDATE keys_link SET client_id = '{link.client_id.hex}' WHERE api_key_id = '{key.id.hex}'",
        ),
    ]


def test_another_process_makes_every_change_in_every_way_and_no_answer_is_stale(
    unreachable: DirectoryConnection, live_web: LiveGateway, elsewhere: SqlProcess
) -> None:
    integration = make_integration(unreachable, may=[READ])
    bystander = make_integration(None, may=[READ])
    ask = Asking(live_web, integration.value)
    changes = changes_of(integration)
    at_first = ask()
    after: dict[str, Any] = {}
    chance = random.Random(1)  # noqa: S311 - the same choices in each run
    with_others = [False, True] if database.vendor == "postgresql" else [False]  # on SQLite one writes at a time
    every = [*product(changes, ("at once", "long", "rolled back", "savepoint"), with_others)]
    touch_other = f"UPDATE keys_apikey SET name = name || '.' WHERE id = '{bystander.key.id.hex}'"
    for (change, back), way, overlapped in chain(*(chance.sample(every, len(every)) for _ in range(ROUNDS))):
        if overlapped:  # begun before, and committed after the change
            elsewhere.execute("BEGIN", session="other")
            elsewhere.execute(touch_other, session="other")
        if way == "at once":
            elsewhere.execute(change)
        else:
            elsewhere.execute("BEGIN")
            if way == "savepoint":
                elsewhere.execute("SAVEPOINT half")
                elsewhere.execute(change)
                elsewhere.execute("ROLLBACK TO SAVEPOINT half")
            elsewhere.execute(change)
            assert ask() == at_first, "what was not committed counted"
            if way == "rolled back":
                elsewhere.execute("ROLLBACK")
                assert ask() == at_first
                elsewhere.execute(change)
            else:
                elsewhere.execute("COMMIT")
        changed = ask()
        assert changed != at_first, (way, change)
        assert changed == after.setdefault(change, changed)
        if overlapped:
            elsewhere.execute(chance.choice(["COMMIT", "ROLLBACK"]), session="other")
            assert ask() == changed
        elsewhere.execute(back)
        assert ask() == at_first, (way, back)


def test_no_writer_waits_for_anothers_transaction(elsewhere: SqlProcess) -> None:
    if database.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    keys = [make_integration(None, may=[READ]).key for _ in range(3)]
    for number, key in enumerate(keys):  # each stays open while the next ones write; waiting raises
        elsewhere.execute("BEGIN", session=str(number))
        elsewhere.execute(f"UPDATE keys_apikey SET name = 'long' WHERE id = '{key.id.hex}'", session=str(number))
    for number in (1, 0, 2):
        before = read_state()
        elsewhere.execute("COMMIT", session=str(number))
        assert read_state() != before


def test_what_is_replayed_counts_too(elsewhere: SqlProcess) -> None:
    """Ordinary triggers do not fire while a superuser replays what others wrote."""
    if database.vendor == "sqlite":
        pytest.skip("SQLite knows no such thing")
    integration = make_integration(None, may=[READ])
    assert integration.get("/api/me").status == 200
    elsewhere.execute("SET session_replication_role = replica")
    elsewhere.execute(f"UPDATE keys_apikey SET revoked_at = now() WHERE id = '{integration.key.id.hex}'")
    assert integration.get("/api/me").status == 401


CHANGES: dict[str, Callable[[ApiKey], Any]] = {
    "a key's name": lambda key: ApiKey.objects.filter(pk=key.pk).update(name="another"),
    "an owner's name": lambda key: Person.objects.filter(pk=key.owner_id).update(display_name="Another"),
    "a role's permission, which is there already": lambda key: key.role.permissions.add(
        *permissions(["audit.read_log"])
    ),
    "an owner's group": lambda key: key.owner.groups.add(Group.objects.create(name="operators")),
    "a new person": lambda _: make_person(),
    "a key removed": lambda key: key.delete(),
    "who is protected": lambda _: DirectoryConnection.objects.update(protection_changes=7),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_makes_another_state(what: str, unreachable: DirectoryConnection) -> None:
    key = make_integration(unreachable, may=[READ]).key
    before = read_state()
    CHANGES[what](key)
    assert read_state() not in (before, None)


STAMPS: dict[str, Callable[[ApiKey], Any]] = {
    "use": lambda key: ApiKey.objects.filter(pk=key.pk).update(last_used_at=timezone.now(), last_used_address="::1"),
    "look-up": lambda key: Person.objects.filter(pk=key.owner_id).update(directory_checked_at=timezone.now()),
    "sign-in": lambda key: Person.objects.filter(pk=key.owner_id).update(last_login=timezone.now()),
    "learnt": lambda _: DirectoryConnection.objects.update(bind_account="S-1-5-21-1"),
    "nothing new": lambda key: key.save(),
}


@pytest.mark.parametrize("what", STAMPS)
def test_a_stamp_makes_no_other_state(what: str, unreachable: DirectoryConnection) -> None:
    key = make_integration(unreachable, may=[READ]).key
    read_state()  # puts the tokens together if there are many
    before = read_state()
    STAMPS[what](key)
    assert read_state() == before


def test_every_column_counts_but_the_stamps(db: None) -> None:
    """A migration that alters one of the tables has to `watch` it again."""
    assert {table for table, _ in WATCHED} == set(ACCESS_TABLES)
    for table, stamps in WATCHED:
        with database.cursor() as cursor:
            description = database.introspection.get_table_description(cursor, table)
            columns = {column.name for column in description}
            assert columns >= set(stamps)
            if database.vendor == "postgresql":  # compares whole rows without these
                cursor.execute(
                    "SELECT encode(tgargs, 'escape') FROM pg_trigger"
                    " WHERE tgname = 'keys_access_values' AND tgrelid = %s::regclass",
                    [table],
                )
                assert cursor.fetchone()[0] == f"{{{','.join(stamps)}}}\\000"
            else:
                cursor.execute("SELECT sql FROM sqlite_master WHERE name = %s", [f"{table}_access_update"])
                compared = set(re.findall(r'NEW\."(\w+)" IS NOT OLD\."\1"', cursor.fetchone()[0]))
                assert compared == columns - set(stamps), "`watch` the table again after it was altered"


@pytest.fixture
def unwatched_keys(transactional_db: None) -> Iterator[None]:
    """The table of keys has lost a trigger."""
    with database.cursor() as cursor:
        if database.vendor == "postgresql":
            cursor.execute("DROP TRIGGER keys_access_values ON keys_apikey")
        else:
            cursor.execute("DROP TRIGGER keys_apikey_access_update")
    yield
    with database.schema_editor() as editor:
        watch(None, editor)


def test_nothing_is_kept_while_a_table_lacks_its_trigger(
    unwatched_keys: None, unreachable: DirectoryConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    integration = make_integration(unreachable, may=[READ])
    monkeypatch.setattr(cache, "_trigger_check", cache._TriggerCheck())
    assert cache.unwatched_tables() == ["keys_apikey"]
    assert integration.get("/api/me").status == 200
    ApiKey.objects.filter(pk=integration.key.pk).update(revoked_at=timezone.now())
    assert integration.get("/api/me").status == 401


def test_what_was_read_before_a_rollback_is_not_kept(unreachable: DirectoryConnection) -> None:
    integration = make_integration(unreachable, may=[READ])
    with transaction.atomic():
        ApiKey.objects.filter(pk=integration.key.pk).update(revoked_at=timezone.now())
        assert integration.get("/api/me").status == 401
        transaction.set_rollback(True)
    assert integration.get("/api/me").status == 200
    with transaction.atomic():
        ApiKey.objects.filter(pk=integration.key.pk).update(revoked_at=timezone.now())
    assert integration.get("/api/me").status == 401


def test_tokens_are_put_together(transactional_db: None) -> None:
    if database.vendor == "sqlite":
        pytest.skip("SQLite has one token")
    key = make_integration(None, may=[READ]).key
    for number in range(MAX_STATE_TOKENS + 1):
        ApiKey.objects.filter(pk=key.pk).update(name=f"name {number}")
    before = read_state()  # sees so many, and puts one in their place
    assert read_state() != before
    assert read_state() == read_state()
    with database.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM keys_accessstate")
        assert cursor.fetchone() == (1,)


def test_facts_are_read_once_for_a_state(unreachable: DirectoryConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    integration = make_integration(unreachable, may=[READ])
    found: list[str] = []
    find: Any = vars(cache)["find_key_by_lookup_id"]
    monkeypatch.setattr(cache, "find_key_by_lookup_id", lambda lookup_id: found.append(lookup_id) or find(lookup_id))
    for _ in range(3):
        assert integration.get("/api/me").status == 200
    assert len(found) == 1
    ApiKey.objects.filter(pk=integration.key.pk).update(revoked_at=timezone.now())
    assert integration.get("/api/me").status == 401
    assert len(found) == 2


def test_what_ends_an_agent_counts_at_its_next_call(
    unreachable: DirectoryConnection, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("Agents", Enabled=True)
    agent = make_agent(unreachable)
    read: list[str] = []
    find: Any = vars(identification)["_read_token"]
    monkeypatch.setattr(identification, "_read_token", lambda checksum: read.append(checksum) or find(checksum))
    everything = list_tools(agent)
    read_state()  # which puts the tokens of what has been made for this test together
    assert [list_tools(agent) for _ in range(3)] == [everything] * 3
    assert len(read) <= 2, "kept for a state"
    grant, person = agent.grant.pk.hex, agent.person.pk
    audience = f"'[\"{AUDIENCE}\"]'"
    for table, change, back, row in (
        ("keys_agentgrant", "ended_at = CURRENT_TIMESTAMP", "ended_at = NULL", f"id = '{grant}'"),
        (
            "keys_agentclient",
            "disabled_at = CURRENT_TIMESTAMP",
            "disabled_at = NULL",
            f"id = '{agent.grant.client_id.hex}'",
        ),
        ("keys_agentaccesstoken", "resource = '[]'", f"resource = {audience}", f"grant_id = '{grant}'"),
        ("keys_person", "is_active = false", "is_active = true", f"id = {person}"),
    ):
        with database.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET {change} WHERE {row}")
        assert send(agent, "tools/list").status == 401, change
        with database.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET {back} WHERE {row}")
        assert list_tools(agent) == everything
    agent.person.user_permissions.clear()
    assert list_tools(agent) != everything
