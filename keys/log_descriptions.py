"""People, their groups, roles and API keys as the operations log tells of them, and what makes one's access more."""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, cast

from django.contrib.auth.models import Group, Permission
from django.db.models import QuerySet

from audit.model_changes.descriptions import Facts, Secret, audited_model, columns_of
from core.call import SupervisionLevel
from core.shapes import render_timestamp
from core.text.messages import message
from keys.models import ApiKey, Person, Role, SecondFactor
from keys.models.groups import DirectoryGroup, kept_scopes
from keys.permission_catalogue import named
from keys.permissions.effective import permissions_of_person
from keys.permissions.scoping import ScopesAsKept, is_within, kept_of_person

Access = Mapping[str, Any]
"""What one may do, as it was described below; None where there was none before."""
_NOBODY: Access = {
    "active": True,
    "superuser": False,
    "back_office": False,
    "permissions": (),
    "groups": (),
    "scopes": (),
}
_LEVELS = tuple(level.value for level in SupervisionLevel)
"""From strict to free."""


def key_access_widened(before: Access | None, after: Access) -> list[str]:
    """In words, what a key may do after a change and could not do before."""
    if after["revoked"]:
        return []
    if before is None:
        return [message("a new key may act as its owner")]
    end, level, more = after["expires_at"], after["level"], _more("permissions", before, after)
    is_longer = before["expires_at"] is not None and (end is None or end > before["expires_at"])
    return _those_that_hold(
        (more, message("the key's role permits more: {permissions}", permissions=", ".join(more))),
        (_reaches_everything(before, after), message("the key's role reaches everything")),
        (_reaches_further(before, after), message("the key's role reaches further parts of the directory")),
        (before["owner"] != after["owner"], message("the key acts as somebody else")),
        (after["passwords"] > before["passwords"], message("generated passwords go to the key's owner")),
        (
            _LEVELS.index(level) > _LEVELS.index(before["level"]),
            message(
                "fewer changes wait for a person ({before} before, {after} now)", before=before["level"], after=level
            ),
        ),
        (
            _are_widened(before["addresses"], after["addresses"]),
            message("the key is accepted from further addresses"),
        ),
        (
            is_longer,
            message("the key is valid longer ({until})", until=render_timestamp(end))
            if end
            else message("the key is valid longer (without end)"),
        ),
        (_more("directories", before, after), message("the key reaches a further directory")),
    )


def role_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same of a role. No key has a new one yet: giving it to a key is what counts."""
    if before is None:
        return []
    more = _more("permissions", before, after)
    return _those_that_hold(
        (more, message("the role permits more: {permissions}", permissions=", ".join(more))),
        (_reaches_everything(before, after), message("the role reaches everything")),
        (_reaches_further(before, after), message("the role reaches further parts of the directory")),
    )


def person_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same of a person. Somebody inactive may do nothing: being activated, they get all they hold."""
    known = before or _NOBODY
    more = _more("permissions", known, after)
    return _those_that_hold(
        (after["superuser"] > known["superuser"], message("the person becomes a superuser")),
        (after["back_office"] > known["back_office"], message("the person may enter the back office")),
        (_more("groups", known, after), message("the person joins a group")),
        (more, message("the person may do more: {permissions}", permissions=", ".join(more))),
        (
            not after["superuser"] and not is_within(after["scopes"], known["scopes"]),
            message("the person is confined less"),
        ),
        (after["active"] > known["active"], message("the person is activated")),
    )


def group_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same of a group of people. A new one has no members yet, but those that a directory puts into it."""
    if before is None:
        return [message("members of a group of a directory are in it")] if after["directory_groups"] else []
    more = _more("permissions", before, after)
    return _those_that_hold(
        (more, message("its members may do more: {permissions}", permissions=", ".join(more))),
        (_more("directory_groups", before, after), message("members of a further group of a directory are in it")),
        (_reaches_everything(before, after), message("the group reaches everything")),
        (_reaches_further(before, after), message("the group reaches further parts of the directory")),
    )


def _those_that_hold(*reasons: tuple[Any, str]) -> list[str]:
    return [reason for holds, reason in reasons if holds]


def _more(what: str, before: Access, after: Access) -> list[str]:
    """What is among the values afterwards and was not before."""
    return sorted(set(after[what]) - set(before[what]))


def _reaches_everything(before: Access, after: Access) -> bool:
    return bool(before["scopes"]) and not after["scopes"]


def _reaches_further(before: Access, after: Access) -> bool:
    """Whether there is a new scope. Whether it lies inside one of those before, the directory may answer otherwise."""
    return bool(before["scopes"] and after["scopes"] and _more("scopes", before, after))


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


@audited_model("api-keys", ApiKey, one=message("an API key"), widened_access=key_access_widened)
def describe_key(key: ApiKey) -> Facts:
    """A key may do what its owner and its role permit, from `addresses` and in `scopes` (empty: all), until it ends."""
    owner, role = key.owner, key.role
    links = list(key.links.select_related("connection").order_by("connection__name", "pk"))
    held = permissions_of_person(owner.pk, is_active=True, is_superuser=owner.is_superuser)
    return Facts(
        name=key.name,
        shown={
            **columns_of(key),
            "owner": owner.username,
            "role": key.role_id,
            "roleName": role.name,
            "links": [f"{link.connection.name} ({link.client_id})" for link in links],
            "value": Secret(key.digest),
            "previousValue": Secret(key.previous_digest),
            "previousValidUntil": key.previous_valid_until,
            "revokedAt": key.revoked_at,
            "revokedBy": key.revoked_by and key.revoked_by.username,
        },
        access={
            "owner": owner.pk,
            "held_by_owner": tuple(sorted(held)),
            "role": str(key.role_id),
            "permissions": _names(role.permissions.all()),
            "scopes": _guids(role.scopes),
            "addresses": tuple(key.allowed_addresses),
            "expires_at": key.expires_at,
            "level": key.supervision_level,
            "passwords": key.passwords_to_requester,
            "directories": tuple(sorted(str(link.connection_id) for link in links)),
            "revoked": key.revoked_at is not None,
        },
    )


@audited_model("roles", Role, one=message("a role"), widened_access=role_access_widened)
def describe_role(role: Role) -> Facts:
    permissions = _names(role.permissions.all())
    return Facts(
        name=role.name,
        shown={**columns_of(role), "permissions": permissions, **_shown_scopes(role.scopes)},
        access={"permissions": permissions, "scopes": _guids(role.scopes)},
    )


@audited_model("people", Person, one=message("a person"), widened_access=person_access_widened, identifier="public_id")
def describe_person(person: Person) -> Facts:
    """A person may do what they and their groups are given. Each of the `scopes` confines them."""
    direct = _names(person.user_permissions.all())
    groups = list(person.groups.order_by("name"))
    by_groups = _names(Permission.objects.filter(group__in=groups).distinct())
    factor = SecondFactor.objects.filter(person=person, confirmed_at__isnull=False).first()
    codes = sorted(factor.recovery_codes.values_list("digest", flat=True)) if factor else []
    return Facts(
        name=person.username,
        shown={
            **columns_of(person, "username", "display_name", "email"),
            "directory": person.connection and person.connection.name,
            "password": Secret(person.password),
            "active": person.is_active,
            "superuser": person.is_superuser,
            "staff": person.is_staff,
            "permissions": direct,
            "groups": [group.name for group in groups],
            **_shown_scopes(person.scopes),
            "secondFactor": factor is not None,
            "sessionsEnded": person.session_epoch or None,
            "recoveryCodes": Secret(" ".join(codes)),
        },
        access={
            "active": person.is_active,
            "superuser": person.is_superuser,
            "back_office": person.is_staff,
            "permissions": tuple(sorted({*direct, *by_groups})),
            "groups": tuple(sorted(str(group.pk) for group in groups)),
            # What a superuser is confined to counts from when they are none any more.
            "scopes": tuple(sorted(map(_guids, kept_of_person(person)))),
        },
    )


@audited_model("permission-groups", Group, one=message("a permission group"), widened_access=group_access_widened)
def describe_group(group: Group) -> Facts:
    permissions, scopes = _names(group.permissions.all()), kept_scopes(group)
    mapped = list(DirectoryGroup.objects.filter(group=group))
    members = Person.objects.filter(groups=group).order_by("username").values_list("username", flat=True)
    return Facts(
        name=group.name,
        shown={
            "name": group.name,
            "permissions": permissions,
            "members": list(members),
            **_shown_scopes(scopes),
            "directoryGroups": [item.distinguished_name for item in mapped],
            "directoryGroupObjects": [item.object_guid for item in mapped],
        },
        access={
            "permissions": permissions,
            "scopes": _guids(scopes),
            "directory_groups": tuple(sorted(f"{item.connection_id}/{item.object_guid}" for item in mapped)),
        },
    )
