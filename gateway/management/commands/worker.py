"""`gateway worker`: run a worker (SIGTERM lets it finish its current tasks)."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from gateway.server.commands import become, worker_command


class Command(BaseCommand):
    """Becomes Celery with the options that the gateway needs."""

    help = "Run a worker: runs, approved changes, the log's seals, e-mails, webhooks. One has to run, several may."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--processes", default=2, type=int, help="tasks done at once (2)")

    def handle(self, *args: Any, **options: Any) -> None:
        become(worker_command(concurrency=options["processes"]))
