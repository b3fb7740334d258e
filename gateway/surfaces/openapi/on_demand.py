"""What makes documents, loaded with the first that is made: in production none is, and it takes five megabytes."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path
from django.utils.module_loading import import_string

from core.call import Surface
from gateway.surfaces.openapi.documents import document_settings


class SchemaOnDemand:
    """Stands for the schema of a view (`schema`), which drf-spectacular's generator asks for."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _schema(self) -> Any:
        return import_string(f"{__package__}.{self._name}")()

    def __get__(self, view: Any, owner: Any) -> Any:
        return self._schema.__get__(view, owner)


def document_urls(surface: Surface, patterns: Sequence[object]) -> list[URLPattern]:
    """The document of a surface and a page that shows it, as Development publishes them."""
    name = f"{surface.value}-openapi"

    def document(request: HttpRequest) -> HttpResponseBase:
        view = import_string("drf_spectacular.views.SpectacularJSONAPIView")
        answer: HttpResponseBase = view.as_view(patterns=patterns, custom_settings=document_settings(surface))(request)
        return answer

    def page(request: HttpRequest) -> HttpResponseBase:
        view = import_string("drf_spectacular.views.SpectacularSwaggerView")
        answer: HttpResponseBase = view.as_view(url_name=name)(request)
        return answer

    return [path(f"{surface.value}/openapi.json", document, name=name), path(f"{surface.value}/docs", page)]
