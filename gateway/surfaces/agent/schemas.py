"""What a tool takes and answers, as JSON Schema: made from the shapes of the operations that the caller may use.

Short, for an agent reads all of it before every conversation: what a validation would say anyway is left out.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from core.operation import Operation, find_operation
from gateway.surfaces.agent.tools import (
    PREVIEW,
    TOOLS,
    Behaviour,
    Tool,
    Way,
)

Schema = dict[str, Any]

_NOT_SAID: Final = frozenset(
    {"title", "examples", "default", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"}
)
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_REASON: Final = {**_TEXT, "description": "Why, for the person who approves it and for the log."}

_SAID_SHORTER: Final[Mapping[str, str]] = {
    "attribute": "Attributes to describe.",
    "attributes": "Attributes to show; `*` for all.",
    "base": "Where: id or distinguished name.",
    "cursor": "nextCursor of the page before.",
    "days": "For expiring, password-expiring and inactive.",
    "filter": "LDAP filter (RFC 4515).",
    "limit": "How many at most.",
    "q": "What a name or address begins with.",
    "replace": "Attributes with the values they shall have.",
    "sort": "An attribute; `-` before it: descending.",
    "state": "Accounts in this state.",
    "parent": "The container: id or distinguished name.",
    "name": "The name in its container.",
    "status": "Those in this state.",
    "accounts": "For an organization unit: objectGUIDs of accounts in it, at most 100; or choose by kinds and scope.",
    "generate": "Let the gateway make the new password.",
}


@lru_cache(maxsize=512)
def input_schema(name: str, ways: frozenset[Way], previewable: tuple[str, ...] = ()) -> Schema:
    """What a tool takes when it is used in these ways; `previewable` are the tools that `preview_change` may name."""
    tool = TOOLS[name]
    if name == PREVIEW:
        properties: Schema = {
            "tool": _one_of(previewable),
            "arguments": {"type": "object", "description": "Its arguments, without reason."},
        }
        return _object(properties, required=properties)
    ordered = [way for way in tool.serves if way in ways]
    members, needed = _members(tool, [find_operation(tool.serves[way]) for way in ordered])
    properties = {**_own_arguments(tool, ordered), **members}
    needed |= tool.needs
    return _object(properties, required=[name for name in properties if name in needed])


def _own_arguments(tool: Tool, ways: list[Way]) -> Schema:
    """What a tool takes besides the members of its operations' shapes."""
    kinds = list(dict.fromkeys(kind for kind, deed in ways if deed not in tool.includes))
    own: Schema = {}
    if len({kind for kind, _ in tool.serves}) > 1:
        own["kind"] = _one_of(kinds)
    if any("{id}" in find_operation(name).path for name in tool.serves.values()):
        own["id"] = {**_TEXT, "description": tool.identified_by}
    included = [deed for deed in _deeds(ways) if deed in tool.includes]
    offered: Schema = {
        "include": {"type": "array", "items": _one_of(included)},
        "action": _one_of(_deeds(ways)),
        "ifMatch": {**_TEXT, "description": "The version read; refused if it is another one by now."},
        "cancel": {"type": "boolean"},
    }
    own |= {name: schema for name, schema in offered.items() if name in tool.takes and (name != "include" or included)}
    if tool.changes_directory:
        own["reason"] = _REASON
    return own


def _one_of(words: Iterable[str]) -> Schema:
    return {**_TEXT, "enum": list(words)}


def _deeds(ways: Iterable[Way]) -> list[str]:
    return list(dict.fromkeys(deed for _, deed in ways))


def _members(tool: Tool, operations: list[Operation]) -> tuple[Schema, set[str]]:
    """The members of the operations' queries and bodies, and those that all of the operations need."""
    found: Schema = {}
    required: list[set[str]] = []
    for operation in operations:
        needed: set[str] = set()
        for shape in (operation.query, operation.body):
            described = _described(shape) if shape is not None else {}
            for name, schema in described.get("properties", {}).items():
                if name not in tool.hidden:
                    found.setdefault(tool.renamed.get(name, name), schema)
            needed |= set(described.get("required", ())) - tool.hidden
        required.append(needed)
    if tool.includes:  # what comes along is not asked for in detail
        of_the_answer = {"attributes"}
        found = {name: schema for name, schema in found.items() if name in of_the_answer}
    for name, schema in found.items():
        if name in _SAID_SHORTER:
            schema["description"] = _SAID_SHORTER[name]
    return found, set.intersection(*required) if required else set()


def _described(shape: type[BaseModel]) -> Schema:
    schema = shape.model_json_schema(by_alias=True)
    tidied: Schema = _tidy(schema, schema.get("$defs", {}))
    return tidied


def _tidy(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """The same schema in fewer words: references followed, "or null" left out."""
    if isinstance(schema, list):
        return [_tidy(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        definition = dict(definitions[schema["$ref"].rpartition("/")[2]])
        definition.pop("description", None)
        return _tidy({**definition, **{name: schema[name] for name in schema if name != "$ref"}}, definitions)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return _tidy({**choices[0], **rest}, definitions)
    tidied: Schema = {}
    for name, value in schema.items():
        if name == "properties":
            tidied[name] = {member: _tidy(each, definitions) for member, each in value.items()}
        elif name not in _NOT_SAID and name != "$defs" and value is not False:
            tidied[name] = _tidy(value, definitions)
    return tidied


def _object(properties: Schema, *, required: Iterable[str]) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    if required := list(required):
        schema["required"] = required
    return {**schema, "additionalProperties": False}


@lru_cache(maxsize=512)
def output_schema(name: str, ways: frozenset[Way]) -> Schema:
    """What a tool's structured content holds: the members of its operations' answers, and what this surface adds."""
    tool = TOOLS[name]
    if name == PREVIEW:
        return {
            "type": "object",
            "properties": {
                **{member: {"type": "boolean"} for member in ("dryRun", "wouldQueue")},
                "risk": _TEXT,
                "changes": {"type": "array"},
                "warnings": _TEXTS,
            },
        }
    properties: Schema = {}
    for way in (way for way in tool.serves if way in ways):
        if way[1] in tool.includes:
            properties.setdefault(way[1], {"type": "object"})
            continue
        for member, schema in _answered(find_operation(tool.serves[way])).items():
            properties.setdefault(member, schema)
    if tool.behaviour is Behaviour.READS:
        properties["leftOut"] = {"type": "object"}
    elif tool.changes_directory:
        properties["changeRequest"] = {"type": "object", "description": "Given when a person decides first."}
    return {"type": "object", "properties": properties}


def _answered(operation: Operation) -> Schema:
    """The members of an operation's answer, without what is inside them."""
    if operation.output is None:
        return {"done": {"type": "boolean"}}
    schema = TypeAdapter(operation.output).json_schema()
    definitions = schema.get("$defs", {})
    members = _followed(schema, definitions).get("properties", {})
    return {name: _outline(member, definitions) for name, member in members.items()}


def _outline(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    types = [_followed(choice, definitions).get("type", "object") for choice in schema.get("anyOf", [schema])]
    return {"type": types if len(types) > 1 else types[0]}


def _followed(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
