"""Limits the size of a request's URI and body. The body is read here, before the view, but not parsed.

`gateway.server` has already received the body, as far as `expected_body` allows, so reading never blocks here. Before
that granian 2.8 (observed with raw sockets) answers a malformed, negative or contradictory Content-Length with 400, and
drops the Content-Length of a request that also has `Transfer-Encoding: chunked`. A chunked body is in `wsgi.input`, but
Django goes by the length and would see an empty one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from core.errors import BodyTooLarge, GatewayError, InvalidRequest, LengthRequired, MalformedRequest, UriTooLong
from gateway.middleware import Middleware
from gateway.pipeline.batches import batch_paths
from gateway.surfaces.problems import error_response, is_machine_path

MAX_URI_LENGTH = 16 * 1024
"""Characters of path and query."""

NOT_RECEIVED = "gateway.body_not_received"
"""The WSGI environment's key for the GatewayError of a body that did not arrive completely."""


@dataclass(frozen=True, slots=True)
class ExpectedBody:
    """A body that may be received: its length (None if it is chunked), and its maximum size."""

    length: int | None
    limit: int


def expected_body(environ: Mapping[str, Any]) -> ExpectedBody | None:
    """Return the body that a request's headers announce, or None without one; raises the GatewayError of a refusal."""
    stated: str = environ.get("CONTENT_LENGTH") or ""
    if not stated:
        # Only HTTP/2 has bodies with neither of these headers.
        if "HTTP_TRANSFER_ENCODING" in environ:
            if not is_machine_path(environ["PATH_INFO"]):
                raise LengthRequired
            return ExpectedBody(None, _limit(environ))
        if environ["SERVER_PROTOCOL"].startswith("HTTP/2") and environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise LengthRequired
        return None
    if not (stated.isascii() and stated.isdigit()):
        raise InvalidRequest("Content-Length is not a number.")
    length, limit = int(stated), _limit(environ)
    if length > limit:
        raise BodyTooLarge(maxBodyBytes=limit)
    return ExpectedBody(length, limit) if length else None


def _limit(environ: Mapping[str, Any]) -> int:
    limits = settings.CONFIGURATION.RequestLimits
    maximum: int = limits.MaxBatchBodyBytes if environ["PATH_INFO"] in batch_paths() else limits.MaxBodyBytes
    return maximum


def _read(environ: Mapping[str, Any]) -> bytes | None:
    """Return the body, or None without one; raises the GatewayError of a refusal."""
    expected = expected_body(environ)
    if expected is None:
        return None
    if NOT_RECEIVED in environ:
        raise environ[NOT_RECEIVED]
    if expected.length is not None:
        body: bytes = environ["wsgi.input"].read(expected.length)
        if len(body) < expected.length:
            raise MalformedRequest("The body ended before it was complete.")
        return body
    body = environ["wsgi.input"].read(expected.limit + 1)
    if len(body) > expected.limit:
        raise BodyTooLarge(maxBodyBytes=expected.limit)
    if not body:  # an empty chunked body must not pass for a request without a body
        raise LengthRequired
    return body


class BodyLimitMiddleware(Middleware):
    """Refuses requests that are too large, and gives the view a complete body."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        query = request.META.get("QUERY_STRING", "")
        if len(request.META.get("PATH_INFO", "")) + len(query) + bool(query) > MAX_URI_LENGTH:
            return error_response(request, UriTooLong())
        try:
            body = _read(request.META)
        except GatewayError as refusal:
            return error_response(request, refusal)
        if body is not None:
            _hand_over(request, body)
        return self.get_response(request)


def _hand_over(request: Any, body: bytes) -> None:
    """Put the body where Django stores one that it has read itself."""
    request.META["CONTENT_LENGTH"] = str(len(body))
    request._body = body
    request._stream = BytesIO(body)
