"""Where an agent may have the answer to a sign-in sent: over TLS, or to a program on the person's own machine.

Addresses are compared as they are written (RFC 9700 section 2.1); only the port of a loopback one may be another, since
the program takes whichever is free (RFC 8252 section 7.3).
"""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

MAX_ADDRESSES = 10
MAX_LENGTH = 1000

_WRITTEN = re.compile(r"[A-Za-z0-9:/?\[\]@!$&'()*+,;=._~%-]+")
"""The characters of a URI (RFC 3986) without a fragment: nothing that a header, a page or a list could trip over."""
_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(?::([0-9]{1,5}))?((?:[/?].*)?)")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


def why_unacceptable(address: str) -> str | None:
    """In words, why an address may not be registered; None when it may."""
    if len(address) > MAX_LENGTH or not _WRITTEN.fullmatch(address):
        return "is no absolute address without a fragment"
    if loopback := _LOOPBACK.fullmatch(address):
        return None if _is_port(loopback[2]) else "has an impossible port"
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return "is no address"
    if parts.scheme != "https":
        return "must be https, or http on 127.0.0.1, [::1] or localhost"
    if parts.username is not None or parts.password is not None or not _HOST.fullmatch(parts.hostname or ""):
        return "must name a host, without a user"
    written = (parts.hostname or "") + ("" if port is None else f":{port}")
    return None if parts.netloc == written and port != 0 else "must name its host in lower case"


def is_registered(address: str, registered: Iterable[str]) -> bool:
    """Whether an address that a request names is one of those registered."""
    if why_unacceptable(address) is not None:
        return False
    asked = _LOOPBACK.fullmatch(address)
    for known in registered:
        if address == known:
            return True
        loopback = _LOOPBACK.fullmatch(known)
        if asked and loopback and (asked[1], asked[3]) == (loopback[1], loopback[3]):
            return True
    return False


def is_loopback(address: str) -> bool:
    """Whether the answer goes to the person's own machine."""
    return _LOOPBACK.fullmatch(address) is not None


def origin_of(address: str) -> str:
    """The origin of an acceptable address as a Content-Security-Policy names it (which knows no IPv6 addresses)."""
    parts = urlsplit(address)
    return "http:" if parts.netloc.startswith("[") else f"{parts.scheme}://{parts.netloc}"


def _is_port(text: str | None) -> bool:
    return text is None or 0 < int(text) < 65_536
