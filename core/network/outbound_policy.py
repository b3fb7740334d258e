"""Which addresses of the Internet are inside somebody's network, however they are written.

An IPv6 address may stand for an IPv4 one: what is sent to it is sent on to that. So both are looked at.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")  # RFC 4291, 2.4: all that IANA has ever given out
_NAT64: Final = IPv6Network("64:ff9b::/96")  # RFC 6052, 2.1: the network translates it to the IPv4 address in it
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)  # RFC 5214, 6.1: the upper half of an interface's identifier


def parse(text: str) -> Address:
    """An address as the resolver gives it, without the zone of a link-local one; raises ValueError.

    IPv4-mapped ones become what they stand for: it is the same connection.
    """
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def embedded_addresses(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses to which something that is sent to this one may be sent on."""
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    number = int(address)
    if address in _NAT64 or number >> 32 == 0:  # and IPv4-compatible: RFC 4291, 2.5.5.1
        yield IPv4Address(number & 0xFFFF_FFFF)
    if address.sixtofour is not None:  # RFC 3056
        yield address.sixtofour
    if address.teredo is not None:  # RFC 4380: the server and the client
        yield from address.teredo
    if number >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFF_FFFF)


def may_be_reached(address: Address, allowed: Iterable[Network] = ()) -> bool:
    """Whether an address, and everything that it stands for, is the Internet's or in an allowed network."""
    networks = tuple(allowed)
    if any(address in network for network in networks):
        return True
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    is_routed = address in _NAT64 or (address in _GLOBAL_UNICAST and address.is_global)
    return is_routed and all(may_be_reached(inner, networks) for inner in embedded_addresses(address))
