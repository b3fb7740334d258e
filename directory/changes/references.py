"""What attribute updates refer to: the objects must exist, and the members of a group suit it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from active_directory import (
    Client,
    DistinguishedName,
    Entry,
    Equals,
    GroupType,
    InvalidValue,
    Or,
    Schema,
    Scope,
    Syntax,
    decode,
    may_refer,
    names_in,
)
from core.call import Call
from core.errors import Forbidden
from core.text.messages import message
from directory import errors
from directory.groups.nesting import (
    MEMBER_ATTRIBUTES,
    complaint_about_scopes,
    require_no_cycle,
    those_with_primary_group,
)
from directory.lookup.access import client_of, require_inside_scopes
from directory.lookup.visibility import visibility_of
from directory.shapes.modifications import Delta, Step, referenced_names
from directory.shapes.proposal import AttributeChange

_NAMES_IN_ONE_FILTER = 50
# What the directory makes of a group that is created without a groupType.
_TYPE_BY_DEFAULT = (str((GroupType.GLOBAL | GroupType.SECURITY_ENABLED).signed).encode(),)


def resolve_references(call: Call, steps: Sequence[Step], changes: Iterable[AttributeChange]) -> dict[str, UUID]:
    """The objects that the values of changes refer to, by name as it is spelled there.

    Refuses steps that name objects which do not exist: raises InvalidValue naming the member of the body. What a change
    takes away may name one that is gone or cannot be read.
    """
    client = client_of(call)
    wanted = referenced_names(steps)
    spelled = {name: parsed(name) for change in changes for name in references_of(client.schema, change)}
    found = resolve(client, {*wanted, *(name for name in spelled.values() if name is not None)})
    for name, step in wanted.items():
        if name not in found:
            raise errors.InvalidValue.naming(
                message("{attribute}: there is no object {name}", attribute=step.attribute.name, name=name),
                pointer=step.where,
            )
    resolved = {text: None if name is None else found.get(name) for text, name in spelled.items()}
    return {text: guid for text, guid in resolved.items() if guid is not None}


def require_references_visible(call: Call, steps: Iterable[Step]) -> None:
    """Refuse values that identify what is outside the caller's scopes, whether they are set, added or removed.

    Whether such an object is there, or such a value, does not matter: the answer would tell. Raises Forbidden.
    """
    if not call.scopes:
        return
    visibility = visibility_of(call)
    if any(visibility.hides(step.attribute.name, decode(step.attribute, step.values)) for step in steps):
        raise Forbidden


def references_of(schema: Schema, change: AttributeChange) -> list[str]:
    """The names of the objects that a change refers to: those in its values, before and after, as they are spelled.

    Of a deletion the objects that go; of a change of place or name the parents, as `parent_of` spells them; of a run
    the account.
    """
    if "=" in change.attribute:
        return [change.attribute]
    if change.attribute.lower() == "distinguishedname":
        if not change.after:
            return list(change.before)
        return [parent_of(name) for name in (*change.before, *change.after)]
    attribute = schema.attribute(change.attribute)
    if not may_refer(attribute):
        return []
    if attribute is not None and attribute.syntax is Syntax.DN:  # as `names_in` has it, at once for all
        return [*change.before, *change.after]
    return [name for value in (*change.before, *change.after) for name in names_in(attribute, value)]


def parent_of(dn: str) -> str:
    """The name of the object above, in the one spelling by which parents are known."""
    return str(DistinguishedName.parse(dn).parent or "")


def parsed(name: str) -> DistinguishedName | None:
    """The name to compare by; None for a reference in another form, such as ``<SID=…>``."""
    try:
        return DistinguishedName.parse(name)
    except InvalidValue:
        return None


def require_members_allowed(call: Call, group: Entry, delta: Delta, identities: Mapping[str, UUID]) -> list[Entry]:
    """Check the members a change adds and removes, and give those added; `group` was read with NESTING_ATTRIBUTES.

    `identities` are the objects meant, by name. Raises Forbidden when one is outside the caller's scopes, GroupCycle
    when the group would contain itself, DirectoryRejected when its scope does not allow a member. Whom it is the
    primary group of is a member already: what would add them is taken out of the delta.
    """
    steps = [step for step in delta.modifications if step.attribute.lower() == "member"]
    if not steps:
        return []
    client = client_of(call)
    names = [name.decode() for step in steps if step.op != "delete" for name in step.values]
    added = _find_members(client, names, identities)
    all_names = [name.decode() for step in steps for name in step.values]
    require_inside_scopes(call, *all_names, *(member.dn for member in added))
    if already := those_with_primary_group(group, added):
        _leave_out(delta, {DistinguishedName.parse(member.dn) for member in added if member.guid in already})
        added = [member for member in added if member.guid not in already]
    if complaint := complaint_about_scopes(group, added):
        raise errors.DirectoryRejected(complaint[1])
    require_no_cycle(client, group, added)
    return added


def _find_members(client: Client, names: Sequence[str], identities: Mapping[str, UUID]) -> list[Entry]:
    """The objects that are to become members: those resolved, whatever has their names by now."""
    resolved = client.read_many([identities[name] for name in names if name in identities], MEMBER_ATTRIBUTES)
    unresolved = [name for name in names if name not in identities]
    return [*resolved.values(), *find_named(client, unresolved, MEMBER_ATTRIBUTES)]


def _leave_out(delta: Delta, members: Collection[DistinguishedName]) -> None:
    """Do not add these members."""

    def others(names: Iterable[str]) -> list[str]:
        return [name for name in names if DistinguishedName.parse(name) not in members]

    for index, step in enumerate(delta.modifications):
        if step.attribute.lower() == "member" and step.op == "add":
            values = tuple(name.encode() for name in others(value.decode() for value in step.values))
            delta.modifications[index] = replace(step, values=values)
    delta.modifications[:] = [step for step in delta.modifications if step.values or step.op != "add"]
    for index, change in enumerate(delta.changes):
        if change.attribute.lower() == "member":
            delta.changes[index] = replace(change, after=tuple(others(change.after)))
    delta.changes[:] = [change for change in delta.changes if change.before or change.after]


def require_new_members_allowed(
    call: Call, values: Mapping[str, Sequence[bytes]], identities: Mapping[str, UUID]
) -> None:
    """Check the members with which a group is to be created with these values. Raises Forbidden, DirectoryRejected."""
    if "member" not in values:
        return
    names = [name.decode() for name in values["member"]]
    added = _find_members(client_of(call), names, identities)
    require_inside_scopes(call, *names, *(member.dn for member in added))
    group = Entry("", {"groupType": list(values.get("groupType", _TYPE_BY_DEFAULT))})
    if complaint := complaint_about_scopes(group, added):
        raise errors.DirectoryRejected(complaint[1])


def find_named(client: Client, names: Sequence[str], attributes: Sequence[str]) -> Iterator[Entry]:
    """The objects of the domain that have some of these names."""
    for start in range(0, len(names), _NAMES_IN_ONE_FILTER):
        condition = Or(*(Equals("distinguishedName", name) for name in names[start : start + _NAMES_IN_ONE_FILTER]))
        yield from client.search(client.default_naming_context, Scope.SUBTREE, condition, attributes)


def resolve(client: Client, names: Collection[DistinguishedName]) -> dict[DistinguishedName, UUID | None]:
    """The objectGUIDs of the objects that have some of these names now; None for one that may not be read."""
    entries = find_named(client, [*map(str, names)], ("objectGUID",))
    found = {DistinguishedName.parse(entry.dn): _guid_of(entry) for entry in entries}
    for name in names:
        if name in found or not name.rdns:
            continue
        # What is in another naming context, such as the configuration, is not found from the domain's root.
        entry = client.find(str(name), ("objectGUID",))
        if entry is not None:
            found[name] = _guid_of(entry)
    return found


def _guid_of(entry: Entry) -> UUID | None:
    return entry.guid if "objectGUID" in entry else None
