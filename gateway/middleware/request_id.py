"""Gives every request its id, access log line, metrics and trace."""

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import perf_counter, time
from typing import Any, NamedTuple

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from active_directory import is_on_loop
from audit.identifiers import new_identifier_text
from core import tracing
from core.background_writer import BackgroundWriter
from core.call import Call
from gateway.middleware import Middleware
from gateway.monitoring import metrics
from gateway.monitoring.logs import request_id, write_access_lines
from gateway.surfaces.routes import metric_label
from keys.callers import find_caller

_logger = structlog.stdlib.get_logger(__name__)

ARRIVED_AT = "gateway.arrived_at"
"""The WSGI environment's key for the `perf_counter` at which the headers had arrived, if known."""

_PROBE_PATHS = frozenset({"/health", "/health/ready", "/metrics"})
"""Load balancers and Prometheus request these all the time: they are neither traced nor counted."""

_VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


def begin_request(environ: Mapping[str, Any]) -> str:
    """The id of a request, the client's or a new one, for every log line until the next request of this thread."""
    sent = environ.get("HTTP_X_REQUEST_ID")
    # One that sorts by time: the log's index of request ids grows at its end, which saves most of its work.
    id = sent if sent and _VALID_ID.fullmatch(sent) else new_identifier_text()
    request_id.set(id)  # threads are reused: replace the id of the last request
    return id


def end_request(
    started: float,
    *,
    method: str | None,
    path: str,
    status: int,
    operation: str,
    client: str | None,
    id: str,
    caller: Call | None,
    trace: str | None = None,
) -> None:
    """Measure an answered request, and write its access line."""
    answered = _Answered(time(), perf_counter() - started, method, path, status, operation, client, id, caller, trace)
    if is_on_loop():
        _answered_on_loop.add(answered)
    else:
        _tell([answered])


class _Answered(NamedTuple):
    """An answered request; `at` is Unix time."""

    at: float
    seconds: float
    method: str | None
    path: str
    status: int
    operation: str
    client: str | None
    id: str
    caller: Call | None
    trace: str | None

    def line(self) -> dict[str, Any]:
        """What its access line says."""
        line = {
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "ms": round(self.seconds * 1000, 1),
            "client": self.client,
            "request_id": self.id,
            "operation": self.operation,
        }
        if self.caller is not None:
            line["owner"] = self.caller.person.username
            if self.caller.credential.name is not None:
                line["key"] = self.caller.credential.name
        if self.trace:
            line["trace_id"] = self.trace
        return line


def _tell(requests: Sequence[_Answered]) -> bool:
    """Count requests and write their access lines."""
    metrics.count_requests(
        (each.operation, each.method, each.status, each.seconds) for each in requests if each.path not in _PROBE_PATHS
    )
    with suppress(OSError, ValueError):  # nobody reads standard output any more; logging goes on, too
        write_access_lines(
            (each.at, logging.DEBUG if each.path == "/health" else logging.INFO, each.line()) for each in requests
        )
    if lost := _answered_on_loop.refused:
        _answered_on_loop.refused = 0
        _logger.error("requests were neither counted nor written, nobody read standard output", requests=lost)
    return True


_answered_on_loop: BackgroundWriter[_Answered] = BackgroundWriter("answered-requests", _tell, delay=0.05)
"""What was answered on the event loop. Whoever reads standard output may be slow, which must not hold up the loop.

Requests wait for others for a moment: alike ones are counted together, and waking the thread for each takes longer.
"""


class RequestIdMiddleware(Middleware):
    """Takes the client's X-Request-Id or creates one, and adds it to the response and to every log line in between."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = request.META.get(ARRIVED_AT) or perf_counter()
        id = begin_request(request.META)
        request.request_id = id  # type: ignore[attr-defined]
        response = self._traced(request, id) if tracing.IS_ON else self.get_response(request)
        response["X-Request-Id"] = id
        if isinstance(response, HttpResponse) and response.status_code not in (204, 304):
            response.headers.setdefault(
                "Content-Length", str(len(response.content))
            )  # otherwise granian sends it chunked
        end_request(
            started,
            method=request.method,
            path=request.path,
            status=response.status_code,
            operation=metric_label(request),
            client=getattr(request, "client_address", request.META.get("REMOTE_ADDR")),
            id=id,
            caller=find_caller(request),
            trace=getattr(request, "trace_id", None),
        )
        return response

    def _traced(self, request: HttpRequest, id: str) -> HttpResponseBase:
        """Answer the request in a span, as part of the client's trace if it sent one."""
        if request.path in _PROBE_PATHS:
            return self.get_response(request)
        operation, method = metric_label(request), request.method or ""
        with tracing.span(
            f"{method} {operation}",
            kind="server",
            carrier={name: request.headers[name] for name in ("traceparent", "tracestate") if name in request.headers},
            **{"http.request.method": method, "gateway.operation": operation, "gateway.request_id": id},
        ) as span:
            request.trace_id = tracing.trace_id()  # type: ignore[attr-defined]
            response = self.get_response(request)
            span.set_attribute("http.response.status_code", response.status_code)
            if response.status_code >= 500:
                span.fail(str(response.status_code))
            return response
