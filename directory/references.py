"""Objects that a write refers to: they must exist, members must be inside the caller's scopes, groups make no cycle."""

from collections.abc import Collection, Iterable, Sequence

from directory import errors
from directory.access import client_of, require_inside_scopes
from directory.ldap import And, Client, DistinguishedName, Equals, Filter, Or, Scope
from directory.shapes.modifications import Delta, Step, referenced_names, refusal
from gateway.core.call import Call

_NAMES_IN_ONE_FILTER = 50


def require_references(call: Call, steps: Sequence[Step]) -> None:
    """Refuse values that name objects which do not exist. Raises InvalidValue naming the member of the body."""
    wanted = referenced_names(steps)
    missing = set(wanted) - _existing(client_of(call), wanted)
    for name in missing:
        step = wanted[name]
        raise refusal(errors.InvalidValue, step.where, f"{step.attribute.name}: there is no object {name}")


def require_members_allowed(call: Call, group: str | None, delta: Delta) -> None:
    """Check the members a change adds and removes; `group` is the name of the group, None for a new one.

    Raises Forbidden when one is outside the caller's scopes, GroupCycle when the group would contain itself.
    """
    added = [name for step in delta.modifications if _adds_members(step.attribute, step.op) for name in step.values]
    removed = [
        name
        for step in delta.modifications
        if step.attribute.lower() == "member" and step.op == "delete"
        for name in step.values
    ]
    require_inside_scopes(call, *(name.decode() for name in (*added, *removed)))
    if added and group is not None:
        require_no_cycle(client_of(call), group, [name.decode() for name in added])


def _adds_members(attribute: str, op: str) -> bool:
    return attribute.lower() == "member" and op != "delete"


def require_no_cycle(client: Client, group: str, members: Iterable[str]) -> None:
    """Refuse members that contain the group already, at any depth, or are the group: AD itself accepts them."""
    added = {DistinguishedName.parse(name) for name in members}
    above = {DistinguishedName.parse(group)}
    found = above
    while found:
        if added & found:
            raise errors.GroupCycle
        condition = And(Equals("objectClass", "group"), Or(*(Equals("member", str(name)) for name in found)))
        parents = _named(client, condition)
        found = parents - above
        above |= found


def _existing(client: Client, names: Collection[DistinguishedName]) -> set[DistinguishedName]:
    found = set()
    waiting = list(names)
    for start in range(0, len(waiting), _NAMES_IN_ONE_FILTER):
        some = waiting[start : start + _NAMES_IN_ONE_FILTER]
        condition = Or(*(Equals("distinguishedName", str(name)) for name in some))
        found |= _named(client, condition)
    # What is in another naming context, such as the configuration, is not found from the domain's root.
    found |= {name for name in waiting if name not in found and client.find(str(name), ("cn",)) is not None}
    return found


def _named(client: Client, condition: Filter) -> set[DistinguishedName]:
    rows = client.search(client.default_naming_context, Scope.SUBTREE, condition, ("objectGUID",))
    return {DistinguishedName.parse(entry.dn) for entry in rows}
