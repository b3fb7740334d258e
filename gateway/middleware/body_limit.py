"""The size of a request: its address, and its body, which is read here before the view. What it says is not looked at.

`gateway.server` has received the body before, as far as `expected_body` lets it, so that reading never waits here. What
granian 2.8 does in front of that (seen with raw sockets): a malformed, negative or contradictory Content-Length is 400,
and with both Content-Length and `Transfer-Encoding: chunked` the length is dropped. A chunked body can be read from
`wsgi.input`, where Django, which goes by the length, sees an empty one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from core.errors import BodyTooLarge, GatewayError, InvalidRequest, LengthRequired, MalformedRequest, UriTooLong
from gateway.pipeline.batch_shapes import batch_paths
from gateway.surfaces.problems import error_response, is_machine_path

MAX_ADDRESS = 16 * 1024
"""Characters of path and query."""
NOT_RECEIVED: Final = "gateway.body_not_received"
"""The variable of the environment with the GatewayError of a body that did not arrive whole."""


@dataclass(frozen=True, slots=True)
class ExpectedBody:
    """A body that may be taken: its length, None when its end will tell, and the most that it may have."""

    length: int | None
    limit: int


def expected_body(environ: Mapping[str, Any]) -> ExpectedBody | None:
    """The body that a request brings, by its WSGI environment; None when it has none.

    Raises what the answer is when it cannot be taken, whatever it is.
    """
    stated: str = environ.get("CONTENT_LENGTH") or ""
    if not stated:
        # HTTP/2 has bodies without a length and without that header, but nothing else has.
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
    """The body; None when there is none. Raises what the answer is when it cannot be taken."""
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
    if not body:  # that must not pass for a request without a body
        raise LengthRequired
    return body


class BodyLimitMiddleware:
    """Refuses what is too large, and hands the view a body that is complete."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        query = request.META.get("QUERY_STRING", "")
        if len(request.META.get("PATH_INFO", "")) + len(query) + bool(query) > MAX_ADDRESS:
            return error_response(request, UriTooLong())
        try:
            body = _read(request.META)
        except GatewayError as refusal:
            return error_response(request, refusal)
        if body is not None:
            _hand_over(request, body)
        return self.get_response(request)


def _hand_over(request: Any, body: bytes) -> None:
    """Let Django find the body where it keeps one that it has read itself."""
    request.META["CONTENT_LENGTH"] = str(len(body))
    request._body = body
    request._stream = BytesIO(body)
