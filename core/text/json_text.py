"""JSON of answers, whose texts may still be the octets of UTF-8 that they came as."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_json


def json_of(value: Any) -> bytes:
    """The JSON of a value; octets are text, and what of them is no UTF-8 is replaced (U+FFFD) as in any other text."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return to_json(_decoded(value))


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {name: _decoded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_decoded(inner) for inner in value]
    return value
