"""The list of permissions, and the shared rule of operations that grant them: nobody grants what they lack."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from django.contrib.auth.models import Permission
from pydantic import Field
from typing_extensions import TypedDict

from audit.model_changes.recording import is_command
from core.call import Call
from core.errors import FieldError, Forbidden, InvalidRequest
from core.operation import SIGNED_IN, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Id
from core.text.messages import message
from keys.models import Person
from keys.permission_catalogue import APPS, GRANTABLE, MEANINGS, find_permissions, gateway_permissions
from keys.permissions.scopes import ScopeNow


class PermissionRecord(TypedDict):
    """`grantable` tells that a role may hold it; the others are for people only.

    `title`, `meaning` and `danger`, the reason to think twice before giving it, are for people to read.
    """

    name: str
    description: str
    group: str
    title: str
    meaning: str
    danger: str | None
    grantable: bool


@rest_operation("permissions.search", "GET permissions", "Search permissions", permission=SIGNED_IN)
def search_permissions(call: Call, *, query: PageQuery) -> Page[PermissionRecord]:
    """List the permissions that people and roles can be given."""
    permissions = gateway_permissions(Permission.objects.all())
    return page_of(call, permissions, query=query, order=("full_name", "id"), render=_record)


def _record(permission: Any) -> PermissionRecord:
    known = MEANINGS[permission.full_name]
    return {
        "name": permission.full_name,
        "description": permission.name,
        "group": known.group,
        "title": known.title,
        "meaning": known.text,
        "danger": known.danger or None,
        "grantable": permission.full_name in GRANTABLE,
    }


Permissions = Annotated[list[str], Field(max_length=200, description="`app.codename`, of those you hold yourself.")]
Scopes = Annotated[
    list[str],
    Field(max_length=50, description="Distinguished names or objectGUIDs; empty: the whole of every directory."),
]


class ScopeRecord(TypedDict):
    id: Id
    distinguishedName: str
    directory: Id


class ScopesRecord(TypedDict):
    """Without any there is no confinement."""

    items: list[ScopeNow]


def find_granted(call: Call, names: Sequence[str], *, only_grantable: bool) -> list[Permission]:
    """Django's permissions with these names; raises InvalidRequest naming unknown ones, Forbidden for one not held."""
    found = find_permissions(set(names))
    errors = [
        FieldError(
            InvalidRequest.code,
            message("{name} is no permission to grant here", name=name),
            pointer=f"#/permissions/{index}",
        )
        for index, name in enumerate(names)
        if name not in found or (only_grantable and name not in GRANTABLE)
    ]
    if errors:
        raise InvalidRequest("; ".join(error.detail for error in errors), errors=errors)
    require_held(call, frozenset(names))
    return list(found.values())


def acts_as_superuser(call: Call) -> bool:
    """Whether a superuser calls, or a command, which only those can run who have the database anyway."""
    return is_command(call) or Person.objects.filter(pk=call.person.id, is_active=True, is_superuser=True).exists()


def require_held(call: Call, names: frozenset[str]) -> None:
    """Raise Forbidden unless the caller holds all of the permissions."""
    if not names <= call.permissions:
        raise Forbidden


def names_of(permissions: Iterable[Permission]) -> list[str]:
    """The `app.codename` of the gateway's own permissions among these, sorted."""
    return sorted(
        f"{item.content_type.app_label}.{item.codename}" for item in permissions if item.content_type.app_label in APPS
    )


def scope_names(scopes: Sequence[Mapping[str, str]]) -> list[str]:
    """The last known distinguished names of stored scopes."""
    return [scope["distinguishedName"] for scope in scopes]


def scope_records(scopes: Sequence[Mapping[str, str]]) -> list[ScopeRecord]:
    """Stored scopes with their objectGUIDs, as answers have them."""
    return [
        {"id": scope["guid"], "distinguishedName": scope["distinguishedName"], "directory": scope["directoryId"]}
        for scope in scopes
    ]
