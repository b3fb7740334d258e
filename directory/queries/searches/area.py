"""Where a search looks: the caller's base and depth, and nothing outside the caller's scopes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from active_directory import DistinguishedName, Entry, Scope
from core.call import Call
from directory.errors import ObjectNotFound
from directory.lookup.access import client_of, find_base, is_within_any, parse_reference, scope_bases
from directory.queries.original_locations import LAST_KNOWN_PARENT, above_by_searching, former_place

_IS_DELETED = "isDeleted"


@dataclass(frozen=True, slots=True)
class Area:
    """What to search, `bases` down to `scope`, and how to tell whether a found entry belongs to the answer.

    A deleted object lies in the container of deleted objects, whatever it was: it belongs to where its last known
    parent is, or was. `of_deleted` is the part of the directory meant then, a base and a scope, and `place` says where
    a last known parent was.
    """

    bases: tuple[str, ...]
    scope: Scope
    confined_to: tuple[str, ...] | None
    of_deleted: tuple[str, Scope] | None = None
    place: Callable[[str], str] = str

    @property
    def needs(self) -> tuple[str, ...]:
        """The attributes `holds` looks at."""
        return () if self.of_deleted is None else (LAST_KNOWN_PARENT, _IS_DELETED)

    @property
    def refines(self) -> bool:
        """Whether what is found in the bases may not belong to the answer."""
        return self.confined_to is not None or self.of_deleted is not None

    def holds(self, entry: Entry) -> bool:
        """Whether an entry, perhaps moved since it was found, lies inside the caller's scopes and the part meant."""
        if self.of_deleted is None:
            return self.confined_to is None or is_within_any(entry.dn, self.confined_to)
        if not entry.boolean(_IS_DELETED):  # restored since it was found
            return False
        base, scope = self.of_deleted
        last_parent = entry.text(LAST_KNOWN_PARENT)
        if last_parent is None:
            return self.confined_to is None and scope is Scope.SUBTREE
        parent = self.place(last_parent)
        if self.confined_to is not None and not is_within_any(parent, self.confined_to):
            return False
        if scope is Scope.SUBTREE:
            return is_within_any(parent, (base,))
        return scope is Scope.ONE_LEVEL and is_within_any(parent, (base,)) and is_within_any(base, (parent,))


def area_of(
    call: Call, base: str | None, scope: Scope, *, fixed_base: str | None = None, show_deleted: bool = False
) -> Area:
    """The area of a search below the caller's `base` (UUID or distinguished name; None for `fixed_base`, else for the
    directory's own); raises ObjectNotFound for a base that does not exist.
    """
    client = client_of(call)
    confined_to = scope_bases(call)
    found = None if base is None else _find_base(call, base, confined_to)
    if show_deleted:
        container = fixed_base or client.default_naming_context
        meant = found or client.settings.base_dn
        area = Area(bases=(container,), scope=Scope.SUBTREE, confined_to=confined_to, of_deleted=(meant, scope))
        if confined_to is None and is_within_any(container, (meant,)):
            return area  # everything, wherever it was
        above = above_by_searching(client, container)
        return replace(area, place=partial(former_place, container=container, above=above))
    start = found or fixed_base or client.settings.base_dn
    return Area(bases=_confine(start, scope, confined_to), scope=scope, confined_to=confined_to)


def _find_base(call: Call, base: str, confined_to: tuple[str, ...] | None) -> str:
    """The present name of the object to search below. Outside the scopes nothing is found, whether or not it exists."""
    reference = parse_reference(base, parameter="base")
    try:
        return find_base(call, reference, parameter="base").dn
    except ObjectNotFound:
        if confined_to is None or isinstance(reference, UUID) or is_within_any(str(reference), confined_to):
            raise
        return str(reference)


def _confine(base: str, scope: Scope, confined_to: tuple[str, ...] | None) -> tuple[str, ...]:
    """Where to search so that nothing outside is even read: the base, or the parts of it that the caller may see."""
    if confined_to is None or is_within_any(base, confined_to):
        return (base,)
    whole = DistinguishedName.parse(base)
    parts = {DistinguishedName.parse(name): name for name in confined_to}
    inside = [part for part in parts if part.is_within(whole)]
    if scope is not Scope.SUBTREE:
        return (base,) if inside else ()
    # A part inside another would be found twice.
    return tuple(parts[part] for part in inside if not any(part != other and part.is_within(other) for other in inside))
