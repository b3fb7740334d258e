"""Gives every request its id, access log line, metrics and trace."""

import re
from collections.abc import Mapping
from time import perf_counter
from typing import Any
from uuid import uuid4

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from core import tracing
from core.call import Call
from gateway.middleware import Middleware
from gateway.monitoring import metrics
from gateway.monitoring.logs import request_id, write_access_line
from gateway.surfaces.routes import metric_label
from keys.callers import find_caller

ARRIVED_AT = "gateway.arrived_at"
"""The WSGI environment's key for the `perf_counter` at which the headers had arrived, if known."""

_PROBE_PATHS = frozenset({"/health", "/health/ready", "/metrics"})
"""Load balancers and Prometheus request these all the time: they are neither traced nor counted."""

_VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


def begin_request(environ: Mapping[str, Any]) -> str:
    """The id of a request, the client's or a new one, for every log line until the next request of this thread."""
    sent = environ.get("HTTP_X_REQUEST_ID", "")
    id = sent if _VALID_ID.fullmatch(sent) else str(uuid4())
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
    seconds = perf_counter() - started
    if path not in _PROBE_PATHS:
        metrics.count_request(operation, method, status, seconds)
    line = {
        "method": method,
        "path": path,
        "status": status,
        "ms": round(seconds * 1000, 1),
        "client": client,
        "request_id": id,
        "operation": operation,
    }
    if caller is not None:
        line["owner"] = caller.person.username
        if caller.credential.name is not None:
            line["key"] = caller.credential.name
    if trace:
        line["trace_id"] = trace
    write_access_line(line, is_unimportant=path == "/health")


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
