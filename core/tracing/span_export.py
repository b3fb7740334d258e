"""The part of tracing that needs OpenTelemetry's SDK. Only `core.tracing` imports it, and only if traces are wanted."""

import os
import socket
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.util import Finalize
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

NAME = "directory-management-gateway"
Value = str | int | float | bool
_KINDS = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
    "internal": SpanKind.INTERNAL,
}
_PROPAGATOR = TraceContextTextMapPropagator()
_MAX_HELD_SPANS = 500
"""Of one trace; a trace with more is worth sending."""
_LONG_SECONDS = 1.0
_is_quiet = ContextVar("is_quiet", default=False)


class _CurrentSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set_attribute(self, name: str, value: Value) -> None:
        self._span.set_attribute(name, value)

    def fail(self, reason: str) -> None:
        self._span.set_attribute("error.type", reason)
        self._span.set_status(Status(StatusCode.ERROR))


class _QuietTraceFilter(SpanProcessor):
    """Holds back the spans of a quiet trace until it turns out to be worth sending, or drops them.

    A trace is worth sending if it has child spans, failed, took long or was propagated to another process.
    """

    def __init__(self, next_processor: SpanProcessor) -> None:
        self._next = next_processor
        self._held: dict[int, list[ReadableSpan]] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if span.parent is None and _is_quiet.get():
            self._held[span.get_span_context().trace_id] = []
        self._next.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        held = self._held.get(context.trace_id) if context else None
        if context is None or held is None:
            self._next.on_end(span)
        elif span.parent is not None:
            held.append(span)
            if len(held) >= _MAX_HELD_SPANS:
                self.release(context.trace_id)
        elif held or span.status.status_code is StatusCode.ERROR or _seconds(span) >= _LONG_SECONDS:
            self.release(context.trace_id)
            self._next.on_end(span)
        else:
            del self._held[context.trace_id]

    def release(self, trace_id: int) -> None:
        """Send what was held back of a trace, and everything of it from now on."""
        for span in self._held.pop(trace_id, ()):
            self._next.on_end(span)

    def shutdown(self) -> None:
        self._next.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._next.force_flush(timeout_millis)


def _seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / 1e9


class Recorder:
    """Records this process's spans and sends them in batches from a thread of its own; drops what cannot be sent."""

    def __init__(self) -> None:
        self._provider = TracerProvider(resource=_resource())
        self._quiet = _QuietTraceFilter(BatchSpanProcessor(OTLPSpanExporter()))
        self._provider.add_span_processor(self._quiet)
        self._tracer = self._provider.get_tracer(NAME)
        # Not atexit, which children of multiprocessing skip, and a server's processes are such children.
        Finalize(None, self._provider.shutdown, exitpriority=5)

    @contextmanager
    def span(
        self, name: str, kind: str, carrier: Mapping[str, str] | None, attributes: Mapping[str, Value]
    ) -> Iterator[_CurrentSpan]:
        # A thread is reused for other requests: one with a carrier must not become part of an earlier trace.
        parent = None if carrier is None else _PROPAGATOR.extract(carrier, context=Context())
        with self._tracer.start_as_current_span(
            name, context=parent, kind=_KINDS[kind], attributes=attributes, record_exception=False,
            set_status_on_exception=False,
        ) as started:  # fmt: skip
            present = _CurrentSpan(started)
            try:
                yield present
            except Exception as error:
                present.fail(type(error).__name__)  # its text may hold values of the directory
                raise

    @contextmanager
    def quiet_span(self, name: str, kind: str) -> Iterator[_CurrentSpan]:
        token = _is_quiet.set(True)
        try:
            with self.span(name, kind, {}, {}) as present:
                yield present
        finally:
            _is_quiet.reset(token)

    def record_past_span(self, name: str, seconds: float, attributes: Mapping[str, Value]) -> None:
        # Not `is_recording()`: a stream goes on after the span of its request has ended.
        if trace.get_current_span().get_span_context().trace_flags.sampled:
            ended = time.time_ns()
            began = ended - round(seconds * 1e9)
            span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes, start_time=began)
            span.end(ended)

    def add_event(self, name: str, attributes: Mapping[str, Value]) -> None:
        trace.get_current_span().add_event(name, attributes)

    def inject_context(self, carrier: MutableMapping[str, Any]) -> None:
        _PROPAGATOR.inject(carrier)
        self._quiet.release(trace.get_current_span().get_span_context().trace_id)

    def trace_id(self) -> str | None:
        context = trace.get_current_span().get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else None

    def shut_down(self) -> None:
        self._provider.shutdown()


def _resource() -> Resource:
    """Describe this process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    own = {"service.name": NAME, "service.instance.id": f"{socket.gethostname()}:{os.getpid()}"}
    with suppress(PackageNotFoundError):  # a source tree
        own["service.version"] = version(NAME)
    given = Resource.create().attributes
    is_named = str(given.get("service.name", "")).partition(":")[0] != "unknown_service"
    own = {name: value for name, value in own.items() if name not in given or (name == "service.name" and not is_named)}
    return Resource.create(own)
