"""Allowed addresses: single addresses and CIDR blocks, IPv4 and IPv6, in one normal form."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from core.network.ip_addresses import KnownAddresses, parse_address
from core.text.messages import message

_MAPPED = IPv6Network("::ffff:0:0/96")


def normalise_network(text: str) -> str:
    """The normal form of an address or block; raises ValueError saying what is wrong."""
    given = text.strip()
    if "%" in given:
        raise ValueError(message("{text}: an address with a zone is of this machine only", text=text))
    try:
        network = ip_network(given)
    except ValueError as error:
        # Host bits in a block are usually a typing error: 10.1.2.3/8 is hardly meant to admit sixteen million hosts.
        if "host bits" in str(error):
            raise ValueError(message("{text}: has host bits set", text=text)) from None
        raise ValueError(message("{text}: is no address", text=text)) from None
    plain = _unmapped(network)
    return str(plain.network_address) if plain.prefixlen == plain.max_prefixlen else str(plain)


def normalise_networks(texts: Iterable[str]) -> list[str]:
    """All of them, each once, in the order given; raises ValueError naming the first bad one."""
    return list(dict.fromkeys(normalise_network(text) for text in texts))


def is_allowed(address: str, allowed: Iterable[str]) -> bool:
    """Whether an address is one of, or lies in one of, the allowed. What is no address is in none."""
    return parse_address(address) in KnownAddresses(allowed)


def _unmapped(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """A block of IPv4-mapped addresses as the IPv4 block it means."""
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        low_bits = int(network.network_address) & 0xFFFFFFFF
        return IPv4Network((low_bits, network.prefixlen - 96))
    return network
