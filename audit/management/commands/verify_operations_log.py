"""`manage.py verify_operations_log`: whether anybody tampered with the operations log."""

from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from audit import security
from audit.chain import checkpoint
from audit.chain.head_export import Head, latest_head
from audit.chain.verification import Finding, Progress, find_tampering, keep_verification

SHOWN = 20


class Command(BaseCommand):
    """Check every record and seal; exits 1 and names the first record tampered with, then further ones."""

    help = (
        "Check every record and seal of the operations log. Exits 1 and names what was tampered with, the first first. "
        "With a head exported earlier, seals cut off the end are missed too; without one, if the gateway's own mark "
        "is there (in the data directory, in Redis)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--head", type=Path, help="a file written by export_log_head")
        parser.add_argument(
            "--restored",
            action="store_true",
            help="the database was restored from a backup: say what is missing, and take the present end of the log "
            "for its end from now on",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["restored"]:
            self._accept_end()
        progress, found = Progress(), list[Finding]()
        try:
            # What it reads by is closed before the connection is: SQLite complains of a cursor that is left open.
            with closing(find_tampering(_read_head(options["head"]), progress)) as findings:
                found += islice(findings, SHOWN + 1)
        except (DatabaseError, InterfaceError) as error:  # it went away, or the tables are not the gateway's any more
            told = "\n".join([*_lines(found), f"The operations log cannot be verified to its end: {error}"])
            raise CommandError(told.strip()) from None
        self._keep(progress, found[0] if found else None)
        if found:
            raise CommandError("\n".join(_lines(found)))
        removed = f", {progress.removed} removed after their time" if progress.removed else ""
        self.stdout.write(
            f"The operations log is as it was written: {progress.records} records in {progress.seals} seals, "
            f"{progress.unsealed} not sealed yet{removed}."
        )

    def _accept_end(self) -> None:
        marked = checkpoint.find_mark()
        if marked is not None and not checkpoint.is_held(marked):
            missing = checkpoint.what_is_missing(marked)
            security.noted("the end of the operations log was accepted after a restore", missing=missing)
            self.stdout.write(f"Accepted: {missing}.")
        checkpoint.move_mark(to_any=True)

    def _keep(self, progress: Progress, finding: Finding | None) -> None:
        """Note it for the console. A log may also be verified by somebody who can only read it, or in a copy of it."""
        try:
            keep_verification(progress, finding)
        except DatabaseError as error:
            self.stderr.write(f"That the log was verified cannot be noted: {error}")


def _lines(found: Sequence[Finding]) -> list[str]:
    """What is said of findings, the first first."""
    if not found:
        return []
    lines = [f"{found[0].sentence}.", *(f"Also: {item}." for item in found[1:SHOWN])]
    return [*lines, "There is more."] if len(found) > SHOWN else lines


def _read_head(file: Path | None) -> Head | None:
    if file is None:
        return None
    try:
        return latest_head(file.read_text())
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    except ValueError:
        raise CommandError(f"{file}: is no head of the operations log") from None
