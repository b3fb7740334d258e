"""The target of a change: read with what every proposal needs, protection checked, and its constraints verified.

The `require_` functions refuse in advance what the directory would certainly refuse, so that a dry run and an approver
see it too. Where it is not certain, the directory decides.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from active_directory import (
    NO_IDENTITIES,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    Modification,
    Modify,
    Schema,
    guid_reference,
)
from core.call import Call
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, find_object
from directory.lookup.prefetch import prefetch_of
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES, evidence_of, require_name_still_taken
from directory.protection.rules import is_protected, require_may_write
from directory.queries.reading import read_record
from directory.shapes.kinds import RESOURCES, kind_of_entry
from directory.shapes.modifications import Delta, Step
from directory.shapes.proposal import Proposal, Target
from directory.shapes.record import PROTECTION_ATTRIBUTES, PROTECTION_COMPUTED, version_of

TARGET_ATTRIBUTES = (
    *PROTECTION_ATTRIBUTES,
    *EVIDENCE_ATTRIBUTES,
    *("objectClass", "name", "sAMAccountName", "uSNChanged"),
)
"""The attributes that every proposal about an existing object needs."""

_IDENTIFIERS = ("sAMAccountName", "userPrincipalName", "servicePrincipalName")
"""Each identifies an account at sign-in, so no two objects may share a value."""

_SUPPLIED_BY_DIRECTORY = frozenset(
    {
        *"objectclass objectcategory instancetype ntsecuritydescriptor objectsid".split(),
        *("samaccountname", "grouptype"),  # [MS-SAMR] 3.1.1.8.1 and 3.1.1.8.4 have defaults for them
    }
)
"""Mandatory attributes that the directory fills in for a new object."""
_ALWAYS_SET_BY_SAM = frozenset({"samaccountname", "useraccountcontrol", "primarygroupid", "pwdlastset", "grouptype"})
"""Attributes that accounts and groups keep ([MS-SAMR] 3.1.1.8), though the schema requires few of them."""
_SCHEMA_CLASSES = frozenset({"attributeSchema", "classSchema"})


def find_target(call: Call, resource: str, id: UUID, *attributes: str) -> tuple[Entry, bool]:
    """The object with an id, read with TARGET_ATTRIBUTES and these attributes, and whether it is protected.

    Raises ObjectNotFound; Forbidden outside the caller's scopes and for a protected object that the caller may not
    write.
    """
    wanted = (*TARGET_ATTRIBUTES, *attributes)
    entry = find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=wanted, computed=PROTECTION_COMPUTED)
    return entry, require_may_write(call, protected=is_protected(client_of(call), entry, prefetch=prefetch_of(call)))


def target_of(entry: Entry) -> Target:
    return Target(
        id=entry.guid,
        kind=kind_of_entry(entry),
        distinguished_name=entry.dn,
        version=version_of(entry),
        account_name=entry.text("sAMAccountName"),
    )


def guarded_modify(entry: Entry, modifications: Collection[Modification]) -> Modify | None:
    """The modify of an entry, guarded by the values it was read with; None without modifications.

    It names the entry by objectGUID, so that a move in the meantime does no harm.
    """
    return Modify(guid_reference(entry.guid), tuple(modifications), guarded=True) if modifications else None


def propose_modify(
    call: Call, entry: Entry, delta: Delta, *, protected: bool, identities: Mapping[str, UUID] = NO_IDENTITIES
) -> Proposal:
    """Propose the changes of a delta to an entry read with TARGET_ATTRIBUTES; an empty delta has no write.

    `identities` maps the names of referenced objects to their objectGUIDs.
    """
    write = guarded_modify(entry, delta.modifications)
    return Proposal(
        target=target_of(entry),
        changes=tuple(delta.changes),
        write=write,
        answer=partial(read_record, call, entry.guid),
        protected=protected,
        evidence=evidence_of(write, entry=entry, schema=client_of(call).schema, identities=identities) if write else {},
        identities=identities,
    )


def require_identifiers_free(
    client: Client, values: Mapping[str, Sequence[bytes]], pointers: Mapping[str, str], *, besides: UUID | None = None
) -> None:
    """Refuse identifiers that an object other than `besides` has. Raises AlreadyExists naming the member of the body.

    `pointers` maps lower-case attribute names to the JSON pointers of the members that the values come from; it is
    empty for an object that is restored.
    """
    for attribute in _IDENTIFIERS:
        for value in values.get(attribute, ()):
            for other in [*client.search_domain(Equals(attribute, value), ("objectGUID",))]:
                if other.guid == besides:
                    continue
                require_name_still_taken(client, other)
                text, pointer = value.decode(), pointers.get(attribute.lower())
                if pointer is None:
                    raise errors.AlreadyExists(
                        message("The {attribute} {text!r} is in use by another object.", attribute=attribute, text=text)
                    )
                detail = message("The {attribute} {decode!r} is in use.", attribute=attribute, decode=text)
                raise errors.AlreadyExists.naming(detail, pointer=pointer)


def require_name_free(client: Client, dn: str, *, besides: UUID | None = None, is_restored: bool = False) -> None:
    """Refuse a distinguished name that an object other than `besides` has. Raises AlreadyExists."""
    other = client.find(dn, ("objectGUID",))
    if other is None or other.guid == besides:
        return
    require_name_still_taken(client, other)
    name = DistinguishedName.parse(dn).rdn_value
    if is_restored:
        raise errors.AlreadyExists(
            message(
                "There is an object with the name {taken!r} in this container already: restore it under another name.",
                taken=name,
            )
        )
    raise errors.AlreadyExists(
        message("There is an object with the name {name!r} in this container already.", name=name)
    )


def require_update_possible(client: Client, entry: Entry, steps: Sequence[Step], delta: Delta) -> None:
    """Refuse updates of an entry, read with PROTECTION_ATTRIBUTES and the updated attributes, that cannot succeed.

    Raises AlreadyExists for an identifier in use; DirectoryRejected for an attribute that its classes do not allow or
    that it must keep, and for a primary group that it is not a member of. Each names the member of the body.
    """
    require_allowed_attributes(client.schema, entry.object_classes, [step for step in steps if step.name not in entry])
    _require_kept_attributes(client.schema, entry, steps, delta)
    added = {step.attribute: step.values for step in delta.modifications if step.op != "delete"}
    pointers = {step.name: step.where for step in steps if step.update != "remove"}
    require_identifiers_free(client, added, pointers, besides=entry.guid)
    # [MS-SAMR] 3.1.1.8.2: the account must be a member of its primary group; nested membership does not count.
    sids = entry.values("objectSid")
    for relative_id in map(int, added.get("primaryGroupID", ()) if sids else ()):
        group = Equals("objectSid", sids[0][:-4] + struct.pack("<I", relative_id & 0xFFFF_FFFF))
        belongs_to = entry.texts("memberOf")
        if not any(row.dn in belongs_to for row in client.search_domain(group, ("objectGUID",))):
            detail = message(
                "primaryGroupID must be that of a group that the account belongs to: it is in no group {relative_id}",
                relative_id=relative_id,
            )
            raise rejection(detail, pointers["primarygroupid"], attribute="primaryGroupID")


def _require_kept_attributes(schema: Schema, entry: Entry, steps: Sequence[Step], delta: Delta) -> None:
    """Refuse to clear what every object of these classes has. Raises DirectoryRejected."""
    must_stay = schema.required_attributes(entry.object_classes)
    if "objectSid" in entry:
        must_stay |= _ALWAYS_SET_BY_SAM
    for step in steps:
        if step.name in must_stay and not delta.values.get(step.name, ((), (b"",)))[1]:
            name = step.attribute.name
            raise rejection(message("{name} cannot be cleared", name=name), step.where, attribute=name)


def require_allowed_attributes(schema: Schema, classes: Collection[str], steps: Sequence[Step]) -> None:
    """Refuse attributes that none of an object's classes allows. Raises DirectoryRejected."""
    if any(schema.object_class(name) is None for name in classes):
        return  # the bind account may not read the class, so its attributes are unknown
    allowed = schema.allowed_attributes(classes)
    for step in steps:
        if step.update != "remove" and step.values and step.name not in allowed:
            name = step.attribute.name
            raise rejection(f"{name} is not an attribute of the class {[*classes][-1]}", step.where, attribute=name)


def require_mandatory_attributes(schema: Schema, classes: Sequence[str], given: Collection[str]) -> None:
    """Refuse a new object of these classes that lacks a mandatory attribute. Raises DirectoryRejected.

    `given` are the names of the attributes it has, in lower case.
    """
    # The directory fills in many mandatory attributes of schema objects by rules of its own.
    if not _SCHEMA_CLASSES.isdisjoint(classes):
        return
    missing = schema.required_attributes(classes) - _SUPPLIED_BY_DIRECTORY - set(given)
    known = sorted(attribute.name for name in missing if (attribute := schema.attribute(name)))
    if known:
        raise rejection(f"{classes[-1]} requires {', '.join(known)}", None, attribute=known[0])


def require_possible_parent(schema: Schema, classes: Sequence[str], container: Entry, pointer: str | None) -> None:
    """Refuse a container that is no possible superior of these classes. Raises DirectoryRejected."""
    superiors = schema.possible_superiors(classes)
    if superiors and not superiors & {name.lower() for name in container.object_classes}:
        raise rejection(f"{classes[-1]} is not a valid child class for {container.object_classes[-1]}", pointer)


def rejection(detail: str, pointer: str | None, **members: Any) -> errors.DirectoryRejected:
    """The refusal that the directory itself would give; `pointer` names the member of the body, if there is one."""
    if pointer is None:
        return errors.DirectoryRejected(detail, directoryMessage=detail, **members)
    return errors.DirectoryRejected.naming(detail, pointer=pointer, directoryMessage=detail, **members)
