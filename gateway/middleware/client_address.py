"""Determines the client's IP address: the peer's, or the one that known proxies report.

A client cannot forge a proxy's `X-Forwarded-For` by `X_Forwarded_For`: `gateway.server` drops headers with underscores.
"""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from core.ip_addresses import Address, AddressList, parse_address
from gateway.middleware import Middleware

_THIS_MACHINE = IPv4Address("127.0.0.1")


@lru_cache(maxsize=1024)
def peer_address(remote: str) -> Address:
    """The address of a connection's peer. The peer of a unix socket, which has none, counts as 127.0.0.1."""
    return parse_address(remote) or _THIS_MACHINE


def forwarded_address(peer: Address, forwarded_for: str, proxies: AddressList) -> Address:
    """Return the client's address: walk X-Forwarded-For from the right while known proxies have added its entries."""
    address = peer
    for entry in reversed(forwarded_for.split(",")):
        if address not in proxies:
            break
        reported = parse_address(entry)
        if reported is None:  # entries to the left of a malformed one cannot be trusted
            break
        address = reported
    return address


@lru_cache(maxsize=1024)
def _client_address(remote: str, forwarded_for: str, proxies: AddressList) -> tuple[str, bool]:
    """The client's address, and whether a known proxy reports it."""
    address = peer_address(remote)
    is_reported = address in proxies
    return str(forwarded_address(address, forwarded_for, proxies) if is_reported else address), is_reported


def client_address_of(environ: dict[str, Any], proxies: AddressList) -> str:
    """The client's address; drops X-Forwarded-Proto from the environment unless a known proxy sent it."""
    remote, forwarded_for = environ.get("REMOTE_ADDR", ""), environ.get("HTTP_X_FORWARDED_FOR", "")
    address, is_reported = _client_address(remote, forwarded_for, proxies)
    if not is_reported:
        environ.pop("HTTP_X_FORWARDED_PROTO", None)
    return address


class ClientAddressMiddleware(Middleware):
    """Sets `request.client_address`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        super().__init__(get_response)
        self.proxies = AddressList(settings.CONFIGURATION.ForwardedHeaders.KnownProxies)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        request.client_address = client_address_of(request.META, self.proxies)  # type: ignore[attr-defined]
        return self.get_response(request)
