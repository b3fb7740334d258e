"""`manage.py archive_operations_log`: the records of a month in a file that verifies alone."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from audit.chain.archive import NotArchived, write_archive
from audit.management.commands.expire_operations_log import month


class Command(BaseCommand):
    """Write the complete records of a month into a new file, signed under the log key."""

    help = (
        "Write the complete records of a month that is over into a new file, compressed and with an authentication "
        "code under the log key, which `--archive` of verify_operations_log verifies on any machine that has the keys, "
        "without the database. Refuses when the log does not verify."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--month", required=True, type=month, metavar="YYYY-MM", help="the month (UTC)")
        parser.add_argument("--file", required=True, type=Path, help="the file, which must not exist")

    def handle(self, *args: Any, **options: Any) -> None:
        start: datetime = options["month"]
        end = (start + timedelta(days=31)).replace(day=1)
        if end > timezone.now():
            raise CommandError("Only a month that is over can be archived.")
        try:
            count = write_archive(options["file"], start=start, end=end)
        except NotArchived as refusal:
            raise CommandError(str(refusal)) from None
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}") from None
        self.stdout.write(f"{count} records of {start:%Y-%m} are in {options['file']}.")
