"""People, their groups, roles and API keys as the operations log tells of them, and what makes one's access more."""

from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_network
from typing import Any, cast

from django.contrib.auth.models import Group, Permission
from django.db.models import QuerySet

from audit.model_changes.descriptions import Facts, Secret, audited_model
from core.call import SupervisionLevel
from core.shapes import render_timestamp
from keys.models import ApiKey, Person, Role, SecondFactor
from keys.models.assignable import named
from keys.models.groups import DirectoryGroup, kept_scopes
from keys.permissions.effective import permissions_of_person
from keys.permissions.scoping import ScopesAsKept, is_within, kept_of_person

_LEVELS = tuple(level.value for level in SupervisionLevel)
"""From strict to free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyAccess:
    """What a key may do, where and until when; `scopes` and `addresses` are unlimited when empty."""

    owner: int
    held_by_owner: tuple[str, ...]
    role: str
    permissions: tuple[str, ...]
    scopes: tuple[str, ...]
    addresses: tuple[str, ...]
    expires_at: datetime | None
    level: str
    passwords: bool
    directories: tuple[str, ...]
    revoked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleAccess:
    permissions: tuple[str, ...]
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAccess:
    """What a person may do; `permissions` are those given directly and by groups. Each of `scopes` confines them."""

    active: bool
    superuser: bool
    back_office: bool
    permissions: tuple[str, ...]
    groups: tuple[str, ...]
    scopes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAccess:
    permissions: tuple[str, ...]
    scopes: tuple[str, ...]
    directory_groups: tuple[str, ...]


def key_access_widened(before: KeyAccess | None, after: KeyAccess) -> list[str]:
    """In words, what a key may do after a change and could not do before."""
    if after.revoked:
        return []
    if before is None:
        return ["a new key may act as its owner"]
    reasons = _scope_reasons("the key's role", before.permissions, after.permissions, before.scopes, after.scopes)
    if before.owner != after.owner:
        reasons.append("the key acts as somebody else")
    if after.passwords and not before.passwords:
        reasons.append("generated passwords go to the key's owner")
    if _LEVELS.index(after.level) > _LEVELS.index(before.level):
        reasons.append(f"fewer changes wait for a person ({before.level} before, {after.level} now)")
    if _are_widened(before.addresses, after.addresses):
        reasons.append("the key is accepted from further addresses")
    if before.expires_at is not None and (after.expires_at is None or after.expires_at > before.expires_at):
        reasons.append(f"the key is valid longer ({render_timestamp(after.expires_at) or 'without end'})")
    if set(after.directories) - set(before.directories):
        reasons.append("the key reaches a further directory")
    return reasons


def role_access_widened(before: RoleAccess | None, after: RoleAccess) -> list[str]:
    """The same of a role. No key has a new one yet: giving it to a key is what counts."""
    if before is None:
        return []
    return _scope_reasons("the role", before.permissions, after.permissions, before.scopes, after.scopes)


def person_access_widened(before: PersonAccess | None, after: PersonAccess) -> list[str]:
    """The same of a person. Somebody inactive may do nothing: being activated, they get all they hold."""
    nobody = PersonAccess(active=True, superuser=False, back_office=False, permissions=(), groups=(), scopes=())
    known = before or nobody
    reasons = []
    if after.superuser and not known.superuser:
        reasons.append("the person becomes a superuser")
    if after.back_office and not known.back_office:
        reasons.append("the person may enter the back office")
    if set(after.groups) - set(known.groups):
        reasons.append("the person joins a group")
    if more := sorted(set(after.permissions) - set(known.permissions)):
        reasons.append(f"the person may do more: {', '.join(more)}")
    if not after.superuser and not is_within(after.scopes, known.scopes):
        reasons.append("the person is confined less")
    if after.active and not known.active:
        reasons.append("the person is activated")
    return reasons


def group_access_widened(before: GroupAccess | None, after: GroupAccess) -> list[str]:
    """The same of a group of people. A new one has no members yet, but those that a directory puts into it."""
    if before is None:
        return ["members of a group of a directory are in it"] if after.directory_groups else []
    more = sorted(set(after.permissions) - set(before.permissions))
    reasons = [f"its members may do more: {', '.join(more)}"] if more else []
    if set(after.directory_groups) - set(before.directory_groups):
        reasons.append("members of a further group of a directory are in it")
    return reasons + _scope_reasons("the group", (), (), before.scopes, after.scopes)


def _scope_reasons(
    whose: str,
    permissions_before: tuple[str, ...],
    permissions_after: tuple[str, ...],
    scopes_before: tuple[str, ...],
    scopes_after: tuple[str, ...],
) -> list[str]:
    reasons = []
    if more := sorted(set(permissions_after) - set(permissions_before)):
        reasons.append(f"{whose} permits more: {', '.join(more)}")
    # Whether a new scope lies inside one of those before, the directory may answer otherwise tomorrow.
    if scopes_before and (not scopes_after or set(scopes_after) - set(scopes_before)):
        reasons.append(f"{whose} reaches {'everything' if not scopes_after else 'further parts of the directory'}")
    return reasons


def _are_widened(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """Whether some address is allowed that was not."""
    if not before:
        return False
    if not after:
        return True
    known = [ip_network(text) for text in before]
    return not all(
        any(network.version == other.version and cast("Any", network).subnet_of(other) for other in known)
        for network in map(ip_network, after)
    )


def _names(permissions: QuerySet[Permission]) -> tuple[str, ...]:
    return tuple(sorted(named(permissions).values_list("full_name", flat=True)))


def _guids(scopes: ScopesAsKept) -> tuple[str, ...]:
    return tuple(sorted(scope["guid"] for scope in scopes))


def _shown_scopes(scopes: ScopesAsKept) -> dict[str, tuple[str, ...]]:
    return {
        "scopes": tuple(scope["distinguishedName"] for scope in scopes),
        "scopeObjects": tuple(scope["guid"] for scope in scopes),
    }


def _moment(at: datetime | None) -> tuple[str, ...]:
    text = render_timestamp(at)
    return (text,) if text else ()


def _text(value: str | None) -> tuple[str, ...]:
    return (value,) if value else ()


def _flag(value: bool) -> tuple[str, ...]:
    return ("true" if value else "false",)


@audited_model("api-keys", ApiKey, widened_access=key_access_widened)
def describe_key(key: ApiKey) -> Facts:
    owner, role = key.owner, key.role
    links = list(key.links.select_related("connection").order_by("connection__name", "pk"))
    held = permissions_of_person(owner.pk, is_active=True, is_superuser=owner.is_superuser)
    return Facts(
        name=key.name,
        shown={
            "name": _text(key.name),
            "owner": _text(owner.username),
            "role": (str(key.role_id),),
            "roleName": _text(role.name),
            "expiresAt": _moment(key.expires_at),
            "allowedAddresses": tuple(key.allowed_addresses),
            "supervisionLevel": _text(key.supervision_level),
            "passwordsToRequester": _flag(key.passwords_to_requester),
            "links": tuple(f"{link.connection.name} ({link.client_id})" for link in links),
            "value": Secret(key.digest),
            "previousValue": Secret(key.previous_digest),
            "previousValidUntil": _moment(key.previous_valid_until),
            "revokedAt": _moment(key.revoked_at),
            "revokedBy": _text(key.revoked_by.username if key.revoked_by else None),
        },
        access=KeyAccess(
            owner=owner.pk,
            held_by_owner=tuple(sorted(held)),
            role=str(key.role_id),
            permissions=_names(role.permissions.all()),
            scopes=_guids(role.scopes),
            addresses=tuple(key.allowed_addresses),
            expires_at=key.expires_at,
            level=key.supervision_level,
            passwords=key.passwords_to_requester,
            directories=tuple(sorted(str(link.connection_id) for link in links)),
            revoked=key.revoked_at is not None,
        ),
    )


@audited_model("roles", Role, widened_access=role_access_widened)
def describe_role(role: Role) -> Facts:
    permissions = _names(role.permissions.all())
    return Facts(
        name=role.name,
        shown={
            "name": _text(role.name),
            "description": _text(role.description),
            "permissions": permissions,
            **_shown_scopes(role.scopes),
        },
        access=RoleAccess(permissions=permissions, scopes=_guids(role.scopes)),
    )


@audited_model("people", Person, widened_access=person_access_widened, identifier="public_id")
def describe_person(person: Person) -> Facts:
    direct = _names(person.user_permissions.all())
    groups = list(person.groups.order_by("name"))
    by_groups = _names(Permission.objects.filter(group__in=groups).distinct())
    factor = SecondFactor.objects.filter(person=person, confirmed_at__isnull=False).first()
    codes = sorted(factor.recovery_codes.values_list("digest", flat=True)) if factor else []
    return Facts(
        name=person.username,
        shown={
            "username": _text(person.username),
            "displayName": _text(person.display_name),
            "email": _text(person.email),
            "directory": _text(person.connection.name if person.connection else None),
            "password": Secret(person.password),
            "active": _flag(person.is_active),
            "superuser": _flag(person.is_superuser),
            "staff": _flag(person.is_staff),
            "permissions": direct,
            "groups": tuple(group.name for group in groups),
            **_shown_scopes(person.scopes),
            "secondFactor": _flag(factor is not None),
            "sessionsEnded": (str(person.session_epoch),) if person.session_epoch else (),
            "recoveryCodes": Secret(" ".join(codes)),
        },
        access=PersonAccess(
            active=person.is_active,
            superuser=person.is_superuser,
            back_office=person.is_staff,
            permissions=tuple(sorted({*direct, *by_groups})),
            groups=tuple(sorted(str(group.pk) for group in groups)),
            # What a superuser is confined to counts from when they are none any more.
            scopes=tuple(sorted(map(_guids, kept_of_person(person)))),
        ),
    )


@audited_model("permission-groups", Group, widened_access=group_access_widened)
def describe_group(group: Group) -> Facts:
    permissions = _names(group.permissions.all())
    mapped = list(DirectoryGroup.objects.filter(group=group))
    members = Person.objects.filter(groups=group).order_by("username").values_list("username", flat=True)
    return Facts(
        name=group.name,
        shown={
            "name": _text(group.name),
            "permissions": permissions,
            "members": tuple(members),
            **_shown_scopes(kept_scopes(group)),
            "directoryGroups": tuple(item.distinguished_name for item in mapped),
            "directoryGroupObjects": tuple(str(item.object_guid) for item in mapped),
        },
        access=GroupAccess(
            permissions=permissions,
            scopes=_guids(kept_scopes(group)),
            directory_groups=tuple(sorted(f"{item.connection_id}/{item.object_guid}" for item in mapped)),
        ),
    )
