"""A bare client of the gateway: a client library would be measured, too."""

import json
import re
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from bench.servers import Gateway

_PATIENCE = 600.0
"""Seconds to wait for each part of an answer: long, since floods delay themselves."""
_IDLE_SECONDS = 5.0
"""A connection that was idle for longer is reopened, since the server may have closed it."""
_Connection = TypeVar("_Connection")


class Answer(NamedTuple):
    """One answer; `head` is as received."""

    head: bytes
    body: bytes = b""

    @property
    def status(self) -> int:
        return int(self.head[9:12])

    def header(self, name: str) -> str:
        """A header's value, empty if absent."""
        found = re.search(rf"\r\n{name}: (.*)\r\n".encode(), self.head, re.IGNORECASE)
        return found[1].decode() if found else ""


class Client:
    """One keep-alive connection on a bare socket, by default with the gateway's first key."""

    def __init__(self, gateway: Gateway, credential: str | None = None) -> None:
        parts = urlsplit(gateway.base_url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._head = f"Host: {parts.netloc}\r\n{credential or f'X-API-Key: {gateway.api_key}'}\r\n"
        self._used = 0.0

    def send(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        """Send a request and return its answer; further header lines each end in CRLF."""
        if time.monotonic() - self._used > _IDLE_SECONDS:
            self._connect()
        content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._socket.sendall(f"{method} {path} HTTP/1.1\r\n{self._head}{headers}{content}\r\n".encode() + body)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._received.readline() or _end_early()
        answer = Answer(head)
        length = 0 if answer.status == 304 else int(answer.header("Content-Length"))
        content_received = self._received.read(length)
        if len(content_received) < length:
            _end_early()
        self._used = time.monotonic()
        return Answer(head, content_received)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and return the JSON of its answer; ends the benchmark if it is refused."""
        answer = self.send(method, path, b"" if body is None else json.dumps(body).encode())
        if answer.status >= 300:
            raise SystemExit(f"{method} {path} was answered with {answer.status}: {answer.body[:500]!r}")
        return json.loads(answer.body)

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=_PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = self._socket.makefile("rb", 1 << 18)


def _end_early() -> bytes:
    raise SystemExit("the server ended a connection in the middle of an exchange")


def on_each(connections: Sequence[_Connection], times: int, request: Callable[[_Connection, int], object]) -> None:
    """Send so many requests on each connection, one after another, and on all connections at once."""

    def send_all(connection: _Connection) -> None:
        for number in range(times):
            request(connection, number)

    with ThreadPoolExecutor(len(connections)) as pool:
        list(pool.map(send_all, connections))


def expect(answer: Answer, status: int = 200) -> Answer:
    """Return the answer if it has the status; otherwise end the benchmark."""
    if answer.status != status:
        raise SystemExit(f"answered with {answer.status} instead of {status}: {answer.body[:500]!r}")
    return answer
