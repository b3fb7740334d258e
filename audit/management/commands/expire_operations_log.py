"""`manage.py expire_operations_log`: remove the records of months that need not be kept any longer."""

import argparse
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import ProgrammingError

from audit.chain.retention import NotRemoved, remove_records


class Command(BaseCommand):
    """Remove the records from before a month, so that the log still verifies."""

    help = (
        "Remove the complete records from before a month, for good: export them first. The log verifies afterwards as "
        "before. Refuses when it does not verify now. Deletions that are removed cannot be refilled any more."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--before",
            required=True,
            type=month,
            metavar="YYYY-MM",
            help="the first month (UTC) that is kept; the present one is always kept",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        before: datetime = options["before"]
        try:
            removed = remove_records(before=before)
        except NotRemoved as refusal:
            raise CommandError(str(refusal)) from None
        except ProgrammingError as refusal:
            raise CommandError(f"Run it as the owner of the log's tables: {refusal}") from None
        self.stdout.write(f"{removed} records from before {before:%Y-%m} were removed.")


def month(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no month such as 2026-01") from None
