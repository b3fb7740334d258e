"""The scopes of roles, people and groups: from what people type (a distinguished name or objectGUID) to what is stored,
back to present names, and to what counts for a call.

Confined people cannot administer the gateway itself, since that concerns whole directories. Superusers are never
confined: they could lift the confinement again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import DistinguishedName, Entry, InvalidValue, LdapError
from core.call import Scopes
from core.errors import invalid_member
from core.shapes import Id, parse_guid
from directory import errors as directory_errors
from directory.lookup.access import bases_inside_all
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from keys.models import Person
from keys.models.people import GroupScopes


def resolve_scopes(texts: Sequence[str]) -> list[dict[str, str]]:
    """Find the objects of scopes, to be stored.

    Raises InvalidRequest naming one that no enabled directory has, or Unavailable if a directory does not answer.
    """
    scopes = [_resolve_one(position, text) for position, text in enumerate(texts)]
    return list({(scope["directoryId"], scope["guid"]): scope for scope in scopes}.values())


def _resolve_one(position: int, text: str) -> dict[str, str]:
    absent = invalid_member(f"scopes/{position}", f"{text} is in none of the enabled directories")
    reference: UUID | str | None = parse_guid(text.strip())
    if reference is None:
        try:
            reference = str(DistinguishedName.parse(text.strip()))
        except InvalidValue:
            raise absent from None
    if not reference:
        raise absent
    unreachable: directory_errors.Unavailable | None = None
    for connection in DirectoryConnection.objects.filter(enabled=True).order_by("name"):
        try:
            with directory_errors.translate_ldap_errors():
                entry = get_client(connection.id).find(reference, ("objectGUID",))
        except directory_errors.Unavailable as error:
            unreachable = error  # it may have the object, so the scope is not to be called unknown
            continue
        except directory_errors.DirectoryRejected:  # AD may reject a name that parses, such as `OU=`
            continue
        if entry is not None:
            return {"guid": str(entry.guid), "distinguishedName": entry.dn, "directoryId": str(connection.id)}
    raise unreachable or absent


class ScopeNow(TypedDict):
    """A scope with the name it has now. `state` is `found`, `gone` (it holds nothing any more), or `unknown`, when its
    directory cannot be asked; the name is then the last one known.
    """

    id: Id
    distinguishedName: str
    directory: Id
    directoryName: str | None
    state: Literal["found", "gone", "unknown"]


def find_scopes_now(scopes: Sequence[Mapping[str, str]]) -> list[ScopeNow]:
    """Stored scopes with the names that their objects have now, with one search per directory."""
    connections = {str(row.id): row for row in DirectoryConnection.objects.all()} if scopes else {}
    found = {directory: _find_bases(row, scopes) for directory, row in connections.items()}
    return [
        _scope_now(scope, connections.get(scope["directoryId"]), found.get(scope["directoryId"])) for scope in scopes
    ]


def _find_bases(connection: DirectoryConnection, scopes: Sequence[Mapping[str, str]]) -> dict[UUID, Entry] | None:
    """The existing bases in one directory, by objectGUID; None if it is disabled or does not answer."""
    inside = [UUID(scope["guid"]) for scope in scopes if scope["directoryId"] == str(connection.id)]
    if not connection.enabled:
        return None
    try:
        return get_client(connection.id).read_many(inside, ("objectGUID",))
    except LdapError:
        return None


def _scope_now(
    scope: Mapping[str, str], connection: DirectoryConnection | None, found: Mapping[UUID, Entry] | None
) -> ScopeNow:
    entry = None if found is None else found.get(UUID(scope["guid"]))
    return {
        "id": scope["guid"],
        "distinguishedName": scope["distinguishedName"] if entry is None else entry.dn,
        "directory": scope["directoryId"],
        "directoryName": None if connection is None else connection.name,
        "state": "unknown" if found is None else "gone" if entry is None else "found",
    }


StoredScopes = list[dict[str, str]]
"""Scopes as roles, people and groups store them; the names are only for people."""


@dataclass(frozen=True, slots=True)
class EffectiveAccess:
    """What a person may do, and where."""

    permissions: frozenset[str]
    scopes: Scopes


def scopes_of(*kept: StoredScopes) -> Scopes:
    """The objectGUIDs of several stored scopes that all confine; empty ones confine nobody.

    Those of other directories stay in: people who are confined to one directory must find nothing in another one, not
    everything.
    """
    return tuple(tuple(UUID(scope["guid"]) for scope in scopes) for scopes in kept if scopes)


def stored_scopes_of_person(person: Person) -> list[StoredScopes]:
    """What confines a person: their own scopes and those of each of their groups that has some, in one query."""
    if person.is_superuser:
        return []
    by_group = GroupScopes.objects.filter(group__user=person.pk).order_by("group__name")
    return [scopes for scopes in (person.scopes, *by_group.values_list("scopes", flat=True)) if scopes]


def scopes_of_people(people: Iterable[Person]) -> dict[int, Scopes]:
    """The scopes that confine each of many people, by primary key, in one query."""
    some = list(people)
    kept: dict[int, list[StoredScopes]] = {person.pk: [person.scopes] for person in some}
    by_group = GroupScopes.objects.filter(group__user__in=kept).order_by("group_id")
    for person_id, scopes in by_group.values_list("group__user", "scopes"):
        kept[person_id].append(scopes)
    return {person.pk: () if person.is_superuser else scopes_of(*kept[person.pk]) for person in some}


def is_confined(person: Person) -> bool:
    """Whether anything confines a person."""
    return bool(stored_scopes_of_person(person))


def is_within(inner: Sequence[Sequence[object]], outer: Sequence[Sequence[object]]) -> bool:
    """Whether some scopes lie inside others by their objectGUIDs alone: the directory can move a unit tomorrow."""
    return all(any(set(some) <= set(bases) for some in inner) for bases in outer)


def bases_inside_scopes(scopes: Scopes, names: Mapping[UUID, str]) -> tuple[str, ...] | None:
    """The distinguished names of what lies inside all of some scopes; None without scopes. Needs the bases' names."""
    if not scopes:
        return None
    return bases_inside_all([names[guid] for guid in bases if guid in names] for bases in scopes)
