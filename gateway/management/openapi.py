"""The OpenAPI documents of a release, made from the registry as they are served in Development."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings

from core.call import Surface
from gateway.surfaces.openapi.documents import document_settings
from gateway.urls import api_urls, rest_urls

SURFACES = (Surface.API, Surface.REST)


def document(surface: Surface) -> dict[str, Any]:
    """The OpenAPI document of a surface."""
    with patched_settings(document_settings(surface)):
        patterns = api_urls if surface is Surface.API else rest_urls
        schema: dict[str, Any] = SchemaGenerator(patterns=patterns).get_schema(request=None, public=True)
    return schema


def as_text(described: dict[str, Any]) -> str:
    """A document as it is printed and kept."""
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


def kept_file(surface: Surface) -> Path:
    """Where the document of this release is in the repository."""
    return Path(settings.BASE_DIR) / "docs" / "openapi" / f"{surface.value}.json"
