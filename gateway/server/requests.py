"""Receiving requests: builds the WSGI environment (PEP 3333) of an ASGI request, and receives its body.

A body has a maximum size, a time limit, and a share of the memory for all bodies. While it arrives, it occupies only
its connection and the memory of the bytes so far. An error is left in the environment for the middleware to raise, so
that the refusal is counted, logged and rendered like any other.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from core.errors import BodyNotReceived, BodyTooLarge, GatewayError, MalformedRequest
from gateway.middleware.body_limit import NOT_RECEIVED, ExpectedBody, expected_body

Environ = dict[str, Any]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]

BYTES_PER_SECOND = 65_536
"""A body gets another second for each time this many bytes have arrived."""

DISCARD_SECONDS = 5.0
"""How long the rest of a refused body is read and discarded."""

PAUSE_SECONDS = 0.25
"""A client that sends nothing for this long is taken to wait for the answer."""


@lru_cache(maxsize=1024)
def _variable(name: bytes) -> str | None:
    """Return the WSGI key of a header, or None for a name with an underscore, whose header is dropped.

    WSGI has one variable, HTTP_X_FORWARDED_FOR, for both `X-Forwarded-For` and `X_Forwarded_For`. A proxy that replaces
    the former would let a client forge it by the latter; no header that we read has an underscore.
    """
    if b"_" in name:
        return None
    variable = name.decode("latin-1").upper().replace("-", "_")
    return variable if variable in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{variable}"


def environ_of(scope: Scope) -> Environ:
    """Return the WSGI environment of a request. Non-ASCII bytes are decoded as latin-1, as PEP 3333 demands."""
    raw_path: bytes = scope["raw_path"]
    host, port = scope["server"]
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": (unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": scope["client"][0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        variable = _variable(name)
        if variable is None:
            continue
        text = value.decode("latin-1")
        if variable in environ:  # lines of one header form a list (RFC 9110 section 5.2, cookies RFC 6265 section 5.4)
            environ[variable] += ("; " if variable == "HTTP_COOKIE" else ",") + text
        else:
            environ[variable] = text
    return environ


WITHOUT_HEADERS = frozenset(
    environ_of(
        {
            **dict.fromkeys(("method", "http_version", "scheme"), ""),
            **dict.fromkeys(("server", "client"), ("", "")),
            **dict.fromkeys(("raw_path", "query_string"), b""),
            "headers": (),
        }
    )
)
"""The variables of a request without any header."""


class Bodies:
    """The request bodies of this process. Each has `seconds` to arrive; together they take at most `capacity` bytes.

    Beyond the capacity, the body that has been arriving longest is evicted: whoever sends slowly to fill the memory
    only evicts their own bodies.
    """

    def __init__(self, *, seconds: float, capacity: int) -> None:
        self._seconds = seconds
        self._capacity = capacity
        self._kept = 0
        self._arriving: dict[asyncio.Timeout, int] = {}  # oldest first, with the bytes received so far

    async def receive(self, environ: Environ, receive: Receive) -> int:
        """Receive the body into the environment; return the number of bytes to `release` later."""
        body = environ["wsgi.input"] = BytesIO()
        try:
            expected = expected_body(environ)
        except BodyTooLarge:
            await _discard(environ, receive)
            return 0
        except GatewayError:  # the middleware raises it again
            return 0
        if expected is None:
            return 0
        try:
            is_whole, kept = await self._receive(body, expected, receive)
        except TimeoutError:
            environ[NOT_RECEIVED] = BodyNotReceived(headers={"Connection": "close"})
            environ["wsgi.input"] = BytesIO()
            return 0
        if not is_whole and body.tell() > expected.limit:
            await _discard(environ, receive)
        elif not is_whole:
            environ[NOT_RECEIVED] = MalformedRequest("The body ended before it was complete.")
        body.seek(0)
        return kept

    def release(self, size: int) -> None:
        """Release `size` bytes of buffered bodies."""
        self._kept -= size

    async def _receive(self, body: BytesIO, expected: ExpectedBody, receive: Receive) -> tuple[bool, int]:
        """Return whether the body is complete, and how many bytes are kept; raises TimeoutError if it is late."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(self._seconds) as clock:
            self._arriving[clock] = 0
            try:
                is_whole = False
                while not is_whole and body.tell() <= expected.limit:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    body.write(message["body"])
                    is_whole = not message["more_body"] or body.tell() == expected.length
                    if clock in self._arriving:  # not evicted
                        clock.reschedule(began + self._seconds + body.tell() / BYTES_PER_SECOND)
                        self._keep(clock, len(message["body"]))
            except BaseException:
                self._kept -= self._arriving.pop(clock, 0)
                raise
            return is_whole, self._arriving.pop(clock, 0)
        raise AssertionError("unreachable")

    def _keep(self, clock: asyncio.Timeout, size: int) -> None:
        self._kept += size
        self._arriving[clock] += size
        while self._kept > self._capacity and self._arriving:
            oldest = next(iter(self._arriving))
            self._kept -= self._arriving.pop(oldest)
            if not oldest.expired():
                oldest.reschedule(0)


async def _discard(environ: Environ, receive: Receive) -> None:
    """Read the rest of a refused body. A client that pauses gets its answer at once.

    Without this the answer would close the connection while the client is still sending, and many clients then report a
    broken connection instead of the answer.
    """
    if "HTTP_EXPECT" in environ:  # the client waits for 100 Continue, which receiving would send
        return
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while True:
                async with asyncio.timeout(PAUSE_SECONDS):
                    message = await receive()
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return
