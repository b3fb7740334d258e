"""`gateway check`: Django's own checks, and with `--services` whether what the gateway works with is there."""

import socket
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any, Final

from django.core.management import CommandError
from django.core.management.commands import check
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from redis import RedisError

from gateway.monitoring.heartbeats import find_workers
from gateway.monitoring.readiness import HealthStatus, readiness, status_of

_SHOWN: Final = 5


class Command(check.Command):
    """Exits 1 when something that was asked for is not there."""

    help = "Check the settings; with --services also the database, its tables, the broker, directories and workers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)  # type: ignore[arg-type]
        parser.add_argument(
            "--services", action="store_true", help="ask database, broker, directories and workers, a line for each"
        )
        parser.add_argument(
            "--worker", action="store_true", help="whether a worker of this host has given a sign of life lately"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["worker"]:
            self._check_worker()
            return
        if options["services"]:
            options["databases"] = options["databases"] or ["default"]
            self._check_services()
        super().handle(*args, **options)

    def _check_worker(self) -> None:
        host = socket.gethostname()
        try:
            alive = [worker.name for worker in find_workers() if worker.name.rpartition("@")[2] == host]
        except RedisError as error:
            raise CommandError(f"Redis does not answer: {error}") from None
        if not alive:
            raise CommandError(f"No worker of {host} has given a sign of life in the last 30 seconds.")
        self.stdout.write(f"alive: {', '.join(alive)}")

    def _check_services(self) -> None:
        if waiting := self._find_migrations():
            more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
            self._tell("tables", f"to be migrated: {', '.join(waiting[:_SHOWN])}{more}")
            raise CommandError("Run `gateway migrate`.")
        self._tell("tables", None)
        checks = readiness.checks()
        for each in checks:
            self._tell(each.name, each.detail)
        workers: list[str] = []
        with suppress(RedisError):
            workers = [worker.name for worker in find_workers()]
        self._tell("workers", None if workers else "none has given a sign of life", ", ".join(workers))
        if status_of(checks) is HealthStatus.UNAVAILABLE:
            raise CommandError("The gateway cannot work: see above.")

    def _tell(self, name: str, wrong: str | None, right: str = "") -> None:
        self.stdout.write(f"{name}: {wrong}" if wrong else f"{name}: ok{f' ({right})' if right else ''}")

    def _find_migrations(self) -> list[str]:
        """What `gateway migrate` would do, as app.migration."""
        try:
            executor = MigrationExecutor(connection)
            plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        except DatabaseError as error:
            self._tell("database", str(error).strip())
            raise CommandError("The gateway cannot work: see above.") from None
        return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]
