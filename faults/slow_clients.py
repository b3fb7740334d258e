"""Clients without a credential that send or read as slowly as they can, and whether others notice."""

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from http.client import HTTPException
from urllib.parse import urlsplit

from lab.http import Http

CONNECTIONS_OF_EACH_KIND = 64
"""Four times the threads of both web processes."""

_HEAD = b"POST /api/ad/users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_BODIES = (_HEAD + b"Content-Length: 1000\r\n\r\n{", _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
_UNREAD_FILE = b"GET /static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n"
_SENT = (b"", _HEAD, *_BODIES, _UNREAD_FILE)
"""What slow clients send before they stop: nothing, headers, bodies, and what asks for a file that nobody reads."""

_PROBES: Sequence[tuple[str, str, object, int]] = (
    ("GET", "/health", None, 200),
    ("GET", "/api/me", None, 401),
    ("POST", "/api/ad/users", {}, 401),
)
"""Requests that only slow clients could delay, with the expected status."""

ANSWER_SECONDS = 5.0
"""Seconds. Another fault at the same time may keep the threads of one web process: a probe is tried three times, by
connections that go to either."""
TRIES = 3


class OthersDelayed(RuntimeError):
    """Slow clients delayed others."""


def run_slow_clients(base_url: str, seconds: float) -> None:
    """Keep slow clients connected for `seconds`, and send other requests meanwhile; raises OthersDelayed."""
    parts, bodies = urlsplit(base_url), []
    with ExitStack() as stack:
        for sent in _SENT:
            for _ in range(CONNECTIONS_OF_EACH_KIND):
                address = parts.hostname or "", parts.port or 80
                connection = stack.enter_context(socket.create_connection(address, timeout=ANSWER_SECONDS))
                connection.sendall(sent)
                if sent in _BODIES:
                    bodies.append(connection)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for method, path, body, status in _PROBES:
                _require_answer(base_url, method, path, body, status)
            time.sleep(0.2)
        for connection in bodies:
            _require_nothing_but_408(connection)


def _require_answer(base_url: str, method: str, path: str, body: object, status: int) -> None:
    for _ in range(TRIES):
        with closing(Http(base_url, timeout=ANSWER_SECONDS)) as connection, suppress(OSError, HTTPException):
            answered = connection.send(method, path, body).status
            if answered != status:
                raise OthersDelayed(f"{method} {path} was answered with {answered}")
            return
    raise OthersDelayed(f"{method} {path} had no answer within {ANSWER_SECONDS:g} s, {TRIES} times")


def _require_nothing_but_408(connection: socket.socket) -> None:
    connection.setblocking(False)
    with suppress(BlockingIOError):
        answer = connection.recv(64)
        if not answer.startswith(b"HTTP/1.1 408 "):
            raise OthersDelayed(f"a body that stopped was answered with {answer!r}")
