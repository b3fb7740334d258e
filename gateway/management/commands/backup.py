"""`gateway backup FOLDER`: write the database into a file, and beside it a description with the keys that it needs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit import security
from gateway.management import backups


class Command(BaseCommand):
    """Web processes and workers keep running."""

    help = "Back the database up while the gateway works. The keys are not in it: keep them elsewhere."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="where to put it, under a name with the time")
        parser.add_argument("--keep", type=int, help="remove older backups in the folder but for so many")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["keep"] is not None and options["keep"] < 1:
            raise CommandError("--keep must be 1 or more")
        try:
            made = backups.make(options["folder"])
        except backups.BackupFailed as error:
            raise CommandError(str(error)) from None
        security.log_event("backup made", file=str(made))
        self.stdout.write(f"{made} ({made.stat().st_size:,} bytes)")
        if options["keep"] is not None:
            self.stdout.write(f"{backups.expire(options['folder'], options['keep'])} older ones were removed.")
        self.stdout.write("It needs these keys, which are not in it: GATEWAY_ENCRYPTION_KEYS and GATEWAY_LOG_KEYS.")
