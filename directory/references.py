"""What bags refer to: the objects must exist, and of a group's members the same holds as for its members' operation."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from directory import errors
from directory.access import client_of, require_inside_scopes
from directory.ldap import Client, DistinguishedName, Entry, Equals, GroupType, Or, Scope
from directory.nesting import MEMBER_ATTRIBUTES, complaint_about_scopes, require_no_cycle, those_with_primary_group
from directory.shapes.modifications import Delta, Step, referenced_names, refusal
from gateway.core.call import Call

_NAMES_IN_ONE_FILTER = 50
# What the directory makes of a group that is created without a groupType.
_TYPE_BY_DEFAULT = (str((GroupType.GLOBAL | GroupType.SECURITY_ENABLED).signed).encode(),)


def require_references(call: Call, steps: Sequence[Step]) -> None:
    """Refuse values that name objects which do not exist. Raises InvalidValue naming the member of the body."""
    wanted = referenced_names(steps)
    missing = set(wanted) - existing(client_of(call), wanted)
    for name in missing:
        step = wanted[name]
        raise refusal(errors.InvalidValue, step.where, f"{step.attribute.name}: there is no object {name}")


def require_members_allowed(call: Call, group: Entry, delta: Delta) -> list[Entry]:
    """Check the members a change adds and removes, and give those added; `group` was read with NESTING_ATTRIBUTES.

    Raises Forbidden when one is outside the caller's scopes, GroupCycle when the group would contain itself,
    DirectoryRejected when its scope does not allow a member. Whom it is the primary group of is a member already: what
    would add them is taken out of the delta.
    """
    steps = [step for step in delta.modifications if step.attribute.lower() == "member"]
    if not steps:
        return []
    require_inside_scopes(call, *(name.decode() for step in steps for name in step.values))
    client = client_of(call)
    names = [name.decode() for step in steps if step.op != "delete" for name in step.values]
    added = list(find_named(client, names, MEMBER_ATTRIBUTES))
    if already := those_with_primary_group(group, added):
        _leave_out(delta, {DistinguishedName.parse(member.dn) for member in added if member.guid in already})
        added = [member for member in added if member.guid not in already]
    if complaint := complaint_about_scopes(group, added):
        raise errors.DirectoryRejected(complaint[1])
    require_no_cycle(client, group, added)
    return added


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


def require_new_members_allowed(client: Client, values: Mapping[str, Sequence[bytes]]) -> None:
    """Check the members with which a group is to be created with these values. Raises DirectoryRejected."""
    if "member" not in values:
        return
    group = Entry("", {"groupType": list(values.get("groupType", _TYPE_BY_DEFAULT))})
    added = find_named(client, [name.decode() for name in values["member"]], MEMBER_ATTRIBUTES)
    if complaint := complaint_about_scopes(group, added):
        raise errors.DirectoryRejected(complaint[1])


def find_named(client: Client, names: Sequence[str], attributes: Sequence[str]) -> Iterator[Entry]:
    """The objects of the domain that have some of these names."""
    for start in range(0, len(names), _NAMES_IN_ONE_FILTER):
        condition = Or(*(Equals("distinguishedName", name) for name in names[start : start + _NAMES_IN_ONE_FILTER]))
        yield from client.search(client.default_naming_context, Scope.SUBTREE, condition, attributes)


def existing(client: Client, names: Collection[DistinguishedName]) -> set[DistinguishedName]:
    """Those of some names that objects have."""
    found = {DistinguishedName.parse(entry.dn) for entry in find_named(client, [*map(str, names)], ("objectGUID",))}
    # What is in another naming context, such as the configuration, is not found from the domain's root.
    return found | {name for name in names if name not in found and client.find(str(name), ("cn",)) is not None}
