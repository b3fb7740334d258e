"""Why a server cannot be used, as far as a host can tell: the name, the port, silence on the way, the certificate.

What is found out here is for people who set up a connection. Nothing is trusted because of it, and nothing is sent.
"""

import contextlib
import socket
import ssl
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlsplit

from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName, load_der_x509_certificate

from active_directory.connections.connection import address_of, begins_tls


class Obstacle(StrEnum):
    """Where the way to a server ends."""

    UNKNOWN_HOST = "unknownHost"
    REFUSED_PORT = "refusedPort"
    SILENT = "silent"
    NO_ROUTE = "noRoute"
    NOT_A_DIRECTORY = "notADirectory"
    """The port is open, and whoever answers there hangs up."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a server's certificate says of itself: the DNS names that it is for, who issued it, and when it ends."""

    names: tuple[str, ...]
    issuer: str
    ends: datetime


def find_obstacle(url: str, seconds: float) -> Obstacle:
    """Go the way to a server that could not be reached once more, and say where it ends."""
    try:
        with socket.create_connection(address_of(url), timeout=seconds):
            return Obstacle.NOT_A_DIRECTORY
    except socket.gaierror:
        return Obstacle.UNKNOWN_HOST
    except ConnectionRefusedError:
        return Obstacle.REFUSED_PORT
    except TimeoutError:
        return Obstacle.SILENT
    except (OSError, UnicodeError):
        return Obstacle.NO_ROUTE


def read_certificate(url: str, seconds: float) -> Certificate | None:
    """The certificate that a server shows, trusted or not; None when it shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is looked at, nothing is sent
    host, port = address_of(url)
    with (
        contextlib.suppress(OSError, ValueError),
        socket.create_connection((host, port), timeout=seconds) as plain,
    ):
        if urlsplit(url).scheme == "ldap" and not begins_tls(plain):
            return None
        with context.wrap_socket(plain, server_hostname=host) as secured:
            certificate = load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")
        names: list[str] = []
        with contextlib.suppress(ExtensionNotFound):
            alternatives = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
            names = alternatives.get_values_for_type(DNSName)
        return Certificate(tuple(names), certificate.issuer.rfc4514_string(), certificate.not_valid_after_utc)
    return None
