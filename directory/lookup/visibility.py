"""What a caller may see of the values in a directory, whatever the gateway's own account may read.

Left out are attributes that the schema marks confidential ([MS-ADTS] 2.2.9), for callers without a permission of their
own, and under a role with scopes values that name objects outside of them. Both are left out as if they were not there.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar
from uuid import UUID

from audit.redact import SECRET, ChangeJson
from directory.ldap import DistinguishedName, Entry, InvalidValue, LdapError, Schema, Syntax
from directory.lookup.access import client_of, is_within_any, scope_bases
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from gateway.core.call import Call

READ_OBJECT: Final = "directory.read_object"
READ_CONFIDENTIAL: Final = "directory.read_confidential"

_NAMES = frozenset({Syntax.DN, Syntax.DN_BINARY, Syntax.DN_STRING})
_GROUP_POLICY_LINKS = "gplink"
_PARENT = "parentguid"
# An object's own name, and a name in the schema, which is nobody's and open to every caller.
_OF_ITSELF = frozenset({"distinguishedname", "objectcategory", "defaultobjectcategory"})
# Computed, and telling of other objects by SID or inside a text ([MS-ADTS] 3.1.1.4.5).
_OF_OTHERS = frozenset(
    {"tokengroups", "tokengroupsglobalanduniversal", "tokengroupsnogcacceptable"}
    | {"msds-replvaluemetadata", "msds-replvaluemetadataext", "msds-replattributemetadata"}
    | {"msds-ncreplcursors", "msds-ncreplinboundneighbors", "msds-ncreploutboundneighbors", "msds-topquotausage"}
)
# [MS-GPOL] 2.2.2: [LDAP://<name>;<options>], one after another.
_LINK = re.compile(r"\[LDAP://([^;\]]*);[^\]]*\]", re.IGNORECASE)
# What every change of a group's members moves, those of members outside too.
_MOVED_BY_MEMBERS = frozenset({"whenchanged", "modifytimestamp", "usnchanged"})
# What says nothing of an object itself, or does not come with each read of it.
_NOT_OF_A_VERSION = frozenset({"dscorepropagationdata", "replpropertymetadata", "ntsecuritydescriptor"})
_FIRST_RDN = re.compile(r"(?:\\.|[^\\,])*,?", re.DOTALL)

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
    _inside: dict[str, bool] = field(default_factory=dict)
    _beside: dict[str, bool] = field(default_factory=dict)

    def hold(self, name: str) -> bool:
        parent = parent_of(name)
        try:
            inside = self._inside.get(parent)
            if inside is None:
                inside = self._inside[parent] = is_within_any(parent, self.bases)
                above = DistinguishedName.parse(parent)
                self._beside[parent] = any(DistinguishedName.parse(base).parent == above for base in self.bases)
            return inside or (self._beside[parent] and is_within_any(name, self.bases))
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

    @cached_property
    def _confines(self) -> _Confines:
        return _Confines(self.bases or ())

    @property
    def is_confined(self) -> bool:
        return self.bases is not None

    def holds(self, name: str) -> bool:
        """Whether an object of this name may be told of."""
        return self.bases is None or self._confines.hold(name)

    def knows(self, name: str) -> bool:
        """Whether the caller may be told of an object of this name: it is inside, or above what they are confined to,
        whose own names hold it."""
        return self.holds(name) or any(is_within_any(base, (name,)) for base in self.bases or ())

    def tell(self, name: str) -> str:
        """How to speak of an object of this name in a sentence."""
        return name if self.holds(name) else "an object outside the scopes"

    def refers(self, attribute: str) -> bool:
        """Whether values of the attribute tell of other objects, so that a confined caller may not see them all."""
        return attribute.lower() in _references(self.schema)

    def sees(self, attribute: str, value: str) -> bool:
        """Whether a value of an attribute that refers to others names nothing that the caller may not know of."""
        name = attribute.lower()
        if name in _OF_OTHERS or name == _PARENT:
            return False
        if name == _GROUP_POLICY_LINKS:
            return all(self.holds(link[1]) for link in _LINK.finditer(value))
        known = self.schema.attribute(name)
        if known is not None and known.syntax is not Syntax.DN:  # B:<length>:<octets>:<name>, or S: with a text
            value = value.split(":", 3)[-1]
        return self.holds(value)

    def tells_of_members(self, attribute: str) -> bool:
        """Whether an attribute of a group moves with members that the caller may not see."""
        return self.is_confined and attribute.lower() in _MOVED_BY_MEMBERS

    def may_hide(self, attribute: str) -> bool:
        """Whether values of the attribute may be none that the caller may see."""
        return self.is_confined and (self.refers(attribute) or self.tells_of_members(attribute))

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

    def confined(self, entry: Entry) -> Entry:
        """The entry with those values that the caller may see."""
        if self.bases is None:
            return entry
        references = _references(self.schema)
        is_group = _is_group(entry)
        seen: dict[str, list[bytes]] = {}
        for name, values in entry.attributes.items():
            if is_group and name.lower() in _MOVED_BY_MEMBERS:
                seen[name] = []
            elif name.lower() not in references:
                seen[name] = values
            elif name.lower() == _PARENT:
                seen[name] = values if self.holds(parent_of(entry.dn)) else []
            else:
                seen[name] = self._seen(name, values, lambda value: value.decode("utf-8", "replace"), str.encode)
        return entry.with_attributes(seen)

    def changes(self, changes: Sequence[ChangeJson]) -> list[ChangeJson]:
        """Changes as the caller may see them: values of confidential attributes are shown as secrets."""
        shown: list[ChangeJson] = []
        for change in changes:
            before, after = change["before"], change["after"]
            shown.append(
                {
                    "attribute": change["attribute"],
                    "before": self.texts(change["attribute"], before),
                    "after": self.texts(change["attribute"], after),
                }
            )
        return shown

    def texts(self, attribute: str, values: Sequence[str]) -> list[str]:
        """Decoded values of an attribute, of whichever object, as the caller may see them."""
        known = self.schema.attribute(attribute)
        if not self.values or (known is not None and known.confidential and not self.confidential):
            return [SECRET for _ in values]
        # Of a move both places are told, and only one of them needs to be the caller's.
        if self.bases is None or not (self.refers(attribute) or attribute.lower() == "distinguishedname"):
            return list(values)
        return self._seen(attribute, values, str, str)

    def _seen(
        self, name: str, values: Iterable[_Text], read: Callable[[_Text], str], write: Callable[[str], _Text]
    ) -> list[_Text]:
        if name.lower() != _GROUP_POLICY_LINKS:
            return [value for value in values if self.sees(name, read(value))]
        texts = (_LINK.sub(lambda link: link[0] if self.holds(link[1]) else "", read(value)) for value in values)
        return [write(text) for text in texts if text.strip()]


def visibility_of(call: Call) -> Visibility:
    """What a caller may see of their directory."""
    return Visibility(client_of(call).schema, may_see_confidential(call), scope_bases(call), may_see_values(call))


def _is_group(entry: Entry) -> bool:
    return b"group" in entry.values("objectClass")


def hidden_links(visibility: Visibility, before: bytes) -> set[str]:
    """The links to group policies in a value that the caller may not see."""
    return {link[0] for link in _LINK.finditer(before.decode("utf-8", "replace")) if not visibility.holds(link[1])}


def _references(schema: Schema) -> frozenset[str]:
    """The attributes, in lower case, whose values tell of other objects."""
    found: frozenset[str] | None = schema.derived.get(_references)
    if found is None:
        named = {name for name, attribute in schema.attributes.items() if attribute.syntax in _NAMES}
        found = schema.derived[_references] = frozenset(
            (named - _OF_ITSELF) | _OF_OTHERS | {_GROUP_POLICY_LINKS, _PARENT}
        )
    return found


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
        schema = get_client(directory).schema
        return Visibility(schema, may_see_confidential(call), scope_bases(call) if own else None)
    except DirectoryConnection.DoesNotExist:
        return None
    except LdapError:
        return _NOTHING
