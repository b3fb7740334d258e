"""OpenTelemetry traces: what a request or a task did, and how long each part of it took.

They are recorded if OTEL_EXPORTER_OTLP_ENDPOINT (or …_TRACES_ENDPOINT) names a collector that speaks OTLP over HTTP.
The SDK's own variables decide the rest: headers, sampling, resource. Without a collector the libraries are not even
imported, and `traced` returns functions unchanged.

A span says what was done and how it ended. It holds no directory value, no name and no secret: collectors are often
run by others.
"""

import os
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from core.configuration import BadConfiguration

if TYPE_CHECKING:  # it imports the SDK
    from core.tracing.span_export import Recorder

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

Kind = Literal["server", "client", "consumer", "internal"]
Value = str | int | float | bool
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _is_wanted(environment: Mapping[str, str]) -> bool:
    is_off = (
        environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none"
    )
    return not is_off and any(environment.get(name) for name in _ENDPOINTS)


IS_ON = _is_wanted(os.environ)
"""Whether this process records traces."""


class Span(Protocol):
    """The current span."""

    def set_attribute(self, name: str, value: Value) -> None:
        """Add an attribute."""

    def fail(self, reason: str) -> None:
        """Mark it as failed; `reason` is a name from the code, such as an exception's class."""


class _NoSpan:
    def set_attribute(self, name: str, value: Value) -> None: ...

    def fail(self, reason: str) -> None: ...


_NOTHING = nullcontext(_NoSpan())


def require_usable(environment: Mapping[str, str]) -> None:
    """Check at the start that traces, if wanted, can be sent; raises BadConfiguration."""
    if not _is_wanted(environment):
        return
    name = next(name for name in _ENDPOINTS if environment.get(name))
    if any(environment.get(each, "http/protobuf") != "http/protobuf" for each in _PROTOCOLS):
        raise BadConfiguration("OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf")
    if not environment[name].startswith(("http://", "https://")):
        raise BadConfiguration(f"{name}: must begin with http:// or https://")
    try:
        found = find_spec("opentelemetry.sdk") and find_spec("opentelemetry.exporter.otlp.proto.http")
    except ModuleNotFoundError:
        found = None
    if not found:
        raise BadConfiguration(f"{name}: traces need directory-management-gateway[tracing] (requirements-tracing.txt)")


def span(
    name: str, *, kind: Kind = "internal", carrier: Mapping[str, str] | None = None, **attributes: Value
) -> AbstractContextManager[Span]:
    """Record the block as a span; with a `carrier` as part of the trace that its `traceparent` header names."""
    return (_recorder or _start_recorder()).span(name, kind, carrier, attributes) if IS_ON else _NOTHING


def quiet_span(name: str, *, kind: Kind = "internal") -> AbstractContextManager[Span]:
    """Begin a trace that is recorded only if it has child spans, fails, takes long or is propagated.

    For sweeps that run every few seconds and mostly find nothing to do.
    """
    return (_recorder or _start_recorder()).quiet_span(name, kind) if IS_ON else _NOTHING


def traced(name: str | Callable[..., str]) -> Callable[[_Function], _Function]:
    """Decorate a function so that each call is a span; `name` may be computed from its arguments."""

    def decorate(function: _Function) -> _Function:
        if not IS_ON:
            return function

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with span(name if isinstance(name, str) else name(*arguments, **named)):
                return function(*arguments, **named)

        return call  # type: ignore[return-value]

    return decorate


def record_past_span(name: str, seconds: float, **attributes: Value) -> None:
    """Add a span that has just ended in this thread to the current trace; does nothing outside of one."""
    if _recorder is not None:
        _recorder.record_past_span(name, seconds, attributes)


def add_event(name: str, **attributes: Value) -> None:
    """Add an event to the current span."""
    if _recorder is not None:
        _recorder.add_event(name, attributes)


def inject_context(carrier: MutableMapping[str, Any]) -> None:
    """Put the `traceparent` of the current span into the headers of a message to another process."""
    if _recorder is not None:
        _recorder.inject_context(carrier)


def trace_id() -> str | None:
    """The current trace's id, in hexadecimal; None outside of a trace."""
    return _recorder.trace_id() if _recorder is not None else None


def shut_down() -> None:
    """Send the spans that still wait, as the process ends."""
    if _recorder is not None:
        _recorder.shut_down()


_recorder: "Recorder | None" = None
"""This process's recorder, from the first span on."""
_recorder_lock = Lock()


def _start_recorder() -> "Recorder":
    """Start it in the process that records: its thread would not survive the fork of a server's processes."""
    global _recorder  # noqa: PLW0603 - one for the process
    with _recorder_lock:
        if _recorder is None:
            from core.tracing.span_export import Recorder

            _recorder = Recorder()
    return _recorder
