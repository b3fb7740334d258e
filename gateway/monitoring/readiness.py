"""Whether what the gateway works with is there: database with its tables, broker, each directory; asked side by side.

Who may know what of it is decided elsewhere: in `health` for supervisors, in `operations.health` for people.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from threading import Lock
from typing import Final
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, connection, connections
from django.db.migrations.loader import MigrationLoader
from redis import RedisError

from core.errors import GatewayError
from core.redis.clients import redis_client
from core.secrets.encryption import UndecryptableSecret
from directory import errors as directory_errors
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection

logger = structlog.get_logger(__name__)

ANSWER_WITHIN = 3.0
"""Seconds for all checks together; they run side by side."""
KEEP = 2.0
"""Seconds an answer is kept, so that asking often costs nothing."""
GLANCE = 10.0
"""Seconds after which somebody who does not wait has it looked at again."""
OUTDATED = 120.0
"""Seconds after which what was found is of no use to them any more."""
_DIRECTORY: Final = "directory "
"""What the names of the checks of directories begin with."""


class HealthStatus(StrEnum):
    """What all checks together mean to whoever sends requests here."""

    OK = "ok"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the answer. `detail` says what is wrong, for the administrator.

    Without what is `essential` nothing is served; without the rest the gateway does a part of its work.
    """

    name: str
    detail: str | None
    essential: bool = False

    def as_json(self) -> dict[str, str]:
        return (
            {"name": self.name, "status": "ok"}
            if self.detail is None
            else {"name": self.name, "status": "unavailable", "detail": self.detail}
        )


def status_of(checks: Sequence[Check]) -> HealthStatus:
    """Unavailable without what is essential, degraded without anything else.

    Neither Redis nor a domain controller takes a gateway out of a load balancer: every other host is without it too,
    and people still sign in, decide and read the log, which says what is wrong.
    """
    if all(check.detail is None for check in checks):
        return HealthStatus.OK
    is_served = all(check.detail is None for check in checks if check.essential)
    return HealthStatus.DEGRADED if is_served else HealthStatus.UNAVAILABLE


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


class _Tables:
    """Whether the database has every table and column that this release uses. Once it has them, it keeps them."""

    def __init__(self) -> None:
        self._are_there = False

    def missing(self) -> str | None:
        """What is wrong, in words. Raises DatabaseError."""
        if not self._are_there:
            loader = MigrationLoader(connection)
            waiting = len(loader.disk_migrations.keys() - loader.applied_migrations.keys())
            if waiting:
                return f"{waiting} migrations are not applied: run `gateway migrate`"
            self._are_there = True
        return None


def _find_directories() -> dict[str, UUID]:
    """The enabled ones by the names of their checks."""
    rows = DirectoryConnection.objects.filter(enabled=True).values_list("name", "id")
    return {f"{_DIRECTORY}{name}": connection_id for name, connection_id in rows}


def _ask_broker() -> None:
    client = redis_client(settings.REDIS_URL, seconds=2)
    try:
        client.ping()
    finally:
        client.close()


def _ask_directory(connection_id: UUID) -> None:
    with directory_errors.translated():
        get_client(connection_id).root_dse()


class Readiness:
    """Runs the checks, never twice at once, and keeps their result for a moment.

    What does not answer is waited for once; as long as that question is open, nobody waits for it again.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="readiness")
        self._running: dict[str, tuple[Future, float]] = {}  # by its name, each with the end of its time
        self._lock = Lock()
        self._looking: Future | None = None
        self._kept: tuple[float, list[Check]] = (float("-inf"), [])
        self._tables = _Tables()

    def checks(self) -> list[Check]:
        with self._lock:
            taken, checks = self._kept
            if time.monotonic() - taken > KEEP:
                checks = self._ask()
                self._kept = (time.monotonic(), checks)
            return checks

    def glance(self) -> list[Check]:
        """What was found lately, without waiting; nothing at first. It is looked again behind the asker's back."""
        taken, checks = self._kept
        age = time.monotonic() - taken
        if age > GLANCE and (self._looking is None or self._looking.done()):
            self._looking = self._pool.submit(self.checks)
        return checks if age < OUTDATED else []

    def _ask(self) -> list[Check]:
        deadline = time.monotonic() + ANSWER_WITHIN
        self._start("broker", _ask_broker, deadline)
        checks = [self._find("database", _ask_database, deadline, essential=True)]
        if checks[-1].detail is None:
            checks.append(self._find("migrations", self._tables.missing, deadline, essential=True))
        asked: dict[str, UUID] = {}
        if checks[-1].detail is None:
            listed = self._find("directories", lambda: asked.update(_find_directories()), deadline)
            checks += [listed] if listed.detail is not None else []
        for name, connection_id in asked.items():
            self._start(name, partial(_ask_directory, connection_id), deadline)
        checks += [self._finish(name) for name in ("broker", *asked)]
        for check in checks:
            if check.detail is not None:
                logger.warning("not ready", check=check.name, detail=check.detail)
        return checks

    def _find(self, name: str, ask: Callable[[], object], deadline: float, *, essential: bool = False) -> Check:
        self._start(name, ask, deadline)
        return self._finish(name, essential=essential)

    def _start(self, name: str, ask: Callable[[], object], deadline: float) -> None:
        """Start a check, unless the last one still waits for its answer."""

        def run() -> object:
            try:
                return ask()
            finally:
                connections.close_all()  # those of this thread, which nobody else would close

        if name not in self._running or self._running[name][0].done():
            self._running[name] = self._pool.submit(run), deadline

    def _finish(self, name: str, *, essential: bool = False) -> Check:
        """What a check has found: an error, or a text that says what is wrong."""
        answer, deadline = self._running[name]
        try:
            error = answer.exception(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return Check(name, f"no answer within {ANSWER_WITHIN:g} s", essential)
        if error is None:
            found = answer.result()
            return Check(name, found if isinstance(found, str) else None, essential)
        if isinstance(error, GatewayError):
            return Check(name, error.detail, essential)
        if not isinstance(error, (DatabaseError, RedisError, OSError, UndecryptableSecret)):
            logger.error("a check failed in a way that nobody foresaw", check=name, exc_info=error)
            return Check(name, type(error).__name__, essential)
        return Check(name, str(error).strip() or type(error).__name__, essential)


def broken_directories(checks: Sequence[Check]) -> dict[str, str]:
    """The names of the directories that do not answer, and what is wrong."""
    return {
        check.name.removeprefix(_DIRECTORY): check.detail
        for check in checks
        if check.detail is not None and check.name.startswith(_DIRECTORY)
    }


readiness: Final = Readiness()
"""Of this process."""
