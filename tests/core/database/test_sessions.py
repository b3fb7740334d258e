"""A host that vanishes in the middle of a transaction: what it had locked is free again soon."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, connections

from core.database import sessions
from tests.support.environment import DATABASE

pytestmark = [
    pytest.mark.skipif(DATABASE == "sqlite", reason="SQLite's sessions end with their process"),
    pytest.mark.django_db(transaction=True),
]


@contextmanager
def session(decided: str = "0") -> Iterator[Any]:
    """A session of the gateway with a server that has decided this."""
    connection: Any = connections.create_connection("default")
    connection.settings_dict = connection.settings_dict | {
        "OPTIONS": {"options": f"-c idle_in_transaction_session_timeout={decided} -c lock_timeout=60s"}
    }
    with closing(connection):
        yield connection


@pytest.mark.parametrize(("decided", "is_then"), [("0", "30s"), ("7s", "7s")])
def test_a_session_ends_unless_the_server_has_decided_when(decided: str, is_then: str) -> None:
    with session(decided) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == (is_then,)
        cursor.execute("SHOW jit")
        assert cursor.fetchone() == ("off",)


def test_what_a_lost_transaction_has_locked_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_IDLE", "1s")
    with session() as lost, lost.cursor() as its:
        its.execute("BEGIN; SELECT pg_advisory_xact_lock(1)")  # at once, or the session might end in between
        with session() as other, other.cursor() as cursor:
            began = time.monotonic()
            cursor.execute("SELECT pg_advisory_xact_lock(1)")
            assert time.monotonic() - began < 60
        with pytest.raises(DatabaseError, match="idle-in-transaction timeout"):
            its.execute("SELECT 1")
