"""IP addresses: how peers write them, where callers may come from, and where the gateway may send to.

An IPv6 address may embed an IPv4 address to which the network forwards what is sent to it, so both are checked.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from core.text.messages import message

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_MAPPED = IPv6Network("::ffff:0:0/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # RFC 4291, 2.4: the only block that IANA has ever allocated from
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052, 2.1: the network translates to the embedded IPv4 address
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)  # RFC 5214, 6.1: the upper half of an interface's identifier


def parse_address(text: str) -> Address | None:
    """Parse an address as peers and proxies write it; drop port and zone, map IPv4-mapped IPv6. None if malformed."""
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


class AddressList:
    """Addresses and CIDR blocks, for `address in list`."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ip_network(network) for network in networks)

    def __contains__(self, address: object) -> bool:
        return address is not None and any(address in network for network in self._networks)


def normalise_network(text: str) -> str:
    """The normal form of an address or block. Raises ValueError with a message."""
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
    """The normal forms in order, without duplicates. Raises ValueError for the first malformed one."""
    return list(dict.fromkeys(normalise_network(text) for text in texts))


def is_allowed(address: str, allowed: Iterable[str]) -> bool:
    """Whether an address is in one of the allowed addresses and blocks; False for text that is not an address."""
    return parse_address(address) in AddressList(allowed)


def _unmapped(network: Network) -> Network:
    """The IPv4 block that a block of IPv4-mapped addresses stands for; other blocks unchanged."""
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        low_bits = int(network.network_address) & 0xFFFFFFFF
        return IPv4Network((low_bits, network.prefixlen - 96))
    return network


def may_be_reached(address: str, allowed: Iterable[Network] = ()) -> bool:
    """Whether an address and every address embedded in it are public or in an allowed network.

    Keeps webhooks and other requests to foreign addresses from reaching the inside (server-side request forgery).
    """
    parsed = parse_address(address)
    return parsed is not None and _may_be_reached(parsed, tuple(allowed))


def _may_be_reached(address: Address, allowed: tuple[Network, ...]) -> bool:
    if any(address in network for network in allowed):
        return True
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    # Python's is_global alone also accepts addresses that nobody has been given, which a network may route inside.
    is_routed = address in _NAT64 or (address in _GLOBAL_UNICAST and address.is_global)
    return is_routed and all(_may_be_reached(inner, allowed) for inner in _embedded_addresses(address))


def _embedded_addresses(address: IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses to which the network may forward what is sent to this one."""
    number = int(address)
    if address in _NAT64 or number >> 32 == 0:  # and IPv4-compatible: RFC 4291, 2.5.5.1
        yield IPv4Address(number & 0xFFFF_FFFF)
    if address.sixtofour is not None:  # RFC 3056
        yield address.sixtofour
    if address.teredo is not None:  # RFC 4380: the server and the client
        yield from address.teredo
    if number >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFF_FFFF)
