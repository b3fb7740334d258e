"""Renders answers of the pipeline as responses: as JSON, and streamed lists as NDJSON or CSV.

`reading.Negotiation` chooses the media type; `problems` renders refusals.

A stream that fails must not look complete. Granian 2.8 always ends a chunked transfer properly (observed with raw
sockets), so the text itself shows the failure: its last line has the problem's code and is never finished, which makes
every strict parser fail.
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
from typing import Any, NamedTuple, get_args, get_origin

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from pydantic_core import to_json
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import get_type_hints, is_typeddict

from audit.shapes import RecordJson
from core import tracing
from core.call import Call, RecordStream, StreamFormat, StreamPart
from core.errors import InvalidRequest, RateLimited, ServiceUnavailable
from core.operation import Operation
from core.paging import Page, SearchedPage
from core.shapes import encode_json
from directory.shapes.record import DirectoryObject
from gateway import pipeline
from gateway.pipeline.fields import only_fields
from gateway.surfaces.problems import error_of, problem_of
from keys.callers import find_caller

_CONTENT_TYPES = {
    StreamFormat.NDJSON: "application/x-ndjson",
    StreamFormat.CSV: "text/csv; charset=utf-8; header=present",
}
PARTIAL = "application/vnd.directory-gateway.fields+json"
"""The type of answers with some members of records. With a type of its own the usual answer has one shape only: of a
choice between two, generators make types whose users must ask at each member whether it is there."""
_MAX_STREAMS = 4
"""In one process. Each stream keeps the identities of all its records in memory until its client has read it."""

_MAX_STREAMS_PER_CREDENTIAL = 2
_BLOCK_SIZE = 1 << 16  # bytes: the server buffers several blocks for a slow reader, whatever their size
_SEPARATOR = re.compile(r"[;\\]")
# The characters that start a formula in a spreadsheet (OWASP, "CSV Injection"), and those that some programs treat
# alike: full-width forms and others that Unicode compatibility normalization maps to them.
_FORMULA_CHARACTERS = "=+\\-@＝＋－＠﹦﹢﹣﹫⁼⁺⁻₌₊₋﬩⩵⩶"
# Where a cell may start: a program that separates by semicolons, as spreadsheets do in half of Europe, by tabs or by
# line ends, starts one in the middle of ours. It may skip leading blanks, invisible characters and quotes.
_SEPARATORS = r";\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
_LEADING_SKIPPED = r" \x00\xa0\u1680\u2000-\u200f\u202f\u205f\u2060\u3000\ufeff\"'"
_FORMULA_START = re.compile(
    rf"\A(?=[\t\r\n])|(?:\A|(?<=[{_SEPARATORS}]))(?=[{_LEADING_SKIPPED}]*[{_FORMULA_CHARACTERS}])"
)

_STREAMED = (DirectoryObject, RecordJson)
"""The shapes whose lists may be very long: directory objects, and records of the operations log."""


@cache
def record_shape(output: Any) -> Any:
    """The shape of an operation's records if its answer is a page of a streamed shape, else None."""
    if get_origin(output) not in (Page, SearchedPage):
        return None
    (shape,) = get_args(output)
    if not is_typeddict(shape):
        return None
    members = get_type_hints(shape).keys()
    return shape if any(members >= get_type_hints(streamed).keys() for streamed in _STREAMED) else None


def require_no_page(query: Mapping[str, str]) -> Mapping[str, str]:
    """Return the query of a stream; raises InvalidRequest for a parameter of pages."""
    for name in ("pageSize", "cursor"):
        if name in query:
            detail = "has no meaning where the whole result is streamed"
            raise InvalidRequest.naming(detail, parameter=name, subject=name)
    return query


def stream_response(
    operation: Operation,
    request: HttpRequest,
    stream: RecordStream,
    headers: Mapping[str, str] | None = None,
    cells: "Columns | None" = None,
) -> HttpResponseBase:
    """Return a response that sends a stream while it is made; raises RateLimited or ServiceUnavailable over a limit.

    `cells` are columns of CSV that are written in another way than usual.
    """
    if request.method == "HEAD":
        return HttpResponse(content_type=_CONTENT_TYPES[stream.form], headers=headers)
    streaming = find_caller(request)
    credential = _open_stream(streaming.credential.unique_id if streaming else "")
    columns = {**_columns(record_shape(operation.output), stream), **(cells or {})}
    caller: dict[str, str] = {}
    tracing.inject_context(caller)  # the request's own span ends before the content is made
    content = _write(request, stream, columns, tracing.span(f"stream {operation.name}", carrier=caller))
    return StreamingHttpResponse(
        _StreamContent(content, credential), content_type=_CONTENT_TYPES[stream.form], headers=headers
    )


_open_streams: list[str] = []
"""The credential of each stream that is being written."""
_open_streams_lock = RLock()  # reentrant: garbage collection may close a response at any moment


def _open_stream(credential: str) -> str:
    with _open_streams_lock:
        if _open_streams.count(credential) >= _MAX_STREAMS_PER_CREDENTIAL:
            raise RateLimited(
                retry_after=5, why=f"{_MAX_STREAMS_PER_CREDENTIAL} lists are being streamed for this credential"
            )
        if len(_open_streams) >= _MAX_STREAMS:
            raise ServiceUnavailable("Too many lists are being streamed; try again, or ask for pages.")
        _open_streams.append(credential)
        return credential


class _StreamContent:
    """The content of a stream, which counts as open until its client has read it or closes the connection.

    Each block may be made by another thread, but always in the request's context.
    """

    def __init__(self, content: Generator[bytes, None, None], credential: str) -> None:
        self._content = content
        self._credential = credential
        self._context = copy_context()
        self._is_open = True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self._context.run(next, self._content)

    def close(self) -> None:
        self._context.run(self._content.close)
        if self._is_open:
            self._is_open = False
            with _open_streams_lock:
                _open_streams.remove(self._credential)

    __del__ = close  # for a response that is never sent


def _write(
    request: HttpRequest, stream: RecordStream, columns: "Columns", span: AbstractContextManager[tracing.Span]
) -> Generator[bytes, None, None]:
    renderer = NdjsonRenderer() if stream.form is StreamFormat.NDJSON else CsvRenderer()
    with span as current_span:
        try:
            yield renderer.head(columns)
            for part in stream.parts:
                lines = renderer.render(part, renderer_context=columns)
                for start in range(0, len(lines), _BLOCK_SIZE):
                    yield lines[start : start + _BLOCK_SIZE]
        except Exception as exception:  # noqa: BLE001 - the response has begun, so the client can only be told in its content
            error = error_of(exception)
            current_span.fail(error.code)
            stream.failed(error)
            yield renderer.error_line(problem_of(request, error))


class NdjsonRenderer(BaseRenderer):
    """One record per line."""

    media_type, format, charset = StreamFormat.NDJSON.value, "ndjson", None

    def head(self, columns: "Columns") -> bytes:
        return b""

    def render(self, data: StreamPart, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"".join(encode_json(record) + b"\n" for record in data)

    def error_line(self, problem: Mapping[str, Any]) -> bytes:
        return to_json(problem).removesuffix(b"}")


class CsvRenderer(BaseRenderer):
    """RFC 4180: a header, then one record per row; the context is its columns.

    Members of `account`, `group` and `target` become columns such as `account.enabled`, and so does each attribute.
    Several values share a cell, separated by `;`, with `\\` before a `;` in a value. Anything but texts and lists of
    texts is JSON.
    """

    media_type, format, charset = StreamFormat.CSV.value, "csv", None

    def head(self, columns: "Columns") -> bytes:
        return _rows([list(columns)])

    def render(self, data: StreamPart, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return _rows([[_cell(value(record)) for value in renderer_context.values()] for record in data])

    def error_line(self, problem: Mapping[str, Any]) -> bytes:
        detail = str(problem["detail"]).replace('"', "'")
        return f'"{problem["code"]}: {detail}'.encode()


Columns = Mapping[str, Callable[[Mapping[str, Any]], Any]]
"""The function that gets a column's value from a record, by the column's name."""


def _columns(shape: Any, stream: RecordStream) -> Columns:
    columns: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
    for member, hint in get_type_hints(shape).items():
        if member in stream.absent:
            continue
        nested_shape = next((choice for choice in (hint, *get_args(hint)) if is_typeddict(choice)), None)
        if member == "attributes":
            for name in stream.attributes or ():
                columns.setdefault(name, _member_of("attributes", name))  # `name` and others already have a column
        elif nested_shape is None:
            columns[member] = methodcaller("get", member)
        elif get_args(hint) == (nested_shape,):  # a list of records
            columns[member] = _as_json(member)
        else:
            columns |= {f"{member}.{name}": _member_of(member, name) for name in get_type_hints(nested_shape)}
    return columns


def _as_json(member: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda record: to_json(record[member]).decode()


def _member_of(member: str, name: str) -> Callable[[Mapping[str, Any]], Any]:
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
    return without_formulas(text)


def without_formulas(text: str) -> str:
    """Put `'` before everything in a cell's text that a spreadsheet would take for a formula."""
    return _FORMULA_START.sub("'", text)


def _rows(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


class JsonRenderer(BaseRenderer):
    """JSON, or an empty response for an answer without a body."""

    media_type, format, charset, render_style = "application/json", "json", None, "binary"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return b"" if data is None else encode_json(data)


def response_of(request: Request, call: Call, answer: pipeline.Answer) -> Response:
    """Render an answer, with the ETag of a single object and the Location of a created one."""
    rendered = rendered_answer(call, answer)
    headers, body = rendered.headers, rendered.body
    if rendered.status == 201 and isinstance(body, dict) and "id" in body:
        headers.setdefault("Location", f"{request.path}/{body['id']}")
    return Response(body, status=rendered.status, headers=headers, content_type=rendered.content_type)


class Rendered(NamedTuple):
    """What is sent of an answer, before it is encoded; without a type of its own the content is JSON."""

    status: int
    headers: dict[str, str]
    body: Any
    content_type: str | None = None


def rendered_answer(call: Call, answer: pipeline.Answer) -> Rendered:
    """An answer with the ETag of a single object, or 304 if the client has that version."""
    headers, body = dict(answer.headers), answer.body
    if isinstance(body, dict) and "version" in body:
        headers["ETag"] = f'"{body["version"]}"'
        if call.has_version(body["version"]):
            return Rendered(304, headers, None)
    if answer.fields is not None:
        return Rendered(answer.status, headers, only_fields(body, answer.fields), PARTIAL)
    return Rendered(answer.status, headers, body)
