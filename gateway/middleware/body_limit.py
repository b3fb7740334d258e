"""The size of a request: its address, and its body, which is read here before the view. What it says is not looked at.

What granian 2.8 does in front (seen with raw sockets): a malformed, negative or contradictory Content-Length is 400,
and with both Content-Length and `Transfer-Encoding: chunked` the length is dropped. A chunked body can be read from
`wsgi.input`, where Django, which goes by the length, sees an empty one. When the client goes away in the middle,
reading ends as if the body had: so what came is compared with the length. When it stays and sends nothing, reading
never ends: so it is done in a thread of its own, and the wait for it is limited.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import BytesIO
from time import monotonic
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from gateway.batch_shapes import batch_paths
from gateway.core.errors import BodyTooLarge, GatewayError, InvalidRequest, LengthRequired, MalformedRequest, UriTooLong
from gateway.surfaces.problems import error_response, is_machine_path

MAX_ADDRESS = 16 * 1024
"""Characters of path and query."""
READ_SECONDS = 20.0
"""Within this time a body must have arrived."""
DISCARD_SECONDS = 5.0
"""So long the rest of a refused body is taken, for the client's sake."""
PAUSE_SECONDS = 0.25
"""A client that sends nothing for so long is waiting for the answer."""


class BodyNotReceived(GatewayError):
    status, code, title = 408, "Request.Timeout", "The request body did not arrive in time"


@lru_cache(maxsize=1)
def _readers() -> ThreadPoolExecutor:
    """Threads that wait for bodies. One that waits in vain can only be freed by the client, who has to hang up.

    So there are as many as connections are let in (granian's backpressure): they cannot run out before those do.
    """
    return ThreadPoolExecutor(max_workers=64, thread_name_prefix="body")


def _read(request: HttpRequest, size: int) -> bytes:
    """At most that many bytes of the body; less where it ends before."""
    reading = _readers().submit(request.META["wsgi.input"].read, size)
    try:
        data: bytes = reading.result(READ_SECONDS)
    except TimeoutError:
        raise BodyNotReceived(headers={"Connection": "close"}) from None
    return data


def _discard(request: HttpRequest) -> None:
    """Take what the client is still sending of a refused body: the answer would close the connection under its hands,
    and many clients then report that and not the answer. One that pauses gets the answer at once.
    """
    if "HTTP_EXPECT" in request.META:  # it waits for a go-ahead, which reading would give
        return
    deadline = monotonic() + DISCARD_SECONDS
    while monotonic() < deadline:
        part = _readers().submit(request.META["wsgi.input"].read, 16_384)
        try:
            if not part.result(PAUSE_SECONDS):
                return
        except TimeoutError:
            return


def _read_chunked(request: HttpRequest, limit: int) -> bytes:
    """A body without a length. Where it was cut off cannot be seen, so only JSON, which shows it, may come this way."""
    if not is_machine_path(request.path):
        raise LengthRequired
    body = _read(request, limit + 1)
    if len(body) > limit:
        raise BodyTooLarge(maxBodyBytes=limit)
    if not body:  # sent empty, or cut off before its first byte: that must not pass for a request without a body
        raise LengthRequired
    return body


def _receive(request: HttpRequest, limit: int) -> bytes | None:
    """The body; None when there is none. Raises what the answer is when it cannot be taken."""
    stated: str = request.META.get("CONTENT_LENGTH") or ""
    if not stated:
        # HTTP/2 has bodies without a length and without that header, but nothing else has.
        if "HTTP_TRANSFER_ENCODING" in request.META:
            return _read_chunked(request, limit)
        if request.META.get("SERVER_PROTOCOL", "").startswith("HTTP/2") and request.method not in ("GET", "HEAD"):
            raise LengthRequired
        return None
    if not (stated.isascii() and stated.isdigit()):
        raise InvalidRequest("Content-Length is not a number.")
    length = int(stated)
    if length > limit:
        raise BodyTooLarge(maxBodyBytes=limit)
    if length == 0:
        return None
    body = _read(request, length)
    if len(body) < length:
        raise MalformedRequest("The body ended before it was complete.")
    return body


class BodyLimitMiddleware:
    """Refuses what is too large, and hands the view a body that is complete."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        limits = settings.CONFIGURATION.RequestLimits
        self.limit: int = limits.MaxBodyBytes
        self.batch_limit: int = limits.MaxBatchBodyBytes

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        query = request.META.get("QUERY_STRING", "")
        if len(request.META.get("PATH_INFO", "")) + len(query) + bool(query) > MAX_ADDRESS:
            return error_response(request, UriTooLong())
        limit = self.batch_limit if request.path in batch_paths() else self.limit
        try:
            body = _receive(request, limit)
        except GatewayError as refusal:
            if isinstance(refusal, BodyTooLarge):
                _discard(request)
            return error_response(request, refusal)
        if body is not None:
            _hand_over(request, body)
        return self.get_response(request)


def _hand_over(request: Any, body: bytes) -> None:
    """Let Django find the body where it keeps one that it has read itself."""
    request.META["CONTENT_LENGTH"] = str(len(body))
    request._body = body
    request._stream = BytesIO(body)
