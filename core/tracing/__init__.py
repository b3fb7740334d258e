"""Traces by OpenTelemetry: what a request or a task did, and how long each part of it took.

They are recorded when OTEL_EXPORTER_OTLP_ENDPOINT (or …_TRACES_ENDPOINT) names a collector that speaks OTLP over HTTP.
The SDK's own variables decide the rest: headers, sampling, resource. Without a collector the libraries are not even
imported, and `traced` leaves functions as they are.

A span tells what was done and with what result, and holds no value of the directory, no name and no secret.
"""

import os
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from core.configuration import BadConfiguration

if TYPE_CHECKING:  # it imports the SDK
    from core.tracing.span_export import Recorder

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

Kind = Literal["server", "client", "consumer", "internal"]
Value = str | int | float | bool
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _is_wanted(environment: Mapping[str, str]) -> bool:
    is_off = (
        environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none"
    )
    return not is_off and any(environment.get(name) for name in _ENDPOINTS)


IS_ON: Final = _is_wanted(os.environ)
"""Whether this process records traces."""


class Span(Protocol):
    """What is being done now."""

    def set_attribute(self, name: str, value: Value) -> None:
        """Tell more of it."""

    def fail(self, reason: str) -> None:
        """It did not work; the reason is a name from the code."""


class _NoSpan:
    def set_attribute(self, name: str, value: Value) -> None: ...

    def fail(self, reason: str) -> None: ...


_NOTHING: Final = nullcontext(_NoSpan())


def require_usable(environment: Mapping[str, str]) -> None:
    """Raises BadConfiguration when traces are wanted and cannot be sent."""
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
    """Around something that is done. With a `carrier` it belongs to the trace that its `traceparent` names."""
    return (_made or _recorder()).span(name, kind, carrier, attributes) if IS_ON else _NOTHING


def quiet_span(name: str, *, kind: Kind = "internal") -> AbstractContextManager[Span]:
    """As `span`, at the beginning of a trace that is recorded only if it has parts, fails, takes long, or is handed on:
    for what is looked after every few seconds, mostly to find nothing.
    """
    return (_made or _recorder()).quiet_span(name, kind) if IS_ON else _NOTHING


def traced(name: str | Callable[..., str]) -> Callable[[_Function], _Function]:
    """Make a span of each call of a function; its name may be made of the arguments."""

    def decorate(function: _Function) -> _Function:
        if not IS_ON:
            return function

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with span(name if isinstance(name, str) else name(*arguments, **named)):
                return function(*arguments, **named)

        return call  # type: ignore[return-value]

    return decorate


def past(name: str, seconds: float, **attributes: Value) -> None:
    """A span that has just ended in this thread, as a part of what is being done; nothing outside of a trace."""
    if _made is not None:
        _made.past(name, seconds, attributes)


def event(name: str, **attributes: Value) -> None:
    """Something that happened while the present span was being done."""
    if _made is not None:
        _made.event(name, attributes)


def hand_on(carrier: MutableMapping[str, Any]) -> None:
    """Put the `traceparent` of the present span into what goes to somebody else."""
    if _made is not None:
        _made.hand_on(carrier)


def trace_id() -> str | None:
    """The trace that is being recorded, as the collector names it."""
    return _made.trace_id() if _made is not None else None


def end() -> None:
    """Send what is still waiting: the process ends."""
    if _made is not None:
        _made.end()


_made: "Recorder | None" = None
"""What records, from the first span on: before it there is nothing to tell."""
_making: Final = Lock()


def _recorder() -> "Recorder":
    """Made in the process that records: a server's processes are forked before."""
    global _made  # noqa: PLW0603 - one for the process
    with _making:
        if _made is None:
            from core.tracing.span_export import Recorder

            _made = Recorder()
    return _made
