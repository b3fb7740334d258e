"""Addresses of the Internet as peers and proxies write them, and the lists of them in the configuration."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address


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
        return address is not None and any(address in network for network in self._networks)
