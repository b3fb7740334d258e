"""What every benchmark needs: a bare client of the gateway, users to work on, a clock, and a row of the table."""

import json
import socket
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import ldap

from bench.stack import Stack

ATTRIBUTES = ["cn", "displayName", "mail", "sAMAccountName", "userPrincipalName", "department", "title"]
"""What is read of a user."""


class Gateway:
    """One keep-alive connection to the gateway, on a bare socket: a client library would be measured, too."""

    def __init__(self, stack: Stack, url: str | None = None) -> None:
        parts = urlsplit(url or stack.base_url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"Host: {parts.netloc}\r\nX-API-Key: {stack.api_key}\r\n"

    def send(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of one exchange."""
        content = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._socket.sendall(f"{method} {path} HTTP/1.1\r\n{self._head}{content}\r\n".encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._socket.recv(65536)
        head, _, rest = answer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(rest) < length:
            rest += self._socket.recv(65536)
        return int(head[9:12]), rest

    def call(self, method: str, path: str, body: object) -> tuple[int, dict[str, Any]]:
        status, content = self.send(method, path, json.dumps(body).encode())
        return status, json.loads(content)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_threads(workers: list[Callable[[], object]]) -> float:
    with ThreadPoolExecutor(len(workers)) as pool:
        return seconds(lambda: list(pool.map(lambda work: work(), workers)))


def add_users(connection: ldap.ldapobject.SimpleLDAPObject, unit: str, count: int) -> list[uuid.UUID]:
    found = []
    connection.add_s(unit, [("objectClass", [b"organizationalUnit"])])
    for number in range(count):
        dn = f"CN=Bench {uuid.uuid4().hex[:8]} {number},{unit}"
        name = f"b{uuid.uuid4().hex[:12]}".encode()
        connection.add_s(
            dn,
            [
                ("objectClass", [b"user"]),
                ("sAMAccountName", [name]),
                ("userAccountControl", [b"544"]),
                ("displayName", [b"Bench"]),
                ("department", [b"Measures"]),
            ],
        )
        entry = connection.search_s(dn, ldap.SCOPE_BASE, attrlist=["objectGUID"])[0][1]
        found.append(uuid.UUID(bytes_le=entry["objectGUID"][0]))
    return found


def row(name: str, raw: float, through: float, ratio: str, target: str) -> None:
    print(f"| {name} | {raw * 1000:.2f} ms | {through * 1000:.2f} ms | {ratio} | {target} |")
