"""Inspects a server for a person who sets up a connection: what it is, what may be done there, or what is in the way.

Nothing found out here makes the gateway trust a server.
"""

import contextlib
import socket
import ssl
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import inf
from time import monotonic
from urllib.parse import urlsplit
from uuid import UUID

import ldap
from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName, load_der_x509_certificate

from active_directory.client import Client
from active_directory.connections.connection import Connection, accepts_start_tls, address_of
from active_directory.constants import PRIVILEGED_ACCESS_FEATURE_GUID, RECYCLE_BIN_FEATURE_GUID
from active_directory.entry import Entry
from active_directory.errors import NotFound, ProtocolError

_BROAD_INDEX_SECONDS = 60.0
_MANY_ACCOUNTS = 15_000
"""Where Samba finds nearly everything about as quickly with an index as without (docs/performance.md)."""
RIGHTS_ATTRIBUTES = ("allowedAttributesEffective", "allowedChildClassesEffective")


@dataclass(frozen=True)
class ServerCheck:
    """What a server says of itself, and what the account may write and create at ``base_dn``."""

    url: str
    server: str
    tls_version: str
    tls_cipher: str
    naming_contexts: tuple[str, ...]
    functional_level: int
    attribute_count: int
    class_count: int
    base_dn: str
    base_readable: bool
    recycle_bin: bool
    writable_attributes: tuple[str, ...]
    creatable_classes: tuple[str, ...]


def check_server(client: Client) -> ServerCheck:
    """Open a new connection to the first server, as a first use would, and inspect it. Raises what goes wrong."""
    settings = client.settings
    connection = client.opener(settings.urls[0], settings, settings.connect_seconds)
    tls_version, tls_cipher = (
        _option(connection, option) for option in (ldap.OPT_X_TLS_VERSION, ldap.OPT_X_TLS_CIPHER)
    )
    connection.close()
    root = client.root_dse()
    schema = client.refresh_schema()
    base = client.find(settings.base_dn, RIGHTS_ATTRIBUTES)
    return ServerCheck(
        url=connection.url,
        server=root.text("dnsHostName") or connection.server,
        tls_version=tls_version,
        tls_cipher=tls_cipher,
        naming_contexts=tuple(root.texts("namingContexts")),
        functional_level=root.number("domainFunctionality"),
        attribute_count=len(schema.attributes),
        class_count=len(schema.classes),
        base_dn=settings.base_dn,
        base_readable=base is not None,
        recycle_bin=is_recycle_bin_enabled(client),
        writable_attributes=tuple(sorted(base.texts("allowedAttributesEffective"))) if base else (),
        creatable_classes=tuple(sorted(base.texts("allowedChildClassesEffective"))) if base else (),
    )


def is_recycle_bin_enabled(client: Client) -> bool:
    """Whether the recycle bin is enabled, so that deleted objects keep their attributes ([MS-ADTS] 3.1.1.9.1)."""
    return _is_enabled(client, RECYCLE_BIN_FEATURE_GUID)


def has_expiring_links(client: Client) -> bool:
    """Whether links can have a time to live: Privileged Access Management is enabled ([MS-ADTS] 3.1.1.9.2)."""
    try:
        return _is_enabled(client, PRIVILEGED_ACCESS_FEATURE_GUID)
    except ProtocolError:
        return False


def _is_enabled(client: Client, feature_guid: str) -> bool:
    """Whether ``msDS-EnabledFeature`` of the forest's partitions container names an optional feature."""
    try:
        partitions = client.read(f"CN=Partitions,{client.configuration_naming_context}", ("msDS-EnabledFeature",))
    except NotFound as error:
        raise ProtocolError("The forest's partitions container cannot be read") from error
    wanted = UUID(feature_guid).bytes_le
    for feature_dn in partitions.texts("msDS-EnabledFeature"):
        feature = client.find(feature_dn, ("msDS-OptionalFeatureGUID",))
        if feature is not None and wanted in feature.values("msDS-OptionalFeatureGUID"):
            return True
    return False


def days_in_recycle_bin(client: Client) -> int | None:
    """For how many days deleted objects can be restored; None if the directory does not say.

    ``msDS-DeletedObjectLifetime`` of the forest's Directory Service object, else its ``tombstoneLifetime``, in days
    ([MS-ADTS] 6.1.1.2.4.1.1).
    """
    service = f"CN=Directory Service,CN=Windows NT,CN=Services,{client.configuration_naming_context}"
    known = client.find(service, ("msDS-DeletedObjectLifetime", "tombstoneLifetime"))
    if known is None:
        return None
    return known.integer("msDS-DeletedObjectLifetime") or known.integer("tombstoneLifetime")


def is_samba(client: Client) -> bool:
    """Whether the server says that it is Samba (vendorName, RFC 3045), which differs from Windows in a few ways."""
    return is_samba_root_dse(client.read("", ("vendorName",)))


def has_slow_broad_indexes(client: Client) -> bool:
    """Whether the server finds nearly everything quicker without an index, as far as was known within the last minute.

    Samba does in a large domain. Only speed may depend on it: another server may answer by now.
    """
    asked_at, known = client.kept.get(has_slow_broad_indexes, (-inf, False))
    if monotonic() - asked_at > _BROAD_INDEX_SECONDS:
        known = is_samba(client) and _may_have_many_accounts(client)
        client.kept[has_slow_broad_indexes] = monotonic(), known
    return bool(known)


def _may_have_many_accounts(client: Client) -> bool:
    """Whether there may be many accounts: the lower half of rIDAvailablePool is the next relative identifier to give
    out, in blocks of 500 for each domain controller ([MS-ADTS] 6.1.5.3). There may be where it cannot be read.
    """
    manager = client.find(f"CN=RID Manager$,CN=System,{client.default_naming_context}", ("rIDAvailablePool",))
    pool = manager.integer("rIDAvailablePool") if manager is not None else None
    return pool is None or pool & 0xFFFF_FFFF > _MANY_ACCOUNTS


def is_samba_root_dse(root: Entry) -> bool:
    """Whether a rootDSE, read with its vendorName, is that of Samba."""
    return "samba" in (root.text("vendorName") or "").lower()


def _option(connection: Connection, option: int) -> str:
    value = connection.ldap.get_option(option)
    return value.decode() if isinstance(value, bytes) else str(value or "")


class Obstacle(StrEnum):
    """Where an attempt to reach a server fails."""

    UNKNOWN_HOST = "unknownHost"
    REFUSED_PORT = "refusedPort"
    SILENT = "silent"
    NO_ROUTE = "noRoute"
    NOT_A_DIRECTORY = "notADirectory"
    """The port is open, but the other side does not speak LDAP over TLS."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate: its DNS names, its issuer (RFC 4514), and when it expires."""

    names: tuple[str, ...]
    issuer: str
    ends: datetime


def find_obstacle(url: str, seconds: float) -> Obstacle:
    """Try once more to reach a server that could not be reached, and return where that fails."""
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
    """Read a server's certificate, trusted or not; None if it presents none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # harmless: no credentials are sent
    host, port = address_of(url)
    with (
        contextlib.suppress(OSError, ValueError),
        socket.create_connection((host, port), timeout=seconds) as plain,
    ):
        if urlsplit(url).scheme == "ldap" and not accepts_start_tls(plain):
            return None
        with context.wrap_socket(plain, server_hostname=host) as secured:
            certificate = load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")
        names: list[str] = []
        with contextlib.suppress(ExtensionNotFound):
            alternatives = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
            names = alternatives.get_values_for_type(DNSName)
        return Certificate(tuple(names), certificate.issuer.rfc4514_string(), certificate.not_valid_after_utc)
    return None
