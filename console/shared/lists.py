"""What the pages of long lists share. A page comes at once and its objects after it, by a request of their own:
a search of the whole of a large domain takes the domain controller longer than a page may take.
"""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponseBase

from console.page_context import PageContext
from core.errors import FieldError, GatewayError
from directory.errors import ObjectNotFound

PAGE_SIZES = ("25", "50", "100", "250", "500")
USUAL = {"sort": "name", "pageSize": "50", "scope": "subtree"}
"""The parameters of a search that whoever gives none gets."""
_PARAMETERS = ("q", "filter", "base", "scope", "sort", "attributes", "pageSize", "cursor")


def given_in(page: PageContext) -> dict[str, str]:
    """The parameters of a search, of those in the page's address."""
    return {name: page.query[name] for name in _PARAMETERS if name in page.query}


def wants_objects(page: PageContext) -> bool:
    """Whether the objects are asked for: by htmx, or (`now`) by a link for whom it does not run."""
    return page.is_partial or "now" in page.query


def find_fault(page: PageContext, operation: str, query: Mapping[str, str]) -> GatewayError | None:
    """What is wrong with a search that will be made: it is tried on its base alone.

    Raises GatewayError for what is not the parameters' fault.
    """
    tried = {name: value for name, value in query.items() if name != "cursor"}
    try:
        page.perform(operation, query={**tried, "scope": "base"})
    except GatewayError as refusal:
        if refusal.status not in (400, 404):
            raise
        if isinstance(refusal, ObjectNotFound):  # nothing else is named
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
    tried: str | None = None,
) -> HttpResponseBase:
    """The page of a list, or for htmx the part of it with its objects. Both are templates.

    The operation finds the objects, and `tried`, by default the same one, what is wrong with the parameters.
    """
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
    return page.render(template, {**shown, "problem": find_fault(page, tried or operation, query)})
