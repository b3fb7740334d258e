"""What supervisors ask: is the process alive, can it do its work, how is it doing. No credential is looked at here."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, connection, connections
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from directory import errors as directory_errors
from directory.connection import get_client
from directory.models import DirectoryConnection
from gateway.core.encryption import UndecryptableSecret
from gateway.core.errors import GatewayError
from gateway.metrics import CONTENT_TYPE, exposition
from gateway.middleware.client_address import KnownAddresses, parse_address

logger = structlog.get_logger(__name__)

ANSWER_WITHIN = 3.0
"""Seconds for all checks together; they run side by side."""
KEEP = 2.0
"""Seconds an answer is kept, so that asking often costs nothing."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the answer. `detail` says what is wrong, for the administrator."""

    name: str
    detail: str | None

    def as_json(self) -> dict[str, str]:
        return (
            {"name": self.name, "status": "ok"}
            if self.detail is None
            else {"name": self.name, "status": "unavailable", "detail": self.detail}
        )


def _find_directories() -> list[tuple[UUID, str]]:
    with connection.cursor() as cursor:  # an unused directory table must not pass for a working database
        cursor.execute("SELECT 1")
    return list(DirectoryConnection.objects.filter(enabled=True).values_list("id", "name"))


def _ask_broker() -> None:
    client = Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2, retry=Retry(NoBackoff(), 0))
    try:
        client.ping()
    finally:
        client.close()


def _ask_directory(connection_id: UUID) -> None:
    with directory_errors.translated():
        get_client(connection_id).root_dse()


class Readiness:
    """Runs the checks, never twice at once, and keeps their result for a moment."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="readiness")
        self._running: dict[str, Future] = {}
        self._lock = Lock()
        self._kept: tuple[float, list[Check]] = (float("-inf"), [])

    def checks(self) -> list[Check]:
        with self._lock:
            taken, checks = self._kept
            if time.monotonic() - taken > KEEP:
                checks = self._ask()
                self._kept = (time.monotonic(), checks)
            return checks

    def _ask(self) -> list[Check]:
        deadline = time.monotonic() + ANSWER_WITHIN
        broker = self._start("broker", _ask_broker)
        database = self._start("database", _find_directories)
        checks = [self._finish("database", database, deadline)]
        directories: list[tuple[UUID, str]] = database.result() if checks[0].detail is None else []
        asked = [
            (f"directory {name}", self._start(f"directory {name}", partial(_ask_directory, identity)))
            for identity, name in directories
        ]
        checks.append(self._finish("broker", broker, deadline))
        checks += [self._finish(name, future, deadline) for name, future in asked]
        for check in checks:
            if check.detail is not None:
                logger.warning("not ready", check=check.name, detail=check.detail)
        return checks

    def _start(self, name: str, ask: Callable[[], object]) -> Future:
        """Start a check, unless the last one still waits for its answer: then wait for that."""
        running = self._running.get(name)
        if running is not None and not running.done():
            return running

        def run() -> object:
            try:
                return ask()
            finally:
                connections.close_all()  # those of this thread, which nobody else would close

        future = self._running[name] = self._pool.submit(run)
        return future

    def _finish(self, name: str, future: Future, deadline: float) -> Check:
        try:
            future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            return Check(name, f"no answer within {ANSWER_WITHIN:g} s")
        except (DatabaseError, RedisError, OSError, UndecryptableSecret) as error:
            return Check(name, str(error).strip() or type(error).__name__)
        except GatewayError as error:
            return Check(name, error.detail)
        return Check(name, None)


_readiness = Readiness()


def _may_see_details(request: HttpRequest) -> bool:
    allowed = KnownAddresses(settings.CONFIGURATION.Metrics.AllowedAddresses)
    return parse_address(request.client_address) in allowed  # type: ignore[attr-defined]


@require_safe
def health(_request: HttpRequest) -> HttpResponse:
    """Alive: this process answers. Asks nothing else, so that nothing else can make a supervisor restart it."""
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Ready: database, broker and every enabled directory answer; the line for each to the allowed addresses only."""
    checks = _readiness.checks()
    is_ready = all(check.detail is None for check in checks)
    body: dict[str, object] = {"status": "ok" if is_ready else "unavailable"}
    if _may_see_details(request):
        body["checks"] = [check.as_json() for check in checks]
    return JsonResponse(body, status=200 if is_ready else 503)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The measurements for Prometheus. To others this address does not exist."""
    if not _may_see_details(request):
        raise Http404
    return HttpResponse(exposition(), content_type=CONTENT_TYPE)
