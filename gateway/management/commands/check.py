"""`gateway check`: Django's checks; with `--services` also those of the services, with `--upgrade` a forecast of
`gateway migrate`.
"""

import socket
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.core.management.commands import check
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from redis import RedisError

from core.redis.clients import ask_sentinels
from gateway.management.migrations import assess_pending
from gateway.monitoring.readiness import HealthStatus, readiness, status_of
from gateway.monitoring.workers import find_workers

_SHOWN = 5


class Command(check.Command):
    """Exits 1 if a check fails."""

    help = (
        "Check the settings; with --services also the database, its tables, the broker, directories and workers; "
        "with --upgrade what `gateway migrate` will do."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)  # type: ignore[arg-type]
        parser.add_argument(
            "--services", action="store_true", help="ask database, broker, directories and workers, a line for each"
        )
        parser.add_argument(
            "--worker", action="store_true", help="whether a worker of this host has given a sign of life lately"
        )
        parser.add_argument(
            "--upgrade",
            action="store_true",
            help="what `gateway migrate` will do to the tables; fails when running processes have to be stopped first",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["worker"]:
            self._check_worker()
            return
        if options["upgrade"]:
            self._forecast_upgrade()
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
        loader = self._load_migrations()
        if waiting := [judged.name for judged in assess_pending(loader, loader.applied_migrations)]:
            more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
            self._print("tables", f"to be migrated: {', '.join(waiting[:_SHOWN])}{more}")
            raise CommandError("Run `gateway migrate`.")
        self._print("tables", None)
        checks = readiness.checks()
        for each in checks:
            self._print(each.name, each.detail)
            if each.name == "broker":
                self._print_sentinels()
        workers: list[str] = []
        with suppress(RedisError):
            workers = [worker.name for worker in find_workers()]
        self._print("workers", None if workers else "none has given a sign of life", ", ".join(workers))
        if status_of(checks) is HealthStatus.UNAVAILABLE:
            raise CommandError("The gateway cannot work: see above.")

    def _print_sentinels(self) -> None:
        """Print a line for each Sentinel, if any. Their problems fail no check: the gateway works without them."""
        for view in ask_sentinels(settings.REDIS_URL):
            replicas = f"{view.replicas} replica{'' if view.replicas == 1 else 's'}"
            others = f"{view.others} other Sentinel{'' if view.others == 1 else 's'}"
            knows = f"primary {view.primary}, {replicas}, {others}, quorum {view.quorum}"
            self._print(f"sentinel {view.address}", view.error, knows)

    def _print(self, name: str, wrong: str | None, right: str = "") -> None:
        self.stdout.write(f"{name}: {wrong}" if wrong else f"{name}: ok{f' ({right})' if right else ''}")

    def _load_migrations(self) -> MigrationLoader:
        try:
            return MigrationLoader(connection)
        except DatabaseError as error:
            self._print("database", str(error).strip())
            raise CommandError("The gateway cannot work: see above.") from None

    def _forecast_upgrade(self) -> None:
        loader = self._load_migrations()
        pending = assess_pending(loader, loader.applied_migrations)
        if later := sorted(
            f"{app}.{name}" for app, name in set(loader.applied_migrations) - set(loader.disk_migrations)
        ):
            self.stdout.write(f"The tables are those of a later release: {', '.join(later)}.")
            self.stdout.write("Processes of this one can work on them if it is the release just before.")
        for judged in pending:
            self.stdout.write(judged.name)
            for step in judged.steps:
                place = f"{step.table}{_size_of(step.table)}: " if step.table else ""
                self.stdout.write(f"  {'; '.join(filter(None, (place + step.does, step.slow)))}")
                if step.breaks:
                    self.stdout.write(f"    The release before cannot go on: {step.breaks}.")
        if any(judged.breaks for judged in pending) and loader.applied_migrations:
            raise CommandError("Stop web processes and workers on every host before `gateway migrate`.")
        self.stdout.write(
            "Web processes and workers of the release before may go on during `gateway migrate` and after it."
            if pending
            else "There is nothing to migrate."
        )


def _size_of(table: str) -> str:
    """The approximate number of rows of a table, in words; empty where only a count would tell."""
    if connection.vendor != "postgresql":
        return ""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(greatest(reltuples, pg_stat_get_live_tuples(oid))) FROM pg_class"
            " WHERE relkind = 'r' AND oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s)))",
            [table],
        )
        found = cursor.fetchone()
    return f" (about {found[0]:,.0f} rows)" if found[0] is not None else ""
