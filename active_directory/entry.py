"""An entry as the directory returned it: raw values under case-insensitive names, with typed accessors."""

import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from uuid import UUID

from active_directory.errors import AccessDenied, ProtocolError

# [MS-DRSR] 5.153 PROPERTY_META_DATA_EXT_VECTOR as stored in replPropertyMetaData ([MS-ADTS] 3.1.1.1.9).
_METADATA_HEADER = struct.Struct("<QII")  # version (1), number of rows, reserved; then rows of 48 bytes
_METADATA_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)  # the times of rows are seconds since then
_METADATA_ROW = struct.Struct("<IIq16sqq")  # attid, version, time, invocation id, originating USN, local USN

NO_IDENTITIES: Mapping[str, UUID] = MappingProxyType({})


class Entry:
    """One object of the directory."""

    __slots__ = ("_asked", "_names", "attributes", "dn", "identities", "server")

    def __init__(
        self,
        dn: str,
        attributes: Mapping[str, list[bytes]],
        asked: frozenset[str] = frozenset(),
        identities: Mapping[str, UUID] = NO_IDENTITIES,
        server: str | None = None,
    ) -> None:
        """``asked`` are requested attributes, if the server answered with exactly their spelling.

        ``identities`` are the objectGUIDs of the objects that values name, by name, if requested. ``server`` is the URL
        of the domain controller that answered; others may hold another state of the object.
        """
        self.dn = dn
        self.attributes = attributes
        self.identities = identities
        self.server = server
        self._asked = asked
        self._names: dict[str, str] | None = None

    def with_attributes(self, attributes: Mapping[str, list[bytes]]) -> "Entry":
        """The same object with other values, under names as the server spells them."""
        return Entry(self.dn, attributes, self._asked, server=self.server)

    def values(self, name: str) -> list[bytes]:
        """All values; an empty list if there are none."""
        values = self.attributes.get(name)  # usually a hit, since the directory answers with the schema's spelling
        if values is not None:
            return values
        if name in self._asked:
            return []
        if self._names is None:
            self._names = {known.lower(): known for known in self.attributes}
        known = self._names.get(name.lower())
        return [] if known is None else self.attributes[known]

    def was_asked(self, name: str) -> bool:
        """Whether the attribute was requested: if it has no values here, there are none that the account may read."""
        return name in self._asked

    def text(self, name: str) -> str | None:
        """The first value as text, or None."""
        values = self.values(name)
        return values[0].decode("utf-8", "replace") if values else None

    def texts(self, name: str) -> list[str]:
        """All values as text."""
        return [value.decode("utf-8", "replace") for value in self.values(name)]

    def integer(self, name: str) -> int | None:
        """The first value as an integer, or None. Raises ``ProtocolError``."""
        values = self.values(name)
        if not values:
            return None
        try:
            return int(values[0])
        except ValueError as error:
            raise ProtocolError("The directory returned no integer", attribute=name) from error

    def number(self, name: str) -> int:
        """The first value as an integer, or 0. Raises ``ProtocolError``."""
        return self.integer(name) or 0

    def boolean(self, name: str) -> bool:
        """Whether the first value is TRUE; no value counts as FALSE."""
        values = self.values(name)
        return bool(values) and values[0].upper() == b"TRUE"

    @property
    def guid(self) -> UUID:
        """The objectGUID, which must have been requested.

        Every object has one, so it raises ``AccessDenied`` if it is missing: the gateway's account may not read it
        ([MS-ADTS] 3.1.1.4.4).
        """
        values = self.values("objectGUID")
        if not values:
            raise AccessDenied("The gateway's account may not read this object", attribute="objectGUID")
        if len(values[0]) != 16:
            raise ProtocolError("The directory returned no objectGUID", attribute="objectGUID")
        return UUID(bytes_le=values[0])

    @property
    def object_classes(self) -> list[str]:
        """From ``top`` to the structural class, as AD orders them."""
        return self.texts("objectClass")

    @property
    def versions(self) -> dict[int, int]:
        """How often each attribute was changed, by attid (`AttributeType.attid`); needs replPropertyMetaData.

        It lacks linked attributes (``member``), which replicate value by value.
        """
        values = self.values("replPropertyMetaData")
        return parse_versions(values[0]) if values else {}

    def changed_at(self, attid: int) -> datetime | None:
        """When an attribute was last changed, by the clock of the originating domain controller.

        Needs replPropertyMetaData.
        """
        values = self.values("replPropertyMetaData")
        seconds = next((row[2] for row in _metadata_rows(values[0]) if row[0] == attid), None) if values else None
        return None if seconds is None else _METADATA_EPOCH + timedelta(seconds=seconds)

    def __contains__(self, name: str) -> bool:
        return bool(self.values(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __repr__(self) -> str:
        return f"Entry({self.dn!r}, {len(self.attributes)} attributes)"  # values may be secrets


def parse_versions(blob: bytes) -> dict[int, int]:
    """The versions in a replPropertyMetaData value, by attid. Raises ``ProtocolError`` if it is cut short."""
    return {attid: version for attid, version, *_ in _metadata_rows(blob)}


def pack_versions(versions: Mapping[int, int]) -> bytes:
    """A replPropertyMetaData value with these versions, and nothing else."""
    rows = (_METADATA_ROW.pack(attid, version, 0, bytes(16), 0, 0) for attid, version in versions.items())
    return _METADATA_HEADER.pack(1, len(versions), 0) + b"".join(rows)


def _metadata_rows(blob: bytes) -> Iterator[tuple[int, int, int, bytes, int, int]]:
    if len(blob) < _METADATA_HEADER.size:
        raise ProtocolError("replPropertyMetaData is cut short", attribute="replPropertyMetaData")
    _, count, _ = _METADATA_HEADER.unpack_from(blob)
    end = _METADATA_HEADER.size + count * _METADATA_ROW.size
    if end > len(blob):
        raise ProtocolError("replPropertyMetaData is cut short", attribute="replPropertyMetaData")
    yield from _METADATA_ROW.iter_unpack(memoryview(blob)[_METADATA_HEADER.size : end])
