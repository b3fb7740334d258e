"""An entry as the directory returned it: raw values under case-insensitive names, and a few typed views of them."""

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
        """``asked`` are names of which it is known that the server answered in the same spelling, if at all.

        ``identities`` are the objectGUIDs of the objects that values name, by name, where they were asked for.
        ``server`` is the URL of the one that answered; others may hold another state of the object.
        """
        self.dn = dn
        self.attributes = attributes
        self.identities = identities
        self.server = server
        self._asked = asked
        self._names: dict[str, str] | None = None

    def with_attributes(self, attributes: Mapping[str, list[bytes]]) -> "Entry":
        """The same object with other values under the names that the server answered with."""
        return Entry(self.dn, attributes, self._asked, server=self.server)

    def values(self, name: str) -> list[bytes]:
        """All values, an empty list when there are none."""
        found = self.attributes.get(name)  # the directory answers with the schema's spelling: usually a hit
        if found is not None:
            return found
        if name in self._asked:
            return []
        if self._names is None:
            self._names = {known.lower(): known for known in self.attributes}
        known = self._names.get(name.lower())
        return [] if known is None else self.attributes[known]

    def was_asked(self, name: str) -> bool:
        """Whether the object certainly has no value that may be read where none is here."""
        return name in self._asked

    def text(self, name: str) -> str | None:
        """The first value as text; None when there is none."""
        values = self.values(name)
        return values[0].decode("utf-8", "replace") if values else None

    def texts(self, name: str) -> list[str]:
        """All values as text."""
        return [value.decode("utf-8", "replace") for value in self.values(name)]

    def integer(self, name: str) -> int | None:
        """The first value as an integer; None when there is none."""
        values = self.values(name)
        if not values:
            return None
        try:
            return int(values[0])
        except ValueError as error:
            raise ProtocolError("The directory returned no integer", attribute=name) from error

    def number(self, name: str) -> int:
        """The same; 0 when there is none."""
        return self.integer(name) or 0

    def boolean(self, name: str) -> bool:
        """Whether the value is TRUE; an absent one counts as FALSE."""
        values = self.values(name)
        return bool(values) and values[0].upper() == b"TRUE"

    @property
    def guid(self) -> UUID:
        """The objectGUID, which must have been asked for.

        Every object has one: ``AccessDenied`` when the gateway's account may not read it ([MS-ADTS] 3.1.1.4.4).
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
        """How often each attribute was changed, by attid (`Schema` knows them); needs replPropertyMetaData.

        Linked attributes (``member``) are replicated value by value and are not in it.
        """
        values = self.values("replPropertyMetaData")
        return parse_versions(values[0]) if values else {}

    def changed_at(self, attid: int) -> datetime | None:
        """When an attribute was last changed, where that was first done; needs replPropertyMetaData."""
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
    """The versions in a replPropertyMetaData value by attid; ``ProtocolError`` when it is cut short."""
    return {attid: version for attid, version, *_ in _metadata_rows(blob)}


def _metadata_rows(blob: bytes) -> Iterator[tuple[int, int, int, bytes, int, int]]:
    if len(blob) < _METADATA_HEADER.size:
        raise ProtocolError("replPropertyMetaData is cut short", attribute="replPropertyMetaData")
    _, count, _ = _METADATA_HEADER.unpack_from(blob)
    end = _METADATA_HEADER.size + count * _METADATA_ROW.size
    if end > len(blob):
        raise ProtocolError("replPropertyMetaData is cut short", attribute="replPropertyMetaData")
    yield from _METADATA_ROW.iter_unpack(memoryview(blob)[_METADATA_HEADER.size : end])
