"""`manage.py export_log_head`: the end of the operations log's chain, to be kept elsewhere."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit.chain import checkpoint, sealing


class Command(BaseCommand):
    """Seal new records and export the head of the chain to the screen, a file or syslog."""

    help = (
        "Seal what is not sealed yet and export the head of the chain (seal, count, code). Keep it where who can "
        "change the database cannot reach: verify_operations_log --head then shows that nothing was cut off."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", type=Path, help="add it there as a line, instead of telling it on the screen")
        parser.add_argument("--syslog", action="store_true", help="also give it to syslog")

    def handle(self, *args: Any, **options: Any) -> None:
        sealing.seal_records()
        head = checkpoint.head()
        if head is None:
            raise CommandError("Nothing has been logged yet.")
        if options["syslog"]:
            checkpoint.log_head(head)
        if options["file"] is None:
            self.stdout.write(json.dumps(head))
            return
        try:
            checkpoint.append_head(head, options["file"])
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from None
