"""Whole lists to take away, as CSV or NDJSON, written as they come by the writers of the other surfaces' streams."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.http import HttpResponseBase
from django.urls import URLPattern, path
from django.utils.http import content_disposition_header

from console.page_context import PageContext
from core.operation import find_operation
from core.streams import StreamFormat
from gateway.surfaces.streams import stream_response

FORMATS = {"csv": StreamFormat.CSV, "ndjson": StreamFormat.NDJSON}
"""By the ending of the file's name."""
_OF_PAGES = ("pageSize", "cursor")


def download(
    page: PageContext, operation: str, form: str, *, called: str, query: Mapping[str, str], **arguments: Any
) -> HttpResponseBase:
    """All records of a list, whatever page of it the query asks for, as the file `called`.csv or .ndjson.

    Raises GatewayError as long as nothing was written; what breaks it later is told by its last line.
    """
    whole = replace(page, call=replace(page.call, stream_as=FORMATS[form]))
    wanted = {name: value for name, value in query.items() if name not in _OF_PAGES}
    stream = whole.perform(operation, query=wanted, **arguments)
    response = stream_response(find_operation(operation), page.request, stream)
    response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=f"{called}.{form}")
    return response


def download_paths(route: str, view: Callable[..., HttpResponseBase], name: str) -> list[URLPattern]:
    """The addresses of a list's files, which end as the files do; the view takes the ending as `form`."""
    return [path(f"{route}.{form}", view, {"form": form}, name=f"{name}-{form}") for form in FORMATS]
