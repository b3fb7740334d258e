"""The gateway as it is deployed: granian and a Celery worker in processes of their own."""

import base64
import contextlib
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lab.http import Answer, Http, is_healthy
from lab.postgres import Postgres
from lab.processes import run
from lab.redis import RedisServer
from lab.releases import PRESENT, Release
from lab.services import Service, free_port

WORKER_PROCESSES = 2


class Commands(Protocol):
    """Commands of a release of the gateway, run as its processes are."""

    release: Release
    environment: dict[str, str]

    def manage(self, *arguments: str) -> str:
        """What a management command says; raises RuntimeError with what it complained of."""
        return self.run([sys.executable, str(self.release.tree / "manage.py"), *arguments])

    def run(self, command: Sequence[str], given: str = "") -> str:
        """What a command says; raises RuntimeError with what it complained of."""
        return run(command, environment=self.environment, directory=self.release.tree, given=given)


class LiveGateway(Commands):
    """Web server and worker of one release, with a data directory and logs below `place`.

    What is started goes on until it is stopped; who wants it started again after its end looks after `services`.
    """

    def __init__(
        self,
        place: Path,
        environment: Mapping[str, str],
        *,
        release: Release = PRESENT,
        processes: int | None = None,
        name: str = "",
    ) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self.environment = dict(environment)
        self.release = release
        port = free_port()
        self.base_url = f"http://127.0.0.1:{port}"
        self._commands = release.commands(self.environment, port=port, processes=processes)
        of = f" of {name}" if name else ""
        self.web = self._service("web", of, place)
        self.web.is_ready = lambda: is_healthy(self.base_url)
        self.worker = self._service("worker", of, place)
        self.worker.is_ready = lambda: len(self.worker.children) == WORKER_PROCESSES and " ready." in self.worker.said
        self.services = (self.worker, self.web)

    def start(self) -> None:
        """Start both, and wait until they take requests and tasks."""
        for service in self.services:
            service.start()
        for service in self.services:
            service.wait_until_ready(600)

    def stop(self) -> None:
        """End both as systemd does: what they have begun, they finish."""
        self.web.stop()
        self.worker.stop()

    @property
    def is_running(self) -> bool:
        """Whether one of them runs."""
        return self.web.is_running or self.worker.is_running

    def request(self, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One request on a connection of its own."""
        with contextlib.closing(Http(self.base_url)) as client:
            return client.send(method, path, body, headers)

    def _service(self, kind: str, of: str, place: Path) -> Service:
        return Service(
            f"{kind}{of}",
            self._commands[kind],
            is_ready=lambda: True,
            log_file=place / f"{kind}.log",
            environment=self.environment,
            directory=self.release.tree,
        )


@dataclass(frozen=True)
class Stores:
    """What gateways keep their state in: Redis and a database, which is SQLite's `file` without PostgreSQL."""

    redis: RedisServer
    postgres: Postgres | None
    file: Path

    @property
    def database_url(self) -> str:
        """Where the gateway finds its database."""
        return f"sqlite:///{self.file}" if self.postgres is None else self.postgres.url


@contextmanager
def running_stores(place: Path, *, database: str, options: Sequence[str] = ()) -> Iterator[Stores]:
    """Start both below a folder and end them with the block: `postgresql` (durable, see `Postgres`) or `sqlite`."""
    with ExitStack() as stack:
        redis = RedisServer(place / "redis.sock")
        postgres = Postgres(place / "postgres", durable=True, options=options) if database == "postgresql" else None
        for server in filter(None, (redis, postgres)):
            stack.callback(server.stop)
            server.start_and_wait()
        yield Stores(redis, postgres, place / "gateway.sqlite3")


def settings_of_gateway(place: Path, *, database_url: str, redis_url: str) -> dict[str, str]:
    """The environment of one gateway, with secrets of its own; what its processes keep is below the folder.

    Its rate limits are counted and never reached.
    """
    plenty = '{"Requests": 100000000, "WindowSeconds": 60}'
    return {
        **{name: value for name, value in os.environ.items() if "__" not in name and name != "GATEWAY_CONFIG"},
        "DJANGO_SETTINGS_MODULE": "gateway.settings",
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "GATEWAY_DATA_DIR": str(place / "data"),
        "GATEWAY_ENVIRONMENT": "Development",
        "GATEWAY_SECRET_KEY": secrets.token_urlsafe(40),
        "GATEWAY_LOG_KEYS": secrets.token_urlsafe(40),
        "GATEWAY_ENCRYPTION_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "RateLimiting__Global": plenty,
        "RateLimiting__DirectorySearch": plenty,
        "RateLimiting__PasswordReset": plenty,
    }
