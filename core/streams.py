"""A whole list in parts, as they come: what an operation returns when its caller wants a stream and no page.

How a stream is written (NDJSON, CSV) is decided in `gateway.surfaces.streams`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from core.errors import GatewayError

Part = Sequence[Mapping[str, Any]]


class StreamFormat(StrEnum):
    """How the records of a stream are written, by media type."""

    NDJSON = "application/x-ndjson"
    CSV = "text/csv"


def _nobody(_: GatewayError) -> None:
    pass


@dataclass(slots=True)
class RecordStream:
    """Records on their way. Whoever takes one iterates `parts` to the end or closes it.

    `attributes` are the names to be expected in the records' member of that name, in order, None when they are not
    known before the end. `absent` are members that are null in every record. `failed` is told what broke the stream.
    """

    parts: Iterator[Part]
    form: StreamFormat
    attributes: tuple[str, ...] | None = None
    absent: frozenset[str] = frozenset()
    failed: Callable[[GatewayError], None] = _nobody
