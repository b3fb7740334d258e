"""The request id, the access log line and the measurements of every request. Nothing is decided about it here."""

import re
from collections.abc import Callable
from time import perf_counter
from typing import Final
from uuid import uuid4

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from core import tracing
from gateway.monitoring import metrics
from gateway.monitoring.logs import request_id, write_access_line
from gateway.surfaces.routes import metric_label
from keys.callers import find_caller

ARRIVED_AT: Final = "gateway.arrived_at"
"""The variable of the environment with the `perf_counter` at which the headers had arrived, where it is known."""

_OF_SUPERVISORS: Final = frozenset({"/health", "/health/ready", "/metrics"})
"""They come all the time: nobody wants to trace them, and they are none of the requests that are counted."""

_ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


class RequestIdMiddleware:
    """Take the client's X-Request-Id or make one, put it on the answer and on every log line in between."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = request.META.get(ARRIVED_AT) or perf_counter()
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        id = given if _ACCEPTED.fullmatch(given) else str(uuid4())
        request.request_id = id  # type: ignore[attr-defined]
        request_id.set(id)  # threads are reused: it takes the place of the last request's
        response = self._traced(request, id) if tracing.IS_ON else self.get_response(request)
        response["X-Request-Id"] = id
        if isinstance(response, HttpResponse) and response.status_code not in (204, 304):
            response.headers.setdefault("Content-Length", str(len(response.content)))  # else it would go out chunked
        seconds = perf_counter() - started
        operation = metric_label(request)
        if request.path not in _OF_SUPERVISORS:
            metrics.count_request(operation, request.method, response.status_code, seconds)
        line = {
            "method": request.method,
            "path": request.path,
            "status": response.status_code,
            "ms": round(seconds * 1000, 1),
            "client": getattr(request, "client_address", request.META.get("REMOTE_ADDR")),
            "request_id": id,
            "operation": operation,
        }
        if (caller := find_caller(request)) is not None:
            line["owner"] = caller.person.username
            if caller.credential.name is not None:
                line["key"] = caller.credential.name
        if trace := getattr(request, "trace_id", None):
            line["trace_id"] = trace
        write_access_line(line, is_unimportant=request.path == "/health")
        return response

    def _traced(self, request: HttpRequest, id: str) -> HttpResponseBase:
        """Answer it in a span of its own, in the client's trace if it names one."""
        if request.path in _OF_SUPERVISORS:
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
