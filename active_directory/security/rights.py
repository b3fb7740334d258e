"""What the numbers in access control entries mean: rights by name, and the things a right can be confined to.

The rights of a directory's own extended rights come from the directory; reading them is not done here.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from active_directory.entry import Entry
from active_directory.schema import Schema
from active_directory.security.descriptor import AccessMask

FULL_CONTROL = AccessMask(0xF01FF)
"""Every right on an object of the directory."""

_READ = AccessMask.READ_CONTROL | AccessMask.LIST_CHILDREN
# [MS-ADTS] 5.1.3.2: what the generic rights stand for on objects of the directory.
_GENERIC: Mapping[AccessMask, AccessMask] = {
    AccessMask.GENERIC_READ: _READ | AccessMask.READ_PROPERTY | AccessMask.LIST_OBJECT,
    AccessMask.GENERIC_WRITE: AccessMask.READ_CONTROL | AccessMask.WRITE_PROPERTY | AccessMask.SELF_WRITE,
    AccessMask.GENERIC_EXECUTE: _READ,
    AccessMask.GENERIC_ALL: FULL_CONTROL,
}


def map_generic(mask: AccessMask) -> AccessMask:
    """The mask with its generic rights replaced by what they stand for."""
    for generic, rights in _GENERIC.items():
        if generic in mask:
            mask = (mask & ~generic) | rights
    return mask


def right_names(mask: AccessMask) -> list[str]:
    """``read-property`` and so on, in the order of the bits, generic rights as what they stand for."""
    return flag_names(map_generic(mask))


def flag_names(bits: enum.IntFlag) -> list[str]:
    """``container-inherit`` and so on, in the order of the bits."""
    return [str(bit.name).lower().replace("_", "-") for bit in bits]


class Subject(enum.StrEnum):
    """The kinds of things a right can be confined to."""

    ATTRIBUTE = "attribute"
    PROPERTY_SET = "property-set"
    EXTENDED_RIGHT = "extended-right"
    VALIDATED_WRITE = "validated-write"
    CLASS = "class"


_OF_CHILDREN = AccessMask.CREATE_CHILD | AccessMask.DELETE_CHILD
_OF_PROPERTIES = AccessMask.READ_PROPERTY | AccessMask.WRITE_PROPERTY
# validAccesses of a controlAccessRight says what it is ([MS-ADTS] 5.1.3.2.1); a few identifiers are used for two.
_BY_VALID_ACCESSES: Mapping[int, Subject] = {
    int(AccessMask.CONTROL_ACCESS): Subject.EXTENDED_RIGHT,
    int(AccessMask.SELF_WRITE): Subject.VALIDATED_WRITE,
    int(_OF_PROPERTIES): Subject.PROPERTY_SET,
}
# An identifier alone does not say what it stands for: the rights of the entry decide, in this order. Of the attribute
# dNSHostName and the property set with its identifier the set is meant, which the directory looks at first.
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
    """What the object type of an entry stands for; the name is None when the directory knows no such thing."""

    subject: Subject
    guid: UUID
    name: str | None


@dataclass(frozen=True)
class ObjectTypes:
    """Everything the object types of a directory's access control entries can stand for."""

    schema: Schema = field(repr=False)
    rights: Mapping[tuple[Subject, UUID], str] = field(repr=False)
    """Property sets, extended rights and validated writes, by their common names."""

    @classmethod
    def from_entries(cls, schema: Schema, entries: Iterable[Entry]) -> "ObjectTypes":
        """Build it from the controlAccessRight entries of the configuration; malformed ones are left out."""
        rights: dict[tuple[Subject, UUID], str] = {}
        for entry in entries:
            subject = _BY_VALID_ACCESSES.get(entry.number("validAccesses"))
            try:
                guid = UUID(entry.text("rightsGuid") or "")
            except ValueError:
                continue
            if subject is not None:
                rights[subject, guid] = entry.text("cn") or ""
        return cls(schema, rights)

    def resolve(self, guid: UUID, mask: AccessMask) -> ObjectType:
        """What an object type stands for in an entry with these rights."""
        likely = [subject for right, subjects in _MEANING_BY_RIGHT if mask & right for subject in subjects]
        for subject in (*likely, *Subject):
            name = self.name_of(subject, guid)
            if name is not None:
                return ObjectType(subject, guid, name)
        return ObjectType(likely[-1] if likely else Subject.ATTRIBUTE, guid, None)

    def name_of(self, subject: Subject, guid: UUID) -> str | None:
        """The name of a thing of this kind: the schema's for attributes and classes, else the right's common name."""
        if subject is Subject.ATTRIBUTE:
            attribute = self.schema.attribute_by_guid(guid)
            return attribute.name if attribute else None
        if subject is Subject.CLASS:
            object_class = self.schema.class_by_guid(guid)
            return object_class.name if object_class else None
        return self.rights.get((subject, guid))

    def guid_of(self, subject: Subject, name: str) -> UUID | None:
        """The identifier of the thing of this name; None when the directory has none."""
        if subject is Subject.ATTRIBUTE:
            attribute = self.schema.attribute(name)
            return attribute.schema_id_guid if attribute else None
        if subject is Subject.CLASS:
            object_class = self.schema.object_class(name)
            return object_class.schema_id_guid if object_class else None
        return next((guid for (kind, guid), known in self.rights.items() if (kind, known) == (subject, name)), None)
