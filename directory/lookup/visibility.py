"""What a caller may see of the values in a directory, whatever the gateway's own account may read.

Attributes that the schema marks confidential ([MS-ADTS] 2.2.9) are hidden from callers without a permission for them,
and values that name objects outside the caller's scopes from callers with scopes. Answers leave both out, as if they
did not exist.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar
from uuid import UUID

from django.conf import settings

from active_directory import (
    Client,
    DistinguishedName,
    Entry,
    Equals,
    Filter,
    InvalidValue,
    LdapError,
    Or,
    Schema,
    Scope,
    decoder,
)
from audit.redact import SECRET, ChangeJson
from core.call import Call
from directory.lookup.access import client_of, is_within_any, scope_bases
from directory.lookup.connection import domain_sid, get_client
from directory.models import DirectoryConnection
from directory.shapes.object_references import (
    FORMS_WITH_NAMES,
    Identifier,
    ReferenceForm,
    decoded_forms,
    identifiers_in,
    links_in,
    reference_forms,
)

READ_OBJECT: Final = "directory.read_object"
READ_CONFIDENTIAL: Final = "directory.read_confidential"

# Every change of a group's members changes these, also one of members outside the scopes.
_CHANGES_WITH_MEMBERS = frozenset({"whenchanged", "modifytimestamp", "usnchanged"})
# These say nothing about the object itself, or are not in every read of it.
_NOT_IN_VERSION = frozenset({"dscorepropagationdata", "replpropertymetadata", "ntsecuritydescriptor"})
_FIRST_RDN = re.compile(r"(?:\\.|[^\\,])*,?", re.DOTALL)
_OWN_NAME = "distinguishedname"
_PARENT = "parentguid"
_MAX_TERMS = 50

_Text = TypeVar("_Text", bytes, str)


def may_see_values(call: Call) -> bool:
    """Whether the caller may read objects. Otherwise answers name the object, without any of its values."""
    return call.may(READ_OBJECT)


def may_see_confidential(call: Call) -> bool:
    """Whether the caller may read attributes that the schema marks confidential."""
    return call.may(READ_CONFIDENTIAL)


def parent_of(dn: str) -> str:
    """The name one level up, in the same spelling; empty for the root."""
    first, _, rest = dn.partition(",")
    if "\\" not in first:
        return rest
    match = _FIRST_RDN.match(dn)
    return dn[match.end() :] if match else ""


@dataclass(frozen=True)
class Visibility:
    """What one caller may see. `bases` are the objects the caller is confined to, None for no confinement.

    Without `values`, changes show only which attributes they are about.
    """

    schema: Schema
    confidential: bool
    bases: tuple[str, ...] | None
    values: bool = True
    client: Client | None = None
    """Looks up objects that values identify by SID or GUID. Without it all such values are hidden."""
    _below: dict[str, bool | None] = field(default_factory=dict, init=False, compare=False)
    """By the name of a parent, what `can_see_below` says."""
    _names: dict[str, list[str]] = field(default_factory=dict, init=False, compare=False)
    """The present names of the objects that match a condition, by the condition's text."""

    @classmethod
    def of(
        cls, client: Client, *, confidential: bool, bases: tuple[str, ...] | None, values: bool = True
    ) -> "Visibility":
        return cls(client.schema, confidential, bases, values, client)

    @cached_property
    def _forms(self) -> Mapping[str, ReferenceForm]:
        """How the values of attributes that scopes apply to identify objects, by lower-case attribute name."""
        forms = reference_forms(self.schema)
        allowed = {name.lower() for name in settings.CONFIGURATION.Scopes.OutsideReferences}
        return {name: form for name, form in forms.items() if name not in allowed} if allowed else forms

    @property
    def is_confined(self) -> bool:
        return self.bases is not None

    def can_see(self, name: str) -> bool:
        """Whether the object of this name is inside the scopes. Its parent's cached answer nearly always decides."""
        if self.bases is None:
            return True
        try:
            decided = self.can_see_below(parent_of(name))
            return is_within_any(name, self.bases) if decided is None else decided
        except InvalidValue:
            return False

    def can_see_below(self, parent: str) -> bool | None:
        """Whether all objects directly below this name are inside the scopes, or none; None where some may be.

        Raises InvalidValue for what is no name.
        """
        if self.bases is None:
            return True
        if parent not in self._below:
            above = DistinguishedName.parse(parent)
            holds_base = any(DistinguishedName.parse(base).parent == above for base in self.bases)
            self._below[parent] = True if is_within_any(parent, self.bases) else None if holds_base else False
        return self._below[parent]

    def may_know(self, name: str) -> bool:
        """Whether the caller may learn of the object of this name.

        It is inside the scopes or above one of their bases, whose names contain it anyway.
        """
        return self.can_see(name) or any(is_within_any(base, (name,)) for base in self.bases or ())

    def display_name(self, name: str) -> str:
        """What a sentence calls the object of this name."""
        return name if self.can_see(name) else "an object outside the scopes"

    def is_reference(self, attribute: str) -> bool:
        """Whether values of the attribute identify other objects, so that a confined caller may not see them all."""
        return attribute.lower() in self._forms

    def can_see_value(self, attribute: str, value: str) -> bool:
        """Whether a value of an attribute identifies only objects that the caller may see."""
        if attribute.lower() == _OWN_NAME:
            return self.can_see(value)
        found = self._identifiers(attribute, value)
        return found is not None and all(map(self._is_inside, found))

    def can_see_filter_value(self, attribute: str, value: str | bytes) -> bool:
        """The same as `can_see_value` for a value in a filter, which may be octets."""
        form, known = self._forms.get(attribute.lower()), self.schema.attribute(attribute)
        # A filter can compare gPLink only as a whole, and with it links that are not in the filter.
        if known is None or form in (None, ReferenceForm.LINKS):
            return False
        return any(self.can_see_value(attribute, text) for text in decoded_forms(known, value))

    def hides(self, attribute: str, values: Iterable[str]) -> bool:
        """Whether one of these values identifies an object that the caller may not see."""
        return self._names_objects(attribute) and not all(self.can_see_value(attribute, value) for value in values)

    def _names_objects(self, attribute: str) -> bool:
        return self.is_confined and (self.is_reference(attribute) or attribute.lower() == _OWN_NAME)

    def _identifiers(self, attribute: str, value: str) -> list[Identifier] | None:
        """What identifies other objects in a value; None when the value cannot be read, and so must be hidden."""
        form = self._forms.get(attribute.lower())
        if form is None:
            return []
        if self.client is None and form not in FORMS_WITH_NAMES:
            return None
        try:
            return identifiers_in(form, value, domain=lambda: domain_sid(self.client) if self.client else "")
        except ValueError:
            return None

    def _is_inside(self, identifier: Identifier) -> bool:
        if isinstance(identifier, str):
            return self.can_see(identifier)
        if str(identifier) not in self._names:
            self._look_up([identifier])
        names = self._names[str(identifier)]  # empty when the gateway's account may not read the object
        return bool(names) and all(map(self.can_see, names))

    def _look_up(self, conditions: Iterable[Filter]) -> None:
        """Find the objects of many conditions in few searches, as far as they are not known yet."""
        unknown = {str(each): each for each in conditions if str(each) not in self._names}
        self._names.update({key: [] for key in unknown})
        identities = [each for each in unknown.values() if isinstance(each, Equals)]
        for start in range(0, len(identities), _MAX_TERMS):
            for name, identity in self._find(Or(*identities[start : start + _MAX_TERMS])):
                if identity in unknown:
                    self._names[identity].append(name)
        for key, condition in unknown.items():
            if not isinstance(condition, Equals):
                self._names[key] = list(dict.fromkeys(name for name, _ in self._find(condition)))

    def _find(self, condition: Filter) -> Iterator[tuple[str, str]]:
        """The names of the objects found, each with the text of a condition that would find it by GUID or SID."""
        if self.client is None:
            return
        # The whole domain: outside the connection's base, too, an object that is found counts as outside the scopes.
        base, wanted = self.client.default_naming_context, ("objectGUID", "objectSid")
        for entry in self.client.search(base, Scope.SUBTREE, condition, wanted, whole=True):
            for attribute in wanted:
                for value in entry.values(attribute):
                    yield entry.dn, str(Equals(attribute, value))

    def prefetched(self, entries: Iterable[Entry], attributes: Iterable[str]) -> Iterable[Entry]:
        """The same entries, after all objects that these attributes of theirs identify were looked up together.

        It comes before `confined`: a look-up for each entry would need a second connection while entries still arrive.
        """
        if self.bases is None or self.client is None:
            return entries
        names = {name.lower() for name in attributes}
        looked_up = {
            name
            for name, form in self._forms.items()
            if form not in FORMS_WITH_NAMES and name != _PARENT and (name in names or "*" in names)
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
        self._look_up(each for each in identifiers if not isinstance(each, str))
        return found

    def changes_with_members(self, attribute: str) -> bool:
        """Whether an attribute of a group changes with members that the caller may not see."""
        return self.is_confined and attribute.lower() in _CHANGES_WITH_MEMBERS

    def may_hide(self, attribute: str) -> bool:
        """Whether some values of the attribute may be hidden from the caller."""
        return self.is_confined and (self.is_reference(attribute) or self.changes_with_members(attribute))

    @property
    def needs(self) -> tuple[str, ...]:
        """The attributes that an entry must be read with for `confined`."""
        return ("objectClass",) if self.is_confined else ()

    def version(self, seen: Entry) -> str | None:
        """The version of an entry, `confined` and read with all its attributes; None where its own version will do.

        A group's version is a hash of what the caller sees: its uSNChanged would reveal changes of hidden members.
        Other objects change only by themselves.
        """
        if self.bases is None or not _is_group(seen):
            return None
        told = sorted(
            (name.lower(), *sorted(values)) for name, values in seen.attributes.items() if self._is_own(name) and values
        )
        return hashlib.sha256(repr(told).encode()).hexdigest()[:16]

    def _is_own(self, name: str) -> bool:
        attribute = self.schema.attribute(name)
        if attribute is None or name.lower() in _NOT_IN_VERSION | _CHANGES_WITH_MEMBERS:
            return False
        return not (
            attribute.constructed or attribute.is_back_link or (attribute.is_confidential and not self.confidential)
        )

    def confined(self, entry: Entry, attribute: str | None = None) -> Entry:
        """The entry without the values that are hidden from the caller, of one attribute or of all."""
        if self.bases is None:
            return entry
        is_group = _is_group(entry)
        seen: dict[str, list[bytes]] = {}
        for name, values in entry.attributes.items():
            if attribute is not None and name.lower() != attribute.lower():
                seen[name] = values
            elif is_group and name.lower() in _CHANGES_WITH_MEMBERS:
                seen[name] = []
            elif name.lower() == _PARENT:  # whose name is a part of the entry's own
                seen[name] = values if self.can_see(parent_of(entry.dn)) else []
            elif self.is_reference(name):
                seen[name] = self._seen(name, values, decoder(self.schema.attribute(name)), str.encode)
            else:
                seen[name] = values
        return entry.with_attributes(seen)

    def confined_to_shown(self, entry: Entry, shown: Collection[str]) -> Entry:
        """The same, without the values of references that are not shown, so that nothing is looked up for them."""
        if self.bases is None or _is_group(entry):  # the version of a group depends on all that its readers see
            return self.confined(entry)
        kept = {
            name: values for name, values in entry.attributes.items() if name in shown or not self.is_reference(name)
        }
        return self.confined(entry.with_attributes(kept))

    def visible_changes(self, changes: Sequence[ChangeJson]) -> list[ChangeJson]:
        """Changes without hidden values; a placeholder stands for those of confidential attributes."""
        return [
            {
                "attribute": (name := change["attribute"]),
                "before": self.visible_texts(name, change["before"]),
                "after": self.visible_texts(name, change["after"]),
            }
            for change in changes
        ]

    def visible_texts(self, attribute: str, values: Sequence[str]) -> list[str]:
        """Decoded values of an attribute, of any object, without the hidden ones."""
        known = self.schema.attribute(attribute)
        if not self.values or (known is not None and known.is_confidential and not self.confidential):
            return [SECRET for _ in values]
        # A move shows the old and the new name, and only one of them need be inside the caller's scopes.
        return self._seen(attribute, values, str, str) if self._names_objects(attribute) else list(values)

    def _seen(
        self, name: str, values: Iterable[_Text], read: Callable[[_Text], str], write: Callable[[str], _Text]
    ) -> list[_Text]:
        form = self._forms.get(name.lower())
        if form is ReferenceForm.NAME:
            return [value for value in values if self.can_see(read(value))]
        if form is not ReferenceForm.LINKS:
            return [value for value in values if self.can_see_value(name, read(value))]
        texts = (read(value) for value in values)
        visible = ("".join(link for link, target in links_in(text) if self.can_see(target)) for text in texts)
        return [write(text) for text in visible if text]


def visibility_of(call: Call) -> Visibility:
    """What the caller may see of the call's directory."""
    return Visibility.of(
        client_of(call),
        confidential=may_see_confidential(call),
        bases=scope_bases(call),
        values=may_see_values(call),
    )


def _is_group(entry: Entry) -> bool:
    return b"group" in entry.values("objectClass")


ChangeMasker = Callable[[UUID | None, list[ChangeJson]], list[ChangeJson]]
"""Leaves the hidden values out of changes to a directory, or (with None) to the gateway's own tables."""


def masker_for_change_requests(call: Call) -> ChangeMasker:
    """The masker for change requests. Without permission to read objects, their values are hidden too."""
    if may_see_values(call):
        return masker_for_log(call)
    return lambda directory, changes: changes if directory is None else _without_values(changes)


def _without_values(changes: Sequence[ChangeJson]) -> list[ChangeJson]:
    """Changes for a caller who may not read objects: only the attributes, and the names of objects."""
    return [
        change if (name := change["attribute"].lower()) == "distinguishedname" or "=" in name else shown
        for change, shown in zip(changes, _ALL_HIDDEN.visible_changes(changes), strict=True)
    ]


def masker_for_log(call: Call) -> ChangeMasker:
    """The masker for log records of any directory.

    No confidential value enters a record, but an attribute may have been marked confidential since. The values of a
    directory whose schema cannot be read now are hidden; those of a deleted connection are shown as they were kept.
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
        return changes if visibility is None else visibility.visible_changes(changes)

    return seen


def hidden_attributes(call: Call) -> tuple[set[str], set[UUID]]:
    """The confidential attributes of all directories, in lower case, and the directories whose schema cannot be read.

    Both are empty for a caller who may read confidential attributes.
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
            hidden |= {name.lower() for name, attribute in schema.attributes.items() if attribute.is_confidential}
    return hidden, unreadable


_ALL_HIDDEN: Final = Visibility(Schema({}, {}), confidential=False, bases=(), values=False)
"""Of a directory whose schema cannot be read, or which is not the one that the caller's scopes belong to."""


def _visibility_in(call: Call, directory: UUID) -> Visibility | None:
    own = call.directory is not None and call.directory.id == directory
    if call.scopes and not own:
        return _ALL_HIDDEN
    try:
        bases = scope_bases(call) if own else None
        return Visibility.of(get_client(directory), confidential=may_see_confidential(call), bases=bases)
    except DirectoryConnection.DoesNotExist:
        return None
    except LdapError:
        return _ALL_HIDDEN
