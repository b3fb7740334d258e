"""What turns shapes into components of the document under construction. What an operation uses, `operations` says."""

import json
import re
from functools import cache
from itertools import permutations
from typing import Any, get_args, get_origin

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent
from pydantic import BaseModel, TypeAdapter

from core.shapes import Problem
from gateway.surfaces.openapi.responses import ALWAYS, HEADERS, PROBLEMS

_SCHEMA = "#/components/schemas/{model}"


@cache
def _json_schema(shape: Any) -> dict[str, Any]:
    mode = "validation" if isinstance(shape, type) and issubclass(shape, BaseModel) else "serialization"
    schema: dict[str, Any] = TypeAdapter(shape).json_schema(ref_template=_SCHEMA, mode=mode, by_alias=True)  # type: ignore[arg-type]
    return schema


class Described(AutoSchema):
    """Registers the components that an operation's description refers to."""

    def refer(self, shape: Any) -> dict[str, Any]:
        """A reference to the component of a shape, which is registered with everything it uses."""
        schema = dict(_json_schema(shape))
        for inner, definition in schema.pop("$defs", {}).items():
            self._register_schema(inner, definition)
        if "$ref" in schema or schema.get("type") != "object":
            return _with_clean_references(schema)
        name = _shape_name(shape)
        self._register_schema(name, {**schema, "title": name})
        return {"$ref": _SCHEMA.format(model=name)}

    def refer_to_one_of(self, *shapes: Any) -> dict[str, Any]:
        """A reference to a component that is one of several shapes.

        Readers take the first whose members are all there, so the one that has a member of its own stands first.
        Where each has one, no answer is two of them, and the document says so: of `anyOf` some generators make a
        single type with all members, and their clients stumble over those that are not there.
        """
        names = [_shape_name(shape) for shape in shapes]
        name = "Or".join(names)
        required = [set(_json_schema(shape).get("required", ())) for shape in shapes]
        exclude_each_other = all(own - others for own, others in permutations(required, 2))
        choices = [self.refer(shape) for shape in shapes]
        self._register_schema(name, {"title": name, "oneOf" if exclude_each_other else "anyOf": choices})
        return {"$ref": _SCHEMA.format(model=name)}

    def problem(self, status: str) -> dict[str, Any]:
        """A reference to the response of a refusal."""
        name, description, headers = PROBLEMS[status]
        response = {
            "description": description,
            "headers": {header: self.header(header) for header in (*ALWAYS, *headers)},
            "content": {"application/problem+json": {"schema": self.refer(Problem)}},
        }
        return self._register(ResolvedComponent.RESPONSE, name, response)

    def problems(self, *statuses: str) -> dict[str, Any]:
        """The refusals with these statuses."""
        return {status: self.problem(status) for status in statuses}

    def header(self, name: str) -> dict[str, Any]:
        """A reference to the description of a response header."""
        return self._register(ResolvedComponent.HEADER, name, HEADERS[name])

    def json_response(self, description: str, shape: Any, *headers: str, or_else: Any = None) -> dict[str, Any]:
        """A response whose body has this shape, or the other one if there is one."""
        schema = self.refer(shape) if or_else is None else self.refer_to_one_of(or_else, shape)
        content = {"application/json": {"schema": schema}}
        return {**self.empty_response(description, *headers), "content": content}

    def empty_response(self, description: str, *headers: str) -> dict[str, Any]:
        """A response without a body."""
        named = (*headers, *ALWAYS)
        return {"description": description, "headers": {header: self.header(header) for header in named}}

    def query_parameters(self, query: type[BaseModel]) -> list[dict[str, Any]]:
        """The parameters of a query shape."""
        schema = dict(_json_schema(query))
        for name, definition in schema.pop("$defs", {}).items():
            self._register_schema(name, definition)
        found = []
        for name, definition in schema.get("properties", {}).items():
            parameter = {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", []),
                "schema": _with_clean_references(_query_type(definition)),
            }
            if parameter["schema"].get("type") == "array":
                parameter |= {"style": "form", "explode": True}
            if "description" in definition:
                parameter["description"] = definition["description"]
            found.append(parameter)
        return found

    def _register_schema(self, name: str, schema: dict[str, Any]) -> None:
        self._register(ResolvedComponent.SCHEMA, _component_name(name), _with_clean_references(schema))

    def _register(self, kind: str, name: str, content: dict[str, Any]) -> dict[str, Any]:
        # Two components of one name are an error of the document: the registry warns, and the check fails.
        identity = ComponentIdentity(json.dumps(content, sort_keys=True))
        component = ResolvedComponent(name=name, type=kind, object=identity, schema=content)
        self.registry.register_on_missing(component)
        return {"$ref": f"#/components/{kind}/{name}"}


def _shape_name(shape: Any) -> str:
    """`Page[User]` is called UserPage."""
    own: str = (get_origin(shape) or shape).__name__
    return "".join(_shape_name(item) for item in get_args(shape)) + own


def _component_name(name: str) -> str:
    """Generic shapes are called `Page[Thing]` by pydantic; a component's name has no brackets."""
    return re.sub(r"\W+", "", name)


def _with_clean_references(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with references that follow the components' names."""
    cleaned: dict[str, Any] = _clean(schema)
    return cleaned


def _clean(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _SCHEMA.format(model=_component_name(value.rsplit("/", 1)[1])) if key == "$ref" else _clean(value)
            for key, value in schema.items()
        }
    return [_clean(item) for item in schema] if isinstance(schema, list) else schema


def _query_type(definition: dict[str, Any]) -> dict[str, Any]:
    """An absent parameter is null inside; nobody can send null in a query."""
    schema = {key: value for key, value in definition.items() if key not in ("title", "description")}
    choices = [item for item in schema.pop("anyOf", []) if item.get("type") != "null"]
    if len(choices) == 1:
        schema |= choices[0]
    elif choices:
        schema["anyOf"] = choices
    if schema.get("default", 0) is None:
        del schema["default"]
    return schema
