"""One statement of which the event loop needs the row, again and again, as it is at that moment.

The database is asked once for all who ask in one turn of the loop, and never before they do. It is asked past Django,
whose connections refuse to work on an event loop, since they would hold it up: SQLite answers at once or is left to a
thread, and PostgreSQL is not waited for.
"""

import sqlite3
from asyncio import AbstractEventLoop, TimerHandle, get_running_loop
from collections.abc import Mapping
from typing import Any, Final, Protocol

from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, connections
from psycopg import pq

from active_directory import Done, WouldBlock, wait_for

_ANSWER_SECONDS: Final = 0.2
"""How long to wait for an answer on the loop. Whoever has waited so long has a thread wait."""
_PAUSE_SECONDS: Final = 1.0

Row = tuple[int, str | bytes | None]


class _Database(Protocol):
    def read(self) -> Row | None:
        """The row of the statement; None if it has to be read in a thread."""

    def close(self) -> None:
        """Close the connection."""


class RowOnLoop:
    """Reads the row of a statement, which is given for each kind of database."""

    def __init__(self, statements: Mapping[str, str]) -> None:
        self._statements = statements
        self._loop: AbstractEventLoop | None = None
        self._database: _Database | None = None
        self._is_connecting = False

    def read(self) -> Row:
        """The row as it is now. Raises WouldBlock if the database does not answer at once."""
        loop = get_running_loop()
        if self._loop is not loop:
            self._close()
            self._loop, self._is_connecting = loop, False
        if self._database is None:
            if not self._is_connecting:
                self._is_connecting = True
                self._task = loop.create_task(self._connect(loop))
            raise WouldBlock
        database = self._database
        row = database.read()
        if row is None:
            if database is self._database:
                self._close()
            raise WouldBlock
        return row

    async def _connect(self, loop: AbstractEventLoop) -> None:
        own = connections.create_connection(DEFAULT_DB_ALIAS)
        make = _Sqlite if own.vendor == "sqlite" else _Postgres
        try:
            await loop.run_in_executor(None, own.ensure_connection)  # `connect` raises the driver's own errors
        except (DatabaseError, InterfaceError):
            loop.call_later(_PAUSE_SECONDS, setattr, self, "_is_connecting", False)
            return
        self._database, self._is_connecting = make(own.connection, loop, self._statements[own.vendor]), False

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


class _Sqlite:
    def __init__(self, connection: sqlite3.Connection, loop: AbstractEventLoop, statement: str) -> None:
        connection.execute("PRAGMA busy_timeout = 0")
        self._connection = connection
        self._loop = loop
        self._statement = statement
        self._row: Row | None = None

    def read(self) -> Row | None:
        if self._row is None:
            self._loop.call_soon(self._end_turn)  # before: what comes behind it in the loop's queue may be newer
            try:
                self._row = self._connection.execute(self._statement).fetchone()
            except sqlite3.Error:
                return None
        return self._row

    def _end_turn(self) -> None:
        self._row = None

    def close(self) -> None:
        self._connection.close()


class _Postgres:
    """One statement is under way at a time; who comes meanwhile waits for the next."""

    def __init__(self, connection: Any, loop: AbstractEventLoop, statement: str) -> None:
        self._connection = connection
        self._link: pq.abc.PGconn = connection.pgconn
        self._loop = loop
        self._statement = statement.encode()
        self._waiting: list[Done[Row | None]] = []
        self._asked: list[Done[Row | None]] = []
        self._timer: TimerHandle | None = None
        self._is_closed = False
        self._link.nonblocking = 1
        self._socket = self._link.socket
        loop.add_reader(self._socket, self._readable)

    def read(self) -> Row | None:
        return wait_for(self._enqueue)

    def _enqueue(self, done: Done[Row | None]) -> None:
        if not self._waiting and not self._asked:
            self._loop.call_soon(self._send)
        self._waiting.append(done)

    def _send(self) -> None:
        self._asked, self._waiting = self._waiting, []
        self._timer = self._loop.call_later(_ANSWER_SECONDS, self._give_up)
        try:
            self._link.send_query(self._statement)
        except Exception:  # noqa: BLE001 - the connection is lost
            self._give_up()

    def _readable(self) -> None:
        row: Row | None = None
        try:
            self._link.consume_input()
            if self._link.is_busy():
                return
            while (result := self._link.get_result()) is not None:
                if result.status == pq.ExecStatus.TUPLES_OK:
                    row = int(result.get_value(0, 0) or b"0"), (result.get_value(0, 1) or b"").decode() or None
        except Exception:  # noqa: BLE001 - the connection is lost
            row = None
        if row is None:
            self._give_up()
            return
        if self._timer is not None:
            self._timer.cancel()
        asked, self._asked = self._asked, []
        if self._waiting:
            self._send()
        for done in asked:
            done(row)

    def _give_up(self) -> None:
        waiting, self._asked, self._waiting = [*self._asked, *self._waiting], [], []
        self.close()
        for done in waiting:
            self._loop.call_soon(done, None)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
        self._connection.close()
