"""An OpenAPI document as a promise: its operations, and what is wrong with an answer that does not keep it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from core.errors import GatewayError

OPEN_SHAPES = frozenset({"Problem", "KeptProblem"})
"""Components that may have more members than they list; all others are closed."""


_FORMATS = FormatChecker(["uuid", "date"])


@_FORMATS.checks("date-time", raises=ValueError)  # type: ignore[untyped-decorator]
def _is_moment(value: object) -> bool:
    return not isinstance(value, str) or (value.endswith("Z") and datetime.fromisoformat(value).tzinfo is not None)


@dataclass(frozen=True)
class Documented:
    """One operation as the document describes it."""

    method: str
    path: str
    description: Mapping[str, Any]

    @property
    def name(self) -> str:
        name: str = self.description["operationId"]
        return name

    def parameters(self, place: str) -> list[dict[str, Any]]:
        """Its parameters in `path`, `query` or `header`."""
        return [item for item in self.description.get("parameters", ()) if item["in"] == place]

    @property
    def body(self) -> Any:
        """The schema of the request body, None without one."""
        content = self.description.get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("schema")


@dataclass(frozen=True)
class Received:
    """An answer as it came over the wire; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


class Document:
    """One surface's document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._components = _closed(document["components"])
        self._paths = document["paths"]
        self._validators: dict[str, Draft202012Validator] = {}

    @cached_property
    def operations(self) -> list[Documented]:
        return [
            Documented(method.upper(), path, description)
            for path, methods in self._paths.items()
            for method, description in methods.items()
        ]

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema itself, or the component that it refers to."""
        while "$ref" in schema:
            schema = self._components["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def complaints(self, operation: Documented, answer: Received) -> Iterator[str]:
        """What the document does not promise about this answer."""
        documented = self._response(operation, answer.status)
        if answer.status >= 500 and answer.status not in (502, 503, 504):
            yield f"{answer.status} is never right"
        if documented is None:
            yield f"status {answer.status} is not documented"
            return
        content = documented.get("content")
        if content is None:
            if answer.content:
                yield f"{answer.status} should have no content"
        elif answer.media_type not in content:
            yield f"{answer.status} has the media type {answer.media_type!r}, not one of {sorted(content)}"
        elif answer.media_type.endswith("json"):
            # A stream has a record in each line.
            documents = answer.content.splitlines() if answer.media_type == "application/x-ndjson" else [answer.content]
            for text in documents:
                yield from self._complaints_about_shape(content[answer.media_type].get("schema", {}), text)
        if answer.status >= 400:
            yield from _complaints_about_problem(answer)

    def _response(self, operation: Documented, status: int) -> Mapping[str, Any] | None:
        """How an answer with this status is described, None when it is not."""
        found: Mapping[str, Any] | None = operation.description["responses"].get(str(status))
        if found is not None and "$ref" in found:
            found = self._components["responses"][found["$ref"].rsplit("/", 1)[1]]
        return found

    def _complaints_about_shape(self, schema: Mapping[str, Any], text: bytes) -> Iterator[str]:
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            self._validators[key] = Draft202012Validator(
                {**_closed(schema), "components": self._components}, format_checker=_FORMATS
            )
        for error in self._validators[key].iter_errors(json.loads(text)):
            yield f"{error.json_path}: {error.message[:300]}"


def _closed(schema: Any) -> Any:
    """Objects with listed members have no others."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(inner) for name, inner in schema.items()}
    if schema.get("type") == "object" and "properties" in schema and schema.get("title") not in OPEN_SHAPES:
        closed.setdefault("additionalProperties", False)
    return closed


def _complaints_about_problem(answer: Received) -> Iterator[str]:
    """Every error is a problem whose code and status belong together (docs/api.md#errors)."""
    if answer.media_type != "application/problem+json":
        yield f"an error of the type {answer.media_type!r}"
        return
    problem = json.loads(answer.content)
    if (problem.get("code"), answer.status) not in known_codes():
        yield f"{problem.get('code')} with {answer.status} is no error of the gateway's"
    if problem.get("status") != answer.status:
        yield f"a problem with status {problem.get('status')} in an answer with {answer.status}"
    is_replayed = "idempotency-replayed" in answer.headers  # the first answer again, with the first request's id
    if problem.get("requestId") != answer.headers.get("x-request-id") and not is_replayed:
        yield "requestId and X-Request-Id differ"
    if re.search(r"Traceback|\.py\b|\.[ch]:[0-9]|DSID-", json.dumps(problem)):
        yield "the problem shows internals"


def known_codes() -> set[tuple[str, int]]:
    """Each error's code with its status."""
    found, waiting = set(), [GatewayError]
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        found.add((error.code, error.status))
    return found
