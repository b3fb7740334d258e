"""`fields=`: reads of objects that answer only the members that the caller names (docs/api.md#some-members)."""

import json
from collections.abc import Collection
from functools import cache
from typing import Any, get_args, get_origin

from typing_extensions import TypedDict, get_type_hints, is_typeddict

from core.call import RecordStream
from core.errors import InvalidRequest
from core.operation import Effect, Operation
from core.paging import Page
from core.shapes import CommaList, EncodedWhole, Query, load_query
from core.text.messages import message
from directory.shapes.record import DirectoryObject

FIELDS = "fields"


class _Fields(Query):
    fields: CommaList


def record_of(operation: Operation) -> Any:
    """The shape of the objects that a read answers, one or many; None for all other operations."""
    (shape,) = get_args(operation.output) if get_origin(operation.output) is Page else (operation.output,)
    is_record = is_typeddict(shape) and get_type_hints(shape).keys() >= get_type_hints(DirectoryObject).keys()
    return shape if is_record and operation.effect is Effect.READ else None


def members_of(operation: Operation) -> list[str]:
    """The members that can be named: those that every record has, and those that `expand` adds."""
    shape, query = record_of(operation), operation.query
    is_expandable = query is not None and "expand" in query.model_fields
    return [name for name in get_type_hints(shape) if is_expandable or name in shape.__required_keys__]


@cache
def partial_record(shape: Any) -> Any:
    """The shape with the same members, all of them optional."""
    made: Any = TypedDict(f"{shape.__name__}Fields", get_type_hints(shape, include_extras=True), total=False)  # type: ignore[misc]
    made.__doc__ = f"The members of a {shape.__name__} that `{FIELDS}` names."
    return made


def take_fields(operation: Operation, query: dict[str, str]) -> frozenset[str] | None:
    """Take the names of the members out of a read's query; None if all are wanted. Raises InvalidRequest."""
    if FIELDS not in query or (shape := record_of(operation)) is None:
        return None
    named = load_query(_Fields, {FIELDS: query.pop(FIELDS)}).fields
    members = members_of(operation)
    for name in named:
        if name in shape.__optional_keys__:
            query.setdefault("expand", name)
        if name not in members:
            detail = message(
                "takes no {name!r}, only {members}; choose attributes with `attributes`",
                name=name,
                members=", ".join(members),
            )
            raise InvalidRequest.naming(detail, parameter=FIELDS, subject=FIELDS)
    return frozenset(named)


def only_fields(body: Any, fields: Collection[str]) -> Any:
    """The answer, an object or a page of them, with these members alone."""
    if isinstance(body, EncodedWhole):
        body = json.loads(body.json)
    if "items" in body:
        return {**body, "items": [only_fields(record, fields) for record in body["items"]]}
    return {name: value for name, value in body.items() if name in fields}


def stream_only(stream: RecordStream, shape: Any, fields: Collection[str]) -> None:
    """Let a stream have these members alone."""
    whole = stream.parts
    stream.parts = ([only_fields(record, fields) for record in part] for part in whole)
    stream.absent |= get_type_hints(shape).keys() - fields
