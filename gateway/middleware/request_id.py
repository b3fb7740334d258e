"""The request id, the access log line and the measurements of every request. Nothing is decided about it here."""

import re
from collections.abc import Callable
from time import perf_counter
from typing import Final
from uuid import uuid4

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from gateway.monitoring import metrics

ARRIVED_AT: Final = "gateway.arrived_at"
"""The variable of the environment with the `perf_counter` at which the headers had arrived, where it is known."""

logger = structlog.get_logger("gateway.access")

_ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


class RequestIdMiddleware:
    """Take the client's X-Request-Id or make one, put it on the answer and on every log line in between."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        started = request.META.get(ARRIVED_AT) or perf_counter()
        given = request.META.get("HTTP_X_REQUEST_ID", "")
        request_id = given if _ACCEPTED.fullmatch(given) else str(uuid4())
        request.request_id = request_id  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()  # threads are reused; nothing of the last request may stay
        structlog.contextvars.bind_contextvars(request_id=request_id)
        response = self.get_response(request)
        response["X-Request-Id"] = request_id
        if isinstance(response, HttpResponse) and response.status_code not in (204, 304):
            response.headers.setdefault("Content-Length", str(len(response.content)))  # else it would go out chunked
        seconds = perf_counter() - started
        metrics.count_request(request, response, seconds)
        log = logger.debug if request.path == "/health" else logger.info
        log(
            "request",
            method=request.method,
            path=request.path,
            status=response.status_code,
            ms=round(seconds * 1000, 1),
            client=getattr(request, "client_address", request.META.get("REMOTE_ADDR")),
            credential=getattr(request, "credential_id", None),
        )
        return response
