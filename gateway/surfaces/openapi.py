"""The OpenAPI documents: each operation described from its record, by drf-spectacular's generator.

Shapes describe themselves through pydantic; nothing is written twice. One document per surface, Development only.
"""

import json
import re
from functools import cache
from inspect import cleandoc
from typing import Any, get_args, get_origin

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentIdentity, ResolvedComponent
from pydantic import BaseModel, TypeAdapter
from typing_extensions import NotRequired, TypedDict

from audit.redact import ChangeJson
from directory.runs import RunResult
from gateway.core.call import Surface
from gateway.core.operation import SIGNED_IN, Effect, Operation
from gateway.core.paging import Page, PageQuery
from gateway.surfaces.streams import record_shape

REF = "#/components/schemas/{model}"


class ProblemField(TypedDict):
    pointer: NotRequired[str]
    parameter: NotRequired[str]
    code: str
    detail: str


class Problem(TypedDict):
    """RFC 9457 problem details. Some codes add members, such as `maxBodyBytes`."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    requestId: str
    errors: NotRequired[list[ProblemField]]


class DryRun(TypedDict):
    """What a change would do. Nothing was changed and nothing queued."""

    dryRun: bool
    wouldQueue: bool
    risk: str
    changes: list[ChangeJson]
    warnings: list[str]


class QueuedTarget(TypedDict):
    id: str | None
    distinguishedName: str


class QueuedChange(TypedDict):
    id: str
    status: str
    operation: str
    risk: str
    target: QueuedTarget
    createdAt: str
    expiresAt: str


class Queued(TypedDict):
    """The change waits for a person's approval."""

    changeRequest: QueuedChange


@cache
def _json_schema(shape: Any) -> dict[str, Any]:
    mode = "validation" if isinstance(shape, type) and issubclass(shape, BaseModel) else "serialization"
    return TypeAdapter(shape).json_schema(ref_template=REF, mode=mode, by_alias=True)  # type: ignore[arg-type]


class _Described(AutoSchema):
    """Turns shapes into components of the document under construction."""

    def refer(self, shape: Any) -> dict[str, Any]:
        """A reference to the component of a shape, which is registered with everything it uses."""
        schema = dict(_json_schema(shape))
        for inner, definition in schema.pop("$defs", {}).items():
            self._register(inner, definition)
        if "$ref" in schema:
            return schema
        if schema.get("type") != "object":
            return schema
        name = _shape_name(shape)
        self._register(name, {**schema, "title": name})
        return {"$ref": REF.format(model=name)}

    def _register(self, name: str, schema: dict[str, Any]) -> None:
        # Generic shapes are called Page[Thing] by pydantic; a component's name has no brackets.
        cleaned = _clean(schema)
        # Two shapes of one name are an error of the document: the registry warns, and the check fails.
        identity = ComponentIdentity(json.dumps(cleaned, sort_keys=True))
        component = ResolvedComponent(
            name=_component_name(name), type=ResolvedComponent.SCHEMA, object=identity, schema=cleaned
        )
        self.registry.register_on_missing(component)

    def problem(self, description: str) -> dict[str, Any]:
        return {
            "description": description,
            "content": {"application/problem+json": {"schema": self.refer(Problem)}},
            "headers": {"X-Request-Id": {"schema": {"type": "string"}}},
        }

    def json_response(self, description: str, shape: Any) -> dict[str, Any]:
        return {"description": description, "content": {"application/json": {"schema": _clean(self.refer(shape))}}}

    def query_parameters(self, query: type[BaseModel]) -> list[dict[str, Any]]:
        schema = dict(_json_schema(query))
        for name, definition in schema.pop("$defs", {}).items():
            self._register(name, definition)
        found = []
        for name, definition in schema.get("properties", {}).items():
            parameter = {
                "name": name,
                "in": "query",
                "required": name in schema.get("required", []),
                "schema": _clean(_query_type(definition)),
            }
            if parameter["schema"].get("type") == "array":
                parameter |= {"style": "form", "explode": False}
            if "description" in definition:
                parameter["description"] = definition["description"]
            found.append(parameter)
        return found


def _shape_name(shape: Any) -> str:
    """`Page[User]` is called UserPage."""
    own: str = (get_origin(shape) or shape).__name__
    return "".join(_shape_name(item) for item in get_args(shape)) + own


def _component_name(name: str) -> str:
    return re.sub(r"\W+", "", name)


def _clean(schema: Any) -> Any:
    """References follow the components' names."""
    if isinstance(schema, dict):
        return {
            key: REF.format(model=_component_name(value.rsplit("/", 1)[1])) if key == "$ref" else _clean(value)
            for key, value in schema.items()
        }
    return [_clean(item) for item in schema] if isinstance(schema, list) else schema


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _parameters(operation: Operation, describe: _Described) -> list[dict[str, Any]]:
    found = _path_parameters(operation.path)
    if operation.query is not None:
        found += describe.query_parameters(operation.query)
    if operation.effect is Effect.CHANGE:
        found.append(
            {
                "name": "dryRun",
                "in": "query",
                "schema": {"type": "boolean", "default": False},
                "description": "Answer what would be changed, and change nothing.",
            }
        )
        found.append(
            _header(
                "X-Change-Reason",
                "Why: kept in the log and shown to the approver (at most 500 characters). "
                "In UTF-8, or percent-encoded.",
            )
        )
    if operation.effect is not Effect.READ:
        meant = "The version the change is meant for; another one is 412."
        if operation.is_creation:
            meant = "What is still to be made has no version: anything but `*` is 412."
        found.append(_header("If-Match", meant))
    if operation.method != "GET":
        found.append(
            _header("Idempotency-Key", "The same request under the same key is carried out once, within 24 hours.")
        )
    if _has_version(operation):
        found.append(_header("If-None-Match", "The version that is known already: nothing else is answered with 304."))
    if operation.on_directory:
        found.append(_header("X-Client-Id", "The Client ID of the directory link to use; needed if there are several."))
    return found


def _has_version(operation: Operation) -> bool:
    """Whether a read's answer is one object with its version."""
    return operation.effect is Effect.READ and "version" in getattr(operation.output, "__annotations__", {})


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


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": {"type": "string"}, "description": description}


class OperationSchema(_Described):
    """Describes the operation that an action of an OperationViewSet runs."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> dict[str, Any]:
        self.registry = registry
        self.path, self.path_regex, self.path_prefix, self.method = path, path_regex, path_prefix, method.upper()
        view: Any = self.view  # an OperationViewSet, which is made from this module
        operation: Operation = view.declared[view.action]
        described: dict[str, Any] = {
            "operationId": operation.name,
            "summary": operation.summary,
            "description": _description(operation),
            "tags": [operation.noun],
            "parameters": _parameters(operation, self),
            "security": _security(view.surface),
            "responses": self._responses(operation),
        }
        if operation.body is not None:
            described["requestBody"] = {
                "required": any(member.is_required() for member in operation.body.model_fields.values()),
                "content": {"application/json": {"schema": self.refer(operation.body)}},
            }
        return described

    def _responses(self, operation: Operation) -> dict[str, Any]:
        success = str(operation.status)
        if operation.output is None:
            responses: dict[str, Any] = {success: {"description": "Done."}}
        else:
            responses = {success: self.json_response("Done.", operation.output)}
            self._describe_stream(operation, responses[success])
        if operation.effect is Effect.CHANGE:
            self._describe_change(operation, responses)
        responses |= {
            "400": self.problem("The request is not understood; `code` and `errors` say why."),
            "401": self.problem("No valid credential."),
            "403": self.problem("Not allowed."),
            "404": self.problem("There is no such thing."),
            "406": self.problem("Not acceptable."),
            "409": self.problem("The present state does not allow it."),
            "411": self.problem("The body has no Content-Length."),
            "413": self.problem("The body is too large; `maxBodyBytes` names the limit."),
            "414": self.problem("The address is too long."),
            "415": self.problem("The body is not plain application/json, or the request has a Content-Encoding."),
            "429": self.problem("Too many requests; `Retry-After` says when to come back."),
            "500": self.problem("The gateway failed."),
            "503": self.problem("The directory or a part of the gateway is not available."),
        }
        if operation.method != "GET":
            responses |= {"422": self.problem("The directory refused the values.")}
        if operation.on_directory:
            responses |= {"502": self.problem("The directory refused the gateway itself.")}
        if _has_version(operation):
            responses |= {"304": {"description": "The version is one of those in If-None-Match."}}
        if operation.effect is not Effect.READ:
            responses |= {"412": self.problem("The object has another version than If-Match names, or none yet.")}
        if operation.effect is Effect.CHANGE:
            responses |= {"504": self.problem("It is not known whether the change was made; the log will tell.")}
        return dict(sorted(responses.items()))

    def _describe_stream(self, operation: Operation, done: dict[str, Any]) -> None:
        shape = record_shape(operation.output)
        if shape is None:
            return
        done["description"] = (
            "A page; or the whole result, one record a line, with `Accept: application/x-ndjson` or `text/csv`, which"
            " take no `pageSize` and no `cursor`. A last line that is not finished tells what broke a stream off."
        )
        done["content"] |= {
            "application/x-ndjson": {"schema": _clean(self.refer(shape))},
            "text/csv": {"schema": {"type": "string"}},
        }

    def _describe_change(self, operation: Operation, responses: dict[str, Any]) -> None:
        dry_run = self.refer(DryRun)
        done = responses.setdefault("200", {"description": "With `dryRun`."})
        body = done.setdefault("content", {"application/json": {"schema": {"oneOf": []}}})["application/json"]
        known = body["schema"].get("oneOf", [body["schema"]])
        body["schema"] = {"oneOf": [*known, dry_run]} if known else dry_run
        queued = self.refer(Queued)
        if operation.output is RunResult:
            responses["207"] = self.json_response("Some accounts failed.", RunResult)
            queued = {"oneOf": [queued, self.refer(RunResult)]}
        responses["202"] = {
            "description": "Waits for approval, or still runs.",
            "headers": {"Location": {"schema": {"type": "string"}}},
            "content": {"application/json": {"schema": queued}},
        }


def _description(operation: Operation) -> str:
    text = cleandoc(operation.function.__doc__ or "")
    if operation.permission == {SIGNED_IN}:
        return text + "\n\nPermission: any valid credential."
    joined = " or ".join(f"`{name}`" for name in sorted(operation.permission))
    return f"{text}\n\nPermission: {joined}."


def _security(surface: Surface) -> list[dict[str, list[str]]]:
    return [{"session": []}] if surface is Surface.REST else [{"apiKey": []}, {"platformToken": []}]


class SessionSchema(_Described):
    """Describes sign-in and sessions, which are no operations."""

    def get_operation(self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any) -> dict[str, Any]:
        from gateway.surfaces import session  # the views describe themselves with this class

        self.registry = registry
        shapes = {
            "session.create": ("200", session.SessionRecord),
            "session.retrieve": ("200", session.SessionRecord),
            "session.destroy": ("204", None),
            "session.create-access-token": ("201", session.AccessTokenRecord),
            "sessions.list": ("200", Page[session.PersonSessionRecord]),
            "sessions.destroy": ("204", None),
            "sessions.destroy-others": ("204", None),
        }
        view: Any = self.view
        name = f"{view.noun}.{view.action.replace('_', '-')}"
        status, shape = shapes[name]
        described: dict[str, Any] = {
            "operationId": name,
            "summary": (getattr(view, view.action).__doc__ or "").strip(),
            "tags": ["session"],
            "security": [] if name == "session.create" else _security(Surface.REST),
            "responses": {
                status: self.json_response("Done.", shape) if shape else {"description": "Done."},
                "400": self.problem("The request is not understood."),
                "401": self.problem("Not signed in, or wrong name, password or code."),
                "403": self.problem("The CSRF token is missing or wrong."),
                "406": self.problem("Not acceptable."),
                "429": self.problem("Too many requests; `Retry-After` says when to come back."),
            },
        }
        if name == "sessions.list":
            described["parameters"] = self.query_parameters(PageQuery)
        if name == "sessions.destroy":
            described["parameters"] = _path_parameters(path)
            described["responses"]["404"] = self.problem("The person has no such session.")
        if name == "session.create":
            described["responses"] |= {
                "413": self.problem("The body is too large."),
                "415": self.problem("The body is not plain application/json."),
                "503": self.problem("The directory is not available."),
            }
            described["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": self.refer(session.SignIn)}},
            }
        described["responses"] = dict(sorted(described["responses"].items()))
        return described


SECURITY_SCHEMES = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "platformToken": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": "sessionid"},
}

TITLES = {
    Surface.API: "Directory Management Gateway: machine surface",
    Surface.REST: "Directory Management Gateway: browser surface",
}


def document_settings(surface: Surface) -> dict[str, Any]:
    """What one document has of its own; the rest is in settings."""
    schemes = {
        name: scheme for name, scheme in SECURITY_SCHEMES.items() if (name == "session") == (surface is Surface.REST)
    }
    return {"TITLE": TITLES[surface], "APPEND_COMPONENTS": {"securitySchemes": schemes}}
