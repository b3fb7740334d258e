"""`manage.py verify_operations_log`: whether anybody tampered with the operations log."""

from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, InterfaceError

from audit import security
from audit.chain import checkpoint
from audit.chain.checkpoint import Head, latest_head
from audit.chain.removals import find_closed
from audit.chain.verification import find_tampering, keep_verification
from audit.chain.verified_ranges import forget_lost_ranges, forget_ranges
from audit.chain.verifying import course_of_the_night, leading, whole_course
from audit.chain.walk import Finding, Progress
from audit.verify_evidence import NotGenuine, verify_file
from core.shapes import render_timestamp

SHOWN = 20


class Command(BaseCommand):
    """Check every record and seal; exit with 1 if the log was tampered with, and say how, in the order of the chain."""

    help = (
        "Check every record and seal of the operations log. Exits 1 and names what was tampered with, in the order of "
        "the chain. An exported head, or the gateway's own checkpoint (in the data directory and in Redis), also "
        "reveals seals that were cut off the end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--head", type=Path, help="a file written by export_log_head")
        parser.add_argument(
            "--continue",
            dest="continued",
            action="store_true",
            help="go on from where the last verification ended, which does not notice later changes of what is before; "
            "the whole log is read once in seven days, and as long as the last verification found anything",
        )
        parser.add_argument(
            "--archive",
            type=Path,
            help="verify this archive of a month, or this evidence, instead, without the database",
        )
        parser.add_argument(
            "--restored",
            action="store_true",
            help="the database was restored from a backup: say what is missing, and take the present end of the log "
            "for its end from now on",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["archive"] is not None:
            self._verify_archive(options["archive"])
            return
        if options["restored"]:
            self._accept_end()
        head, progress, found = _read_head(options["head"]), Progress(), list[Finding]()
        course = course_of_the_night() if options["continued"] else whole_course()
        try:
            # Close the generator, and with it its cursor, before the connection: SQLite complains of open cursors.
            with leading(course), closing(find_tampering(head, progress, course)) as findings:
                found += islice(findings, SHOWN + 1)
        except (DatabaseError, InterfaceError) as error:  # it went away, or the tables are not the gateway's any more
            told = "\n".join([*_lines(found), f"The operations log cannot be verified to its end: {error}"])
            raise CommandError(told.strip()) from None
        self._keep(progress, found[0] if found else None)
        if found:
            raise CommandError("\n".join(_lines(found)))
        removed = f", {progress.removed} removed after their time" if progress.removed else ""
        counted = f"{progress.records} records in {progress.seals} seals, {progress.unsealed} not sealed yet{removed}"
        if course.base is None:
            closed = find_closed().last
            left = f" The seals up to {closed} left with the records that they named." if closed else ""
            self.stdout.write(f"The operations log is as it was written: {counted}.{left}")
            return
        since = render_timestamp(course.base.whole_at)
        self.stdout.write(
            f"What is new in the operations log is as it was written: {counted}, from seal {progress.first_seal} on. "
            f"All before it was last read {since} or later."
        )
        if options["restored"]:
            forget_ranges()
            self.stdout.write(
                "The next verification reads the whole log, since what was restored may have been changed."
            )

    def _verify_archive(self, file: Path) -> None:
        try:
            sentence = verify_file(file, settings.LOG_KEYS)
        except NotGenuine as doubt:
            raise CommandError(f"{file}: {doubt}") from None
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}") from None
        self.stdout.write(sentence)

    def _accept_end(self) -> None:
        stored = checkpoint.find_checkpoint()
        if stored is not None and not checkpoint.is_in_log(stored):
            missing = checkpoint.describe_loss(stored)
            security.log_event("the end of the operations log was accepted after a restore", missing=missing)
            self.stdout.write(f"Accepted: {missing}.")
        checkpoint.advance_checkpoint(to_any=True)
        forget_lost_ranges()

    def _keep(self, progress: Progress, finding: Finding | None) -> None:
        """Store the result for the console, if possible: an auditor may be able to read only, or verify a copy."""
        try:
            keep_verification(progress, finding)
        except DatabaseError as error:
            self.stderr.write(f"That the log was verified cannot be noted: {error}")


def _lines(found: Sequence[Finding]) -> list[str]:
    """The lines that report the findings, the verdict first."""
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
