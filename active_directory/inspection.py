"""What a person who sets up a connection wants to know: what was reached, and what the gateway may do there."""

from dataclasses import dataclass
from uuid import UUID

import ldap

from active_directory.client import Client
from active_directory.connections.connection import Connection
from active_directory.entry import Entry
from active_directory.errors import NotFound, ProtocolError
from active_directory.flags import RECYCLE_BIN_FEATURE_GUID

RIGHTS_ATTRIBUTES = ("allowedAttributesEffective", "allowedChildClassesEffective")


@dataclass(frozen=True)
class ServerCheck:
    """The answer of one server; ``writable_attributes`` and ``creatable_classes`` are those on ``base_dn``."""

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
    """Open a new connection to the first server, as a first use would, and look around; raises what is in the way."""
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
    """Whether deleted objects keep their attributes ([MS-ADTS] 3.1.1.9).

    ``msDS-EnabledFeature`` of the forest's partitions container names the recycle bin then.
    """
    try:
        partitions = client.read(f"CN=Partitions,{client.configuration_naming_context}", ("msDS-EnabledFeature",))
    except NotFound as error:
        raise ProtocolError("The forest's partitions container cannot be read") from error
    wanted = UUID(RECYCLE_BIN_FEATURE_GUID).bytes_le
    for feature_dn in partitions.texts("msDS-EnabledFeature"):
        feature = client.find(feature_dn, ("msDS-OptionalFeatureGUID",))
        if feature is not None and wanted in feature.values("msDS-OptionalFeatureGUID"):
            return True
    return False


def days_in_recycle_bin(client: Client) -> int | None:
    """How long deleted objects stay restorable, None where the directory does not say.

    ``msDS-DeletedObjectLifetime`` of the forest's Directory Service object, else its ``tombstoneLifetime``, in days
    ([MS-ADTS] 6.1.1.2.4.1.1).
    """
    service = f"CN=Directory Service,CN=Windows NT,CN=Services,{client.configuration_naming_context}"
    known = client.find(service, ("msDS-DeletedObjectLifetime", "tombstoneLifetime"))
    if known is None:
        return None
    return known.integer("msDS-DeletedObjectLifetime") or known.integer("tombstoneLifetime")


def is_samba(client: Client) -> bool:
    """Whether the server says that it is Samba (vendorName, RFC 3045), which in a few things does not do as AD does."""
    return says_samba(client.read("", ("vendorName",)))


def says_samba(root: Entry) -> bool:
    """The same of a rootDSE that was read with its vendorName."""
    return "samba" in (root.text("vendorName") or "").lower()


def _option(connection: Connection, option: int) -> str:
    value = connection.ldap.get_option(option)
    return value.decode() if isinstance(value, bytes) else str(value or "")
