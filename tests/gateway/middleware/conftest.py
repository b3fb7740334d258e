"""Clients of the middleware: Django's own, and sockets to a real server."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from core.configuration_sections import Configuration
from gateway.surfaces import routes
from lab.commands import web_command
from lab.redis import RedisServer

ADDRESS = "127.0.34.1"


@pytest.fixture
def client_with(settings: Any, redis_server: RedisServer) -> Iterator[Callable[..., Client]]:
    """A client of a gateway configured so: sections of the configuration as keywords, settings by their names."""
    settings.ROOT_URLCONF = "tests.gateway.middleware.urls"
    routes._resolve.cache_clear()

    def make(**given: Any) -> Client:
        sections = {name: given.pop(name) for name in list(given) if name in Configuration.model_fields}
        settings.CONFIGURATION = Configuration.model_validate(sections)
        for name, value in given.items():
            setattr(settings, name, value)
        return Client(raise_request_exception=False)

    yield make
    routes._resolve.cache_clear()


@pytest.fixture
def client(client_with: Callable[..., Client]) -> Client:
    """A client of a gateway that limits nothing."""
    return client_with(RateLimiting={"Enabled": False})


class Server:
    """A granian process with the options of production, spoken to in bytes."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.process = process

    def connect(self, wait: float = 120) -> socket.socket:
        """A connection to it, whose every step may take so many seconds."""
        return socket.create_connection((ADDRESS, self.port), timeout=wait)

    def send(self, request: bytes, *, hang_up: bool = False, wait: float = 120) -> tuple[int, bytes]:
        """Send these bytes, then read one answer: its status and body."""
        with self.connect(wait) as connection:
            connection.sendall(request)
            if hang_up:
                connection.shutdown(socket.SHUT_WR)
            head, body = read_answer(connection)
        return int(head.split(b" ", 2)[1]), body


def read_answer(connection: socket.socket) -> tuple[bytes, bytes]:
    """The head and the body of one answer that has a length; the answer after it may be in the same packet."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += _receive(connection, 1)
    (length,) = (
        int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    )
    body = b""
    while len(body) < length:
        body += _receive(connection, length - len(body))
    return head, body


def _receive(connection: socket.socket, size: int) -> bytes:
    if not (part := connection.recv(size)):
        raise ConnectionError("closed before the answer was complete")
    return part


@contextmanager
def serving(
    application: str = "tests.gateway.middleware.served:application", workers: int = 1, /, **environment: str
) -> Iterator[Server]:
    """Run the server on a free port of this host until the end of the block; processes of four threads."""
    with socket.create_server((ADDRESS, 0)) as free:
        port = free.getsockname()[1]
    command = web_command(host=ADDRESS, port=port, application=application, workers=workers)
    process = subprocess.Popen(
        command, env=os.environ | {"Web__Threads": "4"} | environment, cwd=django_settings.BASE_DIR
    )
    server = Server(port, process)
    try:
        deadline = time.monotonic() + 180
        while True:
            try:
                server.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield server
    finally:
        process.terminate()
        process.wait(120)


@pytest.fixture(scope="module")
def server(redis_server: RedisServer) -> Iterator[Server]:
    """A server that believes a proxy on this host and limits no rates."""
    with serving(RateLimiting__Enabled="false", ForwardedHeaders__KnownProxies='["127.0.0.0/8"]') as server:
        yield server
