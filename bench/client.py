"""A bare client of the gateway: a client library would be measured, too."""

import json
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bench.servers import Gateway

_IDLE_SECONDS = 5.0
"""A connection that was idle for longer is reopened, since the server may have closed it."""


class Answer(NamedTuple):
    """One answer; `head` is as received."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """A header's value, empty if absent."""
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return ""


class Client:
    """One keep-alive connection on a bare socket; each part of an answer is waited for `patience` seconds."""

    def __init__(
        self, gateway: Gateway, url: str | None = None, *, api_key: str | None = None, patience: float = 120
    ) -> None:
        parts = urlsplit(url or gateway.base_url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._head = f"Host: {parts.netloc}\r\nX-API-Key: {api_key or gateway.api_key}\r\n"
        self._patience = patience
        self._socket: socket.socket | None = None
        self._used = 0.0

    def send(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        """Send a request and return its answer; further header lines each end in CRLF."""
        connection = self._connection()
        content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{self._head}{headers}{content}\r\n".encode() + body)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._received(connection)
        head, _, rest = received.partition(b"\r\n\r\n")
        status = int(head[9:12])
        length = 0 if status == 304 else int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        parts, missing = [rest], length - len(rest)
        while missing > 0:
            parts.append(self._received(connection))
            missing -= len(parts[-1])
        self._used = time.monotonic()
        return Answer(status, head, b"".join(parts))

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request and return the JSON of its answer; ends the benchmark if it is refused."""
        answer = self.send(method, path, b"" if body is None else json.dumps(body).encode())
        if answer.status >= 300:
            raise SystemExit(f"{method} {path} was answered with {answer.status}: {answer.body[:500]!r}")
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def _connection(self) -> socket.socket:
        if self._socket is None or time.monotonic() - self._used > _IDLE_SECONDS:
            if self._socket is not None:
                self._socket.close()
            self._socket = socket.create_connection(self._address, timeout=self._patience)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _received(self, connection: socket.socket) -> bytes:
        part = connection.recv(1 << 18)
        if not part:
            raise SystemExit("the server ended a connection in the middle of an exchange")
        return part


def in_threads(workers: Sequence[Callable[[], object]]) -> None:
    """Run all of them at once, until the last is done."""
    if len(workers) == 1:
        workers[0]()
        return
    with ThreadPoolExecutor(len(workers)) as pool:
        for done in [pool.submit(worker) for worker in workers]:
            done.result()


def expect(answer: Answer, status: int = 200) -> Answer:
    """Return the answer if it has the status; otherwise end the benchmark."""
    if answer.status != status:
        raise SystemExit(f"answered with {answer.status} instead of {status}: {answer.body[:500]!r}")
    return answer
