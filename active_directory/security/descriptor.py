"""Security descriptors as values ([MS-DTYP] 2.4): a strict, bounds-checked reader of the self-relative form."""

import enum
import struct
from dataclasses import dataclass
from uuid import UUID

from active_directory.codecs import sid_to_text
from active_directory.flags import EVERYONE_SID


class MalformedDescriptor(ValueError):
    """The bytes are no security descriptor."""


class Control(enum.IntFlag):
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
"""Types that can be about one attribute, class or right, or objects of one class only."""
CALLBACK_TYPES = _types("CALLBACK")
"""Types that hold under a condition only, which is what follows the SID ([MS-DTYP] 2.4.4.17)."""


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

    ``type`` is a plain number for types this module does not read: their bytes are in ``body``, mask and SID empty.
    ``body`` otherwise holds what follows the SID: the condition of a callback type, the claim of a resource attribute.
    """

    type: AceType | int
    flags: AceFlags
    mask: AccessMask
    sid: str | None
    object_type: UUID | None = None
    inherited_object_type: UUID | None = None
    body: bytes = b""

    @property
    def inherited(self) -> bool:
        """Whether it came from a container above."""
        return AceFlags.INHERITED in self.flags

    @property
    def applies_here(self) -> bool:
        """Whether it counts for the object itself and not for those below only."""
        return AceFlags.INHERIT_ONLY not in self.flags

    @property
    def denies(self) -> bool:
        """Whether it takes rights away, if under a condition."""
        return self.type in DENYING_TYPES

    @property
    def allows(self) -> bool:
        """Whether it grants rights, if under a condition."""
        return self.type in ALLOWING_TYPES

    @property
    def conditional(self) -> bool:
        """Whether it holds under a condition only, which ``body`` says."""
        return self.type in CALLBACK_TYPES


@dataclass(frozen=True)
class Acl:
    """An access control list in its order, which decides."""

    revision: int
    aces: tuple[Ace, ...]


@dataclass(frozen=True)
class SecurityDescriptor:
    """Owner, group and the two lists. A DACL of None grants everything to everybody; an empty one nothing."""

    control: Control
    owner: str | None
    group: str | None
    dacl: Acl | None
    sacl: Acl | None

    @property
    def inheritance_blocked(self) -> bool:
        """Whether entries of containers above do not come down to this object."""
        return Control.DACL_PROTECTED in self.control


_HEADER = struct.Struct("<BBHIIII")  # revision, Sbz1, control, offsets of owner, group, SACL and DACL
_ACL_HEADER = struct.Struct("<BBHHH")  # revision, Sbz1, size, number of entries, Sbz2
_ACE_HEADER = struct.Struct("<BBH")  # type, flags, size
_NUMBER = struct.Struct("<I")
_OBJECT_TYPE_PRESENT, _INHERITED_OBJECT_TYPE_PRESENT = 0x1, 0x2
_ACL_REVISIONS = (2, 4)  # [MS-DTYP] 2.4.5: the second has object types in it
_KNOWN_TYPES = frozenset(AceType)


class _Bytes:
    """Bytes that are read part by part; ``MalformedDescriptor`` when a part is not there as a whole."""

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = data
        self._offset = offset

    def take(self, size: int | None = None) -> bytes:
        """The next bytes; without a size all that are left."""
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
    """Read an nTSecurityDescriptor value; ``MalformedDescriptor`` when anything in it is out of bounds."""
    revision, _, control_bits, owner, group, sacl, dacl = _Bytes(data).unpack(_HEADER)
    control = Control(control_bits)
    if revision != 1 or Control.SELF_RELATIVE not in control:
        raise MalformedDescriptor("This is not a self-relative security descriptor of revision 1")

    def at(offset: int) -> _Bytes:
        if offset < _HEADER.size:
            raise MalformedDescriptor("A part of the security descriptor overlaps its header")
        return _Bytes(data, offset)

    return SecurityDescriptor(
        control,
        at(owner).sid() if owner else None,
        at(group).sid() if group else None,
        _acl(at(dacl)) if dacl and Control.DACL_PRESENT in control else None,
        _acl(at(sacl)) if sacl and Control.SACL_PRESENT in control else None,
    )


def is_protected_from_deletion(descriptor: SecurityDescriptor) -> bool:
    """Whether "protect object from accidental deletion" is set: Everyone is denied to delete the object.

    That is how the administrative tools store it; there is no attribute for it. Directories do not enforce it against
    every caller (a tree delete or a privileged account may pass), so the gateway does.
    """
    return descriptor.dacl is not None and any(
        ace.denies
        and ace.applies_here
        and ace.sid == EVERYONE_SID
        and ace.object_type is None
        and ace.mask & (AccessMask.DELETE | AccessMask.DELETE_TREE)
        for ace in descriptor.dacl.aces
    )


def _acl(source: _Bytes) -> Acl:
    revision, _, size, count, _ = source.unpack(_ACL_HEADER)
    if revision not in _ACL_REVISIONS or size < _ACL_HEADER.size:
        raise MalformedDescriptor("An access control list has an unknown revision or is shorter than its header")
    entries = _Bytes(source.take(size - _ACL_HEADER.size))
    return Acl(revision, tuple(_ace(entries) for _ in range(count)))


def _ace(source: _Bytes) -> Ace:
    kind, flag_bits, size = source.unpack(_ACE_HEADER)
    if size < _ACE_HEADER.size:
        raise MalformedDescriptor("An access control entry is shorter than its header")
    flags, content = AceFlags(flag_bits), _Bytes(source.take(size - _ACE_HEADER.size))
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
