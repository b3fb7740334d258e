"""What a caller may see of the values in a directory, whatever the gateway's own account may read.

Left out are attributes that the schema marks confidential ([MS-ADTS] 2.2.9), for callers without a permission of their
own, and under a role with scopes values that name objects outside of them. Both are left out as if they were not there.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar
from uuid import UUID

from django.conf import settings

from active_directory import Client, DistinguishedName, Entry, InvalidValue, LdapError, Schema, decoder
from audit.redact import SECRET, ChangeJson
from core.call import Call
from directory.lookup.access import client_of, is_within_any, scope_bases
from directory.lookup.connection import get_client
from directory.lookup.referenced_objects import ReferencedObjects
from directory.models import DirectoryConnection
from directory.shapes.object_references import (
    FORMS_WITH_NAMES,
    Form,
    Identifier,
    decoded_forms,
    forms_of,
    identifiers_in,
    links_in,
)

READ_OBJECT: Final = "directory.read_object"
READ_CONFIDENTIAL: Final = "directory.read_confidential"

# What every change of a group's members moves, those of members outside too.
_MOVED_BY_MEMBERS = frozenset({"whenchanged", "modifytimestamp", "usnchanged"})
# What says nothing of an object itself, or does not come with each read of it.
_NOT_OF_A_VERSION = frozenset({"dscorepropagationdata", "replpropertymetadata", "ntsecuritydescriptor"})
_FIRST_RDN = re.compile(r"(?:\\.|[^\\,])*,?", re.DOTALL)
_OWN_NAME = "distinguishedname"

_Text = TypeVar("_Text", bytes, str)


def may_see_values(call: Call) -> bool:
    """Whether the caller may read objects: without it an answer tells which object it is about, and no value."""
    return call.may(READ_OBJECT)


def may_see_confidential(call: Call) -> bool:
    """Whether the caller may read what the schema marks confidential."""
    return call.may(READ_CONFIDENTIAL)


def parent_of(dn: str) -> str:
    """The name one level up, as it is spelled; empty for the root."""
    first, _, rest = dn.partition(",")
    if "\\" not in first:
        return rest
    match = _FIRST_RDN.match(dn)
    return dn[match.end() :] if match else ""


@dataclass(frozen=True, slots=True)
class _Confines:
    """Whether names lie inside the scopes; what is known of a name's parent decides nearly always."""

    bases: tuple[str, ...]
    _known: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    """By the name of a parent: whether what is below it is inside, and whether a base may be directly below it."""

    def contains(self, name: str) -> bool:
        parent = parent_of(name)
        try:
            if parent not in self._known:
                above = DistinguishedName.parse(parent)
                holds_base = any(DistinguishedName.parse(base).parent == above for base in self.bases)
                self._known[parent] = is_within_any(parent, self.bases), holds_base
            is_inside, holds_base = self._known[parent]
            return is_inside or (holds_base and is_within_any(name, self.bases))
        except InvalidValue:
            return False


@dataclass(frozen=True)
class Visibility:
    """What one caller may see. `bases` are what the caller is confined to, None for everything.

    Without `values` all that is told of a change is which attributes it is about.
    """

    schema: Schema
    confidential: bool
    bases: tuple[str, ...] | None
    values: bool = True
    objects: ReferencedObjects | None = None
    """What finds the objects that are not identified by name. Without it nothing that identifies them is seen."""

    @classmethod
    def of(
        cls, client: Client, *, confidential: bool, bases: tuple[str, ...] | None, values: bool = True
    ) -> "Visibility":
        return cls(client.schema, confidential, bases, values, ReferencedObjects(client))

    @cached_property
    def _confines(self) -> _Confines:
        return _Confines(self.bases or ())

    @cached_property
    def _forms(self) -> Mapping[str, Form]:
        """How values identify objects that may have to be inside, by attribute in lower case."""
        forms = forms_of(self.schema)
        allowed = {name.lower() for name in settings.CONFIGURATION.Scopes.OutsideReferences}
        return {name: form for name, form in forms.items() if name not in allowed} if allowed else forms

    @property
    def is_confined(self) -> bool:
        return self.bases is not None

    def can_see(self, name: str) -> bool:
        """Whether an object of this name may be told of."""
        return self.bases is None or self._confines.contains(name)

    def knows(self, name: str) -> bool:
        """Whether the caller may be told of an object of this name: it is inside, or above what they are confined to,
        whose own names hold it."""
        return self.can_see(name) or any(is_within_any(base, (name,)) for base in self.bases or ())

    def display_name(self, name: str) -> str:
        """How to speak of an object of this name in a sentence."""
        return name if self.can_see(name) else "an object outside the scopes"

    def is_reference(self, attribute: str) -> bool:
        """Whether values of the attribute tell of other objects, so that a confined caller may not see them all."""
        return attribute.lower() in self._forms

    def can_see_value(self, attribute: str, value: str) -> bool:
        """Whether a value of an attribute identifies no object that the caller may not know of."""
        if attribute.lower() == _OWN_NAME:
            return self.can_see(value)
        found = self._identifiers(attribute, value)
        return found is not None and all(map(self._is_inside, found))

    def matches(self, attribute: str, value: str | bytes) -> bool:
        """The same of a value that a filter compares with, which may be octets."""
        form, known = self._forms.get(attribute.lower()), self.schema.attribute(attribute)
        # A link to a policy is a part of a text, which names others besides those compared with.
        if known is None or form in (None, Form.LINKS):
            return False
        return any(self.can_see_value(attribute, text) for text in decoded_forms(known, value))

    def hides(self, attribute: str, values: Iterable[str]) -> bool:
        """Whether one of these values identifies an object that the caller may not know of."""
        return self._names_objects(attribute) and not all(self.can_see_value(attribute, value) for value in values)

    def _names_objects(self, attribute: str) -> bool:
        return self.is_confined and (self.is_reference(attribute) or attribute.lower() == _OWN_NAME)

    def _identifiers(self, attribute: str, value: str) -> list[Identifier] | None:
        """What identifies others in a value; None when it cannot be read."""
        form = self._forms.get(attribute.lower())
        if form is None:
            return []
        if self.objects is None and form not in FORMS_WITH_NAMES:
            return None
        try:
            return identifiers_in(form, value, domain=str if self.objects is None else self.objects.domain)
        except ValueError:
            return None

    def _is_inside(self, identifier: Identifier) -> bool:
        if isinstance(identifier, str):
            return self.can_see(identifier)
        names = [] if self.objects is None else self.objects.names_of(identifier)
        return bool(names) and all(map(self.can_see, names))

    def prepared(self, entries: Iterable[Entry], attributes: Iterable[str]) -> Iterable[Entry]:
        """The same entries, with what these of their attributes identify looked up at once.

        Before they are `confined` one by one: looking up needs a connection, and so do entries that still arrive.
        """
        if self.bases is None or self.objects is None:
            return entries
        names = {name.lower() for name in attributes}
        looked_up = {
            name
            for name, form in self._forms.items()
            if form not in FORMS_WITH_NAMES and (name in names or "*" in names)
        }
        if not looked_up:
            return entries
        found = list(entries)
        identifiers = [
            identifier
            for entry in found
            for name in entry.attributes
            if name.lower() in looked_up
            for text in map(decoder(self.schema.attribute(name)), entry.attributes[name])
            for identifier in self._identifiers(name, text) or ()
        ]
        self.objects.look_up(each for each in identifiers if not isinstance(each, str))
        return found

    def tells_of_members(self, attribute: str) -> bool:
        """Whether an attribute of a group moves with members that the caller may not see."""
        return self.is_confined and attribute.lower() in _MOVED_BY_MEMBERS

    def may_hide(self, attribute: str) -> bool:
        """Whether values of the attribute may be none that the caller may see."""
        return self.is_confined and (self.is_reference(attribute) or self.tells_of_members(attribute))

    @property
    def needs(self) -> tuple[str, ...]:
        """What an entry must be read with to be confined."""
        return ("objectClass",) if self.is_confined else ()

    def version(self, seen: Entry) -> str | None:
        """The version of an entry as the caller may see it, read with all its attributes; None if its own will do.

        That of a group, made of what they see of it: they could watch for members that they may not see. Of other
        objects whatever changes is their own.
        """
        if self.bases is None or not _is_group(seen):
            return None
        told = sorted(
            (name.lower(), *sorted(values)) for name, values in seen.attributes.items() if self._is_own(name) and values
        )
        return hashlib.sha256(repr(told).encode()).hexdigest()[:16]

    def _is_own(self, name: str) -> bool:
        attribute = self.schema.attribute(name)
        if attribute is None or name.lower() in _NOT_OF_A_VERSION | _MOVED_BY_MEMBERS:
            return False
        return not (attribute.constructed or attribute.back_link or (attribute.confidential and not self.confidential))

    def confined(self, entry: Entry, attribute: str | None = None) -> Entry:
        """The entry with those values that the caller may see, of one attribute or of all."""
        if self.bases is None:
            return entry
        is_group = _is_group(entry)
        seen: dict[str, list[bytes]] = {}
        for name, values in entry.attributes.items():
            if attribute is not None and name.lower() != attribute.lower():
                seen[name] = values
            elif is_group and name.lower() in _MOVED_BY_MEMBERS:
                seen[name] = []
            elif self.is_reference(name):
                seen[name] = self._seen(name, values, decoder(self.schema.attribute(name)), str.encode)
            else:
                seen[name] = values
        return entry.with_attributes(seen)

    def changes(self, changes: Sequence[ChangeJson]) -> list[ChangeJson]:
        """Changes as the caller may see them: values of confidential attributes are shown as secrets."""
        return [
            {
                "attribute": (name := change["attribute"]),
                "before": self.texts(name, change["before"]),
                "after": self.texts(name, change["after"]),
            }
            for change in changes
        ]

    def texts(self, attribute: str, values: Sequence[str]) -> list[str]:
        """Decoded values of an attribute, of whichever object, as the caller may see them."""
        known = self.schema.attribute(attribute)
        if not self.values or (known is not None and known.confidential and not self.confidential):
            return [SECRET for _ in values]
        # Of a move both places are told, and only one of them needs to be the caller's.
        return self._seen(attribute, values, str, str) if self._names_objects(attribute) else list(values)

    def _seen(
        self, name: str, values: Iterable[_Text], read: Callable[[_Text], str], write: Callable[[str], _Text]
    ) -> list[_Text]:
        form = self._forms.get(name.lower())
        if form is Form.NAME:
            return [value for value in values if self.can_see(read(value))]
        if form is not Form.LINKS:
            return [value for value in values if self.can_see_value(name, read(value))]
        texts = (read(value) for value in values)
        visible = ("".join(link for link, target in links_in(text) if self.can_see(target)) for text in texts)
        return [write(text) for text in visible if text]


def visibility_of(call: Call) -> Visibility:
    """What a caller may see of their directory."""
    return Visibility.of(
        client_of(call),
        confidential=may_see_confidential(call),
        bases=scope_bases(call),
        values=may_see_values(call),
    )


def _is_group(entry: Entry) -> bool:
    return b"group" in entry.values("objectClass")


Changes = Callable[[UUID | None, list[ChangeJson]], list[ChangeJson]]


def requested_changes_seen_by(call: Call) -> Changes:
    """What shows the changes of change requests as a caller may see them: their values are the directory's."""
    if may_see_values(call):
        return changes_seen_by(call)

    def named(directory: UUID | None, changes: list[ChangeJson]) -> list[ChangeJson]:
        return changes if directory is None else without_values(changes)

    return named


def without_values(changes: Sequence[ChangeJson]) -> list[ChangeJson]:
    """Changes as they are told to somebody who may not read objects: which attributes, and what objects are called."""
    return [
        change if (name := change["attribute"].lower()) == "distinguishedname" or "=" in name else shown
        for change, shown in zip(changes, _NOTHING.changes(changes), strict=True)
    ]


def changes_seen_by(call: Call) -> Changes:
    """What shows the changes of records, of any directory, as a caller may see them who may read the log.

    No confidential value enters a record; but an attribute may have been marked since. Where the schema of a directory
    cannot be read now, its values are not shown; where its connection is gone, they are as they were kept.
    """
    if may_see_confidential(call) and not call.scopes:
        return lambda _, changes: changes
    known: dict[UUID, Visibility | None] = {}

    def seen(directory: UUID | None, changes: list[ChangeJson]) -> list[ChangeJson]:
        if not changes or directory is None:
            return changes
        if directory not in known:
            known[directory] = _visibility_in(call, directory)
        visibility = known[directory]
        return changes if visibility is None else visibility.changes(changes)

    return seen


def hidden_attributes(call: Call) -> tuple[set[str], set[UUID]]:
    """The attributes, in lower case, whose values a caller without scopes may not see in some directory, and the
    directories of which that cannot be known now.
    """
    hidden: set[str] = set()
    unreadable: set[UUID] = set()
    if may_see_confidential(call):
        return hidden, unreadable
    for directory in DirectoryConnection.objects.values_list("pk", flat=True):
        try:
            schema = get_client(directory).schema
        except (DirectoryConnection.DoesNotExist, LdapError):
            unreadable.add(directory)
        else:
            hidden |= {name.lower() for name, attribute in schema.attributes.items() if attribute.confidential}
    return hidden, unreadable


class _Nothing(Visibility):
    """Of a directory whose schema cannot be read, or to which the caller's scopes do not belong."""

    def texts(self, attribute: str, values: Sequence[str]) -> list[str]:
        return [SECRET for _ in values]


_NOTHING: Final = _Nothing(Schema({}, {}), confidential=False, bases=())


def _visibility_in(call: Call, directory: UUID) -> Visibility | None:
    own = call.directory is not None and call.directory.id == directory
    if call.scopes and not own:
        return _NOTHING
    try:
        bases = scope_bases(call) if own else None
        return Visibility.of(get_client(directory), confidential=may_see_confidential(call), bases=bases)
    except DirectoryConnection.DoesNotExist:
        return None
    except LdapError:
        return _NOTHING
