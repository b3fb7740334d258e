"""`manage.py check_openapi`: both OpenAPI documents are valid, made without a warning, and match their snapshots."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings
from drf_spectacular.validation import validate_schema

from gateway.core.call import Surface
from gateway.surfaces.openapi.documents import document_settings
from gateway.urls import api_urls, rest_urls

SNAPSHOTS = Path(settings.BASE_DIR) / "tests" / "snapshots"


def document(surface: Surface) -> dict[str, Any]:
    """The OpenAPI document of a surface, as it is served in Development."""
    with patched_settings(document_settings(surface)):
        patterns = api_urls if surface is Surface.API else rest_urls
        schema: dict[str, Any] = SchemaGenerator(patterns=patterns).get_schema(request=None, public=True)
    return schema


class Command(BaseCommand):
    """Check both documents against their snapshots; `--write` makes the snapshots anew after an intended change."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--write", action="store_true", help="write the snapshots instead of comparing")

    def handle(self, *args: Any, **options: Any) -> None:
        for surface in (Surface.API, Surface.REST):
            made = document(surface)
            validate_schema(made)
            if GENERATOR_STATS:
                GENERATOR_STATS.emit_summary()
                raise CommandError(f"{surface.value}: the document was made with warnings")
            text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
            snapshot = SNAPSHOTS / f"openapi-{surface.value}.json"
            if options["write"]:
                SNAPSHOTS.mkdir(parents=True, exist_ok=True)
                snapshot.write_text(text, "utf-8")
            elif not snapshot.exists() or snapshot.read_text("utf-8") != text:
                raise CommandError(
                    f"{surface.value}: the document differs from tests/snapshots; if that is meant: "
                    "manage.py check_openapi --write"
                )
            self.stdout.write(f"{surface.value}: {len(made['paths'])} paths, valid")
