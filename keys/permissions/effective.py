"""Effective permissions: what a credential may do now, read from the database each time.

`keys.authentication` reads credentials from requests, and `cache` keeps the facts about them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group, Permission
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Concat
from django.utils import timezone

from core.call import (
    Call,
    CredentialKind,
    CredentialRef,
    DirectoryRef,
    PersonRef,
    Scopes,
    SupervisionLevel,
    Surface,
)
from core.errors import ClientIdRequired, Forbidden, GatewayError
from core.shapes import parse_guid
from directory.models import DirectoryConnection
from keys.models import ApiKey, Person, Role
from keys.people.account_status import AccountStatus, NotChecked, account_status
from keys.permission_catalogue import GRANTABLE, gateway_permissions, names_by_key
from keys.permissions.scopes import EffectiveAccess, StoredScopes, access_within, scopes_of, scopes_of_person


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A link of a key to a directory, and whether the connection is enabled."""

    directory: DirectoryRef
    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """A key with what follows from its owner, its role and its links.

    The caller judges what depends on the time. `permissions` are those of the role that the owner holds too; `scopes`
    confine by role and by owner. `last_used_at` and `owner_checked_at` may be older than in the database.
    """

    id: UUID
    digest: str
    previous_lookup_id: str | None
    previous_digest: str
    previous_valid_until: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    allowed_addresses: tuple[str, ...]
    supervision: SupervisionLevel
    last_used_at: datetime | None
    owner: PersonRef
    owner_is_active: bool
    owner_connection_id: UUID | None
    owner_checked_at: datetime
    permissions: frozenset[str]
    scopes: Scopes
    links: tuple[LinkFacts, ...]
    credential: CredentialRef

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()


_COLUMNS = (
    *("id", "name", "digest", "previous_lookup_id", "previous_digest", "previous_valid_until"),
    *("expires_at", "revoked_at", "allowed_addresses", "supervision_level", "last_used_at"),
    *("owner_id", "owner__username", "owner__display_name", "owner__is_active", "owner__is_superuser"),
    *("owner__connection_id", "owner__directory_checked_at", "owner__scopes", "role_id", "role__scopes"),
    *("links__client_id", "links__connection_id", "links__connection__name"),
    *("links__connection__enabled", "links__connection__protection_changes"),
)


def _key_rows() -> QuerySet[ApiKey, tuple[Any, ...]]:
    return ApiKey.objects.order_by().values_list(*_COLUMNS)


def find_key_by_lookup_id(lookup_id: str) -> KeyFacts | None:
    """The key whose present or previous value has this look-up id, with everything about it, in three queries."""
    return _facts_of(list(_key_rows().filter(Q(lookup_id=lookup_id) | Q(previous_lookup_id=lookup_id))))


def _facts_of(rows: Sequence[Sequence[Any]]) -> KeyFacts | None:
    """A key from its rows, of which there is one per link."""
    if not rows:
        return None
    key = dict(zip(_COLUMNS, rows[0], strict=True))
    owner_id, is_active, is_superuser = key["owner_id"], key["owner__is_active"], key["owner__is_superuser"]
    return KeyFacts(
        id=key["id"],
        digest=key["digest"],
        previous_lookup_id=key["previous_lookup_id"],
        previous_digest=key["previous_digest"],
        previous_valid_until=key["previous_valid_until"],
        expires_at=key["expires_at"],
        revoked_at=key["revoked_at"],
        allowed_addresses=tuple(key["allowed_addresses"]),
        supervision=SupervisionLevel(key["supervision_level"]),
        last_used_at=key["last_used_at"],
        owner=PersonRef(
            id=owner_id,
            username=key["owner__username"],
            display_name=key["owner__display_name"] or key["owner__username"],
        ),
        owner_is_active=is_active,
        owner_connection_id=key["owner__connection_id"],
        owner_checked_at=key["owner__directory_checked_at"],
        permissions=effective_permissions(
            key["role_id"], owner_id=owner_id, is_active=is_active, is_superuser=is_superuser
        ),
        scopes=(
            *scopes_of(key["role__scopes"]),
            *scopes_of_person(owner_id, own=key["owner__scopes"], is_superuser=is_superuser),
        ),
        links=tuple(_link_facts(*row[-5:]) for row in rows if row[-5] is not None),
        credential=CredentialRef(
            kind=CredentialKind.API_KEY, id=str(key["id"]), name=key["name"], expires_at=key["expires_at"]
        ),
    )


def _link_facts(client_id: UUID, connection_id: UUID, name: str, enabled: bool, changes: int) -> LinkFacts:
    directory = DirectoryRef(id=connection_id, name=name, client_id=str(client_id), protection_changes=changes)
    return LinkFacts(directory, enabled)


_GRANTED_NAME = Concat("permission__content_type__app_label", Value("."), "permission__codename")
"""The `app.codename` of a permission of a role, as an expression."""


def effective_permissions(role_id: UUID, *, owner_id: int, is_active: bool, is_superuser: bool) -> frozenset[str]:
    """The permissions of a role that its owner holds too, in one query; none for an inactive owner."""
    if not is_active:
        return frozenset()
    granted = Role.permissions.through.objects.filter(role_id=role_id)
    rows = granted if is_superuser else granted.filter(_held_by(owner_id, "permission_id"))
    return GRANTABLE.intersection(rows.values_list(_GRANTED_NAME, flat=True))


def access_of_person(
    person_id: int, *, is_active: bool, is_superuser: bool, own_scopes: StoredScopes
) -> EffectiveAccess:
    """What a person may do and where, by themselves or through an agent, in two queries."""
    return access_within(
        permissions_of_person(person_id, is_active=is_active, is_superuser=is_superuser),
        scopes_of_person(person_id, own=own_scopes, is_superuser=is_superuser),
    )


def permissions_of_person(person_id: int, *, is_active: bool, is_superuser: bool) -> frozenset[str]:
    """All permissions of the gateway's apps that a person was granted, directly or by groups, in one query.

    Confined people may use fewer of them (`access_of_person`).
    """
    if not is_active:
        return frozenset()
    held = Permission.objects.order_by().filter(Q() if is_superuser else _held_by(person_id, "pk"))
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


def _held_by(person_id: int, column: str) -> Q:
    """The condition that a person holds the permission in this column, directly or by a group."""
    direct = Person.user_permissions.through.objects.filter(person_id=person_id)
    groups = Person.groups.through.objects.filter(person_id=person_id).values("group_id")
    by_group = Group.permissions.through.objects.filter(group_id__in=groups)
    return Q(**{f"{column}__in": direct.values("permission_id")}) | Q(
        **{f"{column}__in": by_group.values("permission_id")}
    )


def choose_link(links: Sequence[LinkFacts], client_id: str | None) -> tuple[DirectoryRef | None, GatewayError | None]:
    """The directory that a key works on, or the refusal for operations that need one."""
    if client_id is None:
        if len(links) > 1:
            return None, ClientIdRequired()
        chosen = links[0] if links else None
    else:
        wanted = parse_guid(client_id.strip())
        chosen = next((link for link in links if UUID(link.directory.client_id) == wanted), None)
    if chosen is None or not chosen.enabled:
        return None, Forbidden()
    return chosen.directory, None


def call_for_key(
    key_id: UUID | str,
    *,
    connection_id: UUID,
    surface: Surface,
    request_id: str,
    change_request_id: UUID | None = None,
) -> Call:
    """A call for work done later under a key, with everything checked anew but the allowed addresses.

    Raises Forbidden, or NotChecked while the owner's directory does not answer.
    """
    wanted = key_id if isinstance(key_id, UUID) else parse_guid(key_id)
    key = _facts_of(list(_key_rows().filter(pk=wanted))) if wanted else None
    if key is None or key.revoked_at is not None or key.is_expired or not key.owner_is_active:
        raise Forbidden
    _require_present(
        account_status(key.owner.id, connection_id=key.owner_connection_id, checked_at=key.owner_checked_at)
    )
    link = next((link for link in key.links if link.directory.id == connection_id), None)
    if link is None or not link.enabled:
        raise Forbidden
    return make_key_call(
        key,
        surface=surface,
        directory=link.directory,
        request_id=request_id,
        change_request_id=change_request_id,
    )


def make_key_call(key: KeyFacts, *, surface: Surface, **facts: Any) -> Call:
    """The call of a key that has passed all checks."""
    return Call(
        surface=surface,
        person=key.owner,
        credential=key.credential,
        permissions=key.permissions,
        scopes=key.scopes,
        supervision=key.supervision,
        **facts,
    )


def _require_present(status: AccountStatus) -> None:
    """Raise Forbidden if a person has left their directory, NotChecked if they could not be checked for too long."""
    if status is AccountStatus.UNKNOWN:
        raise NotChecked
    if status is AccountStatus.LEFT:
        raise Forbidden


def call_for_person(
    person_id: int,
    *,
    credential: CredentialRef,
    connection_id: UUID | None,
    surface: Surface,
    request_id: str,
    change_request_id: UUID | None = None,
) -> Call:
    """A call for work done later for a person, whose session may have ended; raises Forbidden, or NotChecked.

    Work that needs no directory has no `connection_id`.
    """
    person = Person.objects.select_related("connection").filter(pk=person_id).first()
    if person is None or not person.is_active:
        raise Forbidden
    _require_present(
        account_status(person.pk, connection_id=person.connection_id, checked_at=person.directory_checked_at)
    )
    directory = None
    if connection_id is not None:
        directory, _ = choose_directory(person.connection, named=None, wanted=connection_id)
        if directory is None:
            raise Forbidden
    held = access_of_person(person.pk, is_active=True, is_superuser=person.is_superuser, own_scopes=person.scopes)
    return Call(
        surface=surface,
        person=reference_to(person),
        credential=credential,
        permissions=held.permissions,
        scopes=held.scopes,
        directory=directory,
        request_id=request_id,
        change_request_id=change_request_id,
    )


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


def choose_directory(
    own: DirectoryConnection | None, *, named: str | None, wanted: UUID | None = None
) -> tuple[DirectoryRef | None, GatewayError | None]:
    """The directory that a person works on, or the refusal for operations that need one.

    `own` is the directory that they sign in with. Local accounts name one by Client ID (`named`) or by id (`wanted`),
    unless a single one is enabled.
    """
    choices = find_directories(own)
    if named is not None:
        choices = [item for item in choices if item.client_id == named.strip().lower()]
    if wanted is not None:
        choices = [item for item in choices if item.id == wanted]
    if len(choices) > 1:
        return None, ClientIdRequired()
    if not choices:
        return None, Forbidden()
    return reference_to_directory(choices[0]), None
