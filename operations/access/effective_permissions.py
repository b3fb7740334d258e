"""What keys and people may do now, and where it comes from or what keeps them from more."""

from typing import Literal

from typing_extensions import TypedDict

from keys.models import ApiKey, Person
from keys.permission_catalogue import GRANTABLE
from keys.permissions.effective import permissions_of_person
from keys.permissions.scopes import ScopeNow, look_up
from keys.permissions.scoping import held_within, kept_of_person, scopes_of
from operations.access.granting import names_of


class KeyPermission(TypedDict):
    """`missing` tells who lacks it, so that the key does not have it; null for what the key may do."""

    name: str
    missing: Literal["role", "owner"] | None


class KeyPermissionsRecord(TypedDict):
    """What the role gives or the owner holds, by name, and what the role is confined to by its names of now.

    The owner may be confined besides: an object has to be inside one of each list of `ownerScopes`, too.
    """

    permissions: list[KeyPermission]
    scopes: list[ScopeNow]
    ownerScopes: list[list[ScopeNow]]


class PersonPermission(TypedDict):
    """`groups` are those that give it. A superuser holds all, even what neither they nor a group were given."""

    name: str
    direct: bool
    groups: list[str]


class PersonPermissionsRecord(TypedDict):
    permissions: list[PersonPermission]


def permissions_of_key(key: ApiKey) -> KeyPermissionsRecord:
    """What an API key may do now: what its role gives and its owner holds, and what one of them lacks."""
    owner = key.owner
    held = permissions_of_person(owner.pk, is_active=owner.is_active, is_superuser=owner.is_superuser) & GRANTABLE
    given = GRANTABLE.intersection(names_of(key.role.permissions.select_related("content_type")))
    return {
        "permissions": [
            {"name": name, "missing": "role" if name not in given else "owner" if name not in held else None}
            for name in sorted(given | held)
        ],
        "scopes": look_up(key.role.scopes),
        "ownerScopes": [look_up(scopes) for scopes in kept_of_person(owner)],
    }


def permissions_of(person: Person) -> PersonPermissionsRecord:
    """What a person may do now, and which of it they were given themselves or by groups."""
    given = permissions_of_person(person.pk, is_active=person.is_active, is_superuser=person.is_superuser)
    held = held_within(given, scopes_of(*kept_of_person(person))).permissions
    direct = names_of(person.user_permissions.select_related("content_type"))
    by_group = {
        group.name: names_of(group.permissions.select_related("content_type"))
        for group in person.groups.order_by("name")
    }
    return {
        "permissions": [
            {
                "name": name,
                "direct": name in direct,
                "groups": [group for group, names in by_group.items() if name in names],
            }
            for name in sorted(held)
        ]
    }
