"""Checks the services that the gateway needs: the database with its tables, the broker, each directory.

Who may see the result is decided in `health` for load balancers, and in `operations.gateway.health` for people.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from threading import Lock
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

TIMEOUT_SECONDS = 3.0
"""For all checks together; they run in parallel."""

KEEP_SECONDS = 2.0
"""How long results are kept, so that frequent probes cost nothing."""

REFRESH_SECONDS = 10.0
"""The age of results at which `latest_checks` starts the checks again."""

STALE_SECONDS = 120.0
"""The age from which `latest_checks` no longer returns results."""

_DIRECTORY_PREFIX = "directory "
"""The prefix in the names of directories' checks."""


class HealthStatus(StrEnum):
    """The combined result of all checks, for load balancers."""

    OK = "ok"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. `detail` tells the administrator what is wrong; None if nothing is.

    Without an `essential` service nothing works; without any other one the gateway still does part of its work.
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
    """Unavailable if an essential service is down, degraded if another one is.

    An outage of Redis or a domain controller must not take this host out of a load balancer: all other hosts suffer
    from it, too, and people can still sign in, decide, and read in the log what is wrong.
    """
    if all(check.detail is None for check in checks):
        return HealthStatus.OK
    is_essential_up = all(check.detail is None for check in checks if check.essential)
    return HealthStatus.DEGRADED if is_essential_up else HealthStatus.UNAVAILABLE


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _find_directories() -> dict[str, UUID]:
    """The ids of the enabled connections by the names of their checks."""
    rows = DirectoryConnection.objects.filter(enabled=True).values_list("name", "id")
    return {f"{_DIRECTORY_PREFIX}{name}": connection_id for name, connection_id in rows}


def _ask_broker() -> None:
    with redis_client(settings.REDIS_URL, seconds=2) as redis:
        redis.ping()


def _ask_directory(connection_id: UUID) -> None:
    with directory_errors.translate_ldap_errors():
        get_client(connection_id).root_dse()


class Readiness:
    """Runs the checks in parallel, each only once at a time, and keeps the results for a moment.

    A check that hangs is not started again, and nobody waits for it a second time.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="readiness")
        self._running: dict[str, tuple[Future, float]] = {}  # by name, with their deadlines
        self._lock = Lock()
        self._refreshing: Future | None = None
        self._kept: tuple[float, list[Check]] = (float("-inf"), [])
        self._has_tables = False

    def checks(self) -> list[Check]:
        with self._lock:
            taken, checks = self._kept
            if time.monotonic() - taken > KEEP_SECONDS:
                checks = self._ask()
                self._kept = (time.monotonic(), checks)
            return checks

    def latest_checks(self) -> list[Check]:
        """Return the latest results without waiting, none at first. Old ones restart the checks in the background."""
        taken, checks = self._kept
        age = time.monotonic() - taken
        if age > REFRESH_SECONDS and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = self._pool.submit(self.checks)
        return checks if age < STALE_SECONDS else []

    def _ask(self) -> list[Check]:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        self._start("broker", _ask_broker, deadline)
        checks = [self._run("database", _ask_database, deadline, essential=True)]
        if checks[-1].detail is None:
            checks.append(self._run("migrations", self._find_missing_tables, deadline, essential=True))
        asked: dict[str, UUID] = {}
        if checks[-1].detail is None:
            listed = self._run("directories", lambda: asked.update(_find_directories()), deadline)
            checks += [listed] if listed.detail is not None else []
        for name, connection_id in asked.items():
            self._start(name, partial(_ask_directory, connection_id), deadline)
        checks += [self._finish(name) for name in ("broker", *asked)]
        for check in checks:
            if check.detail is not None:
                logger.warning("not ready", check=check.name, detail=check.detail)
        return checks

    def _find_missing_tables(self) -> str | None:
        """Return which migrations are missing, None if none. A database that once had all is not checked again."""
        if not self._has_tables:
            loader = MigrationLoader(connection)
            if waiting := len(loader.disk_migrations.keys() - loader.applied_migrations.keys()):
                return f"{waiting} migrations are not applied: run `gateway migrate`"
            self._has_tables = True
        return None

    def _run(self, name: str, ask: Callable[[], object], deadline: float, *, essential: bool = False) -> Check:
        self._start(name, ask, deadline)
        return self._finish(name, essential=essential)

    def _start(self, name: str, ask: Callable[[], object], deadline: float) -> None:
        """Start a check, unless its last run still waits for an answer."""

        def run() -> object:
            try:
                return ask()
            finally:
                connections.close_all()  # this thread's connections, which nobody else closes

        if name not in self._running or self._running[name][0].done():
            self._running[name] = self._pool.submit(run), deadline

    def _finish(self, name: str, *, essential: bool = False) -> Check:
        """Wait for a check, which raises an error or returns a text if something is wrong, and return its result."""
        answer, deadline = self._running[name]
        try:
            error = answer.exception(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return Check(name, f"no answer within {TIMEOUT_SECONDS:g} s", essential)
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
    """The directories that failed their checks, by name, with what is wrong."""
    return {
        check.name.removeprefix(_DIRECTORY_PREFIX): check.detail
        for check in checks
        if check.detail is not None and check.name.startswith(_DIRECTORY_PREFIX)
    }


readiness = Readiness()
