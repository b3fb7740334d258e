"""Makes the OpenAPI documents of a release, the same as those served in Development."""

import json
from pathlib import Path

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings

from core.call import Surface
from core.shapes import Json
from gateway.surfaces.openapi.documents import document_settings
from gateway.urls import api_urls, rest_urls

SURFACES = (Surface.API, Surface.REST)


def document(surface: Surface) -> Json:
    """Make the OpenAPI document of a surface."""
    with patched_settings(document_settings(surface)):
        patterns = api_urls if surface is Surface.API else rest_urls
        schema: Json = SchemaGenerator(patterns=patterns).get_schema(request=None, public=True)
    return schema


def rendered(document: Json) -> str:
    """Render a document as it is printed and stored."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def document_file(surface: Surface) -> Path:
    """The file in the repository with the document of a surface."""
    return Path(settings.BASE_DIR) / "docs" / "openapi" / f"{surface.value}.json"
