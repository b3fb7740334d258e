"""The objects that changes refer to, kept by objectGUID beside the names: in the log, and in a change that waits.

A name that was kept means whatever has it by then. What is done later with a change (approving it, reverting it) goes
by the identities kept with it; how names are resolved in the first place is `references`'.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from active_directory import AttributeType, Client, DistinguishedName, Schema, Scope, names_in, with_names
from audit.deletions import CLOCKS_DIFFER_BY
from audit.models import OperationRecord
from audit.redact import ReferenceJson
from directory.changes.references import parsed, references_of
from directory.outcomes.evidence import ATTID_OF_NAME
from directory.shapes.kinds import kind_of
from directory.shapes.object_references import Form, forms_of, identifiers_in
from directory.shapes.proposal import SECRET, AttributeChange

RECORDED = "references"
"""The member of a record's evidence that holds them: by attribute, in the order of `references_of`, null if unknown."""
_BY_NAMES_IN_USE = frozenset({Form.SERVICE, Form.COMPUTERS})
"""Forms that identify whatever has a name by now; distinguished names are `references`', and SIDs are for ever."""
_DESCRIBED_BY = ("objectGUID", "objectClass", "sAMAccountName")


def changes_of(record: OperationRecord) -> list[AttributeChange]:
    """What a record says was changed."""
    return [
        AttributeChange(change["attribute"], tuple(change["before"]), tuple(change["after"]))
        for change in record.changes
    ]


def recorded(
    schema: Schema, changes: Iterable[AttributeChange], identities: Mapping[str, UUID]
) -> dict[str, list[str | None]]:
    """What the evidence of a record keeps of the objects its changes refer to."""
    kept = {}
    for change in changes:
        known = [identities.get(name) for name in references_of(schema, change)]
        if any(known):
            kept[change.attribute] = [None if guid is None else guid.hex for guid in known]
    return kept


def identities_of(client: Client, record: OperationRecord, changes: Iterable[AttributeChange]) -> dict[str, UUID]:
    """The objects that changes of a record refer to, by the names they had; a name is never taken for what has it now.

    Older records kept names alone: of these only objects are known that have been called so all the time.
    """
    kept = (record.evidence or {}).get(RECORDED, {})
    known: dict[str, UUID] = {}
    unknown: set[str] = set()
    for change in changes:
        names, guids = references_of(client.schema, change), kept.get(change.attribute, ())
        unknown.update(names)
        if len(names) == len(guids):
            known |= {name: UUID(guid) for name, guid in zip(names, guids, strict=True) if guid is not None}
    return known | resolve_as_of(client, unknown - known.keys(), record.at)


def with_present_names(attribute: AttributeType | None, values: Iterable[str], present: Mapping[str, str]) -> list[str]:
    """Values with the names that the objects they refer to have now, without those that name others than `present`."""
    return [
        with_names(attribute, value, lambda name: present[name])
        for value in values
        if all(name in present for name in names_in(attribute, value))
    ]


def resolve_as_of(client: Client, names: Iterable[str], moment: datetime) -> dict[str, UUID]:
    """The objects that have these names now and had them at a moment already, for names kept without identities.

    Every rename and every move is a change of `name`, of the object or of one above it ([MS-ADTS] 3.1.1.5.4.2), and the
    directory keeps when that was changed last. What cannot be read, or may have been renamed since, is left out.
    """
    before = moment - CLOCKS_DIFFER_BY
    stable: dict[DistinguishedName, UUID | None] = {}

    def find_stable(name: DistinguishedName) -> UUID | None:
        if name not in stable:
            entry = client.find(str(name), ("objectGUID", "replPropertyMetaData"))
            named_at = None if entry is None else entry.changed_at(ATTID_OF_NAME)
            stable[name] = entry.guid if entry is not None and named_at is not None and named_at <= before else None
        return stable[name]

    roots = [DistinguishedName.parse(name) for name in client.naming_contexts]
    found = {}
    for text in names:
        name = parsed(text)
        place = name
        while name is not None and place is not None and place not in roots and find_stable(place) is not None:
            place = place.parent
        if name is not None and name not in roots and place in roots:
            found[text] = stable[name]
    return {text: guid for text, guid in found.items() if guid is not None}


def described(
    client: Client, changes: Sequence[AttributeChange], identities: Mapping[str, UUID]
) -> list[list[ReferenceJson]]:
    """For people: of each change the objects it refers to, by name, with the account names they have now."""
    of_each = [
        {name: identities[name] for name in references_of(client.schema, change) if name in identities}
        for change in changes
    ]
    found = client.read_many({guid for known in of_each for guid in known.values()}, _DESCRIBED_BY)
    return [
        [
            {
                "name": name,
                "id": str(guid),
                "kind": kind_of(found[guid].object_classes).value if guid in found else None,
                "accountName": found[guid].text("sAMAccountName") if guid in found else None,
            }
            for name, guid in known.items()
        ]
        for known in of_each
    ]


def meant_by_names(client: Client, changes: Iterable[AttributeChange]) -> list[list[Any]]:
    """The objects that services and computers stand for now which changes set: attribute, value, their objectGUIDs.

    What a change waits with is compared with what they stand for when it is applied. JSON.
    """
    forms = forms_of(client.schema)
    found = [
        [change.attribute.lower(), value, sorted(_found_by(client, forms[change.attribute.lower()], value))]
        for change in changes
        if forms.get(change.attribute.lower()) in _BY_NAMES_IN_USE
        for value in change.after
        if value != SECRET
    ]
    return sorted(found)


def _found_by(client: Client, form: Form, value: str) -> Iterator[str]:
    try:
        conditions = [each for each in identifiers_in(form, value, domain=str) if not isinstance(each, str)]
    except ValueError:  # it stands for nobody
        return
    for condition in conditions:
        for entry in client.search(client.default_naming_context, Scope.SUBTREE, condition, ("objectGUID",)):
            if "objectGUID" in entry:
                yield str(entry.guid)
