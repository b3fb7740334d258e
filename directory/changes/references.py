"""The objects that changes refer to by name: resolved once, and stored by objectGUID along with the names.

A stored name may later belong to another object. So a later approval or revert uses the objectGUIDs stored in the log
or with the change request, and the body of a change request gets the objects' current names when it is applied.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

from active_directory import (
    AttributeType,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    Schema,
    Syntax,
    decode,
    may_refer,
    names_in,
    replace_names,
    servers_asked,
)
from audit.log_queries import CLOCKS_DIFFER_BY
from audit.models import OperationRecord
from audit.redact import SECRET, ReferenceJson
from core.call import Call
from core.errors import Forbidden
from core.shapes import parse_guid
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of
from directory.lookup.replication import require_all_absent
from directory.lookup.visibility import visibility_of
from directory.outcomes.evidence import NAME_ATTID
from directory.shapes.kinds import kind_of_entry
from directory.shapes.modifications import Step, referenced_names
from directory.shapes.object_references import ReferenceForm, identifiers_in, reference_forms
from directory.shapes.proposal import AttributeChange, DependentChange, Proposal
from directory.shapes.wording.value_words import parse_name

_EVIDENCE_MEMBER: Final = "references"
"""The member of a record's evidence with the objectGUIDs by attribute, in the order of `names_referenced_by`; null
for an unknown one."""
_FORMS_BY_NAME: Final = frozenset({ReferenceForm.SERVICE, ReferenceForm.COMPUTERS})
"""Forms that identify whatever object has a name. Distinguished names have objectGUIDs stored; SIDs never change."""
_MAX_SHOWN: Final = 20
PARENT_MEMBER: Final = "parent"
"""The member of bodies that names an object, by objectGUID or by distinguished name."""
UPDATE_MEMBERS: Final = ("replace", "add", "remove")


def resolve_references(call: Call, steps: Sequence[Step], changes: Iterable[AttributeChange]) -> dict[str, UUID]:
    """The objectGUIDs of the objects that the values of changes refer to, by their names as spelled there.

    Raises InvalidValue naming the member of the body for a step that names an object that does not exist. A removed
    value may name an object that is gone or cannot be read.
    """
    client = client_of(call)
    wanted = {str(name): step for name, step in referenced_names(steps).items()}
    spelled = {name for change in changes for name in names_referenced_by(client.schema, change)}
    found = _resolve(client, {*wanted, *spelled})
    for name, step in wanted.items():
        if name not in found:
            raise errors.InvalidValue.naming(
                message("{attribute}: there is no object {name}", attribute=step.attribute.name, name=name),
                pointer=step.where,
            )
    return {name: guid for name, guid in found.items() if guid is not None and name in spelled}


def require_references_visible(call: Call, steps: Iterable[Step]) -> None:
    """Refuse values that identify objects outside the caller's scopes, whether set, added or removed.

    Raises Forbidden whether or not the object or the value exists: anything else would reveal it.
    """
    if not call.scopes:
        return
    visibility = visibility_of(call)
    if any(visibility.hides(step.attribute.name, decode(step.attribute, step.values)) for step in steps):
        raise Forbidden


def names_referenced_by(schema: Schema, change: AttributeChange) -> list[str]:
    """The names of the objects that a change refers to, in its values before and after, as spelled there.

    For a deletion these are the deleted objects; for a move or rename the parents, as `parent_name` spells them; for a
    run the account.
    """
    if "=" in change.attribute:
        return [change.attribute]
    if change.attribute.lower() == "distinguishedname":
        if not change.after:
            return list(change.before)
        return [parent_name(name) for name in (*change.before, *change.after)]
    attribute = schema.attribute(change.attribute)
    if not may_refer(attribute):
        return []
    if attribute is not None and attribute.syntax is Syntax.DN:  # as `names_in` has it, at once for all
        return [*change.before, *change.after]
    return [name for value in (*change.before, *change.after) for name in names_in(attribute, value)]


def parent_name(dn: str) -> str:
    """The distinguished name of an object's parent, in canonical spelling."""
    return str(DistinguishedName.parse(dn).parent or "")


def _resolve(client: Client, names: Collection[str]) -> dict[str, UUID | None]:
    """The objectGUIDs of the objects that currently have these names; None for one that may not be read."""
    meant = {text: name for text in names if (name := parse_name(text)) is not None}
    entries = client.find_any((Equals("distinguishedName", str(name)) for name in {*meant.values()}), ("objectGUID",))
    found: dict[DistinguishedName, Entry | None] = {DistinguishedName.parse(entry.dn): entry for entry in entries}
    resolved: dict[str, UUID | None] = {}
    for text, name in meant.items():
        if name not in found:  # a search of the domain does not reach other naming contexts, such as the configuration
            found[name] = client.find(str(name), ("objectGUID",)) if name.rdns else None
        if (entry := found[name]) is not None:
            resolved[text] = entry.guid if "objectGUID" in entry else None
    return resolved


def summarize_names(names: list[str]) -> list[str]:
    """The first of many names, and the number of the others."""
    return names if len(names) <= _MAX_SHOWN else [*names[:_MAX_SHOWN], f"and {len(names) - _MAX_SHOWN} more"]


def recorded_changes(record: OperationRecord) -> list[AttributeChange]:
    """The changes in a record of the operations log."""
    return [
        AttributeChange(change["attribute"], tuple(change["before"]), tuple(change["after"]))
        for change in record.changes
    ]


def evidence_with_references(schema: Schema, change: Proposal | DependentChange) -> dict[str, Any]:
    """The evidence for a record: that of the change, and the objectGUIDs of the objects it refers to."""
    return {**change.evidence, **evidence_of_references(schema, change.changes, change.identities)}


def evidence_of_references(
    schema: Schema, changes: Iterable[AttributeChange], identities: Mapping[str, UUID]
) -> dict[str, Any]:
    """What a record keeps of the objects that its changes refer to; empty without any that is known."""
    kept = {}
    for each in changes if identities else ():
        known = [identities.get(name) for name in names_referenced_by(schema, each)]
        if any(known):
            kept[each.attribute] = [None if guid is None else guid.hex for guid in known]
    return {_EVIDENCE_MEMBER: kept} if kept else {}


def recorded_identities(client: Client, record: OperationRecord, changes: Iterable[AttributeChange]) -> dict[str, UUID]:
    """The objectGUIDs of the objects that changes of a record refer to, by the names they had at that time.

    Older records hold names alone: these identify only an object that has had its name ever since.
    """
    kept = (record.evidence or {}).get(_EVIDENCE_MEMBER, {})
    known: dict[str, UUID] = {}
    unknown: set[str] = set()
    for change in changes:
        names, guids = names_referenced_by(client.schema, change), kept.get(change.attribute, ())
        unknown.update(names)
        if len(names) == len(guids):
            known |= {name: UUID(guid) for name, guid in zip(names, guids, strict=True) if guid is not None}
    return known | _resolve_as_of(client, unknown - known.keys(), record.at)


def with_current_names(attribute: AttributeType | None, values: Iterable[str], present: Mapping[str, str]) -> list[str]:
    """Values with the current names of the objects they refer to; a value that names an object not in `present` is
    left out.

    `present` maps names as spelled in the values to current names.
    """
    return [
        replace_names(attribute, value, lambda name: present[name])
        for value in values
        if all(name in present for name in names_in(attribute, value))
    ]


def _resolve_as_of(client: Client, names: Iterable[str], moment: datetime) -> dict[str, UUID]:
    """The objectGUIDs of the objects that have had these names since a moment, for names stored without objectGUIDs.

    Every rename and every move changes `name` of the object or of one above it ([MS-ADTS] 3.1.1.5.4.2), and the
    directory's metadata hold the time of the last change. An object that cannot be read, or may have been renamed
    since, is left out.
    """
    before = moment - CLOCKS_DIFFER_BY
    roots = [DistinguishedName.parse(name) for name in client.naming_contexts]

    @cache
    def find_stable(name: DistinguishedName) -> UUID | None:
        entry = client.find(str(name), ("objectGUID", "replPropertyMetaData"))
        named_at = None if entry is None else entry.changed_at(NAME_ATTID)
        if entry is None or named_at is None or named_at > before or name.parent is None:
            return None
        return entry.guid if name.parent in roots or find_stable(name.parent) is not None else None

    found = {text: find_stable(name) for text in names if (name := parse_name(text)) is not None and name not in roots}
    return {text: guid for text, guid in found.items() if guid is not None}


def describe_references(
    client: Client, changes: Sequence[AttributeChange], identities: Mapping[str, UUID]
) -> list[list[ReferenceJson]]:
    """For each change, the objects it refers to by name, with their current account names, for people."""
    of_each = [
        {name: identities[name] for name in names_referenced_by(client.schema, change) if name in identities}
        for change in changes
    ]
    found = client.read_many(
        {guid for known in of_each for guid in known.values()}, ("objectGUID", "objectClass", "sAMAccountName")
    )

    def describe(name: str, guid: UUID) -> ReferenceJson:
        entry = found.get(guid)
        return {
            "name": name,
            "id": str(guid),
            "kind": None if entry is None else kind_of_entry(entry).value,
            "accountName": None if entry is None else entry.text("sAMAccountName"),
        }

    return [[describe(name, guid) for name, guid in known.items()] for known in of_each]


def resolve_names_in_use(client: Client, changes: Iterable[AttributeChange]) -> list[list[Any]]:
    """The objects that the names of services and computers in changes currently identify.

    A list of `[attribute, value, objectGUIDs]`, to be stored as JSON with a change request and compared when the change
    is applied.
    """
    forms = reference_forms(client.schema)
    found = [
        [change.attribute.lower(), value, sorted(_found_by(client, forms[change.attribute.lower()], value))]
        for change in changes
        if forms.get(change.attribute.lower()) in _FORMS_BY_NAME
        for value in change.after
        if value != SECRET
    ]
    return sorted(found)


def _found_by(client: Client, form: ReferenceForm, value: str) -> Iterator[str]:
    try:
        conditions = [each for each in identifiers_in(form, value, domain=str) if not isinstance(each, str)]
    except ValueError:  # the value identifies nothing
        return
    for condition in conditions:
        for entry in client.search_domain(condition, ("objectGUID",)):
            if "objectGUID" in entry:
                yield str(entry.guid)


class ReferenceChanged(Exception):
    """An object that a stored body refers to is gone, or a name that had no object now has one."""


def resolve_names_in_input(client: Client, document: Any) -> dict[str, str | None]:
    """The objectGUIDs of the objects named in a body, by name as spelled there; None for a name without an object."""
    names = _names(client.schema, document)
    found = _resolve(client, names)
    return {name: None if (guid := found.get(name)) is None else str(guid) for name in names}


def update_names_in_input(client: Client, document: Any, kept: Mapping[str, str | None]) -> Any:
    """The body with the current names of the objects that it meant when it was held. Raises ReferenceChanged.

    `kept` is what `resolve_names_in_input` returned then.
    """
    names = set(_names(client.schema, document))
    if not names:
        return document
    if not names <= kept.keys():  # nobody approved a name that was not resolved then
        raise ReferenceChanged
    meant = {name: UUID(guid) for name in names if (guid := kept[name]) is not None}
    with servers_asked():
        entries = client.read_many(meant.values(), ("objectGUID",))
        require_all_absent(client, [guid for guid in meant.values() if guid not in entries])
    if not entries.keys() >= set(meant.values()) or _resolve(client, names - meant.keys()):
        raise ReferenceChanged

    def present_name(name: str) -> str:
        if name not in meant:
            return name
        dn = entries[meant[name]].dn
        return name if DistinguishedName.parse(dn) == parse_name(name) else dn

    return _renamed(client.schema, document, present_name)


def _names(schema: Schema, document: Any) -> list[str]:
    seen: list[str] = []

    def note(name: str) -> str:
        seen.append(name)
        return name

    _renamed(schema, document, note)
    return list(dict.fromkeys(seen))


def _renamed(schema: Schema, document: Any, renamed: Callable[[str], str]) -> Any:
    """A copy of a body in which `renamed` has replaced each name."""
    if not isinstance(document, dict):
        return document
    copy = dict(document)
    parent = document.get(PARENT_MEMBER)
    if isinstance(parent, str) and parse_guid(parent) is None:
        copy[PARENT_MEMBER] = renamed(parent)
    for update in UPDATE_MEMBERS:
        if isinstance(document.get(update), dict):  # a change of members has lists of objectGUIDs here
            copy[update] = {
                name: _renamed_values(schema, name, values, renamed) for name, values in document[update].items()
            }
    return copy


def _renamed_values(schema: Schema, name: str, values: Any, renamed: Callable[[str], str]) -> Any:
    attribute = schema.attribute(name)
    if isinstance(values, str):
        return replace_names(attribute, values, renamed)
    if isinstance(values, list):
        return [replace_names(attribute, value, renamed) if isinstance(value, str) else value for value in values]
    return values
