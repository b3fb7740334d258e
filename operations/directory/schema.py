"""What the directory's schema says of its attributes, for those who show values or let people fill them in."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from active_directory import AttributeType, ValueType, value_type
from core.call import Call
from core.operation import Target, operation
from core.paging import Page
from core.shapes import CommaList, Query
from directory.lookup.access import client_of
from directory.lookup.visibility import may_see_confidential
from directory.shapes.kinds import Kind, kind_of
from directory.shapes.modifications import refuse_writing
from directory.shapes.record import readable_name, why_unreadable


class SchemaQuery(Query):
    """Which attributes to describe; both parameters narrow each other down."""

    names: Annotated[CommaList | None, Field(description="Attributes, with commas; default all.")] = None
    classes: Annotated[
        CommaList | None, Field(description="Only what objects of these classes, with commas, may have.")
    ] = None


class AttributeDescription(TypedDict):
    """An attribute of the schema. `writable` tells whether the updates of a change may name it.

    `type` is what the text of its values stands for: `text`, `integer`, `boolean`, `time`, `binary` (base64),
    `distinguishedName`, `sid` or `guid`.
    """

    name: str
    type: ValueType
    singleValued: bool
    writable: bool


@operation(
    "schema.list-attributes",
    "GET ad/schema/attributes",
    "List the attributes of the schema",
    permission="directory.read_object",
    target=Target.DIRECTORY,
    query=SchemaQuery,
    output=Page[AttributeDescription],
)
def list_attributes(call: Call, *, query: SchemaQuery) -> Page[AttributeDescription]:
    """List the attributes of the directory's schema that you may read, by name, all in one page."""
    schema, confidential = client_of(call).schema, may_see_confidential(call)
    names = {
        attribute.name
        for attribute in schema.attributes.values()
        if why_unreadable(attribute.name, attribute, confidential=confidential) is None
    }
    if query.names is not None:
        names &= {readable_name(schema, name, parameter="names", confidential=confidential) for name in query.names}
    if query.classes is not None:
        allowed = schema.allowed_attributes(query.classes)
        names = {name for name in names if name.lower() in allowed}
    kind = kind_of(query.classes or ())
    items = [_description(schema.attributes[name.lower()], kind) for name in sorted(names, key=str.lower)]
    return {"items": items, "nextCursor": None, "total": len(items), "truncated": False}


def _description(attribute: AttributeType, kind: Kind) -> AttributeDescription:
    return {
        "name": attribute.name,
        "type": value_type(attribute),
        "singleValued": attribute.single_valued,
        "writable": refuse_writing(attribute, kind) is None,
    }
