"""JSON Schemas of the tools' arguments and results, made from the shapes of the operations that the caller may use.

They are short, since an agent reads all of them before every conversation: limits that validation reports are left out.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from core.operation import Operation, find_operation
from core.shapes import Json
from directory.shapes.record import DirectoryObject
from gateway.pipeline.schedules import SCHEDULE
from gateway.surfaces.agent.matching import MATCHING, SEARCHED_BY
from gateway.surfaces.agent.tools import PLAN, PREVIEW, SENTENCES, TOOLS, UNDO, Behaviour, Tool, Way

_OMITTED_KEYWORDS = frozenset(
    "$defs title examples default pattern minLength maxLength minItems maxItems minimum maximum".split()
)
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_REASON = {**_TEXT, "description": "Why, for the approver and the log."}

_BY = ", ".join(SEARCHED_BY)


@lru_cache(maxsize=512)
def input_schema(
    name: str, ways: frozenset[Way], previewable: tuple[str, ...] = (), *, may_search: bool = True
) -> Json:
    """The arguments of a tool used in these ways. `previewable` are the tools that `preview_change` may name."""
    tool = TOOLS[name]
    if name == PREVIEW:
        properties: Json = {
            "tool": _one_of(previewable),
            "arguments": {"type": "object", "description": "Its arguments, without reason."},
        }
        return _object(properties, required=properties)
    if name == PLAN:
        change: Json = {
            "tool": _TEXT,
            "arguments": {"type": "object"},
            "ids": {**_TEXTS, "description": "Several, in place of id."},
        }
        changes = {
            "type": "array",
            "items": _object(change, required=["tool", "arguments"]),
            "description": "At most 100, each as for preview_change.",
        }
        digest = {**_TEXT, "description": "Of the plan."}
        return _object({"changes": changes, "digest": digest, "reason": _REASON}, required=["changes"])
    ordered = [way for way in tool.serves if way in ways]
    members, required_names = _members(tool, [find_operation(tool.serves[way]) for way in ordered])
    properties = {**_tool_arguments(tool, ordered), **members}
    if not may_search:
        properties = {name: schema for name, schema in properties.items() if name not in MATCHING}
    required_names |= tool.needs
    return _object(properties, required=[name for name in properties if name in required_names])


def _tool_arguments(tool: Tool, ways: list[Way]) -> Json:
    """The arguments that are the tool's own, not members of its operations' shapes."""
    kinds = list(dict.fromkeys(kind for kind, action in ways if action not in tool.includes))
    own: Json = {}
    if len({kind for kind, _ in tool.serves}) > 1:
        own["kind"] = _one_of(kinds)
    if UNDO not in tool.takes and any("{id}" in find_operation(name).path for name in tool.serves.values()):
        own["id"] = {**_TEXT, "description": tool.identified_by}
    included = [action for action in _actions(ways) if action in tool.includes]
    available: Json = {
        "include": {"type": "array", "items": _one_of(included)},
        "action": _one_of(_actions(ways)),
        "ifMatch": {**_TEXT, "description": "The version read."},
        "fields": {**_TEXTS, "description": "Members of each record to show."},
        "cancel": {"type": "boolean"},
        "run": {**_TEXT, "description": "A runId."},
        "cursor": {**_TEXT, "description": "nextCursor of the page before."},
        **{name: {"type": "object", "description": f"To {way} what {_BY} find."} for name, way in MATCHING.items()},
        UNDO: {**_TEXTS, "description": "Ids of changes in this list, at most 50."},
        **{to_camel(name): _TEXT for name in SCHEDULE},
    }
    if not included:
        del available["include"]
        if tool.includes:
            del available["cursor"]
    if UNDO not in _actions(ways):
        del available[UNDO]
    own |= {name: schema for name, schema in available.items() if name in tool.takes}
    if tool.changes_directory:
        own["reason"] = _REASON
    return own


def _one_of(words: Iterable[str]) -> Json:
    return {**_TEXT, "enum": list(words)}


def _actions(ways: Iterable[Way]) -> list[str]:
    return list(dict.fromkeys(action for _, action in ways))


def _members(tool: Tool, operations: list[Operation]) -> tuple[Json, set[str]]:
    """The members of the operations' queries and bodies, and the names of those that all operations require."""
    found: Json = {}
    required: list[set[str]] = []
    for operation in operations:
        required_names: set[str] = set()
        for shape in (operation.query, operation.body):
            schema = {} if shape is None else shape.model_json_schema(by_alias=True)
            described = _simplified(schema, schema.get("$defs", {}))
            for name, member in described.get("properties", {}).items():
                if name not in tool.hidden:
                    found.setdefault(tool.renamed.get(name, name), member)
            required_names |= set(described.get("required", ())) - tool.hidden
        required.append(required_names)
    if tool.includes:  # included reads take no parameters of their own
        found = {name: member for name, member in found.items() if name == "attributes"}
    for name in found.keys() & tool.named:
        found[name] = {**_TEXTS, "description": "Each named as id is; at most 1000."}
    for name, description in SENTENCES["arguments"].items():
        if name in found:
            found[name]["description"] = description
    return found, set.intersection(*required) if required else set()


def _simplified(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """The same schema, shorter: with references resolved, and without omitted keywords and "or null"."""
    if isinstance(schema, list):
        return [_simplified(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return _simplified({**_resolved(schema, definitions), "description": None, **rest}, definitions)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        return _simplified({**choices[0], **rest}, definitions)
    simplified: Json = {}
    for name, value in schema.items():
        if name == "properties":
            simplified[name] = {member: _simplified(each, definitions) for member, each in value.items()}
        elif name not in _OMITTED_KEYWORDS and value is not None and value is not False:
            simplified[name] = _simplified(value, definitions)
    return simplified


def _object(properties: Json, *, required: Iterable[str]) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    if required := list(required):
        schema["required"] = required
    return {**schema, "additionalProperties": False}


@lru_cache(maxsize=512)
def output_schema(name: str, ways: frozenset[Way]) -> Json:
    """The members of a tool's structured content: its operations' answers, and what this surface adds.

    Of the record that a change answers it has only the id: read_object says what records are like.
    """
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
    if name == PLAN:
        return {"type": "object"}
    properties: Json = {}
    for way in (way for way in tool.serves if way in ways):
        if way[1] in tool.includes:
            properties.setdefault(way[1], {"type": "object"})
            continue
        if way[1] == UNDO:  # a batch
            properties = {"results": {"type": "array"}, **properties}
            continue
        for member, schema in _answer_members(find_operation(tool.serves[way])).items():
            if not tool.changes_directory or member == "id" or member not in DirectoryObject.__annotations__:
                properties.setdefault(member, schema)
    if tool.behaviour is Behaviour.READS:
        properties["leftOut"] = {"type": "object"}
    elif tool.changes_directory and UNDO not in tool.takes:
        properties["changeRequest"] = {"type": "object"}
    return {"type": "object", "properties": properties}


def _answer_members(operation: Operation) -> Json:
    """The members that an operation's answer always has, only with their types."""
    if operation.output is None:
        return {"done": {"type": "boolean"}}
    schema = TypeAdapter(operation.output).json_schema()
    definitions = schema.get("$defs", {})
    answer = _resolved(schema, definitions)
    members = {name: answer["properties"][name] for name in answer.get("required", ())}
    return {name: _type_only(member, definitions) for name, member in members.items()}


def _type_only(schema: Json, definitions: Mapping[str, Json]) -> Json:
    """Without null, which no result has."""
    types = [_resolved(choice, definitions).get("type", "object") for choice in schema.get("anyOf", [schema])]
    types = [each for each in types if each != "null"]
    return {"type": types if len(types) > 1 else types[0]}


def _resolved(schema: Json, definitions: Mapping[str, Json]) -> Json:
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
