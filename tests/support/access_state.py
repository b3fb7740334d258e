"""What a process keeps of callers, kept in tests as well: there the database cannot tell the state of access.

It tells one state for each transaction, and a test is one, so each request would read all about its caller anew.
"""

import re
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from django.db import connection

from keys.migrations._access_state import WATCHED
from keys.permissions import cache

_WATCHED: Final = frozenset(table for table, _ in WATCHED)
_STAMPS: Final = frozenset({"last_used_at", "last_used_address"})
"""What each request writes. Tests write the other stamps themselves, to make a check an old one."""
_WRITTEN = re.compile(r'(?:INSERT INTO|DELETE FROM|UPDATE|TRUNCATE|MERGE INTO)\s+(?:ONLY\s+)?"?(\w+)"?', re.IGNORECASE)
_COLUMN = re.compile(r'(?:SET |, )"(\w+)" = ')
_numbers = count()
_told_by_database = cache.read_state


class StateOfTest:
    """Another one after each statement of the test's transaction that may change who may do what."""

    def __init__(self) -> None:
        self._change()

    def read(self) -> cache.State | None:
        """As the database tells it where no test's transaction is open; None in one of the product's own."""
        blocks: Any = connection.atomic_blocks
        if not blocks or not all(block._from_testcase for block in blocks):
            return _told_by_database()
        if self._note not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._note)
            self._change()
        return self._state

    def end(self) -> None:
        if self._note in connection.execute_wrappers:
            connection.execute_wrappers.remove(self._note)

    def _change(self) -> None:
        self._state = f"of the tests {next(_numbers)}"

    def _note(self, execute: Callable[..., Any], statement: Any, parameters: Any, many: bool, context: Any) -> Any:
        try:
            return execute(statement, parameters, many, context)
        finally:
            if not isinstance(statement, str) or _may_change_access(statement):
                self._change()


def _may_change_access(statement: str) -> bool:
    written = _WATCHED.intersection(_WRITTEN.findall(statement))
    if written and statement.startswith("UPDATE "):
        columns = {*_COLUMN.findall(statement.partition(" WHERE ")[0])}
        return not columns or not columns <= _STAMPS
    return bool(written) or statement.startswith("ROLLBACK")
