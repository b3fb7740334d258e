"""`manage.py verify_operations_log`: whether anybody tampered with the operations log."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from audit import security
from audit.chain import mark
from audit.chain.heads import Head
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
        progress = Progress()
        findings = find_tampering(_read_head(options["head"]), progress)
        first = next(findings, None)
        self._keep(progress, first)
        if first is None:
            removed = f", {progress.removed} removed after their time" if progress.removed else ""
            self.stdout.write(
                f"The operations log is as it was written: {progress.records} records in {progress.seals} seals, "
                f"{progress.unsealed} not sealed yet{removed}."
            )
            return
        more = [next(findings, None) for _ in range(SHOWN - 1)]
        lines = [f"{first.sentence}.", *(f"Also: {item}." for item in more if item)]
        if next(findings, None):
            lines.append("There is more.")
        raise CommandError("\n".join(lines))

    def _accept_end(self) -> None:
        marked = mark.find_mark()
        if marked is not None and not mark.is_held(marked):
            missing = mark.what_is_missing(marked)
            security.noted("the end of the operations log was accepted after a restore", missing=missing)
            self.stdout.write(f"Accepted: {missing}.")
        mark.move_mark(to_any=True)

    def _keep(self, progress: Progress, finding: Finding | None) -> None:
        """Note it for the console. A log may also be verified by somebody who can only read it, or in a copy of it."""
        try:
            keep_verification(progress, finding)
        except DatabaseError as error:
            self.stderr.write(f"That the log was verified cannot be noted: {error}")


def _read_head(file: Path | None) -> Head | None:
    if file is None:
        return None
    try:
        found: Head = json.loads(file.read_text())
        if not isinstance(found["seal"], int) or not isinstance(found["mac"], str):
            raise TypeError
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise CommandError(f"{file}: is no head of the operations log") from None
    return found
