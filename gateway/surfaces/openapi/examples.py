"""Completes a document: a description for each member, an example for each parameter and answer.

Examples are made from the schemas, so that they fit them and no operation has to bring one of its own.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.errors import error_classes, problem_type
from core.shapes import Json
from gateway.surfaces.openapi.documents import PROBLEMS

_GUID = "7d2d8a0e-3c55-4f2f-9d7f-0d6a3c0a2f11"
_TIME = "2026-07-01T08:30:00Z"
_FORMATS = {"uuid": _GUID, "date-time": _TIME, "uri-reference": f"/api/ad/users/{_GUID}"}
_FOLDER = Path(__file__).parent
MEMBERS = tomllib.loads(_FOLDER.joinpath("member_descriptions.toml").read_text("utf-8"))
"""What members mean: by name, and below a shape's name where a name means something else in that shape."""
_DEEP = 12
"""How many levels an example has at most: a shape may contain itself."""
_VALUES = tomllib.loads(_FOLDER.joinpath("examples.toml").read_text("utf-8").replace("{id}", _GUID))
"""By the name of the member or parameter that they are an example of, where they are of its type."""
_TYPES = {"string": str, "boolean": bool, "integer": int, "number": int}


def complete(result: Json, **__: Any) -> Json:
    """Complete a document (drf-spectacular's setting POSTPROCESSING_HOOKS)."""
    components = result["components"]
    schemas = components["schemas"]
    for shape, schema in schemas.items():
        for name, member in schema.get("properties", {}).items():
            member.setdefault("description", MEMBERS.get(shape, MEMBERS).get(name, MEMBERS.get(name, "")))
    examples = components.setdefault("examples", {})
    for answer in _answers(result):
        for kind, content in answer.get("content", {}).items():
            _add_examples(kind, content, schemas, examples)
    for status, (name, *_) in PROBLEMS.items():
        if name in components["responses"]:
            [content] = components["responses"][name]["content"].values()
            content["examples"] = {name: {"value": _example_of_problem(int(status), schemas)}}
    for operation in _operations(result):
        for parameter in operation.get("parameters", ()):
            parameter.setdefault("description", MEMBERS.get(parameter["name"], ""))
            parameter["example"] = example_of(parameter["schema"], schemas, parameter["name"])
    return result


def example_of(schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str = "", deep: int = 0) -> Any:
    """A value that fits the schema, of which `name` is the member or parameter."""
    if "$ref" in schema:
        shape = schema["$ref"].rsplit("/", 1)[1]
        return example_of(schemas[shape], schemas, name, deep)
    if schema.get("default"):
        return schema["default"]
    for several in ("examples", "enum"):
        if schema.get(several):
            return schema[several][0]
    choices = [choice for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) if choice != {"type": "null"}]
    if choices:
        return example_of(choices[0], schemas, name, deep)
    return _example_of_type(schema, schemas, name, deep)


def _example_of_type(schema: Mapping[str, Any], schemas: Mapping[str, Any], name: str, deep: int) -> Any:
    type_ = schema.get("type", "string")
    if "format" not in schema and type(_VALUES.get(name)) is _TYPES.get(type_):
        return _VALUES[name]
    match type_:
        case "object":
            members = {} if deep > _DEEP else schema.get("properties", {})
            made = {member: example_of(shape, schemas, member, deep + 1) for member, shape in members.items()}
            others = schema.get("additionalProperties")
            key = example_of(schema.get("propertyNames", {"enum": ["title"]}), schemas)
            return {key: example_of(others, schemas, "after", deep + 1)} if others and not made else made
        case "array":
            return [] if deep > _DEEP else [example_of(schema["items"], schemas, name, deep + 1)]
        case "boolean":
            return False
        case "integer" | "number":
            return max(schema.get("minimum", 1), 1)
    return _FORMATS.get(schema.get("format", ""), "…")


def _operations(result: Json) -> Iterator[Json]:
    for methods in (*result["paths"].values(), *result.get("webhooks", {}).values()):
        yield from methods.values()


def _answers(result: Json) -> Iterator[Json]:
    for operation in _operations(result):
        yield from operation["responses"].values()


def _add_examples(kind: str, content: Json, schemas: Mapping[str, Any], examples: Json) -> None:
    """Give an answer its examples, which those of the same shape share: one for each of the shapes that it may have."""
    schema = content["schema"]
    if "$ref" not in schema:
        is_table = kind == "text/csv"
        content["example"] = f"id,name\r\n{_GUID},Ada Lovelace\r\n" if is_table else example_of(schema, schemas)
        return
    whole = schemas[schema["$ref"].rsplit("/", 1)[1]]
    content["examples"] = {}
    for choice in whole.get("oneOf", whole.get("anyOf", [schema])):
        shape = choice["$ref"].rsplit("/", 1)[1]
        examples.setdefault(shape, {"value": example_of(choice, schemas)})
        content["examples"][shape] = {"$ref": f"#/components/examples/{shape}"}


def _example_of_problem(status: int, schemas: Mapping[str, Any]) -> Json:
    error = min((error for error in error_classes() if error.status == status), key=lambda error: error.code)
    told = {"type": problem_type(error.code), "title": error.title, "detail": error.title, "code": error.code}
    whole = {**example_of(schemas["Problem"], schemas), **told, "status": status}
    return {name: whole[name] for name in schemas["Problem"]["required"]}
