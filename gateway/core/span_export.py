"""OpenTelemetry's SDK as `tracing` uses it. Nobody else imports it, and only where traces are wanted."""

import os
import socket
import time
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.util import Finalize
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
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


class _Present:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set_attribute(self, name: str, value: Value) -> None:
        self._span.set_attribute(name, value)

    def fail(self, reason: str) -> None:
        self._span.set_attribute("error.type", reason)
        self._span.set_status(Status(StatusCode.ERROR))


class Recorder:
    """The spans of this process, sent in batches by a thread of their own. What cannot be sent is dropped."""

    def __init__(self) -> None:
        self._provider = TracerProvider(resource=_resource())
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
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

    def past(self, name: str, seconds: float, attributes: Mapping[str, Value]) -> None:
        if trace.get_current_span().is_recording():
            ended = time.time_ns()
            began = ended - round(seconds * 1e9)
            span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes, start_time=began)
            span.end(ended)

    def event(self, name: str, attributes: Mapping[str, Value]) -> None:
        trace.get_current_span().add_event(name, attributes)

    def hand_on(self, carrier: MutableMapping[str, Any]) -> None:
        _PROPAGATOR.inject(carrier)

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
