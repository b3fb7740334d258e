"""Lists as NDJSON and CSV, written as their records come. What Accept asks for, `negotiation` finds out.

A stream that breaks off must not look complete. Granian ends a chunked transfer properly whatever the application does
(2.8, seen with raw sockets), so the text itself says it: its last line is never finished, which makes every strict
reader fail, and tells the code of the problem.
"""

import csv
import io
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import cache
from operator import methodcaller
from threading import RLock
from typing import Any, get_args, get_origin

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from pydantic_core import to_json
from rest_framework.renderers import BaseRenderer
from typing_extensions import get_type_hints, is_typeddict

from audit.shapes import RecordJson
from core import tracing
from core.errors import InvalidRequest, RateLimited, ServiceUnavailable
from core.operation import Operation
from core.paging import Page
from core.streams import Part, RecordStream, StreamFormat
from core.text.json_text import json_of
from directory.shapes.record import DirectoryObject
from gateway.surfaces.problems import error_of, problem_of
from keys.callers import find_caller

_CONTENT_TYPES = {
    StreamFormat.NDJSON: "application/x-ndjson",
    StreamFormat.CSV: "text/csv; charset=utf-8; header=present",
}
_STREAMS_AT_ONCE = 4
"""In one process. Each keeps the identities of all that it will show for as long as its client takes to read."""
_OF_ONE_CREDENTIAL = 2
_BLOCK = 1 << 16  # octets: the server takes several blocks in advance of a slow reader, of whatever size they are
_SEPARATOR = re.compile(r"[;\\]")
# What makes a spreadsheet take a cell for a formula (OWASP, "CSV Injection"), and the characters that are the same to
# some of them: full-width ones and others that compatibility normalization makes of these.
_FORMULAS = "=+\\-@＝＋－＠﹦﹢﹣﹫⁼⁺⁻₌₊₋﬩⩵⩶"
# Where a cell begins: a reader that takes semicolons, tabs or line ends for separators, as spreadsheets do in half of
# Europe, begins one in the middle of ours. Blanks, invisible characters and quotes in front are skipped.
_SEPARATORS = r";\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
_SKIPPED = r" \x00\xa0\u1680\u2000-\u200f\u202f\u205f\u2060\u3000\ufeff\"'"
_BEGINNING = re.compile(rf"\A(?=[\t\r\n])|(?:\A|(?<=[{_SEPARATORS}]))(?=[{_SKIPPED}]*[{_FORMULAS}])")


_STREAMED = (DirectoryObject, RecordJson)
"""What there may be very many of: directory objects, and records of the operations log."""


@cache
def record_shape(output: Any) -> Any:
    """The shape of the records where an operation's answer is a page of such that are streamed, else None."""
    if get_origin(output) is not Page:
        return None
    (shape,) = get_args(output)
    if not is_typeddict(shape):
        return None
    members = get_type_hints(shape).keys()
    return shape if any(members >= get_type_hints(streamed).keys() for streamed in _STREAMED) else None


def require_no_page(query: Mapping[str, str]) -> Mapping[str, str]:
    """The query of a stream, which has no pages; raises InvalidRequest naming the parameter."""
    for name in ("pageSize", "cursor"):
        if name in query:
            detail = "has no meaning where the whole result is streamed"
            raise InvalidRequest.naming(detail, parameter=name, subject=name)
    return query


def stream_response(
    operation: Operation, request: HttpRequest, stream: RecordStream, headers: Mapping[str, str] | None = None
) -> HttpResponseBase:
    """The response that writes a stream as it comes; raises ServiceUnavailable when too many are being written."""
    if request.method == "HEAD":
        return HttpResponse(content_type=_CONTENT_TYPES[stream.form], headers=headers)
    streaming = find_caller(request)
    place = _take_place(streaming.credential.unique_id if streaming else "")
    columns = _columns(record_shape(operation.output), stream)
    caller: dict[str, str] = {}
    tracing.hand_on(caller)  # the request's own span ends before what is sent is made
    octets = _write(request, stream, columns, tracing.span(f"stream {operation.name}", carrier=caller))
    return StreamingHttpResponse(_Written(octets, place), content_type=_CONTENT_TYPES[stream.form], headers=headers)


_places: list[str] = []
"""Whose streams are being written."""
_changing_places = RLock()  # a response may be collected, and closed by that, at any moment


def _take_place(credential: str) -> str:
    with _changing_places:
        if _places.count(credential) >= _OF_ONE_CREDENTIAL:
            raise RateLimited(retry_after=5, why=f"{_OF_ONE_CREDENTIAL} lists are being streamed for this credential")
        if len(_places) >= _STREAMS_AT_ONCE:
            raise ServiceUnavailable("Too many lists are being streamed; try again, or ask for pages.")
        _places.append(credential)
        return credential


class _Written:
    """The octets of a stream. Whether it is read to its end or closed before, its place is free again once.

    Each block may be made by another thread: in the request's context, and not in what that thread did before.
    """

    def __init__(self, octets: Generator[bytes, None, None], place: str) -> None:
        self._octets = octets
        self._place = place
        self._context = copy_context()
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self._context.run(next, self._octets)

    def close(self) -> None:
        self._context.run(self._octets.close)
        if self._is_open:
            self._is_open = False
            with _changing_places:
                _places.remove(self._place)

    __del__ = close  # a response that never got to be sent


def _write(
    request: HttpRequest, stream: RecordStream, columns: "Columns", span: AbstractContextManager[tracing.Span]
) -> Generator[bytes, None, None]:
    renderer = NdjsonRenderer() if stream.form is StreamFormat.NDJSON else CsvRenderer()
    with span as present:
        try:
            yield renderer.head(columns)
            for part in stream.parts:
                lines = renderer.render(part, renderer_context=columns)
                for start in range(0, len(lines), _BLOCK):
                    yield lines[start : start + _BLOCK]
        except Exception as exception:  # noqa: BLE001 - the answer has begun: only here can its reader be told
            error = error_of(exception)
            present.fail(error.code)
            stream.failed(error)
            yield renderer.broken(problem_of(request, error))


class NdjsonRenderer(BaseRenderer):
    """One record a line."""

    media_type, format, charset = StreamFormat.NDJSON.value, "ndjson", None

    def head(self, columns: "Columns") -> bytes:
        return b""

    def render(self, data: Part, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"".join(json_of(record) + b"\n" for record in data)

    def broken(self, problem: Mapping[str, Any]) -> bytes:
        return to_json(problem).removesuffix(b"}")


class CsvRenderer(BaseRenderer):
    """RFC 4180: a header, then one record a row; the context is its columns.

    Members of `account`, `group` and `target` are columns such as `account.enabled`, each attribute is one of its own.
    Several values stand in one cell, with `;` between them and `\\` before one that is part of a value; what is neither
    text nor a list of texts is JSON.
    """

    media_type, format, charset = StreamFormat.CSV.value, "csv", None

    def head(self, columns: "Columns") -> bytes:
        return _rows([list(columns)])

    def render(self, data: Part, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return _rows([[_cell(value(record)) for value in renderer_context.values()] for record in data])

    def broken(self, problem: Mapping[str, Any]) -> bytes:
        detail = str(problem["detail"]).replace('"', "'")
        return f'"{problem["code"]}: {detail}'.encode()


Columns = Mapping[str, Callable[[Mapping[str, Any]], Any]]
"""How to find the value of each column in a record, by the column's name."""


def _columns(shape: Any, stream: RecordStream) -> Columns:
    columns: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    for member, hint in get_type_hints(shape).items():
        if member in stream.absent:
            continue
        inner = next((choice for choice in (hint, *get_args(hint)) if is_typeddict(choice)), None)
        if member == "attributes":
            for name in stream.attributes or ():
                columns.setdefault(name, _inner("attributes", name))  # `name` has a column already, and so on
        elif inner is None:
            columns[member] = methodcaller("get", member)
        elif get_args(hint) == (inner,):  # a list of records
            columns[member] = _as_json(member)
        else:
            columns |= {f"{member}.{name}": _inner(member, name) for name in get_type_hints(inner)}
    return columns


def _as_json(member: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda record: to_json(record[member]).decode()


def _inner(member: str, name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda record: (record[member] or {}).get(name)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int):
        text = str(value)
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = value[0] if len(value) == 1 else ";".join(_SEPARATOR.sub(r"\\\g<0>", item) for item in value)
    else:
        text = to_json(value).decode()
    return harmless(text)


def harmless(text: str) -> str:
    """The text of a cell with `'` before everything in it that a spreadsheet would run."""
    return _BEGINNING.sub("'", text)


def _rows(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
