"""Where a search looks: below the caller's base, and nowhere outside the caller's scopes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from active_directory import MANGLED, And, Client, DistinguishedName, Entry, Equals, Or, Scope
from core.call import Call
from directory.errors import ObjectNotFound
from directory.lookup.access import client_of, find_base, is_within_any, parse_reference, scope_bases

_IS_DELETED = "isDeleted"


@dataclass(frozen=True, slots=True)
class Area:
    """The bases and the LDAP scope to search, and whether an entry found there belongs to the answer.

    Deleted objects all lie in one container, but count as lying below their last known parent. In a search for them
    `deleted_area` is the base and scope that the caller means, and `locate` gives the original location of a parent
    that may be deleted itself.
    """

    bases: tuple[str, ...]
    scope: Scope
    confined_to: tuple[str, ...] | None
    known: Mapping[str, UUID] = field(default_factory=dict)
    """The objectGUID of the caller's base, by its name, if that was looked up."""
    deleted_area: tuple[str, Scope] | None = None
    locate: Callable[[str], str] = str

    @property
    def needs(self) -> tuple[str, ...]:
        """The attributes that `contains` looks at."""
        return () if self.deleted_area is None else (LAST_KNOWN_PARENT, _IS_DELETED)

    @property
    def needs_check(self) -> bool:
        """Whether an entry found in the bases may still not belong to the answer."""
        return self.confined_to is not None or self.deleted_area is not None

    def contains(self, entry: Entry) -> bool:
        """Whether an entry, which may have moved since it was found, belongs to the answer."""
        if self.deleted_area is None:
            return self.confined_to is None or is_within_any(entry.dn, self.confined_to)
        if not entry.boolean(_IS_DELETED):  # restored since it was found
            return False
        base, scope = self.deleted_area
        last_parent = entry.text(LAST_KNOWN_PARENT)
        if last_parent is None:
            return self.confined_to is None and scope is Scope.SUBTREE
        parent = self.locate(last_parent)
        if self.confined_to is not None and not is_within_any(parent, self.confined_to):
            return False
        if scope is Scope.SUBTREE:
            return is_within_any(parent, (base,))
        return scope is Scope.ONE_LEVEL and is_within_any(parent, (base,)) and is_within_any(base, (parent,))


def area_of(
    call: Call, base: str | None, scope: Scope, *, fixed_base: str | None = None, show_deleted: bool = False
) -> Area:
    """The area of a search below `base`, a UUID or distinguished name. Raises ObjectNotFound for one that is not there.

    Without it the search begins at `fixed_base`, or at the connection's own base.
    """
    client = client_of(call)
    confined_to = scope_bases(call)
    known: dict[str, UUID] = {}
    found = None if base is None else _find_base(call, base, confined_to, known)
    if show_deleted:
        container = fixed_base or client.default_naming_context
        meant = found or client.settings.base_dn
        area = Area(bases=(container,), scope=Scope.SUBTREE, confined_to=confined_to, deleted_area=(meant, scope))
        if confined_to is None and is_within_any(container, (meant,)):
            return area  # everything, wherever it was
        parents = parent_lookup(client, container)
        return replace(area, locate=partial(original_location, container=container, last_known_parent=parents))
    start = found or fixed_base or client.settings.base_dn
    return Area(bases=_search_bases(start, scope, confined_to), scope=scope, confined_to=confined_to, known=known)


def _find_base(call: Call, base: str, confined_to: tuple[str, ...] | None, known: dict[str, UUID]) -> str:
    """The present name of the object to search below. Adds its objectGUID to those `known`.

    A name outside the caller's scopes is never refused: the search finds nothing there, whether or not it exists.
    """
    reference = parse_reference(base, parameter="base")
    try:
        found = find_base(call, reference, parameter="base")
    except ObjectNotFound:
        if confined_to is None or isinstance(reference, UUID) or is_within_any(str(reference), confined_to):
            raise
        return str(reference)
    if "objectGUID" in found:
        known[found.dn] = found.guid
    return found.dn


def _search_bases(base: str, scope: Scope, confined_to: tuple[str, ...] | None) -> tuple[str, ...]:
    """The base, or the parts of it inside the caller's scopes, so that nothing outside is even read."""
    if confined_to is None or is_within_any(base, confined_to):
        return (base,)
    whole = DistinguishedName.parse(base)
    parts = {DistinguishedName.parse(name): name for name in confined_to}
    inside = [part for part in parts if part.is_within(whole)]
    if scope is not Scope.SUBTREE:
        return (base,) if inside else ()
    # The objects of a part inside another part would be found twice.
    return tuple(parts[part] for part in inside if not any(part != other and part.is_within(other) for other in inside))


LAST_KNOWN_PARENT = "lastKnownParent"
# Computers are among them: their BitLocker keys and service connection points lie below them.
_USUAL_PARENTS = Or(*(Equals("objectClass", name) for name in ("organizationalUnit", "container", "computer")))

LastKnownParent = Callable[[str], str | None]
"""Gives the last known parent of a deleted object, by its name in the Deleted Objects container."""


def parent_reader(client: Client) -> LastKnownParent:
    """Read the last known parent of one object at a time."""

    def read(name: str) -> str | None:
        entry = client.find(name, (LAST_KNOWN_PARENT,), deleted=True)
        return None if entry is None else entry.text(LAST_KNOWN_PARENT)

    return read


def parent_lookup(client: Client, container: str) -> LastKnownParent:
    """Read the last known parents of all deleted containers in one search, for a search that needs many of them."""
    condition = And(Equals("isDeleted", "TRUE"), _USUAL_PARENTS)
    rows = client.search(container, Scope.ONE_LEVEL, condition, (LAST_KNOWN_PARENT,), deleted=True)
    known = {entry.dn: entry.text(LAST_KNOWN_PARENT) for entry in rows}
    return known.get


def original_location(name: str, container: str, last_known_parent: LastKnownParent) -> str:
    """The name of an object, where each deleted object in it is put back below its last known parent.

    A deleted object keeps its present RDN, which no other object has.
    """
    deleted: list[DistinguishedName] = []
    while MANGLED in name and is_within_any(name, (container,)):
        parent = last_known_parent(name)
        current = DistinguishedName.parse(name)
        if parent is None or current in deleted:
            break
        deleted.append(current)
        name = parent
    location = DistinguishedName.parse(name)
    for each in reversed(deleted):
        location = location.child(each.rdn_attribute, each.rdn_value)
    return str(location) if deleted else name
