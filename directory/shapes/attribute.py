"""The record of an attribute of the directory's schema: what its values are and how it can be searched."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from directory.ldap import FILETIME_ATTRIBUTES, GUID_ATTRIBUTES, AttributeType, Syntax

ValueSyntax = Literal["text", "distinguishedName", "boolean", "integer", "time", "fileTime", "guid", "sid", "octets"]

_SYNTAXES: dict[Syntax, ValueSyntax] = {
    Syntax.DN: "distinguishedName",
    Syntax.BOOLEAN: "boolean",
    Syntax.INTEGER: "integer",
    Syntax.LARGE_INTEGER: "integer",
    Syntax.TIME: "time",
    Syntax.SID: "sid",
    Syntax.OCTET_STRING: "octets",
    Syntax.SECURITY_DESCRIPTOR: "octets",
}


class SchemaAttribute(TypedDict):
    """An attribute of the schema. `computed` ones can be read, but nothing can be found or changed by them."""

    name: str
    syntax: Annotated[
        ValueSyntax,
        Field(description="What a value is. `fileTime` is a time that filters name in steps of 100 ns since 1601."),
    ]
    singleValued: bool
    indexed: Annotated[bool, Field(description="Whether searches for equality and beginnings are quick.")]
    computed: bool
    systemOnly: Annotated[bool, Field(description="Whether the directory alone writes it.")]


def render_attribute(attribute: AttributeType) -> SchemaAttribute:
    return {
        "name": attribute.name,
        "syntax": _syntax_of(attribute),
        "singleValued": attribute.single_valued,
        "indexed": attribute.indexed,
        "computed": attribute.constructed,
        "systemOnly": attribute.system_only or attribute.constructed or attribute.back_link,
    }


def _syntax_of(attribute: AttributeType) -> ValueSyntax:
    name = attribute.name.lower()
    if attribute.syntax is Syntax.LARGE_INTEGER and name in FILETIME_ATTRIBUTES:
        return "fileTime"
    if attribute.syntax is Syntax.OCTET_STRING and name in GUID_ATTRIBUTES:
        return "guid"
    return _SYNTAXES.get(attribute.syntax, "text")
