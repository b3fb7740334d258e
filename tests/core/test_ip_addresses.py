"""Allowed addresses: their normal form, and who is inside."""

import pytest

from core.ip_addresses import is_allowed, normalise_network, normalise_networks


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        (" 192.0.2.10 ", "192.0.2.10"),
        ("192.0.2.10/32", "192.0.2.10"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
        ("2001:DB8::1", "2001:db8::1"),
        ("2001:db8:0::/48", "2001:db8::/48"),
        ("::ffff:192.0.2.10", "192.0.2.10"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::/0", "::/0"),
    ],
)
def test_it_works(given: str, normal: str) -> None:
    assert normalise_network(given) == normal
    assert normalise_networks([given, normal]) == [normal]


@pytest.mark.parametrize("given", ["", "10.1.2.3/8", "192.0.2", "host.example.com", "fe80::1%eth0", "10.0.0.0/33"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=given.replace(".", r"\.") or "no address"):
        normalise_network(given)


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.0.0.1", False),
        ("2001:db8::77", True),
        ("2001:db9::77", False),
        ("192.0.2.10", True),
        ("", False),
        ("nonsense", False),
    ],
)
def test_who_is_inside(address: str, *, allowed: bool) -> None:
    assert is_allowed(address, ["192.0.2.10", "10.0.0.0/8", "2001:db8::/32"]) is allowed
