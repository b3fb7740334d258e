"""Pages of long lists. The page comes at once and fetches its objects by a second request: a domain controller may
take longer to search a large domain than a page may take.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.http import HttpResponseBase
from django.utils.http import content_disposition_header

from console.page_context import PageContext, View, page_at
from core.call import StreamFormat
from core.errors import FieldError, GatewayError
from core.operation import find_operation
from directory.errors import ObjectNotFound
from gateway.surfaces.rendering import Columns, stream_response

PAGE_SIZES = ("25", "50", "100", "250", "500")
DEFAULT_QUERY = {"sort": "name", "pageSize": "50", "scope": "subtree"}
"""The default parameters of a search."""
_PARAMETERS = ("q", "filter", "base", "scope", "sort", "attributes", "pageSize", "cursor")


def search_parameters(page: PageContext) -> dict[str, str]:
    """The search parameters in the page's address."""
    return page.query_of(*_PARAMETERS)


def wants_objects(page: PageContext) -> bool:
    """Whether the request is for the objects: from htmx, or by the `now` link for browsers without scripts."""
    return page.is_partial or "now" in page.query


def find_search_error(page: PageContext, operation: str, query: Mapping[str, str]) -> GatewayError | None:
    """What is wrong with the parameters of a search, found by a base search, which is cheap; None if nothing is.

    Raises GatewayError if the refusal is not about the parameters.
    """
    tried = {name: value for name, value in query.items() if name != "cursor"}
    try:
        page.perform(operation, query={**tried, "scope": "base"})
    except GatewayError as refusal:
        if refusal.status not in (400, 404):
            raise
        if isinstance(refusal, ObjectNotFound):  # the base is the only object that a search names
            refusal.errors = (FieldError(refusal.code, refusal.detail, parameter="base"),)
        return refusal
    return None


def render_list(
    page: PageContext,
    template: str,
    part: str,
    context: Mapping[str, Any],
    *,
    operation: str,
    query: Mapping[str, str],
    checked_by: str | None = None,
    file_format: str = "",
    file_name: str = "",
) -> HttpResponseBase:
    """Render a list: the page, or for htmx the part with its objects; or download it as a file (`file_format`).

    `operation` searches for the objects. `checked_by`, by default the same operation, checks the parameters. A download
    has the default attributes of the operation.
    """
    if file_format:
        whole = {name: value for name, value in query.items() if name != "attributes"}
        return download(page, operation, file_format, file_name=file_name, query=whole)
    shown = {
        **context,
        "page_sizes": PAGE_SIZES,
        "page_size": query["pageSize"],
        "sort": query["sort"],
        "part": f"console/{part}",
    }
    if wants_objects(page):
        found = page.perform(operation, query=query)
        return page.render(part if page.is_partial else template, {**shown, "found": found})
    return page.render(template, {**shown, "problem": find_search_error(page, checked_by or operation, query)})


FILE_FORMATS = {"csv": StreamFormat.CSV, "ndjson": StreamFormat.NDJSON}
"""By file extension."""
_PAGING = ("pageSize", "cursor")


def download(
    page: PageContext,
    operation: str,
    file_format: str,
    *,
    file_name: str,
    query: Mapping[str, str],
    cells: Columns | None = None,
    **arguments: Any,
) -> HttpResponseBase:
    """All records of a list, whichever page the query asks for, as a file `{file_name}.csv` or `.ndjson`.

    `cells` are columns of the CSV that people read in words, where programs get JSON. Raises GatewayError before the
    first byte; the last line of the file tells of a later failure.
    """
    whole = replace(page, call=replace(page.call, stream_as=FILE_FORMATS[file_format]))
    wanted = {name: value for name, value in query.items() if name not in _PAGING}
    stream = whole.perform(operation, query=wanted, **arguments)
    response = stream_response(find_operation(operation), page.request, stream, cells=cells)
    response["Content-Disposition"] = content_disposition_header(
        as_attachment=True, filename=f"{file_name}.{file_format}"
    )
    return response


def downloads_at(route: str, name: str, **declared: Any) -> Callable[[View], View]:
    """Register a page at its list's files, too (`{route}.csv`); it gets the extension as `file_format`."""

    def decorate(function: View) -> View:
        for extension in FILE_FORMATS:
            page_at(f"{route}.{extension}", f"{name}-{extension}", fixed={"file_format": extension}, **declared)(
                function
            )
        return function

    return decorate
