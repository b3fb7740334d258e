"""What people are confined to: their own scopes and those of their groups, kept and counting as a role's are.

Confined people administer nothing of the gateway itself: that is about all of every directory. A superuser is never
confined, who could lift it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from core.call import Scopes
from directory.lookup.access import bases_inside_all
from keys.models import Person
from keys.models.groups import GroupScopes
from keys.permission_catalogue import GRANTABLE

ScopesAsKept = list[dict[str, str]]
"""What a role, a person or a group keeps of its scopes; the names in it are only for people."""


@dataclass(frozen=True, slots=True)
class EffectiveAccess:
    """What a person may do, and where."""

    permissions: frozenset[str]
    scopes: Scopes


def scopes_of(*kept: ScopesAsKept) -> Scopes:
    """The objectGUIDs of what somebody is confined to, by each of these; by one that is empty they are not.

    Those of other directories stay among them: whoever is confined to one directory must find nothing in another, not
    everything.
    """
    return tuple(tuple(UUID(scope["guid"]) for scope in scopes) for scopes in kept if scopes)


def kept_of_person(person: Person) -> list[ScopesAsKept]:
    """What confines a person, as it is kept: their own scopes and those of each group that has some."""
    if person.is_superuser:
        return []
    by_group = GroupScopes.objects.filter(group__user=person.pk).order_by("group__name")
    return [scopes for scopes in (person.scopes, *by_group.values_list("scopes", flat=True)) if scopes]


def scopes_of_person(person_id: int, *, own: ScopesAsKept, is_superuser: bool) -> Scopes:
    """What one person is confined to, in one query."""
    if is_superuser:
        return ()
    of_groups = GroupScopes.objects.order_by("group_id").filter(group__user=person_id)
    return scopes_of(own, *of_groups.values_list("scopes", flat=True))


def scopes_of_people(people: Iterable[Person]) -> dict[int, Scopes]:
    """The same of many, by primary key, in one query."""
    some = list(people)
    kept: dict[int, list[ScopesAsKept]] = {person.pk: [person.scopes] for person in some}
    by_group = GroupScopes.objects.filter(group__user__in=kept).order_by("group_id")
    for person_id, scopes in by_group.values_list("group__user", "scopes"):
        kept[person_id].append(scopes)
    return {person.pk: () if person.is_superuser else scopes_of(*kept[person.pk]) for person in some}


def is_confined(person: Person) -> bool:
    """Whether a person is confined to anything."""
    return bool(kept_of_person(person))


def is_within(inner: Sequence[Sequence[object]], outer: Sequence[Sequence[object]]) -> bool:
    """Whether all of some scopes is inside of others, whatever the directory says: it may say otherwise tomorrow."""
    return all(any(set(some) <= set(bases) for some in inner) for bases in outer)


def held_within(permissions: frozenset[str], scopes: Scopes) -> EffectiveAccess:
    """What somebody with these permissions may do who is confined to this."""
    return EffectiveAccess(permissions & GRANTABLE if scopes else permissions, scopes)


def inside_all(scopes: Scopes, names: Mapping[UUID, str]) -> tuple[str, ...] | None:
    """What is inside all of some scopes, by the names that their objects have; None where they confine nobody."""
    if not scopes:
        return None
    return bases_inside_all([names[guid] for guid in bases if guid in names] for bases in scopes)
