"""Security descriptors as values ([MS-DTYP] 2.4), parsed from their self-relative form, and the names of their parts.

Callers read the controlAccessRight entries that name extended rights from the directory and pass them in.
"""

import enum
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from active_directory.codecs import sid_to_text
from active_directory.constants import EVERYONE_SID
from active_directory.entry import Entry
from active_directory.schema import AttributeType, ObjectClass, Schema


class MalformedDescriptor(ValueError):
    """The bytes are not a valid security descriptor."""


class ControlFlags(enum.IntFlag):
    """[MS-DTYP] 2.4.6."""

    OWNER_DEFAULTED = 0x0001
    GROUP_DEFAULTED = 0x0002
    DACL_PRESENT = 0x0004
    DACL_DEFAULTED = 0x0008
    SACL_PRESENT = 0x0010
    SACL_DEFAULTED = 0x0020
    DACL_TRUSTED = 0x0040
    SERVER_SECURITY = 0x0080
    DACL_AUTO_INHERIT_REQUIRED = 0x0100
    SACL_AUTO_INHERIT_REQUIRED = 0x0200
    DACL_AUTO_INHERITED = 0x0400
    SACL_AUTO_INHERITED = 0x0800
    DACL_PROTECTED = 0x1000
    SACL_PROTECTED = 0x2000
    RM_CONTROL_VALID = 0x4000
    SELF_RELATIVE = 0x8000


class AceType(enum.IntEnum):
    """[MS-DTYP] 2.4.4.1, without those reserved for future use; entries of other types are kept as they are."""

    ACCESS_ALLOWED = 0x00
    ACCESS_DENIED = 0x01
    SYSTEM_AUDIT = 0x02
    ACCESS_ALLOWED_OBJECT = 0x05
    ACCESS_DENIED_OBJECT = 0x06
    SYSTEM_AUDIT_OBJECT = 0x07
    ACCESS_ALLOWED_CALLBACK = 0x09
    ACCESS_DENIED_CALLBACK = 0x0A
    ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0B
    ACCESS_DENIED_CALLBACK_OBJECT = 0x0C
    SYSTEM_AUDIT_CALLBACK = 0x0D
    SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0F
    SYSTEM_MANDATORY_LABEL = 0x11
    SYSTEM_RESOURCE_ATTRIBUTE = 0x12
    SYSTEM_SCOPED_POLICY_ID = 0x13


def _types(part: str) -> frozenset[AceType]:
    return frozenset(kind for kind in AceType if part in kind.name)


ALLOWING_TYPES, DENYING_TYPES = _types("ACCESS_ALLOWED"), _types("ACCESS_DENIED")
OBJECT_TYPES = _types("OBJECT")
"""Types that can be limited to one attribute, class or right, or to objects of one class."""
CALLBACK_TYPES = _types("CALLBACK")
"""Types that apply only under a condition, which follows the SID ([MS-DTYP] 2.4.4.17)."""


class AceFlags(enum.IntFlag):
    """[MS-DTYP] 2.4.4.1."""

    OBJECT_INHERIT = 0x01
    CONTAINER_INHERIT = 0x02
    NO_PROPAGATE = 0x04
    INHERIT_ONLY = 0x08
    INHERITED = 0x10
    SUCCESSFUL_ACCESS = 0x40
    FAILED_ACCESS = 0x80


class AccessMask(enum.IntFlag):
    """Rights on objects of the directory ([MS-ADTS] 5.1.3.2)."""

    CREATE_CHILD = 0x0000_0001
    DELETE_CHILD = 0x0000_0002
    LIST_CHILDREN = 0x0000_0004
    SELF_WRITE = 0x0000_0008
    READ_PROPERTY = 0x0000_0010
    WRITE_PROPERTY = 0x0000_0020
    DELETE_TREE = 0x0000_0040
    LIST_OBJECT = 0x0000_0080
    CONTROL_ACCESS = 0x0000_0100
    DELETE = 0x0001_0000
    READ_CONTROL = 0x0002_0000
    WRITE_DACL = 0x0004_0000
    WRITE_OWNER = 0x0008_0000
    SYNCHRONIZE = 0x0010_0000
    ACCESS_SYSTEM_SECURITY = 0x0100_0000
    MAXIMUM_ALLOWED = 0x0200_0000
    GENERIC_ALL = 0x1000_0000
    GENERIC_EXECUTE = 0x2000_0000
    GENERIC_WRITE = 0x4000_0000
    GENERIC_READ = 0x8000_0000


@dataclass(frozen=True)
class Ace:
    """One access control entry.

    ``type`` is a plain number for types that this module does not parse: ``body`` then holds their bytes, and mask and
    SID are empty. Otherwise ``body`` is what follows the SID: the condition of a callback type, or a claim.
    """

    type: AceType | int
    flags: AceFlags
    mask: AccessMask
    sid: str | None
    object_type: UUID | None = None
    inherited_object_type: UUID | None = None
    body: bytes = b""

    @property
    def is_inherited(self) -> bool:
        """Whether it was inherited from a container above."""
        return AceFlags.INHERITED in self.flags

    @property
    def applies_here(self) -> bool:
        """Whether it applies to the object itself and not only to those below."""
        return AceFlags.INHERIT_ONLY not in self.flags

    @property
    def denies(self) -> bool:
        """Whether it denies rights, perhaps under a condition."""
        return self.type in DENYING_TYPES

    @property
    def allows(self) -> bool:
        """Whether it grants rights, perhaps under a condition."""
        return self.type in ALLOWING_TYPES

    @property
    def is_conditional(self) -> bool:
        """Whether it applies only under the condition in ``body``."""
        return self.type in CALLBACK_TYPES


@dataclass(frozen=True)
class Acl:
    """An access control list. The order of its entries matters: the first that decides a right wins."""

    revision: int
    aces: tuple[Ace, ...]


@dataclass(frozen=True)
class SecurityDescriptor:
    """Owner, group and the two lists. No DACL (None) grants everything to everybody, an empty one grants nothing."""

    control: ControlFlags
    owner: str | None
    group: str | None
    dacl: Acl | None
    sacl: Acl | None

    @property
    def is_inheritance_blocked(self) -> bool:
        """Whether the object does not inherit entries from the containers above."""
        return ControlFlags.DACL_PROTECTED in self.control


_HEADER = struct.Struct("<BBHIIII")  # revision, Sbz1, control, offsets of owner, group, SACL and DACL
_ACL_HEADER = struct.Struct("<BBHHH")  # revision, Sbz1, size, number of entries, Sbz2
_ACE_HEADER = struct.Struct("<BBH")  # type, flags, size
_NUMBER = struct.Struct("<I")
_OBJECT_TYPE_PRESENT, _INHERITED_OBJECT_TYPE_PRESENT = 0x1, 0x2
_ACL_REVISIONS = (2, 4)  # [MS-DTYP] 2.4.5: the second one may contain object entries
_KNOWN_TYPES = frozenset(AceType)


class _ByteReader:
    """Reads bytes part by part; raises ``MalformedDescriptor`` if a part is incomplete."""

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = data
        self._offset = offset

    def take(self, size: int | None = None) -> bytes:
        """The next `size` bytes, or all that are left."""
        end = len(self._data) if size is None else self._offset + size
        if not self._offset <= end <= len(self._data):
            raise MalformedDescriptor("The security descriptor is cut short")
        part, self._offset = self._data[self._offset : end], end
        return part

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))

    def sid(self) -> str:
        start = self.take(8)
        try:
            return sid_to_text(start + self.take(4 * start[1]))
        except ValueError as error:
            raise MalformedDescriptor("A security identifier is malformed") from error


def parse_descriptor(data: bytes) -> SecurityDescriptor:
    """Parse an nTSecurityDescriptor value. Raises ``MalformedDescriptor``."""
    revision, _, control_bits, owner, group, sacl, dacl = _ByteReader(data).unpack(_HEADER)
    control = ControlFlags(control_bits)
    if revision != 1 or ControlFlags.SELF_RELATIVE not in control:
        raise MalformedDescriptor("This is not a self-relative security descriptor of revision 1")

    def at(offset: int) -> _ByteReader:
        if offset < _HEADER.size:
            raise MalformedDescriptor("A part of the security descriptor overlaps its header")
        return _ByteReader(data, offset)

    return SecurityDescriptor(
        control,
        at(owner).sid() if owner else None,
        at(group).sid() if group else None,
        _acl(at(dacl)) if dacl and ControlFlags.DACL_PRESENT in control else None,
        _acl(at(sacl)) if sacl and ControlFlags.SACL_PRESENT in control else None,
    )


def descriptor_in(entry: Entry) -> SecurityDescriptor | None:
    """The descriptor in an entry; None if the gateway's account may not read it, or if it is malformed."""
    values = entry.values("nTSecurityDescriptor")
    with suppress(MalformedDescriptor):
        return parse_descriptor(values[0]) if values else None
    return None


def is_protected_from_deletion(descriptor: SecurityDescriptor) -> bool:
    """Whether "Protect object from accidental deletion" is set.

    The administrative tools store it as an entry that denies Everyone the right to delete the object. Directories do
    not enforce it in every case, such as for a tree delete or a privileged account, so the gateway does.
    """
    return descriptor.dacl is not None and any(
        ace.denies
        and ace.applies_here
        and ace.sid == EVERYONE_SID
        and ace.object_type is None
        and ace.mask & (AccessMask.DELETE | AccessMask.DELETE_TREE)
        for ace in descriptor.dacl.aces
    )


def _acl(source: _ByteReader) -> Acl:
    revision, _, size, count, _ = source.unpack(_ACL_HEADER)
    if revision not in _ACL_REVISIONS or size < _ACL_HEADER.size:
        raise MalformedDescriptor("An access control list has an unknown revision or is shorter than its header")
    entries = _ByteReader(source.take(size - _ACL_HEADER.size))
    return Acl(revision, tuple(_ace(entries) for _ in range(count)))


def _ace(source: _ByteReader) -> Ace:
    kind, flag_bits, size = source.unpack(_ACE_HEADER)
    if size < _ACE_HEADER.size:
        raise MalformedDescriptor("An access control entry is shorter than its header")
    flags, content = AceFlags(flag_bits), _ByteReader(source.take(size - _ACE_HEADER.size))
    if kind not in _KNOWN_TYPES:
        return Ace(kind, flags, AccessMask(0), None, body=content.take())
    (mask,) = content.unpack(_NUMBER)
    object_type = inherited_object_type = None
    if kind in OBJECT_TYPES:
        (present,) = content.unpack(_NUMBER)
        if present & _OBJECT_TYPE_PRESENT:
            object_type = UUID(bytes_le=content.take(16))
        if present & _INHERITED_OBJECT_TYPE_PRESENT:
            inherited_object_type = UUID(bytes_le=content.take(16))
    sid = content.sid()
    return Ace(AceType(kind), flags, AccessMask(mask), sid, object_type, inherited_object_type, content.take())


FULL_CONTROL = AccessMask(0xF01FF)
"""Every right on a directory object."""

_READ = AccessMask.READ_CONTROL | AccessMask.LIST_CHILDREN
# [MS-ADTS] 5.1.3.2: what generic rights mean on directory objects.
_GENERIC: Mapping[AccessMask, AccessMask] = {
    AccessMask.GENERIC_READ: _READ | AccessMask.READ_PROPERTY | AccessMask.LIST_OBJECT,
    AccessMask.GENERIC_WRITE: AccessMask.READ_CONTROL | AccessMask.WRITE_PROPERTY | AccessMask.SELF_WRITE,
    AccessMask.GENERIC_EXECUTE: _READ,
    AccessMask.GENERIC_ALL: FULL_CONTROL,
}


def map_generic(mask: AccessMask) -> AccessMask:
    """Replace generic rights by the rights that they stand for."""
    for generic, rights in _GENERIC.items():
        if generic in mask:
            mask = (mask & ~generic) | rights
    return mask


def right_names(mask: AccessMask) -> list[str]:
    """Names such as ``read-property``, in the order of the bits, after `map_generic`."""
    return flag_names(map_generic(mask))


def flag_names(bits: enum.IntFlag) -> list[str]:
    """Names such as ``container-inherit``, in the order of the bits."""
    return [str(bit.name).lower().replace("_", "-") for bit in bits]


# Clients know the name: it is that of the schema in OpenAPI.
class Subject(enum.StrEnum):
    """What the object type of an access control entry can refer to."""

    ATTRIBUTE = "attribute"
    PROPERTY_SET = "property-set"
    EXTENDED_RIGHT = "extended-right"
    VALIDATED_WRITE = "validated-write"
    CLASS = "class"


_OF_CHILDREN = AccessMask.CREATE_CHILD | AccessMask.DELETE_CHILD
_OF_PROPERTIES = AccessMask.READ_PROPERTY | AccessMask.WRITE_PROPERTY
# The validAccesses of a controlAccessRight tell its kind ([MS-ADTS] 5.1.3.2.1); a few GUIDs stand for two of them.
_BY_VALID_ACCESSES: Mapping[int, Subject] = {
    int(AccessMask.CONTROL_ACCESS): Subject.EXTENDED_RIGHT,
    int(AccessMask.SELF_WRITE): Subject.VALIDATED_WRITE,
    int(_OF_PROPERTIES): Subject.PROPERTY_SET,
}
# A GUID alone does not tell its kind: the entry's rights decide, in this order. The attribute dNSHostName shares its
# GUID with a property set, which the directory checks first.
_MEANING_BY_RIGHT: tuple[tuple[AccessMask, tuple[Subject, ...]], ...] = (
    (_OF_CHILDREN, (Subject.CLASS,)),
    (_OF_PROPERTIES, (Subject.PROPERTY_SET, Subject.ATTRIBUTE)),
    (AccessMask.CONTROL_ACCESS, (Subject.EXTENDED_RIGHT,)),
    (AccessMask.SELF_WRITE, (Subject.VALIDATED_WRITE,)),
)

CONTROL_ACCESS_RIGHT_CLASS = "controlAccessRight"
CONTROL_ACCESS_RIGHT_ATTRIBUTES = ("cn", "rightsGuid", "validAccesses")


@dataclass(frozen=True, slots=True)
class ObjectType:
    """What an entry's object type refers to; the name is None if the directory does not know the GUID."""

    kind: Subject
    guid: UUID
    name: str | None


@dataclass(frozen=True)
class ObjectTypes:
    """Everything that object types in a directory's access control entries can refer to."""

    schema: Schema = field(repr=False)
    rights: Mapping[tuple[Subject, UUID], str] = field(repr=False)
    """Property sets, extended rights and validated writes, by their common names."""

    @classmethod
    def from_entries(cls, schema: Schema, entries: Iterable[Entry]) -> "ObjectTypes":
        """Build it from the configuration's controlAccessRight entries; skips malformed ones."""
        rights: dict[tuple[Subject, UUID], str] = {}
        for entry in entries:
            kind = _BY_VALID_ACCESSES.get(entry.number("validAccesses"))
            try:
                guid = UUID(entry.text("rightsGuid") or "")
            except ValueError:
                continue
            if kind is not None:
                rights[kind, guid] = entry.text("cn") or ""
        return cls(schema, rights)

    def resolve(self, guid: UUID, mask: AccessMask) -> ObjectType:
        """What an object type refers to in an entry with these rights."""
        likely = [kind for right, kinds in _MEANING_BY_RIGHT if mask & right for kind in kinds]
        for kind in (*likely, *Subject):
            name = self.name_of(kind, guid)
            if name is not None:
                return ObjectType(kind, guid, name)
        return ObjectType(likely[-1] if likely else Subject.ATTRIBUTE, guid, None)

    def name_of(self, kind: Subject, guid: UUID) -> str | None:
        """The schema's name of an attribute or class, or the common name of a right; None if unknown."""
        if kind is Subject.ATTRIBUTE:
            known: AttributeType | ObjectClass | None = self.schema.attribute_by_guid(guid)
        elif kind is Subject.CLASS:
            known = self.schema.class_by_guid(guid)
        else:
            return self.rights.get((kind, guid))
        return known.name if known else None

    def guid_of(self, kind: Subject, name: str) -> UUID | None:
        """The GUID of an attribute, class or right by its name; None if unknown."""
        if kind is Subject.ATTRIBUTE:
            known: AttributeType | ObjectClass | None = self.schema.attribute(name)
        elif kind is Subject.CLASS:
            known = self.schema.object_class(name)
        else:
            return next((guid for (known, guid), right in self.rights.items() if (known, right) == (kind, name)), None)
        return known.schema_id_guid if known else None
