"""The attributes of the directory's schema, for clients that show values or have forms for them."""

from pydantic import Field
from typing_extensions import TypedDict

from active_directory import ValueType, value_type
from core.call import Call
from core.operation import Target, operation
from core.paging import Page
from core.shapes import CommaList, Query, as_record
from directory.lookup.access import client_of
from directory.lookup.visibility import may_see_confidential
from directory.shapes.kinds import kind_of
from directory.shapes.modifications import unwritable_reason
from directory.shapes.record import readable_name, unreadable_reason
from directory.shapes.wording.labels import LABELS


class SchemaQuery(Query):
    """Which attributes to describe; the parameters narrow each other down."""

    names: CommaList | None = Field(None, description="Attributes, with commas; default all.")
    classes: CommaList | None = Field(None, description="Only what objects of these classes, with commas, may have.")
    q: str | None = Field(
        None, min_length=1, max_length=256, description="What the name holds, or what people call the attribute."
    )


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
)
def list_attributes(call: Call, *, query: SchemaQuery) -> Page[AttributeDescription]:
    """List the attributes of the directory's schema that you may read, by name, all in one page."""
    schema, confidential = client_of(call).schema, may_see_confidential(call)
    names = {
        attribute.name
        for attribute in schema.attributes.values()
        if unreadable_reason(attribute.name, attribute, confidential=confidential) is None
    }
    if query.names is not None:
        names &= {readable_name(schema, name, parameter="names", confidential=confidential) for name in query.names}
    if query.classes is not None:
        allowed = schema.allowed_attributes(query.classes)
        names = {name for name in names if name.lower() in allowed}
    if query.q is not None:
        part = query.q.casefold()
        names = {name for name in names if part in name.casefold() or part in LABELS.get(name, "").casefold()}
    kind = kind_of(query.classes or ())
    items = [
        as_record(
            AttributeDescription,
            attribute,
            type=value_type(attribute),
            writable=unwritable_reason(attribute, kind) is None,
        )
        for attribute in (schema.attributes[name.lower()] for name in sorted(names, key=str.lower))
    ]
    return {"items": items, "nextCursor": None, "total": len(items), "truncated": False}
