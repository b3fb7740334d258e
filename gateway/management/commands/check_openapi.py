"""`manage.py check_openapi`: check that both OpenAPI documents are valid, without warnings, and up to date."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema

from gateway.management.openapi import SURFACES, document, document_file, rendered


class Command(BaseCommand):
    """Check both documents against the files of the release; `--write` makes these anew after an intended change."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true", help="write the files instead of comparing")

    def handle(self, *args: Any, **options: Any) -> None:
        for surface in SURFACES:
            made = document(surface)
            validate_schema(made)
            if GENERATOR_STATS:
                GENERATOR_STATS.emit_summary()
                raise CommandError(f"{surface.value}: the document was made with warnings")
            kept = document_file(surface)
            if options["write"]:
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(rendered(made), "utf-8")
            elif not kept.exists() or kept.read_text("utf-8") != rendered(made):
                raise CommandError(
                    f"{surface.value}: the document differs from docs/openapi; if that is meant: "
                    "manage.py check_openapi --write"
                )
            self.stdout.write(f"{surface.value}: {len(made['paths'])} paths, valid")
