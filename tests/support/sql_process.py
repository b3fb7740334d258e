"""A process of its own that knows nothing of the gateway and sends SQL to its database, as an administrator would."""

import contextlib
import json
import sqlite3
import subprocess
import sys
from typing import Any

import psycopg


class SqlProcess:
    """Sessions of one process, each a connection by the name it is first used with."""

    def __init__(self, database_url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.sql_process", database_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def execute(self, statement: str, *, session: str = "first") -> None:
        """Carry a statement out and wait for its end; outside of BEGIN and COMMIT it is committed at once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps([session, statement])}\n")
        self._process.stdin.flush()
        if problem := json.loads(self._process.stdout.readline()):
            raise RuntimeError(problem)

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def _connect(url: str) -> Any:
    if url.startswith("sqlite:///"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60, isolation_level=None)
    # Whoever waits for another's transaction is told so.
    return psycopg.connect(url, autocommit=True, options="-c lock_timeout=120s")


def _serve(url: str) -> None:
    sessions: dict[str, Any] = {}
    for line in sys.stdin:
        name, statement = json.loads(line)
        problem = None
        try:
            if name not in sessions:
                sessions[name] = _connect(url)
            sessions[name].execute(statement)
        except (sqlite3.Error, psycopg.Error) as error:
            problem = str(error)
        sys.stdout.write(f"{json.dumps(problem)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
