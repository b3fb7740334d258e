"""`manage.py openapi --surface api`: print an OpenAPI document, also in Production, which publishes none."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from core.call import Surface
from gateway.management.openapi import SURFACES, document, rendered


class Command(BaseCommand):
    """Print the OpenAPI document of a surface, or write it to a file."""

    help = __doc__ or ""
    requires_system_checks = ()  # they need the database, and a document does not

    def add_arguments(self, parser: CommandParser) -> None:
        surfaces = [surface.value for surface in SURFACES]
        parser.add_argument("--surface", choices=surfaces, default="api", help="api: for programs; rest: the console's")
        parser.add_argument("--output", type=Path, help="the file to write; standard output unless given")

    def handle(self, *args: Any, **options: Any) -> None:
        text = rendered(document(Surface(options["surface"])))
        if options["output"] is None:
            self.stdout.write(text, ending="")
        else:
            options["output"].write_text(text, "utf-8")
