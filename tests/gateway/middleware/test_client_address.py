"""Whose request it is: X-Forwarded-For is believed only as far as known proxies wrote it."""

from collections.abc import Callable

import pytest
from django.test import Client

from tests.gateway.middleware.conftest import Server

PROXIES = ["10.0.0.0/8", "2001:db8:1::/48"]


def address(client_with: Callable[..., Client], peer: str, forwarded: str | None, **more: str) -> dict:
    client = client_with(RateLimiting={"Enabled": False}, ForwardedHeaders={"KnownProxies": PROXIES})
    headers = ({} if forwarded is None else {"X-Forwarded-For": forwarded}) | more
    return client.get("/api/echo", REMOTE_ADDR=peer, headers=headers).json()


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("10.1.1.1", "203.0.113.9", "203.0.113.9"),
        ("192.0.2.1", "203.0.113.9", "192.0.2.1"),  # an unknown peer is not believed
        ("10.1.1.1", None, "10.1.1.1"),
        ("10.1.1.1", "1.1.1.1, 203.0.113.9", "203.0.113.9"),  # what the client itself had sent
        ("10.1.1.1", "1.1.1.1, 203.0.113.9, 10.2.2.2", "203.0.113.9"),  # through two proxies
        ("10.1.1.1", "10.3.3.3, 10.2.2.2", "10.3.3.3"),
        ("10.1.1.1", "203.0.113.9, junk", "10.1.1.1"),
        ("10.1.1.1", "203.0.113.9, junk, 10.2.2.2", "10.2.2.2"),
        ("10.1.1.1", "203.0.113.9,", "10.1.1.1"),
        ("10.1.1.1", "203.0.113.9:50123", "203.0.113.9"),
        ("10.1.1.1", "[2001:db8::9]:443", "2001:db8::9"),
        ("::ffff:10.1.1.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1::5", "2001:DB8:0::9", "2001:db8::9"),
        ("::ffff:192.0.2.1", None, "192.0.2.1"),
        ("", None, "127.0.0.1"),  # a Unix socket
    ],
)
def test_address(client_with: Callable[..., Client], peer: str, forwarded: str | None, expected: str) -> None:
    assert address(client_with, peer, forwarded)["address"] == expected


def test_scheme_is_believed_from_known_proxies_only(client_with: Callable[..., Client]) -> None:
    https = {"X-Forwarded-Proto": "https"}
    assert address(client_with, "10.1.1.1", None, **https)["secure"] is True
    assert address(client_with, "192.0.2.1", None, **https)["secure"] is False


def test_unix_socket_counts_as_loopback(client_with: Callable[..., Client]) -> None:
    client = client_with(RateLimiting={"Enabled": False}, ForwardedHeaders={"KnownProxies": ["127.0.0.1"]})
    response = client.get("/api/echo", REMOTE_ADDR="", headers={"X-Forwarded-For": "203.0.113.9"})
    assert response.json()["address"] == "203.0.113.9"


def test_real_server_joins_repeated_lines(server: Server) -> None:
    request = b"GET /api/echo HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n"
    assert b'"address": "203.0.113.9"' in server.send(request)[1]
