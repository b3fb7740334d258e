"""The directory's schema: its attributes and classes, and what entries may contain.

`codecs` converts values of each syntax to text and back.
"""

import enum
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from active_directory.background import Background
from active_directory.constants import SearchFlags, SystemFlags
from active_directory.entry import Entry
from active_directory.errors import LdapError
from active_directory.event_loop import require_thread
from active_directory.filters import Equals, Or

# One search of the schema naming context reads it all (0.06 s for 1473 attributes and 269 classes).
SCHEMA_FILTER = Or(Equals("objectClass", "attributeSchema"), Equals("objectClass", "classSchema"))
SCHEMA_ATTRIBUTES: Final = """
    objectClass lDAPDisplayName schemaIDGUID isDefunct systemFlags systemOnly attributeID attributeSyntax
    oMSyntax isSingleValued linkID searchFlags rangeLower rangeUpper msDS-IntId attributeSecurityGUID
    governsID subClassOf objectClassCategory rDNAttID defaultObjectCategory mustContain systemMustContain
    mayContain systemMayContain auxiliaryClass systemAuxiliaryClass possSuperiors systemPossSuperiors
""".split()


class Syntax(enum.Enum):
    """attributeSyntax ([MS-ADTS] 3.1.1.2.2.2)."""

    DN = "2.5.5.1"
    OID = "2.5.5.2"
    CASE_EXACT_STRING = "2.5.5.3"
    CASE_IGNORE_STRING = "2.5.5.4"
    PRINTABLE_STRING = "2.5.5.5"
    NUMERIC_STRING = "2.5.5.6"
    DN_BINARY = "2.5.5.7"
    BOOLEAN = "2.5.5.8"
    INTEGER = "2.5.5.9"
    OCTET_STRING = "2.5.5.10"
    TIME = "2.5.5.11"
    UNICODE_STRING = "2.5.5.12"
    PRESENTATION_ADDRESS = "2.5.5.13"
    DN_STRING = "2.5.5.14"
    SECURITY_DESCRIPTOR = "2.5.5.15"
    LARGE_INTEGER = "2.5.5.16"
    SID = "2.5.5.17"


NO_SEARCH_FLAGS = SearchFlags(0)
OM_IA5_STRING = 22
OM_UTC_TIME = 23

# [MS-DRSR] 5.16.4: the prefixes that every domain controller starts with, in the order of their indices. An attid has
# the index of the OID's prefix in its upper half and the OID's last number in its lower half.
_PREFIXES: Final = """
    2.5.4 2.5.6 1.2.840.113556.1.2 1.2.840.113556.1.3 2.16.840.1.101.2.2.1 2.16.840.1.101.2.2.3
    2.16.840.1.101.2.1.5 2.16.840.1.101.2.1.4 2.5.5 1.2.840.113556.1.4 1.2.840.113556.1.5
    1.2.840.113556.1.4.260 1.2.840.113556.1.5.56 1.2.840.113556.1.4.262 1.2.840.113556.1.5.57
    1.2.840.113556.1.4.263 1.2.840.113556.1.5.58 1.2.840.113556.1.5.73 1.2.840.113556.1.4.305
    0.9.2342.19200300.100 2.16.840.1.113730.3 0.9.2342.19200300.100.1 2.16.840.1.113730.3.1
    1.2.840.113556.1.5.7000 2.5.21 2.5.18 2.5.20 1.3.6.1.4.1.1466.101.119 2.16.840.1.113730.3.2
    1.3.6.1.4.1.250.1 1.2.840.113549.1.9 0.9.2342.19200300.100.4 1.2.840.113556.1.6.23 1.2.840.113556.1.6.18.1
    1.2.840.113556.1.6.18.2 1.2.840.113556.1.6.13.3 1.2.840.113556.1.6.13.4 1.3.6.1.1.1.1 1.3.6.1.1.1.2
""".split()
# BER encodes a last number of 16384 or more in three bytes, the first of which counts as a part of the prefix: the
# lower half then holds the other 14 bits and has its highest bit set.
_LAST_NUMBER_BITS = 0x4000


@dataclass(frozen=True)
class AttributeType:
    """One attribute of the schema."""

    name: str
    syntax: Syntax
    om_syntax: int
    attribute_id_oid: str
    single_valued: bool
    system_only: bool = False
    constructed: bool = False
    link_id: int = 0
    search_flags: SearchFlags = NO_SEARCH_FLAGS
    range_lower: int | None = None
    range_upper: int | None = None
    attid: int | None = None
    schema_id_guid: UUID | None = None
    property_set_guid: UUID | None = None

    @property
    def is_linked(self) -> bool:
        """Whether its values are links to objects, which the directory keeps consistent."""
        return self.link_id != 0

    @property
    def is_back_link(self) -> bool:
        """Whether it is the computed end of a link, such as ``memberOf``, with an odd linkID ([MS-ADTS] 3.1.1.1.6)."""
        return self.link_id % 2 == 1

    @property
    def is_confidential(self) -> bool:
        """Whether reading it needs the right CONTROL_ACCESS as well ([MS-ADTS] 3.1.1.4.4)."""
        return SearchFlags.CONFIDENTIAL in self.search_flags

    @property
    def is_indexed(self) -> bool:
        """Whether it has an index for equality and prefix searches."""
        return SearchFlags.ATTINDEX in self.search_flags


class ClassCategory(enum.IntEnum):
    """objectClassCategory ([MS-ADTS] 3.1.1.2.4.3); 0 is a class from before X.500 (1993), usable as structural."""

    CLASS_88 = 0
    STRUCTURAL = 1
    ABSTRACT = 2
    AUXILIARY = 3


@dataclass(frozen=True)
class ObjectClass:
    """One class of the schema with what it declares itself; `Schema` adds what it inherits."""

    name: str
    superior: str
    category: ClassCategory
    must: frozenset[str]
    may: frozenset[str]
    auxiliary: frozenset[str]
    possible_superiors: frozenset[str]
    rdn_attribute: str | None
    schema_id_guid: UUID | None

    @property
    def is_structural(self) -> bool:
        """Whether entries of this class can be created."""
        return self.category in (ClassCategory.STRUCTURAL, ClassCategory.CLASS_88)


@dataclass(frozen=True)
class Schema:
    """All attributes and classes, by name in lower case."""

    attributes: Mapping[str, AttributeType] = field(repr=False)
    classes: Mapping[str, ObjectClass] = field(repr=False)
    derived: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """A cache for what others derive from this schema; it lives as long as the schema is the current one."""

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> "Schema":
        """Build it from the entries that `SCHEMA_FILTER` finds; skips defunct ones."""
        attributes: dict[str, AttributeType] = {}
        classes: dict[str, ObjectClass] = {}
        for entry in entries:
            if entry.boolean("isDefunct"):
                continue
            if "attributeID" in entry:
                attribute = _attribute_type(entry)
                attributes[attribute.name.lower()] = attribute
            elif "governsID" in entry:
                object_class = _object_class(entry)
                classes[object_class.name.lower()] = object_class
        return cls(attributes, classes)

    def attribute(self, name: str) -> AttributeType | None:
        """The attribute of this name; options such as ``;range=0-1499`` are ignored."""
        return self.attributes.get(name.partition(";")[0].lower())

    def attribute_by_oid(self, oid: str) -> AttributeType | None:
        """The attribute of this attributeID (RFC 4512 section 1.4, numericoid)."""
        return next((known for known in self.attributes.values() if known.attribute_id_oid == oid), None)

    def object_class(self, name: str) -> ObjectClass | None:
        """The class of this name."""
        return self.classes.get(name.lower())

    @cached_property
    def linked_attributes(self) -> frozenset[str]:
        """The names of the linked attributes."""
        return frozenset(known.name for known in self.attributes.values() if known.is_linked)

    def attribute_by_guid(self, guid: UUID) -> AttributeType | None:
        """The attribute of this schemaIDGUID, as access control entries name it."""
        return self._attributes_by_guid.get(guid)

    def class_by_guid(self, guid: UUID) -> ObjectClass | None:
        """The class of this schemaIDGUID, as access control entries name it."""
        return self._classes_by_guid.get(guid)

    def allowed_attributes(self, classes: Iterable[str]) -> frozenset[str]:
        """The attributes that entries of these classes may have, inherited ones included, in lower case."""
        names = frozenset(classes)
        key = ("allowed attributes", names)
        allowed: frozenset[str] | None = self.derived.get(key)
        if allowed is None:  # computing it takes as long as two searches, and every update needs it
            allowed = self.derived[key] = self._collect(names, lambda known: known.must | known.may)
        return allowed

    def required_attributes(self, classes: Iterable[str]) -> frozenset[str]:
        """The attributes that entries of these classes must have, in lower case."""
        return self._collect(classes, lambda known: known.must)

    @cached_property
    def given_at_creation(self) -> frozenset[str]:
        """The system-only attributes that some class requires, in lower case.

        They cannot be changed later. Whoever creates the object sets those that the directory does not set itself, such
        as msDS-ManagedPasswordInterval ([MS-ADA2]).
        """
        required = {name.lower() for known in self.classes.values() for name in known.must}
        return frozenset(name for name in required if (known := self.attribute(name)) and known.system_only)

    def possible_superiors(self, classes: Iterable[str]) -> frozenset[str]:
        """The classes, in lower case, one of which a container must have to hold an entry of these classes.

        They include inherited ones and those of auxiliary classes ([MS-ADTS] 3.1.1.4.5.21). A container's objectClass
        lists its superclasses, so a class derived from a possible superior qualifies, too.
        """
        return self._collect(classes, lambda known: known.possible_superiors)

    def superclasses(self, name: str) -> list[str]:
        """The class itself and its superclasses up to ``top``; empty for an unknown class."""
        found: list[str] = []
        current = self.object_class(name)
        while current is not None and current.name not in found:  # ``top`` is its own superior
            found.append(current.name)
            current = self.object_class(current.superior)
        return found

    def _collect(self, classes: Iterable[str], of_one: Callable[[ObjectClass], Iterable[str]]) -> frozenset[str]:
        names: set[str] = set()
        seen: set[str] = set()
        waiting = list(classes)
        while waiting:
            object_class = self.object_class(waiting.pop())
            if object_class is None or object_class.name in seen:
                continue
            seen.add(object_class.name)
            names |= {name.lower() for name in of_one(object_class)}
            waiting += [object_class.superior, *object_class.auxiliary]
        return frozenset(names)

    @cached_property
    def _attributes_by_guid(self) -> dict[UUID, AttributeType]:
        return {known.schema_id_guid: known for known in self.attributes.values() if known.schema_id_guid}

    @cached_property
    def _classes_by_guid(self) -> dict[UUID, ObjectClass]:
        return {known.schema_id_guid: known for known in self.classes.values() if known.schema_id_guid}


def attid_of(oid: str) -> int | None:
    """The attid of an attribute in replPropertyMetaData, from its OID; None if its prefix is not a standard one."""
    prefix, _, last = oid.rpartition(".")
    if prefix not in _PREFIXES:
        return None
    number = int(last)
    low = number if number < _LAST_NUMBER_BITS else (number % _LAST_NUMBER_BITS) | 0x8000
    return _PREFIXES.index(prefix) << 16 | low


def _attribute_type(entry: Entry) -> AttributeType:
    oid = entry.text("attributeID") or ""
    own_id = entry.integer("msDS-IntId")  # schema extensions since Windows Server 2003 have one instead of a prefix
    return AttributeType(
        name=entry.text("lDAPDisplayName") or "",
        syntax=Syntax(entry.text("attributeSyntax")),
        om_syntax=entry.number("oMSyntax"),
        attribute_id_oid=oid,
        single_valued=entry.boolean("isSingleValued"),
        system_only=entry.boolean("systemOnly"),
        constructed=bool(entry.number("systemFlags") & SystemFlags.ATTR_IS_CONSTRUCTED),
        link_id=entry.number("linkID"),
        search_flags=SearchFlags(entry.number("searchFlags") & 0xFFFF_FFFF),
        range_lower=entry.integer("rangeLower"),
        range_upper=entry.integer("rangeUpper"),
        attid=attid_of(oid) if own_id is None else own_id & 0xFFFF_FFFF,
        schema_id_guid=_guid(entry, "schemaIDGUID"),
        property_set_guid=_guid(entry, "attributeSecurityGUID"),
    )


def _object_class(entry: Entry) -> ObjectClass:
    def names(*attributes: str) -> frozenset[str]:
        return frozenset(name for attribute in attributes for name in entry.texts(attribute))

    return ObjectClass(
        name=entry.text("lDAPDisplayName") or "",
        superior=entry.text("subClassOf") or "top",
        category=ClassCategory(entry.number("objectClassCategory")),
        must=names("mustContain", "systemMustContain"),
        may=names("mayContain", "systemMayContain"),
        auxiliary=names("auxiliaryClass", "systemAuxiliaryClass"),
        possible_superiors=names("possSuperiors", "systemPossSuperiors"),
        rdn_attribute=entry.text("rDNAttID"),
        schema_id_guid=_guid(entry, "schemaIDGUID"),
    )


def _guid(entry: Entry, name: str) -> UUID | None:
    values = entry.values(name)
    return UUID(bytes_le=values[0]) if values and len(values[0]) == 16 else None


_RETRY_SECONDS = 30.0


class CurrentSchema:
    """Keeps a schema for some seconds; then a thread loads the next one while callers go on using the old one.

    If the directory does not answer, the old schema stays. The first time all callers wait for the same load and get
    the same error.
    """

    def __init__(self, load: Callable[[], Schema], seconds: float) -> None:
        self._load = load
        self._seconds = seconds
        self._lock = threading.Lock()
        self._background = Background("schema")
        self._loading: Future[Schema] | None = None
        self._until = 0.0
        self.present: Schema | None = None
        """The schema loaded last; None before the first load."""

    def get(self) -> Schema:
        """The current schema. Raises the error of the first load if that fails."""
        schema = self.present
        if schema is None:
            return self.load_now()
        if time.monotonic() >= self._until:
            self._background.start(self._load_again)
        return schema

    def load_soon(self) -> None:
        """Start loading the first schema in the background."""
        if self.present is None:
            self._background.start(self._load_again)

    def load_now(self) -> Schema:
        """Load the schema, or wait for a load that is under way; the previous schema stays if that fails."""
        require_thread()
        with self._lock:
            loading, is_ours = self._loading, self._loading is None
            if loading is None:
                loading = self._loading = Future()
        if not is_ours:
            return loading.result()
        try:
            schema = self._load()
        except BaseException as error:
            self._until = time.monotonic() + _RETRY_SECONDS
            loading.set_exception(error)
            raise
        else:
            self.present, self._until = schema, time.monotonic() + self._seconds
            loading.set_result(schema)
            return schema
        finally:
            self._loading = None

    def _load_again(self) -> None:
        with suppress(LdapError):
            self.load_now()
