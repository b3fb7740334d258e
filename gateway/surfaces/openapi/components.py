"""Registers shapes as components of an OpenAPI document, with the problems and headers that operations share.

`operations` decides which of them an operation refers to.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from itertools import permutations
from typing import Any, get_args, get_origin

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import LiteralSchema

from core.shapes import Body, Json, Problem, Query
from gateway.surfaces.openapi.documents import HEADERS, PROBLEMS

_SCHEMA = "#/components/schemas/{model}"

COMMON_HEADERS = ("X-Request-Id", "RateLimit", "RateLimit-Policy")
"""Headers of every response."""


class _SchemaGenerator(GenerateJsonSchema):
    """Lists a single possible value as an `enum`: of `const` several generators make clients that do not compile."""

    def literal_schema(self, schema: LiteralSchema) -> JsonSchemaValue:
        made = super().literal_schema(schema)
        if "const" in made:
            made["enum"] = [made.pop("const")]
        return made


@cache
def _json_schema(shape: Any) -> Json:
    mode = "validation" if isinstance(shape, type) and issubclass(shape, BaseModel) else "serialization"
    schema: Json = TypeAdapter(shape).json_schema(
        ref_template=_SCHEMA,
        mode=mode,  # type: ignore[arg-type]
        by_alias=True,
        schema_generator=_SchemaGenerator,
    )
    return schema


class ComponentSchema(AutoSchema):
    """Registers the components that an operation's description refers to."""

    def refer(self, shape: Any) -> Json:
        """Register a shape with everything that it uses; return a reference to its component."""
        schema = dict(_json_schema(shape))
        for inner, definition in schema.pop("$defs", {}).items():
            self._register_schema(inner, definition)
        if "$ref" in schema or schema.get("type") != "object":
            cleaned: Json = _with_clean_references(schema)
            return cleaned
        name = _shape_name(shape)
        if isinstance(shape, type) and issubclass(shape, Body) and shape.forms:
            # Separate components: of `required` beside `oneOf` openapi-generator makes types that lose their members.
            forms = [self._refer_to_form(schema, form, shape.forms) for form in shape.forms]
            schema = {"description": schema["description"], "oneOf": forms}
        self._register_schema(name, {**schema, "title": name})
        return {"$ref": _SCHEMA.format(model=name)}

    def _refer_to_form(self, schema: Json, form: str, forms: Mapping[str, tuple[str, ...]]) -> Json:
        own, others = forms[form], {member for name, members in forms.items() if name != form for member in members}
        members = {name: dict(member) for name, member in schema["properties"].items() if name not in others}
        needed: Json = {"minProperties": 1}
        if len(own) == 1:
            needed = {"required": list(own)}
            members[own[0]] = _without_null(members[own[0]])
        examples = [example for example in schema["examples"] if example.keys() <= members.keys()]
        described = {**schema, **needed, "title": form, "properties": members, "examples": examples}
        del described["description"]
        self._register_schema(form, described)
        return {"$ref": _SCHEMA.format(model=form)}

    def refer_to_one_of(self, *shapes: Any) -> Json:
        """Register a component that is one of several shapes; return a reference to it.

        Clients take the first shape whose required members are all present, so the more specific one comes first. If
        each has a required member of its own, they exclude each other and become `oneOf`: some generators merge `anyOf`
        into a single type with all members, and their clients fail on the missing ones.
        """
        names = [_shape_name(shape) for shape in shapes]
        name = "Or".join(names)
        required = [set(_json_schema(shape).get("required", ())) for shape in shapes]
        exclude_each_other = all(own - others for own, others in permutations(required, 2))
        choices = [self.refer(shape) for shape in shapes]
        self._register_schema(name, {"title": name, "oneOf" if exclude_each_other else "anyOf": choices})
        return {"$ref": _SCHEMA.format(model=name)}

    def refer_to_words(self, name: str, words: list[str]) -> Json:
        """Register a component of a text that is one of these words; return a reference to it."""
        self._register_schema(name, {"title": name, "type": "string", "enum": words})
        return {"$ref": _SCHEMA.format(model=name)}

    def problem(self, status: str) -> Json:
        """Register the response of a problem; return a reference to it."""
        name, description, *headers = PROBLEMS[status]
        response = {
            "description": description,
            "headers": {header: self.header(header) for header in (*COMMON_HEADERS, *headers)},
            "content": {"application/problem+json": {"schema": self.refer(Problem)}},
        }
        return self._register(ResolvedComponent.RESPONSE, name, response)

    def problems(self, *statuses: str) -> Json:
        """References to the responses of these problems, by status."""
        return {status: self.problem(status) for status in statuses}

    def header(self, name: str) -> Json:
        """Register a response header; return a reference to it."""
        return self._register(ResolvedComponent.HEADER, name, HEADERS[name])

    def json_body(self, shape: Any, *, required: bool = True) -> Json:
        """A request body of this shape."""
        return {"required": required, "content": {"application/json": {"schema": self.refer(shape)}}}

    def json_response(self, description: str, shape: Any, *headers: str, or_else: Any = None) -> Json:
        """A response whose body has this shape, or the one of `or_else` if given."""
        schema = self.refer(shape) if or_else is None else self.refer_to_one_of(or_else, shape)
        content = {"application/json": {"schema": schema}}
        return {**self.empty_response(description, *headers), "content": content}

    def empty_response(self, description: str, *headers: str) -> Json:
        """A response without a body."""
        named = (*headers, *COMMON_HEADERS)
        return {"description": description, "headers": {header: self.header(header) for header in named}}

    def query_parameters(self, query: type[Query]) -> list[Json]:
        """The parameters of a query shape."""
        schema = dict(_json_schema(query))
        for name, definition in schema.pop("$defs", {}).items():
            self._register_schema(name, definition)
        found = []
        for name, definition in {**schema.get("properties", {}), **query.documented}.items():
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

    def _register_schema(self, name: str, schema: Json) -> None:
        self._register(ResolvedComponent.SCHEMA, _component_name(name), _with_clean_references(schema))

    def _register(self, kind: str, name: str, content: Json) -> Json:
        # The registry warns of two components with the same name, which makes `check_openapi` fail.
        identity = ComponentIdentity(json.dumps(content, sort_keys=True))
        component = ResolvedComponent(name=name, type=kind, object=identity, schema=content)
        self.registry.register_on_missing(component)
        return {"$ref": f"#/components/{kind}/{name}"}


def _shape_name(shape: Any) -> str:
    """The component's name: `Page[User]` becomes UserPage."""
    own: str = (get_origin(shape) or shape).__name__
    return "".join(_shape_name(item) for item in get_args(shape)) + own


def _without_null(member: Json) -> Json:
    """An optional member's schema as that of a required one."""
    choices = [choice for choice in member.get("anyOf", ()) if choice != {"type": "null"}]
    described = {name: value for name, value in member.items() if name not in ("anyOf", "default")}
    return {**described, **(choices[0] if choices else {})}


def _component_name(name: str) -> str:
    """Remove the brackets of a pydantic name such as `Page[User]`, which a component's name may not contain."""
    return re.sub(r"\W+", "", name)


def _with_clean_references(schema: Any) -> Any:
    """The schema with its references changed to the names of components."""
    if isinstance(schema, list):
        return [_with_clean_references(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _SCHEMA.format(model=_component_name(value.rsplit("/", 1)[1]))
        if key == "$ref"
        else _with_clean_references(value)
        for key, value in schema.items()
    }


def _query_type(definition: Json) -> Json:
    """The type of a parameter without null, which stands for an absent one and cannot be sent in a query."""
    schema = {key: value for key, value in definition.items() if key not in ("title", "description")}
    choices = [item for item in schema.pop("anyOf", []) if item.get("type") != "null"]
    if len(choices) == 1:
        schema |= choices[0]
    elif choices:
        schema["anyOf"] = choices
    if schema.get("default", 0) is None:
        del schema["default"]
    return schema
