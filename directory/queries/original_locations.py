"""Where deleted objects were. All lie in one container, and the last known parent of one may be deleted itself.

The name of such a parent says where it lies now. Whether that was inside a caller's scopes, its own last known parent
tells, and so on upwards.
"""

from collections.abc import Callable

from active_directory import MANGLED, And, Client, DistinguishedName, Equals, Or, Scope
from directory.lookup.access import is_within_any

LAST_KNOWN_PARENT = "lastKnownParent"
# What others usually lie in: a computer has its BitLocker keys and service connection points.
_HOLDERS = Or(*(Equals("objectClass", name) for name in ("organizationalUnit", "container", "computer")))

Ancestor = Callable[[str], str | None]
"""The last known parent of a deleted object, by its name in the container of deleted objects."""


def above_by_reading(client: Client) -> Ancestor:
    """Look for each object by itself."""

    def above(name: str) -> str | None:
        entry = client.find(name, (LAST_KNOWN_PARENT,), deleted=True)
        return None if entry is None else entry.text(LAST_KNOWN_PARENT)

    return above


def above_by_searching(client: Client, container: str) -> Ancestor:
    """Look for everything deleted that may have held others, in one search, for the many objects of another one."""
    condition = And(Equals("isDeleted", "TRUE"), _HOLDERS)
    rows = client.search(container, Scope.ONE_LEVEL, condition, (LAST_KNOWN_PARENT,), deleted=True)
    known = {entry.dn: entry.text(LAST_KNOWN_PARENT) for entry in rows}
    return known.get


def former_place(name: str, container: str, above: Ancestor) -> str:
    """Where an object was that may be deleted by now: each deleted one keeps its present name, which is no other's."""
    passed: list[DistinguishedName] = []
    while MANGLED in name and is_within_any(name, (container,)):
        holder = above(name)
        deleted = DistinguishedName.parse(name)
        if holder is None or deleted in passed:
            break
        passed.append(deleted)
        name = holder
    place = DistinguishedName.parse(name)
    for deleted in reversed(passed):
        place = place.child(deleted.rdn_attribute, deleted.rdn_value)
    return str(place) if passed else name
