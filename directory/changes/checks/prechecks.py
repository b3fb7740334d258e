"""What the directory is certain to refuse, refused before it is asked: a dry run and an approver shall see it too.

Where it is not certain, the directory decides.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from active_directory import Client, DistinguishedName, Entry, Equals, Schema, Scope
from core.text.messages import message
from directory import errors
from directory.outcomes.replication import require_still_taken
from directory.shapes.modifications import Delta, Step

_GIVEN_BY_DIRECTORY = frozenset(
    {
        *("objectclass", "objectcategory", "instancetype", "ntsecuritydescriptor", "objectsid"),
        *("samaccountname", "grouptype"),  # [MS-SAMR] 3.1.1.8.1 and 3.1.1.8.4 have defaults for them
    }
)
"""What a class may require and a new object need not be given."""
_OF_SCHEMA = frozenset({"attributeSchema", "classSchema"})

IDENTIFIERS = ("sAMAccountName", "userPrincipalName", "servicePrincipalName")
"""By each of them an account is found when it signs in, so that no two objects may have the same."""


def require_free(
    client: Client,
    values: Mapping[str, Sequence[bytes]],
    where: Mapping[str, str],
    *,
    besides: UUID | None = None,
) -> None:
    """Refuse identifiers that another object than `besides` has. Raises AlreadyExists naming the member of the body.

    `where` are the JSON pointers of the members that the values come from, by lower-case attribute names.
    """
    for attribute in IDENTIFIERS:
        for value in values.get(attribute, ()):
            same = Equals(attribute, value)
            rows = client.search(client.default_naming_context, Scope.SUBTREE, same, ("objectGUID",), limit=2)
            for other in [row for row in rows if row.guid != besides]:
                require_still_taken(client, other)
                detail = message("The {attribute} {decode!r} is in use.", attribute=attribute, decode=value.decode())
                raise errors.AlreadyExists.naming(detail, pointer=where[attribute.lower()])


def require_name_free(client: Client, dn: str, *, besides: UUID | None = None, is_restored: bool = False) -> None:
    """Refuse a distinguished name that another object than `besides` has. Raises AlreadyExists."""
    other = client.find(dn, ("objectGUID",))
    if other is not None and other.guid != besides:
        require_still_taken(client, other)
        name = DistinguishedName.parse(dn).rdn_value
        told = message("There is an object with the name {name!r} in this container already.", name=name)
        if is_restored:
            told = message(
                "There is an object with the name {taken!r} in this container already: restore it under another name.",
                taken=name,
            )
        raise errors.AlreadyExists(told)


def require_update_possible(client: Client, entry: Entry, steps: Sequence[Step], delta: Delta) -> None:
    """Refuse what updates do to an entry, read with PROTECTION_ATTRIBUTES and the attributes they name.

    Raises AlreadyExists for an identifier in use; DirectoryRejected for an attribute that its classes do not have, and
    for a primary group that it does not belong to. Each names the member of the body.
    """
    require_attributes_of(client.schema, entry.object_classes, [step for step in steps if step.name not in entry])
    added = {step.attribute: step.values for step in delta.modifications if step.op != "delete"}
    where = {step.name: step.where for step in steps if step.update != "remove"}
    require_free(client, added, where, besides=entry.guid)
    for relative_id in added.get("primaryGroupID", ()):
        _require_primary_group(client, entry, int(relative_id), where["primarygroupid"])


def require_attributes_of(schema: Schema, classes: Collection[str], steps: Sequence[Step]) -> None:
    """Refuse to give an object of these classes attributes that none of them has. Raises DirectoryRejected."""
    if any(schema.object_class(name) is None for name in classes):
        return  # a class that the gateway's account may not read
    allowed = schema.allowed_attributes(classes)
    for step in steps:
        if step.update != "remove" and step.values and step.name not in allowed:
            name = step.attribute.name
            raise rejection(f"{name} is not an attribute of the class {[*classes][-1]}", step.where, attribute=name)


def require_mandatory_attributes(schema: Schema, classes: Sequence[str], given: Collection[str]) -> None:
    """Refuse a new object of these classes without one of the attributes that they require. Raises DirectoryRejected.

    `given` are those it has, in lower case. What the schema itself consists of is given much by rules of its own.
    """
    if not _OF_SCHEMA.isdisjoint(classes):
        return
    missing = schema.required_attributes(classes) - _GIVEN_BY_DIRECTORY - set(given)
    known = sorted(attribute.name for name in missing if (attribute := schema.attribute(name)))
    if known:
        raise rejection(f"{classes[-1]} requires {', '.join(known)}", None, attribute=known[0])


def require_possible_parent(schema: Schema, classes: Sequence[str], container: Entry, where: str | None) -> None:
    """Refuse a container whose class may not hold an object of these classes. Raises DirectoryRejected."""
    superiors = schema.possible_superiors(classes)
    if superiors and not superiors & {name.lower() for name in container.object_classes}:
        raise rejection(f"{classes[-1]} is not a valid child class for {container.object_classes[-1]}", where)


def refuse_primary_group_of_new(steps: Sequence[Step]) -> None:
    """Refuse primaryGroupID of an account that is yet to be made. Raises DirectoryRejected."""
    for step in steps:
        if step.name == "primarygroupid" and step.values:
            detail = message(
                "primaryGroupID must be that of a group that the account belongs to, and a new one is in none yet"
            )
            raise rejection(detail, step.where, attribute="primaryGroupID")


def _require_primary_group(client: Client, entry: Entry, relative_id: int, where: str) -> None:
    """[MS-SAMR] 3.1.1.8.2: the account must be a member; nested membership does not count."""
    sids = entry.values("objectSid")
    if not sids:
        return
    group = Equals("objectSid", sids[0][:-4] + struct.pack("<I", relative_id & 0xFFFF_FFFF))
    belongs_to = entry.texts("memberOf")
    rows = client.search(client.default_naming_context, Scope.SUBTREE, group, ("objectGUID",), limit=1)
    if not any(row.dn in belongs_to for row in rows):
        detail = message(
            "primaryGroupID must be that of a group that the account belongs to: it is in no group {relative_id}",
            relative_id=relative_id,
        )
        raise rejection(detail, where, attribute="primaryGroupID")


def rejection(detail: str, where: str | None, **members: Any) -> errors.DirectoryRejected:
    """What the directory itself would answer, in words; `where` is the member of the body, if there is one."""
    if where is None:
        return errors.DirectoryRejected(detail, directoryMessage=detail, **members)
    return errors.DirectoryRejected.naming(detail, pointer=where, directoryMessage=detail, **members)
