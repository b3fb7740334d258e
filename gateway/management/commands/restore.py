"""`gateway restore FILE`: replace the database with a backup, with checks before and after."""

import json
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from redis import RedisError

from audit import security
from audit.chain.checkpoint import Head
from gateway.management import backups
from gateway.monitoring.workers import find_workers


class Command(BaseCommand):
    """Changes nothing unless the needed keys are configured and no worker runs."""

    help = "Put a backup in the place of the database. Stop web processes and workers first."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="what `gateway backup` made, with its .json beside it")
        parser.add_argument("--replace", action="store_true", help="even if the database is not empty: all in it goes")

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        try:
            described = backups.describe(file)
            self._require_stopped()
            if not options["replace"] and not backups.is_empty():
                raise CommandError("The database is not empty; --replace removes what is in it")
            if missing := backups.missing_keys(described):
                names = ", ".join(missing)
                raise CommandError(
                    f"The backup needs keys that are not configured: {names}. Put them behind the others"
                )
            backups.load(file)
        except backups.BackupFailed as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Restored what was backed up {described['madeAt']} by release {described['release']}.")
        call_command("migrate", verbosity=0)
        security.log_event("backup restored", file=str(file))
        self._verify(described["logHead"])

    def _require_stopped(self) -> None:
        with suppress(RedisError):  # without Redis no worker can run
            if workers := find_workers():
                names = ", ".join(worker.name for worker in workers)
                raise CommandError(f"Stop web processes and workers first; {names} gave a sign of life just now")

    def _verify(self, head: Head | None) -> None:
        """Verify the restored log up to the head at the time of the backup, and accept its current end as its end.

        It goes on from what was verified when the backup was made, so that the gateway can be started soon.
        """
        options: dict[str, Any] = {"restored": True, "continued": True, "stdout": self.stdout}
        if head is None:
            call_command("verify_operations_log", **options)
            return
        with NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(head, file)
            file.flush()
            call_command("verify_operations_log", head=Path(file.name), **options)
