"""The gateway as it is deployed: granian and a Celery worker in their own processes."""

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
from lab.releases import THIS_TREE, Release
from lab.services import Service, free_port

WORKER_PROCESSES = 2


class Commands(Protocol):
    """Runs commands of a release of the gateway, in the environment of its processes."""

    release: Release
    environment: dict[str, str]

    def manage(self, *arguments: str) -> str:
        """Run a management command and return its output; raises RuntimeError with its error output."""
        return self.run([sys.executable, str(self.release.tree / "manage.py"), *arguments])

    def run(self, command: Sequence[str], stdin: str = "") -> str:
        """Run a command and return its output; raises RuntimeError with its error output."""
        return run(command, environment=self.environment, directory=self.release.tree, stdin=stdin)


class LiveGateway(Commands):
    """Web server and worker of one release, with a data directory and logs below `folder`.

    The processes run until they are stopped. To have them restarted when they end, supervise `services`.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        *,
        release: Release = THIS_TREE,
        processes: int | None = None,
        name: str = "",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = dict(environment)
        self.release = release
        port = free_port()
        self.base_url = f"http://127.0.0.1:{port}"
        self._commands = release.commands(self.environment, port=port, processes=processes)
        suffix = f" of {name}" if name else ""
        self.web = self._service("web", suffix, folder)
        self.web.is_ready = lambda: is_healthy(self.base_url)
        self.worker = self._service("worker", suffix, folder)
        self.worker.is_ready = lambda: " ready." in self.worker.output and len(self.worker.children) == WORKER_PROCESSES
        self.services = (self.worker, self.web)

    def start(self) -> None:
        """Start both, and wait until they take requests and tasks."""
        for service in self.services:
            service.start()
        for service in self.services:
            service.wait_until_ready(600)

    def stop(self) -> None:
        """Stop both as systemd does, so that they finish their current work."""
        self.web.stop()
        self.worker.stop()

    @property
    def is_running(self) -> bool:
        """Whether at least one of them runs."""
        return self.web.is_running or self.worker.is_running

    def request(self, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request on a new connection."""
        with contextlib.closing(Http(self.base_url)) as client:
            return client.send(method, path, body, headers)

    def _service(self, kind: str, suffix: str, folder: Path) -> Service:
        return Service(
            f"{kind}{suffix}",
            self._commands[kind],
            is_ready=lambda: True,
            log_file=folder / f"{kind}.log",
            environment=self.environment,
            directory=self.release.tree,
        )


@dataclass(frozen=True)
class Stores:
    """Where gateways keep their state: Redis, and PostgreSQL or else SQLite's `file`."""

    redis: RedisServer
    postgres: Postgres | None
    file: Path

    @property
    def database_url(self) -> str:
        """The DATABASE_URL of the gateway."""
        return f"sqlite:///{self.file}" if self.postgres is None else self.postgres.url


@contextmanager
def running_stores(folder: Path, *, database: str, options: Sequence[str] = ()) -> Iterator[Stores]:
    """Start both below a folder and end them with the block: `postgresql` (durable, see `Postgres`) or `sqlite`."""
    with ExitStack() as stack:
        redis = RedisServer(folder / "redis.sock")
        postgres = Postgres(folder / "postgres", durable=True, options=options) if database == "postgresql" else None
        for server in filter(None, (redis, postgres)):
            stack.callback(server.stop)
            server.start_and_wait()
        yield Stores(redis, postgres, folder / "gateway.sqlite3")


def gateway_settings(folder: Path, *, database_url: str, redis_url: str) -> dict[str, str]:
    """The environment of a gateway with new secrets, and its data below the folder.

    Rate limits are counted but never reached.
    """
    unlimited = '{"Requests": 100000000, "WindowSeconds": 60}'
    return {
        **{name: value for name, value in os.environ.items() if "__" not in name and name != "GATEWAY_CONFIG"},
        "DJANGO_SETTINGS_MODULE": "gateway.settings",
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "GATEWAY_DATA_DIR": str(folder / "data"),
        "GATEWAY_ENVIRONMENT": "Development",
        "GATEWAY_SECRET_KEY": secrets.token_urlsafe(40),
        "GATEWAY_LOG_KEYS": secrets.token_urlsafe(40),
        "GATEWAY_ENCRYPTION_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "RateLimiting__Global": unlimited,
        "RateLimiting__DirectorySearch": unlimited,
        "RateLimiting__PasswordReset": unlimited,
    }
