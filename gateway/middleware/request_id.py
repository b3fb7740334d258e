"""The request id, the access log line and the measurements of every request. Nothing is decided about it here."""

import re
from collections.abc import Callable
from time import perf_counter
from typing import Final
from uuid import uuid4

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from gateway.monitoring import metrics
from gateway.monitoring.access_lines import access_lines
from gateway.monitoring.logs import request_id
from gateway.surfaces.routes import measured_as

ARRIVED_AT: Final = "gateway.arrived_at"
"""The variable of the environment with the `perf_counter` at which the headers had arrived, where it is known."""

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
        response = self.get_response(request)
        response["X-Request-Id"] = id
        if isinstance(response, HttpResponse) and response.status_code not in (204, 304):
            response.headers.setdefault("Content-Length", str(len(response.content)))  # else it would go out chunked
        seconds = perf_counter() - started
        metrics.count_request(measured_as(request), request.method, response.status_code, seconds)
        line = {
            "method": request.method,
            "path": request.path,
            "status": response.status_code,
            "ms": round(seconds * 1000, 1),
            "client": getattr(request, "client_address", request.META.get("REMOTE_ADDR")),
            "request_id": id,
        }
        access_lines.add(line, is_unimportant=request.path == "/health")
        return response
