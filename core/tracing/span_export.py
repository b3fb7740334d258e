"""OpenTelemetry's SDK as `tracing` uses it. Nobody else imports it, and only where traces are wanted."""

import os
import socket
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.util import Finalize
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

NAME: Final = "directory-management-gateway"
Value = str | int | float | bool
_KINDS: Final[Mapping[str, SpanKind]] = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
    "internal": SpanKind.INTERNAL,
}
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_HELD_AT_MOST: Final = 500
"""Spans of one trace."""
_LONG: Final = 1.0
"""Seconds."""
_is_quiet: Final[ContextVar[bool]] = ContextVar("is_quiet", default=False)


class _Present:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set_attribute(self, name: str, value: Value) -> None:
        self._span.set_attribute(name, value)

    def fail(self, reason: str) -> None:
        self._span.set_attribute("error.type", reason)
        self._span.set_status(Status(StatusCode.ERROR))


class _Quiet(SpanProcessor):
    """Holds back what belongs to a trace that is wanted only if something comes of it, until that is known.

    Wanted is one that has parts, failed or took long, and one that somebody was told of.
    """

    def __init__(self, after: SpanProcessor) -> None:
        self._after = after
        self._held: dict[int, list[ReadableSpan]] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if span.parent is None and _is_quiet.get():
            self._held[span.get_span_context().trace_id] = []
        self._after.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        held = self._held.get(context.trace_id) if context else None
        if context is None or held is None:
            self._after.on_end(span)
        elif span.parent is not None:
            held.append(span)
            if len(held) >= _HELD_AT_MOST:
                self.want(context.trace_id)
        elif held or span.status.status_code is StatusCode.ERROR or _seconds(span) >= _LONG:
            self.want(context.trace_id)
            self._after.on_end(span)
        else:
            del self._held[context.trace_id]

    def want(self, trace_id: int) -> None:
        """Send what was held back of a trace, and hold nothing of it back any more."""
        for span in self._held.pop(trace_id, ()):
            self._after.on_end(span)

    def shutdown(self) -> None:
        self._after.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._after.force_flush(timeout_millis)


def _seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


class Recorder:
    """The spans of this process, sent in batches by a thread of their own. What cannot be sent is dropped."""

    def __init__(self) -> None:
        self._provider = TracerProvider(resource=_resource())
        self._quiet = _Quiet(BatchSpanProcessor(OTLPSpanExporter()))
        self._provider.add_span_processor(self._quiet)
        self._tracer = self._provider.get_tracer(NAME)
        # A child made by multiprocessing, as a server's processes are, runs finalizers of its own, and no atexit.
        Finalize(None, self._provider.shutdown, exitpriority=5)

    @contextmanager
    def span(
        self, name: str, kind: str, carrier: Mapping[str, str] | None, attributes: Mapping[str, Value]
    ) -> Iterator[_Present]:
        # Threads are reused: what comes with a carrier begins anew, whatever was done before.
        parent = None if carrier is None else _PROPAGATOR.extract(carrier, context=Context())
        with self._tracer.start_as_current_span(
            name, context=parent, kind=_KINDS[kind], attributes=attributes, record_exception=False,
            set_status_on_exception=False,
        ) as started:  # fmt: skip
            present = _Present(started)
            try:
                yield present
            except Exception as error:
                present.fail(type(error).__name__)  # its text may hold values of the directory
                raise

    @contextmanager
    def quiet_span(self, name: str, kind: str) -> Iterator[_Present]:
        token = _is_quiet.set(True)
        try:
            with self.span(name, kind, {}, {}) as present:
                yield present
        finally:
            _is_quiet.reset(token)

    def past(self, name: str, seconds: float, attributes: Mapping[str, Value]) -> None:
        # Not whether it is still being done: what was begun for it may last longer.
        if trace.get_current_span().get_span_context().trace_flags.sampled:
            ended = time.time_ns()
            began = ended - round(seconds * 1e9)
            span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes, start_time=began)
            span.end(ended)

    def event(self, name: str, attributes: Mapping[str, Value]) -> None:
        trace.get_current_span().add_event(name, attributes)

    def hand_on(self, carrier: MutableMapping[str, Any]) -> None:
        _PROPAGATOR.inject(carrier)
        self._quiet.want(trace.get_current_span().get_span_context().trace_id)

    def trace_id(self) -> str | None:
        context = trace.get_current_span().get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else None

    def end(self) -> None:
        self._provider.shutdown()


def _resource() -> Resource:
    """Which process this is; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are asked first."""
    own = {"service.name": NAME, "service.instance.id": f"{socket.gethostname()}:{os.getpid()}"}
    with suppress(PackageNotFoundError):  # a source tree
        own["service.version"] = version(NAME)
    given = Resource.create().attributes
    is_named = str(given.get("service.name", "")).partition(":")[0] != "unknown_service"
    own = {name: value for name, value in own.items() if name not in given or (name == "service.name" and not is_named)}
    return Resource.create(own)
