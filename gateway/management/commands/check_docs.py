"""`manage.py check_docs`: check that the generated tables in docs/ are up to date."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway.management.reference import DOCS, TABLES, filled_page


class Command(BaseCommand):
    """Check settings, permissions, events and errors in docs/ against the code; `--write` makes the tables anew."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true", help="write the pages instead of comparing")

    def handle(self, *args: Any, **options: Any) -> None:
        if not (DOCS / "configuration.md").exists():
            raise CommandError("The documentation is in the source tree, not in what is installed.")
        for page in sorted({page for page, _ in TABLES}):
            made, path = filled_page(page), DOCS / page
            if options["write"]:
                path.write_text(made, "utf-8")
            elif path.read_text("utf-8") != made:
                raise CommandError(f"docs/{page} differs from the code; run manage.py check_docs --write")
            self.stdout.write(f"docs/{page}: current")
