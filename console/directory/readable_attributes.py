"""Which attributes a person may read, for pages that ask for several: some may be marked confidential."""

from collections.abc import Iterable

from console.page_context import PageContext


def readable_among(page: PageContext, names: Iterable[str]) -> list[str]:
    """Those of the attributes that the person may read. To be asked once a read was refused for one of them."""
    known = {item["name"].lower() for item in page.perform("schema.list-attributes")["items"]}
    return [name for name in names if name.lower() in known]
