"""What the test database needs beyond pytest-django: a real file on SQLite, a flush that passes the log's guards."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.commands import flush as flush_command
from django.db import OperationalError, connection

from lab.gateway import LiveGateway
from tests.support.environment import RUNTIME, postgres_url

_MIGRATED = frozenset({"django_content_type", "auth_permission"})


def use_file_for_sqlite() -> Path:
    """Put the test database in a file: in memory it has neither the write-ahead log nor the locks of the real one."""
    file = RUNTIME / "test.sqlite3"
    connection.settings_dict["TEST"]["NAME"] = str(file)
    return file


def name_of_test_database() -> str:
    """What pytest-django calls the database of this process's tests."""
    name: str = connection.settings_dict["TEST"]["NAME"] or f"test_{connection.settings_dict['NAME']}"
    return name


def live_database_url() -> str:
    """The test database, for processes of their own; it has its name only once pytest-django has made it."""
    name = connection.settings_dict["NAME"]
    return f"sqlite:///{name}" if connection.vendor == "sqlite" else postgres_url(name)


def gateway_at(
    folder: Path, configuration: Mapping[str, str] | None = None, *, processes: int | None = None
) -> LiveGateway:
    """A gateway on the test database with keys of the configuration of its own; not started.

    A web server with one of its `processes` takes half as long to start, where what is tested has nothing to do with
    how many there are.
    """
    environment = {**os.environ, "DATABASE_URL": live_database_url(), **(configuration or {})}
    return LiveGateway(folder, environment, processes=processes)


def prepare_flush() -> None:
    """Let the flush after a transactional test empty the append-only tables, whose triggers rightly refuse it.

    What the migrations put there stays: the live gateway remembers the numbers of the content types it has met, and
    Django would give them new ones after each test. So there is nothing to do again after a flush.

    On the class: a test that drives a browser has an event loop, and Django gives it another connection object.
    """
    operations: Any = type(connection.ops)
    flush, statements_of_flush = operations.execute_sql_flush, operations.sql_flush
    command: Any = flush_command
    command.emit_post_migrate_signal = lambda *_, **__: None

    def flush_but_the_migrated(self: Any, style: Any, tables: Iterable[str], **options: Any) -> list[str]:
        emptied = [table for table in tables if table not in _MIGRATED]
        if self.connection.vendor == "postgresql":  # TRUNCATE makes new files for each table and each index
            return ["; ".join(f"DELETE FROM {self.quote_name(table)}" for table in emptied)]  # noqa: S608
        statements: list[str] = statements_of_flush(self, style, emptied, **options)
        return statements

    def flush_past_guards(self: Any, statements: list[str]) -> None:
        with _guards_lifted(self.connection):
            for attempt in range(5):
                try:
                    flush(self, statements)
                    break
                except OperationalError as error:  # a worker of the live gateway holds one table and wants another
                    if "deadlock" not in str(error) or attempt == 4:
                        raise

    operations.sql_flush = flush_but_the_migrated
    operations.execute_sql_flush = flush_past_guards


@contextmanager
def _guards_lifted(connection: Any) -> Iterator[None]:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Ordinary triggers do not fire in this mode; only a superuser may enter it.
            cursor.execute("SET session_replication_role = replica")
            try:
                yield
            finally:
                cursor.execute("SET session_replication_role = DEFAULT")
            return
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = cursor.fetchall()
        for name, _ in triggers:
            cursor.execute(f'DROP TRIGGER "{name}"')
        try:
            yield
        finally:
            for _, definition in triggers:
                cursor.execute(definition)
