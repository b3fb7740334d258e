"""Whose request it is, by address: the peer, or what known proxies report of it. No limit is applied here.

A client's `X_Forwarded_For` cannot take the place of a proxy's `X-Forwarded-For`: `gateway.server` drops such names.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

Address = IPv4Address | IPv6Address

_THIS_MACHINE = IPv4Address("127.0.0.1")


def parse_address(text: str) -> Address | None:
    """An address as peers and proxies write it, without port or zone; IPv4-mapped IPv6 is IPv4. None if malformed."""
    text = text.strip()
    if text.startswith("["):  # [2001:db8::1]:443
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:  # 192.0.2.1:443, as Azure's gateways write it
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


class KnownAddresses:
    """A list of addresses and CIDR blocks of the configuration."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ip_network(network) for network in networks)

    def __contains__(self, address: object) -> bool:
        return any(address in network for network in self._networks)


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
