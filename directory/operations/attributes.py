"""The list of the schema's attributes, for those who choose what to read, search or change."""

from typing import Annotated

from pydantic import Field

from directory.access import client_of
from directory.ldap.codecs import is_credential
from directory.shapes.attribute import SchemaAttribute, render_attribute
from gateway.core.call import Call
from gateway.core.operation import operation
from gateway.core.paging import Page, PageQuery, open_cursor, seal_cursor
from gateway.core.shapes import CommaList


class AttributeQuery(PageQuery):
    q: Annotated[str | None, Field(min_length=1, max_length=256, description="What a name contains.")] = None
    names: Annotated[CommaList | None, Field(description="Names, with commas; unknown ones are left out.")] = None


@operation(
    "attributes.search",
    "GET ad/attributes",
    permission="directory.read_object",
    query=AttributeQuery,
    output=Page[SchemaAttribute],
)
def search_attributes(call: Call, *, query: AttributeQuery) -> Page[SchemaAttribute]:
    """List the attributes that the directory's schema knows, those that begin with the text sought first.

    Attributes that hold secrets, which can never be read, are not among them.
    """
    wanted = (query.q or "").lower()
    names = None if query.names is None else {name.lower() for name in query.names}
    schema = client_of(call).schema
    found = [
        attribute
        for name, attribute in schema.attributes.items()
        if wanted in name and (names is None or name in names) and not is_credential(name)
    ]
    found.sort(key=lambda attribute: (not attribute.name.lower().startswith(wanted), attribute.name.lower()))
    start: int = 0 if query.cursor is None else open_cursor(call, query, query.cursor, bound_to="attributes")
    end = start + query.page_size
    return {
        "items": [render_attribute(attribute) for attribute in found[start:end]],
        "nextCursor": seal_cursor(call, query, end, bound_to="attributes") if end < len(found) else None,
        "total": len(found),
        "truncated": False,
    }
