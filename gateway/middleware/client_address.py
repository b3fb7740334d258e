"""Whose request it is, by address: the peer, or what known proxies report of it. No limit is applied here.

A client's `X_Forwarded_For` cannot take the place of a proxy's `X-Forwarded-For`: `gateway.server` drops such names.
"""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from core.network.ip_addresses import Address, KnownAddresses, parse_address

_THIS_MACHINE = IPv4Address("127.0.0.1")


@lru_cache(maxsize=1024)
def peer_address(remote: str) -> Address:
    """The peer of the connection. One on a unix socket has no address: it is a process of this machine."""
    return parse_address(remote) or _THIS_MACHINE


def forwarded_address(peer: Address, forwarded_for: str, proxies: KnownAddresses) -> Address:
    """Walk X-Forwarded-For from the right as long as the one who wrote the entry is a known proxy."""
    address = peer
    for entry in reversed(forwarded_for.split(",")):
        if address not in proxies:
            break
        reported = parse_address(entry)
        if reported is None:  # nothing left of a malformed entry can be believed
            break
        address = reported
    return address


class ClientAddressMiddleware:
    """Sets `request.client_address`, and takes X-Forwarded-Proto away from everybody but known proxies."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self.proxies = KnownAddresses(settings.CONFIGURATION.ForwardedHeaders.KnownProxies)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        address = peer_address(request.META.get("REMOTE_ADDR", ""))
        if address in self.proxies:
            address = forwarded_address(address, request.META.get("HTTP_X_FORWARDED_FOR", ""), self.proxies)
        else:
            request.META.pop("HTTP_X_FORWARDED_PROTO", None)
        request.client_address = str(address)  # type: ignore[attr-defined]
        return self.get_response(request)
