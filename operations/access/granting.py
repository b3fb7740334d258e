"""What the operations on roles, people and groups share: nobody grants what they do not hold, and how scopes are given
and shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from django.contrib.auth.models import Permission
from pydantic import Field
from typing_extensions import TypedDict

from audit.model_changes.unattended import is_command
from core.call import Call
from core.errors import FieldError, Forbidden, InvalidRequest, invalid_member
from core.shapes import Id
from core.text.messages import message
from keys.models import Person
from keys.permission_catalogue import APPS, GRANTABLE, find_permissions
from keys.permissions.scopes import ScopeNotFound, ScopeNow, resolve

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
    """Django's permissions of these names; raises InvalidRequest naming an unknown one, Forbidden for one not held."""
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
    """Whether a superuser calls, or a command: whoever runs one holds the database."""
    return is_command(call) or Person.objects.filter(pk=call.person.id, is_active=True, is_superuser=True).exists()


def require_held(call: Call, names: frozenset[str]) -> None:
    """Refuse a grant of what the caller does not hold."""
    if not names <= call.permissions:
        raise Forbidden


def resolve_scopes(scopes: Sequence[str]) -> list[dict[str, str]]:
    """What is kept of scopes; raises InvalidRequest naming one that no directory has."""
    try:
        return resolve(scopes)
    except ScopeNotFound as missing:
        raise invalid_member(f"scopes/{missing.position}", str(missing)) from None


def names_of(permissions: Iterable[Permission]) -> list[str]:
    """The `app.codename` of those of the gateway's own permissions."""
    return sorted(
        f"{item.content_type.app_label}.{item.codename}" for item in permissions if item.content_type.app_label in APPS
    )


def scope_names(scopes: Sequence[Mapping[str, str]]) -> list[str]:
    """The names last known of what somebody is confined to."""
    return [scope["distinguishedName"] for scope in scopes]


def scope_records(scopes: Sequence[Mapping[str, str]]) -> list[ScopeRecord]:
    """What somebody is confined to, whatever it is called now."""
    return [
        {"id": scope["guid"], "distinguishedName": scope["distinguishedName"], "directory": scope["directoryId"]}
        for scope in scopes
    ]
