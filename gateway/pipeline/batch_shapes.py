"""What a batch is sent as, made from the operation that it is a batch of (docs/api.md#batches)."""

import json
import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from core.call import Call
from core.errors import GatewayError, InvalidRequest
from core.operation import Operation, operations
from core.shapes import Body, Guid, load_body, load_query, parse_guid
from gateway.pipeline.inputs import ValidatedInput

MAX_ITEMS = 1000

OnError = Annotated[
    Literal["continue", "stop"],
    Field(description="Whether the items after one that failed are carried out, or skipped (their status is null)."),
]


class TooManyItems(GatewayError):
    status, code, title = 400, "Batch.TooMany", "Too many items in one batch"


class Batch(Body):
    """A batch as it is sent. The items are looked at when their turn comes: a malformed one fails alone."""

    items: list[Any]
    on_error: OnError = "continue"


def path_of(operation: Operation) -> str:
    """The path of an operation's batches, below the surface's prefix."""
    return f"ad/{operation.resource}/batch/{operation.action}"


@cache
def batch_paths() -> frozenset[str]:
    """The paths of all batches."""
    return frozenset(
        f"/{surface}/{path_of(operation)}"
        for operation in operations()
        if operation.batchable
        for surface in operation.surfaces
    )


def load_batch(document: Any) -> Batch:
    """The batch in a request's body; raises TooManyItems and what `load_body` raises."""
    batch = load_body(Batch, {} if document is None else document)
    if len(batch.items) > MAX_ITEMS:
        raise TooManyItems(f"{len(batch.items)} items are given; at most {MAX_ITEMS} may be.", maxItems=MAX_ITEMS)
    return batch


@dataclass(frozen=True, slots=True)
class ItemInputs:
    """An item of a batch, whatever was sent as one, as the input of a call of its operation."""

    document: Any
    id: UUID | None = field(init=False)
    """The object that it names, if it names one."""

    def __post_init__(self) -> None:
        named = self.document.get("id") if isinstance(self.document, dict) else None
        object.__setattr__(self, "id", parse_guid(named) if isinstance(named, str) else None)

    @property
    def arguments(self) -> dict[str, str]:
        return {} if self.id is None else {"id": str(self.id)}

    def validate(self, operation: Operation, call: Call) -> tuple[ValidatedInput, Call]:
        """What the single call would have of it; the versions that the item is meant for are the call's If-Match."""
        if not isinstance(self.document, dict):
            detail = "must be a JSON object"
            raise InvalidRequest.naming(detail, pointer="#", sentence=f"An item {detail}.")
        item = load_body(item_shape(operation), self.document)
        given: dict[str, Any] = {name: getattr(item, name) for name in _arguments(operation)}
        arguments = {name: str(value) for name, value in given.items()}
        parameters = {
            parameter.alias or name for name, parameter in _parameters(operation).items()
        } & self.document.keys()
        if operation.query is not None:
            given["query"] = load_query(operation.query, {name: self.document[name] for name in parameters})
        document = None
        if operation.body is not None:
            given["body"] = item  # its shape is made from the body's
            outside = {*arguments, *parameters, "ifMatch"}
            document = {name: value for name, value in self.document.items() if name not in outside}
        version = item.if_match  # type: ignore[attr-defined]
        versions = None if version is None else frozenset({version.removeprefix("W/").strip('"')})
        query = {name: json.dumps(self.document[name]) for name in parameters}
        accepted = ValidatedInput(kwargs=given, arguments=arguments, query=query, document=document)
        return accepted, replace(call, if_match=versions)


@cache
def item_shape(operation: Operation) -> type[Body]:
    """The body of the single call, with what that has in its path, its query and its If-Match."""
    base = operation.body or Body
    members: dict[str, Any] = dict.fromkeys(_arguments(operation), (Guid, ...))
    for name, parameter in _parameters(operation).items():
        members[name] = (parameter.annotation, Field(parameter.default, description=parameter.description))
    meaning = "The version the change is meant for, quoted or not; another one is 412."
    if operation.is_creation:
        meaning = "What is still to be made has no version: anything but `*` is 412."
    members["if_match"] = (str | None, Field(None, description=meaning))
    named = dict.fromkeys(_arguments(operation), "4fae3d03-85d3-4ed8-a8aa-cb126df8b414")
    return create_model(
        (base.__name__ if operation.body else operation.action.capitalize()) + "Item",
        __base__=base,
        __doc__="One item of a batch: the body of the single call, and what that has in its path and headers.",
        __cls_kwargs__={"json_schema_extra": {"examples": [named | example for example in _examples(base)]}},
        **members,
    )


@cache
def batch_shape(operation: Operation) -> type[Body]:
    """The whole body, for the documentation: its items have the shape of the operation's."""
    item = item_shape(operation)
    members: dict[str, Any] = {"items": (list[item], Field(max_length=MAX_ITEMS)), "on_error": (OnError, "continue")}  # type: ignore[valid-type]
    return create_model(
        item.__name__.removesuffix("Item") + "Batch",
        __base__=Body,
        __doc__=f"At most {MAX_ITEMS} items, which are taken in their order.",
        __cls_kwargs__={"json_schema_extra": {"examples": [{"items": _examples(item), "onError": "continue"}]}},
        **members,
    )


def _examples(shape: type[Body]) -> list[dict[str, Any]]:
    extra: Any = shape.model_config.get("json_schema_extra", {})
    return list(extra.get("examples", [{}]))


@cache
def _arguments(operation: Operation) -> list[str]:
    return re.findall(r"\{(\w+)\}", operation.path)


def _parameters(operation: Operation) -> dict[str, FieldInfo]:
    return operation.query.model_fields if operation.query else {}
