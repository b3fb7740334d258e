"""Effective permissions: what a credential may do now, read from the database each time.

`keys.authentication` reads credentials from requests, and `cache` keeps the facts about them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group, Permission
from django.db.models import Q, Value
from django.db.models.functions import Concat

from core.call import (
    Call,
    CredentialKind,
    CredentialRef,
    DirectoryRef,
    PersonRef,
    Scopes,
    SupervisionLevel,
)
from core.errors import ClientIdRequired, Forbidden, GatewayError
from core.shapes import parse_guid
from directory.models import DirectoryConnection
from keys.models import ApiKey, Person, Role
from keys.people.account_status import AccountStatus, NotChecked, account_status
from keys.permission_catalogue import GRANTABLE, gateway_permissions, names_by_key
from keys.permissions.scopes import EffectiveAccess, scopes_of, stored_scopes_of_person


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A link of a key to a directory, and whether the connection is enabled."""

    directory: DirectoryRef
    enabled: bool


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key, read with its owner and its role, and what follows from these and from its links.

    The caller judges what depends on the time. `permissions` are those of the role that the owner holds too; `scopes`
    confine by role and by owner. The times of the last use and of the owner's last check may be older than in the
    database.
    """

    key: ApiKey
    person: PersonRef
    credential: CredentialRef
    permissions: frozenset[str]
    scopes: Scopes
    supervision: SupervisionLevel
    links: tuple[LinkFacts, ...]


def find_key_by_lookup_id(lookup_id: str) -> KeyFacts | None:
    """The key whose present or previous value has this look-up id, with everything about it, in four queries."""
    return _find_key(Q(lookup_id=lookup_id) | Q(previous_lookup_id=lookup_id))


def _find_key(condition: Q) -> KeyFacts | None:
    key = ApiKey.objects.select_related("owner", "role").filter(condition).first()
    if key is None:
        return None
    owner = key.owner
    links = key.links.values_list(
        "client_id", "connection_id", "connection__name", "connection__protection_changes", "connection__enabled"
    )
    return KeyFacts(
        key,
        reference_to(owner),
        CredentialRef(
            CredentialKind.API_KEY, str(key.id), key.name, key.expires_at, aggregates_reads=key.aggregates_reads
        ),
        effective_permissions(key.role_id, owner),
        (*scopes_of(key.role.scopes), *scopes_of(*stored_scopes_of_person(owner))),
        SupervisionLevel(key.supervision_level),
        tuple(
            LinkFacts(DirectoryRef(directory, name, str(client_id), protection_changes), enabled)
            for client_id, directory, name, protection_changes, enabled in links
        ),
    )


_GRANTED_NAME = Concat("permission__content_type__app_label", Value("."), "permission__codename")
"""The `app.codename` of a permission of a role, as an expression."""


def effective_permissions(role_id: UUID, owner: Person) -> frozenset[str]:
    """The permissions of a role that its owner holds too, in one query; none for an inactive owner."""
    if not owner.is_active:
        return frozenset()
    granted = Role.permissions.through.objects.filter(role_id=role_id)
    rows = granted if owner.is_superuser else granted.filter(_held_by(owner, "permission_id"))
    return GRANTABLE.intersection(rows.values_list(_GRANTED_NAME, flat=True))


def access_of_person(person: Person) -> EffectiveAccess:
    """What a person may do and where, by themselves or through an agent, in two queries."""
    held, scopes = permissions_of_person(person), scopes_of(*stored_scopes_of_person(person))
    return EffectiveAccess(held & GRANTABLE if scopes else held, scopes)


def permissions_of_person(person: Person) -> frozenset[str]:
    """What a person was granted (`granted_permissions`), nothing while they are inactive."""
    return granted_permissions(person) if person.is_active else frozenset()


def granted_permissions(person: Person) -> frozenset[str]:
    """All permissions of the gateway's apps that a person was granted, directly or by groups, in one query.

    Confined people may use fewer of them (`access_of_person`).
    """
    held = Permission.objects.order_by().filter(Q() if person.is_superuser else _held_by(person, "pk"))
    return frozenset(gateway_permissions(held).values_list("full_name", flat=True))


def permissions_of_people(people: Iterable[Person]) -> dict[int, frozenset[str]]:
    """The same for many people, by primary key, in at most three queries."""
    active = [person for person in people if person.is_active]
    found: dict[int, set[int]] = {person.pk: set() for person in active}
    known = names_by_key()
    direct = Person.user_permissions.through.objects.filter(person_id__in=found)
    by_group = Person.groups.through.objects.filter(person_id__in=found)
    for rows in (
        direct.values_list("person_id", "permission_id"),
        by_group.values_list("person_id", "group__permissions"),
    ):
        for person_id, permission_id in rows:
            found[person_id].add(permission_id)
    held = {pk: frozenset(known[each] for each in permissions if each in known) for pk, permissions in found.items()}
    everything = frozenset(known.values())
    nothing = {person.pk: frozenset[str]() for person in people if not person.is_active}
    return nothing | held | {person.pk: everything for person in active if person.is_superuser}


def permissions_of_roles(roles: Iterable[UUID]) -> dict[UUID, frozenset[str]]:
    """The permissions of each role, in one query. A key has those that its owner holds too."""
    found: dict[UUID, set[str]] = {role: set() for role in roles}
    for role, name in Role.permissions.through.objects.filter(role_id__in=found).values_list("role_id", _GRANTED_NAME):
        found[role].add(name)
    return {role: frozenset(permissions) for role, permissions in found.items()}


def _held_by(person: Person, column: str) -> Q:
    """The condition that a person holds the permission in this column, directly or by a group."""
    direct = Person.user_permissions.through.objects.filter(person=person)
    groups = Person.groups.through.objects.filter(person=person).values("group_id")
    by_group = Group.permissions.through.objects.filter(group_id__in=groups)
    return Q(**{f"{column}__in": direct.values("permission_id")}) | Q(
        **{f"{column}__in": by_group.values("permission_id")}
    )


def choose_directory(
    links: Sequence[LinkFacts], client_id: str | None
) -> tuple[DirectoryRef | None, type[GatewayError] | None]:
    """The directory that a caller works on, or the refusal for operations that need one.

    The caller names it by Client ID, unless there is only one.
    """
    if client_id is not None:
        links = [link for link in links if link.directory.client_id == client_id.strip().lower()]
    if len(links) > 1:
        return None, ClientIdRequired
    if not links or not links[0].enabled:
        return None, Forbidden
    return links[0].directory, None


def call_for_key(key_id: UUID | str, *, connection_id: UUID, **request: Any) -> Call:
    """A call for work done later under a key, with everything checked anew but the allowed addresses.

    `request` are the members of the call that the key does not decide. Raises Forbidden, or NotChecked while the
    owner's directory does not answer.
    """
    wanted = key_id if isinstance(key_id, UUID) else parse_guid(key_id)
    facts = _find_key(Q(pk=wanted)) if wanted else None
    if facts is None or facts.key.state != "active" or not facts.key.owner.is_active:
        raise Forbidden
    _require_present(facts.key.owner)
    link = next((link for link in facts.links if link.directory.id == connection_id), None)
    if link is None or not link.enabled:
        raise Forbidden
    return make_key_call(facts, directory=link.directory, **request)


def make_key_call(facts: KeyFacts, **request: Any) -> Call:
    """The call of a key that has passed all checks; `request` are the members that the key does not decide."""
    return Call(
        person=facts.person,
        credential=facts.credential,
        permissions=facts.permissions,
        scopes=facts.scopes,
        supervision=facts.supervision,
        **request,
    )


def _require_present(person: Person) -> None:
    """Raise Forbidden if a person has left their directory, NotChecked if they could not be checked for too long."""
    status = account_status(person)
    if status is AccountStatus.UNKNOWN:
        raise NotChecked
    if status is AccountStatus.LEFT:
        raise Forbidden


def call_for_person(person_id: int, *, connection_id: UUID | None, **request: Any) -> Call:
    """A call for work done later for a person, whose session may have ended; raises Forbidden, or NotChecked.

    `request` are the members of the call that the person does not decide. Work that needs no directory has no
    `connection_id`.
    """
    person = Person.objects.select_related("connection").filter(pk=person_id).first()
    if person is None or not person.is_active:
        raise Forbidden
    _require_present(person)
    directory = None
    if connection_id is not None:
        directories = {row.id: row for row in find_directories(person.connection)}
        if connection_id not in directories:
            raise Forbidden
        directory = reference_to_directory(directories[connection_id])
    return make_person_call(person, access_of_person(person), directory=directory, **request)


def make_person_call(person: Person, access: EffectiveAccess, **request: Any) -> Call:
    """The call of a person who has passed all checks; `request` are the members that the person does not decide."""
    return Call(person=reference_to(person), permissions=access.permissions, scopes=access.scopes, **request)


def reference_to(person: Person) -> PersonRef:
    return PersonRef(id=person.pk, username=person.username, display_name=person.get_full_name())


def reference_to_directory(connection: DirectoryConnection) -> DirectoryRef:
    return DirectoryRef(
        id=connection.id,
        name=connection.name,
        client_id=connection.client_id,
        protection_changes=connection.protection_changes,
    )


def find_directories(own: DirectoryConnection | None) -> list[DirectoryConnection]:
    """The directories that a person may work on: the one they sign in with, or all enabled ones for a local account."""
    if own is not None:
        return [own] if own.enabled else []
    return list(DirectoryConnection.objects.filter(enabled=True).order_by("name"))
